"""Archive: a template as one compressed file, for the cache of a CI service.

Suite layer, on `datadir`. A ZIP file with the snapshot's manifest as its first member; it appears by a
rename. Whoever unpacks one believes nothing: its key must be the one asked for, every path must stay inside,
and checksums must hold (the manifest's, for holes come back as holes).
"""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path, PurePosixPath

import msgspec

from flushlab.datadir import Snapshot, SnapshotKey
from flushlab.datadir.manifest import SCHEMA, Manifest, checksum
from flushlab.errors import NotWritable, SnapshotDamaged
from flushlab.process import passing_folder

_MANIFEST = "manifest.json"
_LEVEL = 1
"""Deflate's fastest: a data directory is mostly zeros, and higher levels cost more than they save."""

_CHUNK_BYTES = 1 << 20
_ZEROS = bytes(_CHUNK_BYTES)


def export_archive(snapshot: Snapshot, archive: Path) -> None:
    """Writes a snapshot as an archive, atomically.

    Raises:
        NotWritable: the file cannot be written.
    """
    try:
        with passing_folder(archive.parent, "archive") as folder:
            temporary = folder / archive.name
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as file:
                file.writestr(_MANIFEST, msgspec.json.encode(snapshot.manifest))
                for one in snapshot.manifest.files:
                    file.write(snapshot.path / one.path, f"data/{one.path}")
            if not os.path.lexists(archive) or is_ours(archive):
                temporary.replace(archive)
    except OSError as error:
        raise NotWritable(f"{archive} cannot be written: {error.strerror or error}") from error


def archive_name(key: SnapshotKey) -> str:
    """Of the archive of a template."""
    return f"flushlab-{key.digest}.zip"


def is_ours(archive: Path) -> bool:
    """True for a regular file that holds the template that its name says: flushlab wrote it."""
    if archive.is_symlink() or not archive.is_file():
        return False
    try:
        with zipfile.ZipFile(archive) as file:
            manifest = msgspec.json.decode(file.read(_MANIFEST), type=Manifest)
    except (OSError, zipfile.BadZipFile, zlib.error, KeyError, EOFError, msgspec.DecodeError):
        return False
    return manifest.schema == SCHEMA and archive.name == archive_name(SnapshotKey(manifest.key))


def import_archive(archive: Path, key: SnapshotKey, target: Path) -> None:
    """Unpacks an archive into the empty folder `target`.

    Raises:
        SnapshotDamaged: it is no archive, another key's, damaged, or wants to write elsewhere.
    """
    try:
        with zipfile.ZipFile(archive) as file:
            manifest = msgspec.json.decode(file.read(_MANIFEST), type=Manifest)
            if manifest.schema != SCHEMA or SnapshotKey(manifest.key) != key:
                raise SnapshotDamaged(f"{archive} contains a different template than its name says")
            for folder in manifest.folders:
                path = _inside(target, folder.path)
                path.mkdir(exist_ok=True)
                if path != target:
                    path.chmod(folder.mode | 0o700)
            for one in manifest.files:
                path = _inside(target, one.path)
                _unpack(file, f"data/{one.path}", path, one.size_bytes)
                path.chmod(one.mode)
                if checksum(path) != one.crc32:
                    raise SnapshotDamaged(f"{archive} is damaged: the content of {one.path} has changed")
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, msgspec.DecodeError) as error:
        raise SnapshotDamaged(f"{archive} is damaged: {error}") from error


def _inside(target: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SnapshotDamaged(f"a path in the archive leads outside: {name}")
    return target / path


def _unpack(file: zipfile.ZipFile, member: str, path: Path, size_bytes: int) -> None:
    with file.open(member) as source, path.open("xb", buffering=0) as sink:
        offset = 0
        while chunk := source.read(_CHUNK_BYTES):
            if offset + len(chunk) > size_bytes:
                raise SnapshotDamaged(f"{member} is longer than it was")
            if chunk != _ZEROS[: len(chunk)]:
                os.pwrite(sink.fileno(), chunk, offset)
            offset += len(chunk)
        os.ftruncate(sink.fileno(), size_bytes)
