"""Unpack: a tar archive that nobody has vouched for, into a folder that nothing may leave.

Build layer, on the filter `data` of tarfile. Refused are names and links that lead outside, by themselves
or through links that the archive brings along, and devices, pipes and sockets; a slash at the beginning of a
name is dropped. Owners are not restored, nor are set-id bits.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

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
}
_END_S = 60.0
_BROKEN = (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error, ValueError)


def tar(archive: IO[bytes], folder: Path, *, name: str) -> None:
    """Unpacks an archive into an empty folder.

    Args:
        archive: at its beginning, seekable.
        folder: exists.
        name: of the archive, for messages.

    Raises:
        ServerError: it is no such archive, is broken, or has a member that is refused.
        NoSpace: the disk is full.
    """
    folder = folder.resolve()
    try:
        with _plain(archive, name) as content:
            with tarfile.open(fileobj=content, mode="r|") as members:
                _unpack(members, folder, name)
            while content.read(1 << 20):
                pass
    except tarfile.FilterError as error:
        raise ServerError(
            f"{name} is refused: {error}",
            hint="this is not a server distribution; do not trust its source",
        ) from error
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


@contextmanager
def _plain(archive: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """The archive's content, decompressed on the way; what is cut off or damaged is an error at its end."""
    start = archive.read(8)
    archive.seek(0)
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "")
    if kind != "zst":
        yield _OPENERS[kind](archive) if kind else archive
        return
    zstd = shutil.which("zstd")
    if zstd is None:
        raise ServerError(
            f"{name} is compressed with Zstandard, and the command zstd is not on PATH",
            hint="install the package zstd, or use a tarball in gz or xz",
        )
    os.lseek(archive.fileno(), 0, os.SEEK_SET)  # what was read above is in Python's buffer
    command = [zstd, "-dcq"]
    with subprocess.Popen(command, stdin=archive, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        try:
            yield child.stdout
            if child.wait(_END_S) != 0:
                raise EOFError(f"zstd ended with exit code {child.returncode}")
        finally:
            child.kill()


def _unpack(members: tarfile.TarFile, folder: Path, name: str) -> None:
    total_bytes = 0
    links: list[Path] = []
    for count, member in enumerate(members, start=1):
        total_bytes += member.size
        if count > MAX_MEMBERS or total_bytes > MAX_BYTES:
            raise ServerError(
                f"{name} unpacks to more than {MAX_MEMBERS:,} files or {format_size(MAX_BYTES)}"
            )
        members.extract(member, folder, filter=_harmless)
        if member.issym():
            links.append(folder / member.name.lstrip("/"))
    for link in links:  # once more: a later link may have changed where an earlier one leads
        if not _leads_inside(link, folder):
            raise tarfile.FilterError(f"its link {link.relative_to(folder)} leads out of the target folder")


def _harmless(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """The member as it may be unpacked: the server's user reads what the archive's maker kept to himself.

    Raises:
        tarfile.FilterError: it leads out of the folder, or is no file, directory or link.
    """
    mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return tarfile.data_filter(member, folder).replace(mode=mode, deep=False)


def _leads_inside(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder)
    except (RuntimeError, OSError):  # links in a circle
        return False
