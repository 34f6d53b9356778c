"""A program run to its end: timed, its output kept within bounds, no process left behind.

Sits in `workload`, below `command`. The program is a process group of its own; processes that are left at its
end or at the limit are killed. If flushlab itself is killed, the shell (or the program that replaced the
shell) dies with flushlab. A pidfd reports the program's end, because polling would add up to 50 ms to every
duration. The output comes through a pipe, because a file would load the disk that is measured.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

HEAD_BYTES, TAIL_BYTES = 4 << 10, 12 << 10
"""Of a longer output, its beginning and its end are kept."""

_CHUNK_BYTES = 64 << 10
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Ended(NamedTuple):
    """How a program ended.

    Attributes:
        code: exit code; negative: killed by that signal; None: killed at the limit.
        seconds: wall time.
        output: of both streams, within `HEAD_BYTES` and `TAIL_BYTES`.
    """

    code: int | None
    seconds: float
    output: str


def run(
    command: str, env: Mapping[str, str], folder: str | None, limit_s: float, stop: int | None = None
) -> Ended:
    """Runs a shell command.

    Args:
        command: given to `/bin/sh -c`.
        env: all of its environment.
        folder: working directory; None: the present one.
        limit_s: after which it is killed.
        stop: descriptor that becomes readable when it is to be killed before that; None: there is none.

    Raises:
        OSError: it cannot be started: the folder is gone, say.
    """
    ours, theirs = os.pipe()
    try:
        started = time.monotonic()
        child = subprocess.Popen(
            ["/bin/sh", "-c", command],
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    kept = _Kept()
    try:
        in_time = _follow(child.pid, ours, kept, started + limit_s, stop)
        seconds = time.monotonic() - started
    finally:
        with suppress(ProcessLookupError):  # the whole group may have ended by itself
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
        _drain(ours, kept)
        os.close(ours)
    return Ended(code if in_time else None, seconds, kept.text())


def _follow(pid: int, output: int, kept: _Kept, deadline: float, stop: int | None) -> bool:
    """Reads what the program prints until it ends; False if the deadline came first, or it was stopped."""
    ended = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.register(output, select.POLLIN)
        if stop is not None:
            poll.register(stop, select.POLLIN)
        while (left_s := deadline - time.monotonic()) > 0:
            ready = dict(poll.poll(left_s * 1000))
            if ended in ready:
                return True
            if stop in ready:
                return False
            if output in ready and not kept.take(os.read(output, _CHUNK_BYTES)):
                poll.unregister(output)  # closed by everybody; it goes on in silence
        return False
    finally:
        os.close(ended)


def _drain(output: int, kept: _Kept) -> None:
    """Takes what is left in the pipe, even if somebody who left the group still holds it open."""
    os.set_blocking(output, False)
    with suppress(BlockingIOError):
        while kept.take(os.read(output, _CHUNK_BYTES)):
            pass


class _Kept:
    """The beginning and the end of an output."""

    def __init__(self) -> None:
        self._head, self._tail, self._bytes = b"", b"", 0

    def take(self, chunk: bytes) -> bool:
        """Takes what was read; False if it was the end."""
        self._bytes += len(chunk)
        room = HEAD_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail = (self._tail + chunk[room:])[-TAIL_BYTES:]
        return bool(chunk)

    def text(self) -> str:
        """With a line in place of what was left out."""
        left_out = self._bytes - len(self._head) - len(self._tail)
        gap = f"\n[… {left_out:,} bytes left out …]\n".encode() if left_out else b""
        return (self._head + gap + self._tail).decode(errors="replace")


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
