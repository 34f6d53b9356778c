"""A command line in the tests' own process: what it prints and its exit code, without a new interpreter.

What a process does (signals, its streams, modules that it loads) is not seen here.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from flushlab.cli.app import run
from flushlab.cli.main import _print_ending


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


def flushlab(*words: str, cwd: Path | None = None, home: Path | None = None) -> Done:
    """Runs a command line of flushlab to its end.

    Args:
        words: of the command line.
        cwd: its working directory; the tests' own if None.
        home: flushlab's home; the usual one if None.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    variables = {"COLUMNS": "80"} | ({"FLUSHLAB_HOME": str(home)} if home else {})
    with (
        patch.dict(os.environ, variables),
        patch.object(sys, "argv", ["flushlab", *words]),
        _folder(cwd),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = _exit_code(words)
    return Done(code, _text(out), _text(err))


def _exit_code(words: tuple[str, ...]) -> int:
    try:
        return run(words)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (as `main` has it)
        return _print_ending(error)


@contextmanager
def _folder(cwd: Path | None) -> Iterator[None]:
    before = Path.cwd()
    if cwd is not None:
        os.chdir(cwd)
    try:
        yield
    finally:
        os.chdir(before)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    written = stream.buffer
    assert isinstance(written, io.BytesIO)
    return written.getvalue().decode()
