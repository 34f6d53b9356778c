"""Source `tarball`: a distribution in an archive that the user names by path or URL.

Build layer. `/path/mysql-8.4.6-linux.tar.xz`, `https://…/mariadb.tar.gz`, each with `#sha256=…` behind it if
its content is to be checked. Unpacked once: the prefix is keyed by the content's SHA-256. What is in it is
found out by running its server, as the user that servers run as. The formats are those of tar with gzip, xz,
bzip2 or Zstandard.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedRandom, BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import msgspec

from flushlab import atomic
from flushlab.build import apt
from flushlab.build.apt import Package
from flushlab.build.build import Build
from flushlab.build.inspect import inspect, inspect_once, library_missing, missing_libraries, server_in
from flushlab.build.prefix import (
    BuildSource,
    FoundBuild,
    publish,
    published,
    require_space,
    unpack_tar,
    unpacked_by,
)
from flushlab.errors import BuildNotFound, FlushlabError, NoSpace, ServerError, StorageError, UsageError
from flushlab.machine import home, server_user
from flushlab.progress import Progress

VARIABLE = "FLUSHLAB_BASEDIR"
SBIN = ("/usr/local/sbin", "/usr/sbin", "/usr/libexec")


def _in_basedir() -> FoundBuild:
    folder = os.environ.get(VARIABLE)
    try:
        return FoundBuild((build_in(Path(folder)),)) if folder else FoundBuild()
    except FlushlabError as error:
        return FoundBuild(problems=(error,))


def _on_path() -> FoundBuild:
    builds, problems = dict[Path, Build](), list[FlushlabError]()
    for folder in (*os.environ.get("PATH", os.defpath).split(os.pathsep), *SBIN):
        mysqld = server_in(Path(folder)) if folder else None
        if mysqld is None or (real := mysqld.resolve()) in builds:
            continue
        try:
            builds[real] = inspect_once(real, source="path", prefix=real.parent.parent)
        except FlushlabError as error:
            problems.append(error)
    return FoundBuild(tuple(builds.values()), tuple(problems))


BASEDIR, ON_PATH = (
    BuildSource(name="basedir", installed=_in_basedir),
    BuildSource(name="path", installed=_on_path),
)


def places(folder: Path) -> tuple[Path, ...]:
    return (folder / "bin", folder / "sbin", folder / "libexec", folder / "usr" / "sbin")


def build_in(folder: Path) -> Build:
    """Libraries in its `lib` are found by the build's own run path, as in the official tarballs."""
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise BuildNotFound(
            f"{folder} is not a directory", hint="give the directory that contains bin/mysqld"
        )
    mysqld = server_in(*places(folder))
    if mysqld is None:
        raise BuildNotFound(
            f"{folder} contains no server: neither bin/mariadbd nor bin/mysqld is there",
            hint="give the directory that a server's tarball was unpacked into",
        )
    return inspect_once(mysqld, source="basedir", prefix=folder)


MAX_BYTES = 8 << 30
"""Largest archive that is fetched; MySQL's with debug symbols and tests have about 1 GB."""

_EXPANSION = 6
"""Unpacked by packed size, roughly; official tarballs in xz have 4 to 5."""

_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tar.zst")
_CHUNK_BYTES = 1 << 20
_SILENCE_S = 60.0


TARBALL = BuildSource(name="tarball", installed=partial(unpacked_by, "tarball"))


class ArchiveAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Place of an archive; `sha256` is what its content must hash to, or empty."""

    text: str
    sha256: str = ""

    @property
    def is_url(self) -> bool:
        return "://" in self.text

    @property
    def file(self) -> str:
        path = urlsplit(self.text).path if self.is_url else self.text
        return PurePosixPath(unquote(path)).name or "archive"


def is_address(name: str) -> bool:
    return "/" in name or name.partition("#")[0].lower().endswith(_SUFFIXES)


def parse_address(name: str) -> ArchiveAddress:
    text, mark, fragment = name.strip().rpartition("#sha256=")
    if not mark:
        text, fragment = name.strip(), ""
    sha256 = fragment.lower()
    if mark and not re.fullmatch("[0-9a-f]{64}", sha256):
        raise UsageError(
            f"{fragment!r} is not a SHA-256", hint="it has 64 hexadecimal digits, as sha256sum prints them"
        )
    scheme, separator, rest = text.partition("://")
    if not separator:
        return ArchiveAddress(text=str(Path(text).expanduser().absolute()), sha256=sha256)
    if scheme.lower() not in ("https", "http") or not rest:
        raise UsageError(f"tarballs cannot be fetched from {scheme}://", hint="give an https URL or a path")
    if "@" in rest.partition("/")[0]:
        raise UsageError(
            f"a URL with a user or a password ({scheme}://…@{rest.partition('/')[0].rpartition('@')[2]})",
            hint="download the tarball, and give its path",
        )
    if scheme.lower() == "http" and not sha256:
        raise UsageError(
            "a tarball over http needs its SHA-256, because anybody on the way could change it",
            hint="give an https URL, or append #sha256=…",
        )
    return ArchiveAddress(text=text, sha256=sha256)


def build_from(name: str, progress: Progress, *, get: bool = True) -> Build:
    address = parse_address(name)
    known = address.sha256 if address.is_url else ""  # of a URL's content, the hash that is asked for will do
    with suppress(OSError):
        known = known or _memory(address).read_text().strip()
    if known and (not address.sha256 or address.sha256 == known):
        found = published(_key(known))
        if found is not None:
            return found
    if not get:
        raise BuildNotFound(f"{address.file} is not unpacked yet", hint=f"run: flushlab server get {name}")
    with _content(address, progress) as archive:
        progress(f"computing the SHA-256 of {address.file}")
        digest = hashlib.file_digest(archive, "sha256").hexdigest()
        if address.sha256 and digest != address.sha256:
            raise ServerError(
                f"{address.file} has SHA-256 {digest}, but expected {address.sha256}",
                hint="fetch it again, or check its publisher's checksum",
            )
        archive.seek(0)
        size_bytes = os.fstat(archive.fileno()).st_size

        def fill(prefix: Path) -> tuple[Build, list[Package]]:
            progress(f"unpacking {address.file}")
            unpack_tar(archive, prefix, name=address.file)
            origin = [Package(file=address.file, sha256=digest)]
            return _inspected(prefix, address.file, origin, progress), origin

        build = publish(_key(digest), fill, needed_bytes=_EXPANSION * size_bytes)
    with suppress(FileNotFoundError):
        memory = _memory(address)
        memory.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(memory, digest)
    return build


def _inspected(prefix: Path, file: str, origin: list[Package], progress: Progress) -> Build:
    roots = [prefix, *sorted(folder for folder in prefix.iterdir() if folder.is_dir())]
    servers = ((root, mysqld) for root in roots if (mysqld := server_in(*places(root))))
    if (found := next(servers, None)) is None:
        raise BuildNotFound(
            f"{file} contains no server: neither bin/mariadbd nor bin/mysqld is in it",
            hint="use a binary distribution, not sources, clients or tests",
        )
    root, mysqld = found
    libraries = tuple(dict.fromkeys((*apt.library_folders(prefix), *apt.library_folders(root))))
    if apt.available():
        origin += apt.complete_libraries([mysqld], prefix, progress, libraries)
        libraries = tuple(dict.fromkeys((*apt.library_folders(prefix), *libraries)))
    elif missing := missing_libraries([mysqld], libraries):
        raise library_missing(str(mysqld), missing[0])
    return inspect(mysqld, source=TARBALL.name, prefix=prefix, library_path=libraries, user=server_user())


def _key(digest: str) -> str:
    return f"{TARBALL.name}-{digest[:32]}"


@contextmanager
def _content(address: ArchiveAddress, progress: Progress) -> Iterator[BufferedReader | BufferedRandom]:
    if not address.is_url:
        path = Path(address.text)
        if path.is_dir():
            raise BuildNotFound(
                f"{path} is a directory", hint=f"use an unpacked server with --basedir {path}"
            )
        try:
            with path.open("rb") as handle:
                yield handle
        except FileNotFoundError:
            raise BuildNotFound(f"there is no {path}", hint="give a tarball, or a build") from None
        except PermissionError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}") from error
        return
    folder = home() / "builds"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as handle:
        _fetch(address, handle, folder, progress)
        handle.seek(0)
        yield handle


def _fetch(address: ArchiveAddress, into: IO[bytes], folder: Path, progress: Progress) -> None:
    from http.client import HTTPException
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class StaySecure(HTTPRedirectHandler):
        def redirect_request(self, req: Request, *rest: Any) -> Request | None:
            to = str(rest[-1])
            if urlsplit(to).scheme != "https" and not address.sha256:
                raise ServerError(f"{address.file}: the server redirects to an address that is not https")
            return super().redirect_request(req, *rest)

    progress(f"fetching {address.file}")
    done = 0
    try:
        with build_opener(StaySecure).open(address.text, timeout=_SILENCE_S) as answer:
            size = int(answer.headers.get("Content-Length") or 0)
            require_space(folder, max(size, 1) * (1 + _EXPANSION))
            while chunk := answer.read(_CHUNK_BYTES):
                done += len(chunk)
                if done > MAX_BYTES:
                    raise ServerError(f"{address.file} is larger than {MAX_BYTES >> 30} GiB")
                into.write(chunk)
        if size and done != size:
            raise ServerError(f"{address.file}: the connection broke after {done} of {size} bytes")
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, OSError) and error.errno == 28:
            raise NoSpace(
                f"no space left while fetching {address.file}",
                hint="make room, or set FLUSHLAB_HOME to another file system",
            ) from error
        raise ServerError(
            f"{address.file} could not be fetched: {error}", hint="check the URL and the network"
        ) from error


def _memory(address: ArchiveAddress) -> Path:
    key = address.text
    if not address.is_url:
        stat = Path(address.text).stat()
        key = f"{address.text}|{stat.st_size}|{stat.st_mtime_ns}"
    return home() / "builds" / ".tarballs" / hashlib.sha256(key.encode()).hexdigest()[:32]
