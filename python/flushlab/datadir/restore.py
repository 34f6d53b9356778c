"""Restore: puts a saved data directory back, by the best way that works there.

Datadir layer, below `snapshots`. The ways: `memory` when the target lies in memory, `reflink` where the file
system shares blocks between files (XFS, btrfs), else `copy`. Holes stay holes and blocks that were reserved
stay reserved, so that a redo log behaves as it did when it was saved. The target appears at once and
whole, by a rename: a kill in the middle leaves a folder `.<name>.restoring-*` beside it, in the sandbox's own
folder, and it goes with that.

Measured traps that `settle` answers (short campaigns on MariaDB 10.11): writeback of the copy runs into the
measured window, and its cached pages flatter buffered I/O over O_DIRECT.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
import time
import zlib
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.datadir.data_root import NO_SPACE_HINT, free_bytes, require_free
from flushlab.errors import NoSpace, NotWritable, SnapshotDamaged, StorageError
from flushlab.machine import file_system_of

SCHEMA = "flushlab.snapshot/1"
THREADS = 4
"""Files checked or copied at once; 4 took half the time of 1 on two cores (242 MB, ext4 and tmpfs)."""

_CHUNK_BYTES = 1 << 20
_ZEROS = bytes(_CHUNK_BYTES)


class SavedFile(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    size_bytes: int
    allocated_bytes: int
    mode: int
    modified_ns: int
    crc32: int


class SavedFolder(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    mode: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    schema: str
    key: dict[str, str]
    folders: tuple[SavedFolder, ...]
    files: tuple[SavedFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def allocated_bytes(self) -> int:
        return sum(file.allocated_bytes for file in self.files)


def survey(directory: Path, key: dict[str, str]) -> Manifest:
    """The manifest of `directory`, read in full; sockets are left out, links and devices are an error."""
    folders, files = [], []
    for path in _walk(directory):
        name = path.relative_to(directory).as_posix()
        try:
            name.encode()
        except UnicodeEncodeError:
            raise StorageError(f"{name!r} in {directory} cannot be saved: its name is not UTF-8") from None
        facts = path.lstat()
        if stat.S_ISDIR(facts.st_mode):
            folders.append(SavedFolder(path=name, mode=stat.S_IMODE(facts.st_mode)))
        elif stat.S_ISREG(facts.st_mode):
            files.append((name, facts))
        elif not (stat.S_ISSOCK(facts.st_mode) or stat.S_ISFIFO(facts.st_mode)):
            raise StorageError(
                f"{path} cannot be saved: it is neither a file nor a directory",
                hint="replace symbolic links with their targets; all data must be in the data directory",
            )
    with ThreadPoolExecutor(THREADS) as pool:
        checksums = list(pool.map(lambda entry: checksum(directory / entry[0]), files))
    saved = [
        SavedFile(
            path=name,
            size_bytes=facts.st_size,
            allocated_bytes=facts.st_blocks * 512,
            mode=stat.S_IMODE(facts.st_mode),
            modified_ns=facts.st_mtime_ns,
            crc32=crc32,
        )
        for (name, facts), crc32 in zip(files, checksums, strict=True)
    ]
    saved.sort(key=lambda file: (-file.size_bytes, file.path))
    return Manifest(schema=SCHEMA, key=key, folders=tuple(folders), files=tuple(saved))


def read_manifest(path: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise SnapshotDamaged(f"the snapshot in {path.parent} has no readable manifest: {error}") from error
    if manifest.schema != SCHEMA:
        raise SnapshotDamaged(f"the manifest {path} has the schema {manifest.schema}, not {SCHEMA}")
    return manifest


def check_facts(manifest: Manifest, directory: Path) -> bool:
    """True if every file still has the size and modification time that were saved; reads no content."""
    found = {
        path.relative_to(directory).as_posix(): facts
        for path in _walk(directory)
        if stat.S_ISREG((facts := path.lstat()).st_mode)
    }
    unchanged, damage = True, list[str]()
    for file in manifest.files:
        if file.path not in found:
            damage.append(f"{file.path} is missing")
        elif (facts := found.pop(file.path)).st_size != file.size_bytes:
            damage.append(f"{file.path} has {facts.st_size} bytes, not {file.size_bytes}")
        else:
            unchanged = unchanged and facts.st_mtime_ns == file.modified_ns
    damage += [f"{name} does not belong to it" for name in sorted(found)]
    if damage:
        raise SnapshotDamaged(f"the snapshot {directory} is damaged: {damage[0]}")
    return unchanged


def check_content(manifest: Manifest, directory: Path) -> None:
    check_facts(manifest, directory)
    with ThreadPoolExecutor(THREADS) as pool:
        checksums = pool.map(lambda file: checksum(directory / file.path), manifest.files)
        for file, crc32 in zip(manifest.files, checksums, strict=True):
            if crc32 != file.crc32:
                raise SnapshotDamaged(
                    f"the snapshot {directory} is damaged: the content of {file.path} has changed"
                )


def checksum(path: Path) -> int:
    """CRC-32 over the offsets and contents of a file's chunks of 1 MiB that are not all zeros.

    A hole and written zeros come out alike, so that a copy that fills or makes holes keeps its checksum, and
    a mostly empty file costs little.

    Raises:
        SnapshotDamaged: it cannot be read.
    """
    value = 0
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            offset = 0
            for start, end in data_segments(file.fileno(), size):
                offset = max(offset, start - start % _CHUNK_BYTES)
                while offset < end:
                    chunk = os.pread(file.fileno(), min(_CHUNK_BYTES, size - offset), offset)
                    if chunk != _ZEROS[: len(chunk)]:
                        value = zlib.crc32(chunk, zlib.crc32(offset.to_bytes(8, "little"), value))
                    offset += _CHUNK_BYTES
    except OSError as error:
        raise SnapshotDamaged(f"{path} cannot be read: {error.strerror}") from error
    return value


def data_segments(descriptor: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """(start, end) of what is not a hole; blocks that are reserved but never written count as holes."""
    end = 0
    while end < size_bytes:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end


def _walk(directory: Path) -> Iterator[Path]:
    yield directory
    for path in sorted(directory.iterdir()):
        if not path.is_symlink() and path.is_dir():
            yield from _walk(path)
        else:
            yield path


def copy_tree(
    source: Path,
    target: Path,
    *,
    leave_out: Collection[str] = (),
    sparse: Literal["auto", "always"] = "auto",
) -> None:
    if target.is_dir():
        target.rmdir()
    what = [source]
    if leave_out:
        target.mkdir(mode=0o700)
        what = [entry for entry in sorted(source.iterdir()) if entry.name not in leave_out]
    command = ["cp", "--archive", "--reflink=auto", f"--sparse={sparse}", *map(str, what), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = "".join(done.stderr.strip().splitlines()[-1:])
        kind = NoSpace if "No space" in done.stderr else StorageError
        raise kind(f"{source} cannot be copied to {target}: {reason}")


Way = Literal["memory", "reflink", "copy"]

FICLONE = 0x40049409
"""ioctl_ficlone(2): makes a file share the blocks of another; _IOW(0x94, 9, int)."""

_CANNOT_CLONE = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.EPERM, errno.ETXTBSY}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_FOLDER_BYTES = 4096
_libc = ctypes.CDLL(None, use_errno=True)


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    way: Way
    bytes: int
    seconds: float


def restore_tree(
    manifest: Manifest, source: Path, target: Path, *, uid: int, gid: int, settle: bool = True
) -> Restored:
    start = time.monotonic()
    _require_vacant(target)
    try:
        partial_copy = Path(tempfile.mkdtemp(prefix=f".{target.name}.restoring-", dir=target.parent))
    except OSError as error:
        raise _named(error, target) from error
    try:
        way = _choose(manifest, source, partial_copy)
        # every file's blocks and a margin for folders and inodes; a reflink needs the margin only
        needed = _FOLDER_BYTES * (len(manifest.files) + len(manifest.folders))
        needed += 0 if way == "reflink" else manifest.allocated_bytes
        purpose = f"restoring a snapshot to {target}"
        require_free(target.parent, needed, purpose, in_memory=way == "memory")
        _fill(manifest, source, partial_copy, way=way, owner=(uid, gid) if os.geteuid() == 0 else None)
        if settle:
            sync_filesystem(partial_copy)
        partial_copy.rename(target)
    except OSError as error:
        raise _named(error, target) from error
    finally:
        shutil.rmtree(partial_copy, ignore_errors=True)
    if settle:
        drop_cached(manifest, source)
        drop_cached(manifest, target)
    return Restored(way=way, bytes=manifest.size_bytes, seconds=time.monotonic() - start)


def sync_filesystem(path: Path) -> None:
    """Waits until everything written to the file system of `path` is on its device: syncfs(2)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(descriptor)


def drop_cached(manifest: Manifest, directory: Path) -> None:
    """Drops the files' clean pages from the page cache; does nothing in memory, where they are the data."""
    for file in manifest.files:
        descriptor = os.open(directory / file.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _require_vacant(target: Path) -> None:
    if target.is_mount():
        raise StorageError(f"{target} is a mount point", hint="restore into a folder below it")
    if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
        raise StorageError(
            f"a snapshot cannot be restored to {target}: it exists and is not an empty directory",
            hint="remove it first, or choose another folder",
        )
    if not target.parent.is_dir():
        message = f"a snapshot cannot be restored to {target}: {target.parent} is not a directory"
        raise NotWritable(message, hint="create it first")


def _choose(manifest: Manifest, source: Path, folder: Path) -> Way:
    if file_system_of(folder).in_memory:
        return "memory"
    if not manifest.files:
        return "copy"
    trial = folder / ".clone"
    try:
        cloned = _clone(source / manifest.files[0].path, trial)
    finally:
        trial.unlink(missing_ok=True)
    return "reflink" if cloned else "copy"


def _fill(manifest: Manifest, source: Path, target: Path, *, way: Way, owner: tuple[int, int] | None) -> None:
    for folder in manifest.folders:
        (target / folder.path).mkdir(mode=0o700, exist_ok=True)
    make = partial(_make_file, source, target, way, owner)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="restore") as pool:
        futures = [pool.submit(make, file) for file in manifest.files]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    for folder in reversed(manifest.folders):
        path = target / folder.path
        if owner is not None:
            os.chown(path, *owner)
        path.chmod(folder.mode)


def _make_file(source: Path, target: Path, way: Way, owner: tuple[int, int] | None, file: SavedFile) -> None:
    path = target / file.path
    if not (way == "reflink" and _clone(source / file.path, path)):
        _copy(source / file.path, path, file)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if file.allocated_bytes >= file.size_bytes > 0 and way != "memory":
            # Reserves what was reserved when it was saved: a clone or a copy of segments leaves holes there.
            _reserve(descriptor, file.size_bytes)
        if owner is not None:
            os.fchown(descriptor, *owner)
        os.fchmod(descriptor, file.mode)
    finally:
        os.close(descriptor)


def _reserve(descriptor: int, size_bytes: int) -> None:
    """fallocate(2), where the file system has it; posix_fallocate would write zeros where it has not."""
    if _libc.fallocate(descriptor, 0, ctypes.c_int64(0), ctypes.c_int64(size_bytes)) != 0:
        code = ctypes.get_errno()
        if code not in {errno.EOPNOTSUPP, errno.ENOSYS}:
            raise OSError(code, os.strerror(code))


def _clone(source: Path, target: Path) -> bool:
    with source.open("rb") as from_file, target.open("xb") as to_file:
        try:
            fcntl.ioctl(to_file.fileno(), FICLONE, from_file.fileno())
        except OSError as error:
            if error.errno not in _CANNOT_CLONE:
                raise
        else:
            return True
    target.unlink()
    return False


def _copy(source: Path, target: Path, file: SavedFile) -> None:
    with source.open("rb", buffering=0) as from_file, target.open("xb", buffering=0) as to_file:
        os.ftruncate(to_file.fileno(), file.size_bytes)
        for start, end in data_segments(from_file.fileno(), file.size_bytes):
            os.lseek(to_file.fileno(), start, os.SEEK_SET)
            offset = start
            while offset < end:
                sent = os.sendfile(to_file.fileno(), from_file.fileno(), offset, end - offset)
                if sent == 0:
                    raise SnapshotDamaged(
                        f"the snapshot's file {source} ended at {offset} while it was copied"
                    )
                offset += sent


def _named(error: OSError, target: Path) -> StorageError:
    if error.errno in _FULL:
        left = free_bytes(target.parent, in_memory=False)
        message = f"the disk filled up while restoring a snapshot to {target} ({left} bytes left)"
        return NoSpace(message, hint=NO_SPACE_HINT, of_data=True)
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return NotWritable(f"a snapshot cannot be restored to {target}: {error}")
    return StorageError(f"a snapshot could not be restored to {target}: {error}")
