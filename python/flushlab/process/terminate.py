"""Terminate: ends a process that is not under a guard of ours, and everything in its session.

Process layer; for the janitor and for kept sandboxes. A process is signalled through a pidfd that was checked
against its start time, so that a later process with the same number is never hit.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from flushlab.errors import HarnessError
from flushlab.process.identity import ProcessIdentity, identify, session_members

_KILL_DEADLINE_S = 30.0


def terminate(process: ProcessIdentity, *, grace_s: float) -> bool:
    """SIGTERM, then SIGKILL if it still runs after `grace_s`.

    Returns:
        True if it ended by itself within the grace.

    Raises:
        HarnessError: it survives SIGKILL for 30 s (it hangs in the kernel).
    """
    if grace_s > 0 and signal_process(process, signal.SIGTERM) and wait_for_end(process, grace_s):
        return True
    kill(process)
    return False


def kill(process: ProcessIdentity) -> None:
    """SIGKILL, and waits until it is dead; a HarnessError if it survives for 30 s."""
    if signal_process(process, signal.SIGKILL) and not wait_for_end(process, _KILL_DEADLINE_S):
        raise HarnessError(f"process {process.pid} survived SIGKILL", hint="its disk may hang; see dmesg")


def kill_session(leader: ProcessIdentity, folders: Sequence[str]) -> None:
    """Kills a session's leader and the members that are left of its session.

    While its leader's number is not given out again, every member is its descendant; the check that a
    member's command line names one of `folders` covers the case that the number was, and that this new leader
    is gone too. The leader's group is killed at once: one by one, those that are left could fork meanwhile.
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
    """Sends a signal; False if the process is dead."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not process.alive():
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def wait_for_end(process: ProcessIdentity, seconds: float) -> bool:
    """Waits until a process is dead; False if it still runs after `seconds`."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if not process.alive():
            return True
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(handle)


def _names_any(member: ProcessIdentity, folders: Sequence[str]) -> bool:
    try:
        words = Path(f"/proc/{member.pid}/cmdline").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(folder in words for folder in folders)
