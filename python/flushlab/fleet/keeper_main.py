"""Keeper: the process that runs Ray on one machine of a fleet and, at its end, leaves nothing behind.

Fleet layer, a program of its own: `python -m flushlab.fleet.keeper_main RECORD COMMAND…`. It leads a session
in which Ray runs, and writes the record before Ray starts. On SIGTERM, or when Ray ends, it ends the rest of
the session and waits for the guards of servers, whose workers are gone. If it is killed, the kernel kills
`ray start`, and Ray's processes end with that.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import FrameType

import msgspec

from flushlab.fleet import local_node
from flushlab.fleet.local_node import NodeRecord
from flushlab.machine import ownership
from flushlab.process.identity import kill, myself, session_members, world

_GRACE_S = 5.0
_GUARDS_S = 15.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> int:
    draft, *command = sys.argv[1:]
    record = msgspec.structs.replace(
        msgspec.json.decode(draft, type=NodeRecord), keeper=myself(), world=world()
    )
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    asked: list[int] = []

    def ask(number: int, _frame: FrameType | None) -> None:
        asked.append(number)

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    local_node.write(record)
    code = 0
    try:
        ray = subprocess.Popen(command, preexec_fn=lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        while not asked and ray.poll() is None:
            time.sleep(0.2)
        code = _end(ray)
    finally:
        for one in session_members(os.getpid()):
            if one.pid != os.getpid():
                kill(one)
        _await_guards(record.token)
        ownership.remove(record.folder, token=record.token)
        if (found := local_node.read()) is not None and found.token == record.token:
            local_node.forget()
    return code


def _end(ray: subprocess.Popen[bytes]) -> int:
    if ray.poll() is None:
        ray.terminate()
        with suppress(subprocess.TimeoutExpired):
            return ray.wait(_GRACE_S)
        ray.kill()
    return ray.wait()


def _await_guards(token: str) -> None:
    """Guards end the servers of their workers and then themselves; the janitor has the last word."""
    deadline = time.monotonic() + _GUARDS_S
    while local_node.marked(token, but=os.getpid()) and time.monotonic() < deadline:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                continue
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
