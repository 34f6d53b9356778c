"""flushlab in the tests' own process: the words, output and exit code of a user, without a new interpreter.

Tests of signals, of a closed terminal and of the first milliseconds run `python -m flushlab` instead.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from flushlab.cli.main import main

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def flushlab(*words: str, code: int | None = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `flushlab WORDS` in 80 columns; it must end with that exit code (None: any) and no traceback."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with (
            _handlers_kept(),
            pytest.MonkeyPatch.context() as patch,
            _writing_to(1, out, patch),
            _writing_to(2, err, patch),
            pytest.raises(SystemExit) as ended,
        ):
            patch.setenv("COLUMNS", "80")
            patch.setattr(sys, "argv", ["flushlab", *words])
            if cwd is not None:
                patch.chdir(cwd)
            main()
        said, told = (os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0) for file in (out, err))
    assert isinstance(ended.value.code, int)
    done = subprocess.CompletedProcess(words, ended.value.code, said.decode(), told.decode())
    assert code is None or (done.returncode == code and "Traceback" not in done.stderr), done.stderr
    return done


@contextmanager
def _writing_to(number: int, file: IO[str], patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A standard file of this process and of those that it starts."""
    before = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        with open(number, "w", encoding="utf-8", buffering=1, closefd=False) as stream:
            patch.setattr(sys, {1: "stdout", 2: "stderr"}[number], stream)
            yield
    finally:
        os.dup2(before, number)
        os.close(before)


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """What a program may change as it likes, for it ends; this process goes on."""
    before, hook = {one: signal.getsignal(one) for one in _SIGNALS}, threading.excepthook
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        threading.excepthook = hook
