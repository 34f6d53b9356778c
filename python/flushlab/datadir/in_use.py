"""In use: which snapshots a living process counts on, so that making room never takes one away from it.

Datadir layer, beside `snapshots`. A process holds a shared lock on `locks/DIGEST.use` from the moment it asks
for a snapshot until it ends, in whatever way. When a snapshot was last used is the time of its mark.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from flushlab.machine import ownership

_held: dict[Path, int] = {}
"""By a lock's path, this process's descriptor of it."""


def hold(folder: Path) -> None:
    """Counts a snapshot as used by this process, from now to its end."""
    lock = _lock(folder)
    if lock not in _held:
        lock.parent.mkdir(exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _held[lock] = descriptor
    with suppress(OSError):  # there is none yet, or it has no mark
        os.utime(folder / ownership.MARK, follow_symlinks=False)


@contextmanager
def nobody_uses(folder: Path, *, spare_ours: bool) -> Iterator[bool]:
    """Yields True, and keeps others from using a snapshot meanwhile, if no process uses it.

    Args:
        folder: of the snapshot.
        spare_ours: a use of this process counts too; else it ends here.
    """
    lock = _lock(folder)
    if lock in _held and spare_ours:
        yield False
        return
    if (ours := _held.pop(lock, None)) is not None:
        os.close(ours)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def last_used(folder: Path) -> float:
    """Seconds of the epoch; 0 if that is not known."""
    try:
        return (folder / ownership.MARK).lstat().st_mtime
    except OSError:
        return 0.0


def _lock(folder: Path) -> Path:
    return folder.parent / "locks" / f"{folder.name}.use"
