"""Waiting for conditions with a deadline; tests never sleep for a fixed time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PATIENCE_S = 300.0
"""For whatever must come: machines that run tests stand still for seconds, and give a twentieth of a core."""


def wait_until(
    condition: Callable[[], object], what: str, seconds: float = PATIENCE_S, pause_s: float = 0.01
) -> None:
    """Returns as soon as `condition()` is true, asked every `pause_s`; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        pause.wait(pause_s)


def unmount(point: Path) -> None:
    """Unmounts a file system as soon as nothing keeps it busy, such as a process that is just ending."""

    def is_unmounted() -> bool:
        return subprocess.run(["umount", str(point)], capture_output=True, check=False).returncode == 0

    wait_until(is_unmounted, f"{point} is unmounted")


def stop(pid: int) -> None:
    """Stops a process. On a busy machine its threads run on for a while after the signal: returns when none
    of them does."""
    os.kill(pid, signal.SIGSTOP)
    states = Path(f"/proc/{pid}/task")
    wait_until(
        lambda: all(
            (thread / "stat").read_text().rpartition(") ")[2].startswith("T") for thread in states.iterdir()
        ),
        f"all threads of process {pid} stopped",
    )


def wait_for_end(process: subprocess.Popen[str], what: str, seconds: float = PATIENCE_S) -> tuple[str, str]:
    """What a Python program printed until its end. Fails after `seconds`, and tells where its threads are if
    it was started with PYTHONFAULTHANDLER."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=seconds)
    ended = process.poll()
    process.send_signal(signal.SIGABRT)
    try:
        said = process.communicate(timeout=10)[1]
    except subprocess.TimeoutExpired as error:  # another process holds its output, too
        said = (error.stderr or b"").decode(errors="replace")
    process.kill()
    how = "runs" if ended is None else f"has ended ({ended}), and another process holds its output"
    pytest.fail(f"not within {seconds:.0f} s: {what}; it {how}: {said}", pytrace=False)
