"""Unpack: a tar archive that nobody has vouched for, into a folder that nothing may leave.

Build layer. Refused are names and links that lead outside, by themselves or through links that the archive
brings along, and devices, pipes and sockets. Owners are not restored, nor are set-id bits. Not on tarfile's
`data_filter`: Debian 12's Python is 3.11.2, and it came with 3.11.4.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any

import zstandard

from flushlab.errors import NoSpace, ServerError
from flushlab.units import format_size

MAX_BYTES = 40 << 30
MAX_MEMBERS = 500_000
"""Limits of what is unpacked; MySQL's largest distribution, with its test suite, has 5 GB in 30,000 files."""

_MAGIC = {
    b"\x1f\x8b": "gz",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zst",
}
_OPENERS: dict[str, Callable[[Any], Any]] = {
    "gz": lambda file: gzip.GzipFile(fileobj=file),
    "xz": lzma.LZMAFile,
    "bz2": bz2.BZ2File,
    "zst": lambda file: zstandard.ZstdDecompressor().stream_reader(
        file, read_across_frames=True, closefd=False
    ),
}
_BROKEN = (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error, zstandard.ZstdError, ValueError)


def tar(archive: IO[bytes], folder: Path, *, name: str) -> None:
    """Unpacks an archive into an empty folder.

    Raises:
        ServerError: it is no such archive, is broken, or has a member that is refused.
        NoSpace: the disk is full.
    """
    folder = folder.resolve()
    try:
        content = _plain(archive)
        with tarfile.open(fileobj=content, mode="r|") as members:
            _unpack(members, folder, name)
        while content.read(1 << 20):
            pass
        let_all_enter(folder)
    except _BROKEN as error:
        raise ServerError(
            f"{name} cannot be unpacked: {error or type(error).__name__}",
            hint="it is not a complete tar archive in gz, xz, bz2 or zst: fetch it again",
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(
                f"no space left in {folder} while unpacking {name}",
                hint="make room, or set FLUSHLAB_HOME to another file system",
            ) from error
        raise ServerError(f"{name} cannot be unpacked: {error}") from error


def let_all_enter(folder: Path) -> None:
    """Opens a folder's directories to the servers' user, whatever the umask they were made under."""
    for directory, _, _ in os.walk(folder):
        Path(directory).chmod(0o755)


def _plain(archive: IO[bytes]) -> IO[bytes]:
    """The archive's content, decompressed on the way; what is cut off or damaged is an error at its end."""
    start = archive.read(8)
    archive.seek(0)
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "")
    return _OPENERS[kind](archive) if kind else archive


def _unpack(members: tarfile.TarFile, folder: Path, name: str) -> None:
    total_bytes = 0
    links: list[Path] = []
    for count, member in enumerate(members, start=1):
        total_bytes += member.size
        if count > MAX_MEMBERS or total_bytes > MAX_BYTES:
            raise ServerError(
                f"{name} unpacks to more than {MAX_MEMBERS:,} files or {format_size(MAX_BYTES)}"
            )
        target = _inside(folder, member.name, member, name)
        if target == folder:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if member.isdir():
            if target.is_symlink() or not target.is_dir():
                target.mkdir()
            continue
        if target.is_symlink() or target.is_file():
            target.unlink()  # the later one counts, and must not be written through the earlier one
        if member.issym():
            _require_inside(target.parent / member.linkname, folder, member, name)
            target.symlink_to(member.linkname)
            links.append(target)
        elif member.islnk():
            source = _inside(folder, member.linkname, member, name)
            if source.is_symlink() or not source.is_file():
                raise _refused(member, name, f"is a link to {member.linkname}, which is not a file in it")
            os.link(source, target)
        elif member.isreg():
            _write(members, member, target)
        else:
            raise _refused(member, name, "is neither file, directory nor link")
    for link in links:  # once more: a later link may have changed where an earlier one leads
        if not _leads_inside(link, folder):
            raise ServerError(f"{name} is refused: its links lead out of the target folder")


def _inside(folder: Path, path: str, member: tarfile.TarInfo, name: str) -> Path:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or "\0" in path:
        raise _refused(member, name, f"is at {path!r}, outside the archive")
    target = folder / parts
    if target == folder:
        return folder
    _require_inside(target.parent, folder, member, name)
    return target.parent.resolve() / target.name


def _require_inside(path: Path, folder: Path, member: tarfile.TarInfo, name: str) -> None:
    if not _leads_inside(path, folder):
        raise _refused(member, name, "leads out of the target folder")


def _leads_inside(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder)
    except (RuntimeError, OSError):  # links in a circle
        return False


def _refused(member: tarfile.TarInfo, name: str, why: str) -> ServerError:
    return ServerError(
        f"{name} is refused: its member {member.name!r} {why}",
        hint="this is not a server distribution; do not trust its source",
    )


def _write(members: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content = members.extractfile(member)
    assert content is not None, "a regular file has content"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    mode = 0o755 if member.mode & 0o100 else 0o644
    with content, os.fdopen(os.open(target, flags, mode), "wb") as handle:
        shutil.copyfileobj(content, handle, 1 << 20)
        os.fchmod(handle.fileno(), mode)
