"""Janitor: at the start of a command, ends and removes what a killed flushlab has left behind.

Process layer. The guard does this at once; the janitor is for the cases in which the guard was killed as
well, or the machine went down. It goes by run records of this machine: owned ones whose owner is dead are
reaped, kept ones are spared as long as what they go with is there. A folder goes only if its mark has the
record's token.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

from flushlab.machine import ownership
from flushlab.process import run_record
from flushlab.process.identity import kill, kill_session, wait_for_end
from flushlab.process.run_record import RunRecord
from flushlab.undo import undo_all

_GUARD_S = 10.0


def reap() -> list[str]:
    """Reaps all that is owned by somebody dead, or goes with something that is gone; returns the names.

    Raises:
        HarnessError: a server survived SIGKILL; all others are reaped.
    """
    run_record.sweep()
    reaped = []

    def reap_one(record: RunRecord) -> None:
        with suppress(OSError):  # it keeps its record: another time
            reap_record(record)
            reaped.append(record.name)

    undo_all(partial(reap_one, record) for record in run_record.all_records() if _abandoned(record))
    return reaped


def reap_record(record: RunRecord) -> list[Path]:
    """Kills what a record names, removes its folders and then the record, with all that goes with it.

    Returns:
        Folders of its that are not marked as its own; they were left as they are.

    Raises:
        OSError: a folder could not be removed; the record stays.
    """
    if record.is_here:
        if record.guard is not None and not wait_for_end(record.guard, _GUARD_S):  # it may be at this work
            kill(record.guard)
        if record.server is not None:
            kill_session(record.server, record.folders)
    # First: what lies on its disk needs no removal.
    undo_all(partial(reap_record, other) for other in run_record.that_go_with(record.name))
    ownership.unmount(record.folders, record.mounts, record.token)
    spared = []

    def remove(folder: str) -> None:
        if not ownership.remove(folder, token=record.token):
            spared.append(Path(folder))

    undo_all(partial(remove, folder) for folder in record.folders)
    run_record.remove(record.name)
    return spared


def _abandoned(record: RunRecord) -> bool:
    if record.kind == "kept":
        is_lost = record.goes_with and run_record.read(record.goes_with) is None
        return bool(is_lost) and record.is_of_this_machine
    if record.is_here:
        return not record.owner.alive()
    return record.is_of_this_machine  # not so another pid namespace (a container), which looks after its own
