"""Prefix: an unpacked build under flushlab's home, published whole or not at all, and where builds come from.

Build layer. A prefix is filled in a temporary directory beside its final place and renamed; `build.json`
inside tells what it is and what it was made of. If two processes want the same prefix, the second waits for a
lock file, and finds the prefix done.

A tar archive is unpacked as one that nobody has vouched for. Refused are names and links that lead outside,
by themselves or through links that the archive brings along, and devices, pipes and sockets. Owners are not
restored, nor are set-id bits. Not on tarfile's `data_filter`: Debian 12's Python is 3.11.2, and it came with
3.11.4.
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
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, TypeVar

import msgspec
import zstandard

from flushlab import atomic
from flushlab.atomic import locked_by_one
from flushlab.build.apt import Package
from flushlab.build.build import Build
from flushlab.errors import FlushlabError, NoSpace, ServerError, StorageError
from flushlab.machine import home_part, home_path
from flushlab.process import discard, passing_folder, reap
from flushlab.progress import Progress
from flushlab.record.machine import Flavor, server_name
from flushlab.units import format_size

MAX_BYTES = 40 << 30
MAX_MEMBERS = 500_000
"""Limits of what is unpacked; MySQL's largest distribution, with its test suite, has 5 GB in 30,000 files."""

_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": lambda file: zstandard.ZstdDecompressor().stream_reader(
        file, read_across_frames=True, closefd=False
    ),
}
"""Of gz, xz, bz2 and zst, by what a file of these begins with."""
_LEADS_OUT = "leads out of the target folder"
_BROKEN = (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error, zstandard.ZstdError, ValueError)


def unpack_tar(archive: IO[bytes], folder: Path, *, name: str) -> None:
    folder = folder.resolve()
    try:
        start = archive.read(8)
        archive.seek(0)
        opener = next((opener for magic, opener in _OPENERS.items() if start.startswith(magic)), None)
        # decompressed on the way; what is cut off or damaged is an error at its end
        content = opener(archive) if opener else archive
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
    for directory, _, _ in os.walk(folder):
        Path(directory).chmod(0o755)


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
            if not _leads_inside(target.parent / member.linkname, folder):
                raise _refused(member, name, _LEADS_OUT)
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
    if not _leads_inside(target.parent, folder):
        raise _refused(member, name, _LEADS_OUT)
    return target.parent.resolve() / target.name


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


_NEEDED_BYTES = 500 << 20
"""Largest prefix seen is MariaDB 11.4.5 with 370 MB; checked before anything is fetched."""


_Content = TypeVar("_Content")


class Published(msgspec.Struct, frozen=True, kw_only=True):
    build: Build
    origin: tuple[Package, ...]


def origin(build: Build) -> tuple[Package, ...]:
    document = atomic.read_json(Path(build.prefix) / "build.json", Published)
    return document.origin if document else ()


def unpacked_by(source: str) -> FoundBuild:
    files = sorted((home_path() / "builds").glob(f"{source}-*/build.json"))
    return FoundBuild(tuple(build for file in files if (build := _build_of(file)) is not None))


def prefix_of(path: str) -> Path | None:
    builds = (home_path() / "builds").resolve()
    inside = Path(path).resolve()
    return builds / inside.relative_to(builds).parts[0] if inside.is_relative_to(builds) else None


def published(key: str) -> Build | None:
    return _build_of(home_path() / "builds" / key / "build.json")


def _build_of(file: Path) -> Build | None:
    document = atomic.read_json(file, Published)
    return document.build if document and Path(document.build.mysqld).is_file() else None


def publish(
    key: str,
    fill: Callable[[Path], tuple[Build, Sequence[Package]]],
    *,
    needed_bytes: int = _NEEDED_BYTES,
) -> Build:
    def whole(staging: Path, final: Path) -> Build:
        build, origin = fill(staging)
        text = msgspec.json.encode(build).decode()
        # Paths may be without the links of a home elsewhere. The longer one first: it may end like the other.
        for folder in sorted({str(staging), str(staging.resolve())}, key=len, reverse=True):
            text = text.replace(folder, str(final))
        build = msgspec.json.decode(text, type=Build)
        document = Published(build=build, origin=tuple(origin))
        (staging / "build.json").write_bytes(msgspec.json.encode(document))
        return build

    return publish_prefix(key, published, whole, needed_bytes=needed_bytes)


def publish_prefix(
    key: str,
    there: Callable[[str], _Content | None],
    fill: Callable[[Path, Path], _Content],
    *,
    needed_bytes: int = _NEEDED_BYTES,
) -> _Content:
    final = home_part("builds") / key
    with locked_by_one(final.with_name(f".{key}.lock")):
        if (found := there(key)) is not None:
            return found
        reap()
        if os.path.lexists(final) and not discard(final, what="build", name=key):
            raise StorageError(
                f"{final} is in the place of a build, and flushlab did not make it", hint="move it away"
            )
        require_space(final.parent, needed_bytes)
        with passing_folder(final.parent, "build", name=key, mode=0o755) as staging:
            content = fill(staging, final)
            staging.rename(final)
    return content


def require_space(folder: Path, needed_bytes: int) -> None:
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if free < needed_bytes:
        raise NoSpace(
            f"{folder} has {format_size(free)} free; a server needs {format_size(needed_bytes)}",
            hint="make room there, or set FLUSHLAB_HOME to another file system",
        )


class Obtainable(msgspec.Struct, frozen=True, kw_only=True):
    """A build to be fetched; `release` is the other Debian release that it comes from, with its libraries."""

    flavor: Flavor
    version: tuple[int, ...]
    source: str
    what: str
    release: str = ""

    @property
    def name(self) -> str:
        return server_name(self.flavor, self.version)


class FoundBuild(NamedTuple):
    builds: Sequence[Build] = ()
    problems: Sequence[FlushlabError] = ()


def _unobtainable(wanted: Obtainable, _progress: Progress) -> Build:
    raise ServerError(f"{wanted.name} cannot be fetched from {wanted.source}")


class BuildSource(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    installed: Callable[[], FoundBuild]
    obtainable: Callable[[], Iterable[Obtainable]] = tuple
    get: Callable[[Obtainable, Progress], Build] = _unobtainable
