"""Programs beside which benchmarks run: started, reached over HTTP, ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

DEADLINE_S = 30.0


def say(line: str) -> None:
    """A line of the result."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def needs(*names: str) -> None:
    """Ends the benchmark if a program is missing."""
    if missing := [name for name in names if shutil.which(name) is None]:
        sys.exit(f"error: missing: {', '.join(missing)}")


@contextmanager
def running(*command: str, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """A program for as long as the context lasts."""
    process = subprocess.Popen(
        command, env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def get(url: str) -> str:
    """What is at an address."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def reaches(url: str, deadline_s: float = DEADLINE_S) -> None:
    """Waits until something is there."""
    until = time.monotonic() + deadline_s
    while True:
        try:
            get(url)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return
