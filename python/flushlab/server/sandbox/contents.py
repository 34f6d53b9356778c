"""Contents: what comes into a sandbox's data directory before a start, and where it goes afterwards.

Server layer, on `datadir`'s snapshots. The server is stopped, or was never started.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from flushlab.build import Build, Progress
from flushlab.datadir import Restored, Snapshot, Snapshots
from flushlab.datadir.restore import copy_tree
from flushlab.errors import SnapshotDamaged
from flushlab.machine import server_user
from flushlab.record import Value
from flushlab.server.sandbox.initialise import initialised


def restore_initialised(
    build: Build, settings: Mapping[str, Value], snapshots: Snapshots, target: Path, progress: Progress
) -> Restored:
    """Fills `target` with the build's initialised data directory; a damaged one is made again."""
    own = initialised(build, settings, progress)
    try:
        return restore(own, snapshots, target, settle=False)
    except SnapshotDamaged:
        snapshots.remove(own.key)
        own = initialised(build, settings, progress)
        return restore(own, snapshots, target, settle=False)


def restore(snapshot: Snapshot, snapshots: Snapshots, target: Path, *, settle: bool) -> Restored:
    """Fills `target` with a snapshot, for a server of its own: MySQL gives itself a new UUID.

    See `Snapshots.restore` for arguments and errors.
    """
    user = server_user()
    restored = snapshots.restore(snapshot, target, uid=user.uid, gid=user.gid, settle=settle)
    (target / "auto.cnf").unlink(missing_ok=True)
    return restored


def move(datadir: Path, target: Path) -> None:
    """Moves a data directory to `target`, a missing or empty directory.

    Raises:
        StorageError: it cannot be moved there.
    """
    if target.is_dir():
        target.rmdir()
    try:
        datadir.rename(target)
    except OSError:  # another file system
        copy_tree(datadir, target)


def fresh_copy(snapshot: Snapshot, snapshots: Snapshots, datadir: Path) -> Path:
    """A copy of a snapshot beside `datadir`, to be exchanged for it."""
    fresh = datadir.with_name(f"next-{secrets.token_hex(4)}")
    restore(snapshot, snapshots, fresh, settle=False)
    return fresh


def exchange(datadir: Path, fresh: Path) -> Path:
    """Puts `fresh`, on the same file system, in the place of a data directory; where the old one lies now.

    Raises:
        OSError: it cannot be put there, as when somebody has removed it; the old one is in its place then.
    """
    old = datadir.with_name(f"old-{secrets.token_hex(4)}")
    datadir.rename(old)
    try:
        fresh.rename(datadir)
    except OSError:
        old.rename(datadir)
        raise
    return old
