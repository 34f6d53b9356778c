"""Identity: one process, told apart from a later one with the same number.

Process layer. Linux gives pids out again, so a process is its pid *and* its start time, within one boot
of the machine and one pid namespace (a container has its own). A zombie is dead: it only waits to be reaped.

If a process is not under a guard of ours, flushlab signals it through a pidfd, after a check of its start
time. So the signal never hits a later process with the same number.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import msgspec

from flushlab.errors import HarnessError
from flushlab.machine import proc_stat

_DEAD_STATES = "ZXx"


class ProcessIdentity(msgspec.Struct, frozen=True, kw_only=True):
    pid: int
    start_ticks: int

    def alive(self) -> bool:
        state = _state(self.pid)
        return state is not None and state[1] == self.start_ticks and state[0] not in _DEAD_STATES


def identify(pid: int) -> ProcessIdentity | None:
    state = _state(pid)
    return None if state is None else ProcessIdentity(pid=pid, start_ticks=state[1])


def myself() -> ProcessIdentity:
    found = identify(os.getpid())
    assert found is not None, "/proc does not show this process"
    return found


@cache
def world() -> str:
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
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [
        ProcessIdentity(pid=pid, start_ticks=int(fields[proc_stat.START_TICKS]))
        for pid in pids
        if (fields := proc_stat.fields(pid)) is not None
        and fields[proc_stat.STATE] not in _DEAD_STATES
        and int(fields[proc_stat.SESSION]) == session
    ]


def _state(pid: int) -> tuple[str, int] | None:
    fields = proc_stat.fields(pid)
    return None if fields is None else (fields[proc_stat.STATE], int(fields[proc_stat.START_TICKS]))


_KILL_DEADLINE_S = 30.0


def terminate(process: ProcessIdentity, *, grace_s: float) -> bool:
    """SIGKILL after `grace_s`, then false; a HarnessError if it survives that for 30 s."""
    if grace_s > 0 and signal_process(process, signal.SIGTERM) and wait_for_end(process, grace_s):
        return True
    kill(process)
    return False


def kill(process: ProcessIdentity) -> None:
    if signal_process(process, signal.SIGKILL) and not wait_for_end(process, _KILL_DEADLINE_S):
        raise HarnessError(f"process {process.pid} survived SIGKILL", hint="its disk may hang; see dmesg")


def kill_session(leader: ProcessIdentity, folders: Sequence[str]) -> None:
    """Kills a session's leader and the members that are left of its session.

    While its leader's number is not given out again, every member is its descendant. The number may have been
    given out, and this new leader be gone too: hence a member's command line must name one of `folders`. The
    leader's group is killed at once: if members were killed one by one, the others could fork meanwhile.
    """
    kill(leader)
    while True:
        now = identify(leader.pid)
        if now is not None and now.start_ticks != leader.start_ticks:
            return  # the number is another process's: the kernel reuses it only when the session is gone
        members = [one for one in session_members(leader.pid) if _names_any(one, folders)]
        if not members:
            return
        with suppress(ProcessLookupError):
            os.killpg(leader.pid, signal.SIGKILL)
        for member in members:
            kill(member)


def signal_process(process: ProcessIdentity, number: signal.Signals) -> bool:
    with _opened(process) as handle, suppress(ProcessLookupError):
        if handle is not None:
            signal.pidfd_send_signal(handle, number)
            return True
    return False


def wait_for_end(process: ProcessIdentity, seconds: float) -> bool:
    with _opened(process) as handle:
        return handle is None or has_ended(handle, seconds)


def has_ended(handle: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


@contextmanager
def _opened(process: ProcessIdentity) -> Iterator[int | None]:
    """A pidfd of this very process, checked after it was opened; None if it is dead."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield handle if process.alive() else None
    finally:
        os.close(handle)


def _names_any(member: ProcessIdentity, folders: Sequence[str]) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        words = Path(f"/proc/{member.pid}/cmdline").read_bytes().decode(errors="replace")
        return any(folder in words for folder in folders)
    return False
