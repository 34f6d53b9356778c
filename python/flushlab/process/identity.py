"""Identity: one process, told apart from a later one with the same number.

Process layer. Linux gives pids out again, so a process is its pid *and* its start time, within one boot
of the machine and one pid namespace (a container has its own). A zombie is dead: it only waits to be reaped.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import msgspec

from flushlab.machine import proc_stat

_DEAD_STATES = "ZXx"


class ProcessIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """One process.

    Attributes:
        pid: as its own namespace numbers it.
        start_ticks: field 22 of /proc/PID/stat, proc(5): clock ticks after boot.
    """

    pid: int
    start_ticks: int

    def alive(self) -> bool:
        """True if this very process runs; a zombie does not."""
        state = _state(self.pid)
        return state is not None and state[1] == self.start_ticks and state[0] not in _DEAD_STATES


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has this pid now, zombie or not; None if there is none."""
    state = _state(pid)
    return None if state is None else ProcessIdentity(pid=pid, start_ticks=state[1])


def myself() -> ProcessIdentity:
    """The calling process."""
    found = identify(os.getpid())
    assert found is not None, "/proc does not show this process"
    return found


@cache
def world() -> str:
    """Names the boot and the pid namespace within which pids and start times mean something."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"


@cache
def machine() -> str:
    """Names this machine across its boots, machine-id(5) and host name; empty where it has no machine-id.

    The host name is part of it because containers of one image may share a machine-id.
    """
    try:
        number = Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""
    return f"{number} {os.uname().nodename}" if number else ""


def session_members(session: int) -> list[ProcessIdentity]:
    """Living processes of a session (field 6 of /proc/PID/stat): all descendants of its leader that did not
    leave it."""
    members = []
    for entry in Path("/proc").iterdir():
        fields = proc_stat.fields(entry.name) if entry.name.isdigit() else None
        if fields is None or fields[proc_stat.STATE] in _DEAD_STATES:
            continue
        if int(fields[proc_stat.SESSION]) == session:
            started = int(fields[proc_stat.START_TICKS])
            members.append(ProcessIdentity(pid=int(entry.name), start_ticks=started))
    return members


def _state(pid: int) -> tuple[str, int] | None:
    fields = proc_stat.fields(pid)
    return None if fields is None else (fields[proc_stat.STATE], int(fields[proc_stat.START_TICKS]))
