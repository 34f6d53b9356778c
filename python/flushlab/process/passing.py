"""Passing folders: made for a while in a place that somebody else may own, and removed whatever happens; and
folders there that stay, made whole or not at all.

Process layer. Before a folder is made, a run record names it, with this process as its owner. So after
SIGKILL the next flushlab that reaps removes the folder, in whatever directory it lies.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from flushlab.machine import ownership
from flushlab.process import run_record
from flushlab.process.run_record import RunRecord


@contextmanager
def passing_folder(parent: Path, what: str, *, name: str | None = None, mode: int = 0o700) -> Iterator[Path]:
    """A new folder in `parent`; what is left of it at the end is removed.

    Args:
        what: purpose; part of the folder's name, and in its mark.
        name: in its mark; that of the folder if None.
    """
    folder = parent / f"flushlab-{what}-{secrets.token_hex(4)}"
    record = RunRecord.mine(folder.name, folder)
    run_record.claim(record)
    try:
        ownership.make(str(folder), record.mark(what, name or folder.name), mode)
        yield folder
    finally:
        # What cannot be removed keeps its record: the janitor tries again.
        with suppress(OSError):
            ownership.remove(str(folder), token=record.token)
            run_record.remove(record.name)


def make_lasting(folder: Path, what: str, **more: str) -> None:
    """A new folder that stays; a kill in the middle leaves it to the janitor.

    Raises:
        OSError: it cannot be made there.
    """
    record = RunRecord.mine(f"make-{secrets.token_hex(4)}", folder)
    run_record.claim(record)
    try:
        ownership.make(str(folder), {**record.mark(what, folder.name), **more})
    finally:
        run_record.remove(record.name)


def discard(folder: Path, **proof: str) -> bool:
    """Removes a folder of ours that no record names; a kill in the middle leaves it to the janitor.

    Returns:
        False if something is there that is not flushlab's; it was left as it is.

    Raises:
        OSError: it could not be removed.
    """
    mark = ownership.read_mark(str(folder))
    if mark is None:
        return ownership.remove(str(folder), **proof)
    record = RunRecord.mine(f"discard-{secrets.token_hex(4)}", folder, token=mark["token"])
    run_record.claim(record)
    gone = ownership.remove(str(folder), **proof)
    run_record.remove(record.name)
    return gone
