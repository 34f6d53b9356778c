"""flushlab in the tests' own process: the words, output and exit code of a user, without a new interpreter.

Tests of signals, of a closed terminal and of the first milliseconds run `python -m flushlab` instead.
"""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flushlab.cli.main import main

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def flushlab(*words: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """What the command printed, in 80 columns, and its exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with _handlers_kept(), pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        for name, value in {"COLUMNS": "80", **environment}.items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        patch.setattr(sys, "argv", ["flushlab", *words])
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        main()
    assert isinstance(ended.value.code, int)
    return subprocess.CompletedProcess(words, ended.value.code, *(_text(one) for one in (out, err)))


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


def _text(stream: io.TextIOWrapper) -> str:
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()
