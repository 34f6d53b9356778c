"""Snapshots: saved data directories, keyed and checksummed, put back in well under a second.

Datadir layer; the template of a build, of a test suite and of a data set are snapshots with other keys.

Layout of the snapshots' folder:

    <digest>/manifest.json    what is in it, with sizes and checksums
    <digest>/data/            the data directory, readable by its owner only (it may hold secrets)
    <digest>/.flushlab        the mark: only what has it is ever removed
    flushlab-snapshot-*/      being made
    locks/<digest>.lock       flock: exclusive to make or remove, shared to restore
    locks/<digest>.use        flock: shared while a process counts on it

A snapshot appears by one rename of a folder that is complete and on disk. So a kill at any moment leaves at
most a folder that a run record names, which the next `make` (of any key) removes, and two processes that want
the same key make it once.

What a process has asked for, it counts on until it ends (`kept.py`): making room never takes that away.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from flushlab.datadir.data_root import NO_SPACE_HINT, free_bytes
from flushlab.datadir.kept import OPEN_LOCK, evicted, flocked, hold, latest_first, limit_of, nobody_uses
from flushlab.datadir.restore import (
    Manifest,
    Restored,
    check_content,
    check_facts,
    drop_cached,
    read_manifest,
    restore_tree,
    survey,
    sync_filesystem,
)
from flushlab.errors import NoSpace, NotWritable, SnapshotDamaged, StorageError
from flushlab.machine import home, may_enter, server_user
from flushlab.process import discard, passing_folder, reap

_FULL_BELOW_BYTES = 1 << 20

_checked: set[tuple[str, int, int]] = set()
"""Manifests (path, inode, modification time) whose snapshots this process found whole, content included."""


class SnapshotKey(msgspec.Struct, frozen=True):
    parts: Mapping[str, str]

    @property
    def digest(self) -> str:
        canonical = json.dumps(dict(self.parts), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    key: SnapshotKey
    path: Path
    manifest: Manifest

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def size_bytes(self) -> int:
        return self.manifest.size_bytes

    @property
    def allocated_bytes(self) -> int:
        return self.manifest.allocated_bytes


class Snapshots:
    def __init__(self, directory: Path | None = None, limit_bytes: int | None = None) -> None:
        self.directory = (home() / "snapshots" if directory is None else directory).absolute()
        self._limit_bytes = limit_bytes

    def find(self, key: SnapshotKey) -> Snapshot | None:
        folder = self.directory / key.digest
        if not os.path.lexists(folder):
            return None
        self._hold(key.digest)  # first: what is found stays
        return _read(folder) if os.path.lexists(folder) else None

    def make(self, key: SnapshotKey, fill: Callable[[Path], None]) -> Snapshot:
        """The snapshot of `key`: the one that exists if it is whole, else a new one.

        A process that finds another one at work on the same key waits for it and takes what it made. When
        `fill` returns, nothing may have a file in its folder open for writing. What it raises passes through,
        and nothing is left behind.
        """
        with self._locked(key.digest):
            reap()
            try:
                if (found := self.find(key)) is not None:
                    _check(found)
                    return found
            except SnapshotDamaged:
                self._discard(self.directory / key.digest)
            made = self._make(key, fill)
            self._hold(key.digest)
        self.evict(self.limit_bytes, spare_ours=True)
        return made

    def restore(
        self, snapshot: Snapshot, target: Path, *, uid: int, gid: int, settle: bool = True
    ) -> Restored:
        """Puts a snapshot back as the folder `target`, which must be missing or empty.

        Sizes and modification times are checked each time; the content before the first restore of a process,
        and whenever a modification time differs. `settle` ends with everything on the device (syncfs) and
        nothing of it in the page cache, so that every trial starts alike. Without it the start is faster and
        warm. An error leaves nothing behind.
        """
        start = time.monotonic()
        with self._locked(snapshot.key.digest, shared=True):
            self._hold(snapshot.key.digest)
            current = _read(snapshot.folder)  # it may have been rebuilt since it was found
            _check(current)
            restored = restore_tree(
                current.manifest, current.path, target.absolute(), uid=uid, gid=gid, settle=settle
            )
        return msgspec.structs.replace(restored, seconds=time.monotonic() - start)

    def verify(self, snapshot: Snapshot) -> None:
        with self._locked(snapshot.key.digest, shared=True):
            _check(_read(snapshot.folder), content=True)

    def list(self) -> list[Snapshot]:
        """All snapshots with a readable manifest, by digest; one without is replaced by the next `make`."""
        snapshots = []
        for folder in sorted(self.directory.glob("[0-9a-f]" * 64)):
            with suppress(SnapshotDamaged):
                snapshots.append(_read(folder))
        return snapshots

    def remove(self, key: SnapshotKey) -> bool:
        """Removes the snapshot of `key`, damaged or not, after restores of it; False if there was none."""
        with self._locked(key.digest):
            folder = self.directory / key.digest
            if not os.path.lexists(folder):
                return False
            self._discard(folder)
            return True

    @property
    def limit_bytes(self) -> int:
        return limit_of(self.directory) if self._limit_bytes is None else self._limit_bytes

    def evict(self, limit_bytes: int, *, keep: str = "", spare_ours: bool = False) -> tuple[Snapshot, ...]:
        def remove(one: Snapshot) -> bool:
            return one.key.digest != keep and self._evict(one, spare_ours=spare_ours)

        there = sorted(latest_first(self.list()), key=lambda one: one.key.digest != keep)  # stable
        return evicted(there, limit_bytes, remove)

    def in_use(self, snapshot: Snapshot) -> bool:
        with nobody_uses(snapshot.folder, spare_ours=True) as free:
            return not free

    def _evict(self, snapshot: Snapshot, *, spare_ours: bool) -> bool:
        folder = snapshot.folder
        with self._locked(folder.name, wait=False) as free:
            if free:
                with nobody_uses(folder, spare_ours=spare_ours) as unused:
                    if unused:
                        with suppress(StorageError):  # not provably ours, or not to be deleted: it stays
                            self._discard(folder)
                            return True
        return False

    def _hold(self, digest: str) -> None:
        with suppress(OSError):  # a folder that is closed to us is told of by whoever writes there
            hold(self.directory / digest)

    def _make(self, key: SnapshotKey, fill: Callable[[Path], None]) -> Snapshot:
        is_full = False
        try:
            with passing_folder(self.directory, "snapshot", name=key.digest, mode=0o711) as making:
                try:
                    self._fill(key, making, fill)
                except Exception:  # found out while the half of it is still there
                    is_full = free_bytes(self.directory, in_memory=False) < _FULL_BELOW_BYTES
                    raise
        except Exception as error:
            if is_full or (isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}):
                message = f"the disk of {self.directory} filled up while making a snapshot: {error}"
                raise NoSpace(message, hint=NO_SPACE_HINT) from error
            raise
        snapshot = _read(self.directory / key.digest)
        drop_cached(snapshot.manifest, snapshot.path)
        _checked.add(_identity(snapshot))
        return snapshot

    def _fill(self, key: SnapshotKey, making: Path, fill: Callable[[Path], None]) -> None:
        data = making / "data"
        data.mkdir(mode=0o700)
        user = server_user()
        if user.uid != os.geteuid():
            os.chown(data, user.uid, user.gid)
        if not may_enter(data, user):
            raise NotWritable(
                f"the snapshot folder {self.directory} is not accessible to {user.name},"
                " the user that servers run as",
                hint="choose a folder whose parent directories everyone can access",
            )
        fill(data)
        sync_filesystem(making)  # before it is surveyed: blocks may be allocated only now
        manifest = survey(data, dict(key.parts))
        _seal(manifest, data)
        (making / "manifest.json").write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        (making / "manifest.json").chmod(0o400)
        sync_filesystem(making)
        making.chmod(0o700)
        making.rename(self.directory / key.digest)
        sync_filesystem(self.directory)

    def _discard(self, folder: Path) -> None:
        try:
            gone = discard(folder, what="snapshot", name=folder.name)
        except OSError as error:
            raise StorageError(f"{folder} cannot be deleted: {error}") from error
        if not gone:
            raise StorageError(
                f"{folder} is in the place of a snapshot, but flushlab did not make it", hint="move it away"
            )

    @contextmanager
    def _locked(self, digest: str, *, shared: bool = False, wait: bool = True) -> Iterator[bool]:
        locks = self.directory / "locks"
        try:
            if not self.directory.is_dir():
                self.directory.mkdir(parents=True, exist_ok=True)
                self.directory.chmod(0o711)
            locks.mkdir(exist_ok=True)
            descriptor = os.open(locks / f"{digest}.lock", OPEN_LOCK, 0o600)
        except OSError as error:
            raise NotWritable(
                f"the snapshot folder {self.directory} is not writable: {error.strerror}",
                hint="set FLUSHLAB_HOME to a directory that you can write to",
            ) from error
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        with flocked(descriptor, mode if wait else mode | fcntl.LOCK_NB) as free:
            yield free


def _read(folder: Path) -> Snapshot:
    manifest = read_manifest(folder / "manifest.json")
    return Snapshot(key=SnapshotKey(manifest.key), path=folder / "data", manifest=manifest)


def _identity(snapshot: Snapshot) -> tuple[str, int, int]:
    file = snapshot.folder / "manifest.json"
    facts = file.stat()
    return str(file), facts.st_ino, facts.st_mtime_ns


def _check(snapshot: Snapshot, *, content: bool = False) -> None:
    try:
        identity = _identity(snapshot)
        untouched = check_facts(snapshot.manifest, snapshot.path)
        if content or not untouched or identity not in _checked:
            _checked.discard(identity)
            check_content(snapshot.manifest, snapshot.path)
            _checked.add(identity)
    except OSError as error:
        raise SnapshotDamaged(f"the snapshot {snapshot.path} cannot be read: {error}") from error


def _seal(manifest: Manifest, data: Path) -> None:
    owner = (os.geteuid(), os.getegid())
    for file in manifest.files:
        os.chown(data / file.path, *owner)
        (data / file.path).chmod(0o400)
    for folder in reversed(manifest.folders):
        os.chown(data / folder.path, *owner)
        (data / folder.path).chmod(0o500)
