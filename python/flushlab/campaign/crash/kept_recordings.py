"""Kept recordings: those that an earlier session has kept for an arm. Sits in `campaign.crash`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from flushlab.crashed.acks import read_notes
from flushlab.crashed.run import NOTES, RUN, Run
from flushlab.datadir.fault_disk import record_owner, remove_record
from flushlab.errors import StorageError, UsageError


def record_of(keep: Path | None, owner: str) -> Path | None:
    """The record that an earlier session has made for an arm, whole or cut short; None if nothing was
    committed in it.

    Args:
        keep: folder of the records; None: they go.
        owner: whose record it is, by its mark; empty: nobody's is found again.
    """
    return next((folder for folder in _records_of(keep, owner) if _can_be_judged(folder)), None)


def remove_stumps(keep: Path | None, owner: str) -> None:
    """Removes records that an earlier session has begun for an arm, and that were cut short before anything
    could be judged; what this flushlab cannot read stays."""
    for folder in list(_records_of(keep, owner)):
        if _is_stump(folder):
            remove_record(folder)


def _records_of(keep: Path | None, owner: str) -> Iterator[Path]:
    for folder in sorted(keep.glob("*.record")) if keep and owner else ():
        if record_owner(folder) == owner:
            yield folder


def _is_stump(record: Path) -> bool:
    """Whether it was cut short before its server was under load, or too soon after."""
    if not (record / RUN).exists():
        return True
    with suppress(StorageError):
        run = Run.read(record)
        run.recordings(record)
        return not run.whole and not _can_be_judged(record)
    return False


def _can_be_judged(record: Path) -> bool:
    try:
        run = Run.read(record)
        run.recordings(record)
        run.completed(record, read_notes(record / NOTES))
    except StorageError:
        return False
    return True


def require_build(record: Path, recorded: str, build: str) -> None:
    """Refuses, by their ids, to judge a record with another build than the one that wrote it: UsageError."""
    if recorded != build:
        raise UsageError(
            f"the record {record} is of the build {recorded}, not of {build}",
            hint="name its server with --server, or record again in another folder",
        )
