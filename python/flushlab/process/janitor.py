"""Janitor: at the start of a command, ends and removes what a killed flushlab has left behind.

Process layer. The guard does this at once; the janitor is for the cases in which the guard was killed as
well, or the machine went down. It goes by run records: owned ones whose owner is dead are reaped, kept ones
are spared.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from flushlab.process import run_record
from flushlab.process.identity import world
from flushlab.process.run_record import RunRecord
from flushlab.process.short_lived import sweep
from flushlab.process.terminate import kill, kill_session, wait_for_end

_GUARD_S = 10.0


def reap() -> list[str]:
    """Reaps every owned sandbox whose owner is dead; returns their names.

    Raises:
        HarnessError: a server does not die of SIGKILL.
    """
    sweep(run_record.run_folder())
    return [record.name for record in run_record.all_records() if _abandoned(record) and reap_record(record)]


def reap_record(record: RunRecord) -> bool:
    """Kills what a record names, removes its folders and then the record."""
    if record.world == world():
        if record.guard is not None and not wait_for_end(record.guard, _GUARD_S):  # it may be at this work
            kill(record.guard)
        if record.server is not None:
            kill_session(record.server, record.folders)
    for folder in map(Path, record.folders):
        if folder.name == record.name:
            shutil.rmtree(folder, ignore_errors=True)
    run_record.remove(record.name)
    return True


def _abandoned(record: RunRecord) -> bool:
    if record.kind == "kept":
        return False
    if record.world == world():
        return not record.owner.alive()
    boot, theirs = world().split()[0], record.world.split()[0]
    return boot != theirs  # another pid namespace of this boot (a container) looks after its own
