"""Prefix: an unpacked build under flushlab's home, published whole or not at all.

Build layer. A prefix is filled in a temporary directory beside its final place and renamed; `build.json`
inside tells what it is and what it was made of. If two processes want the same prefix, the second waits for a
lock file, and finds the prefix done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec

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

_NEEDED_BYTES = 500 << 20
"""Largest prefix seen is MySQL 9.7.4 with 350 MB; checked before anything is fetched."""


_Content = TypeVar("_Content")


class Published(msgspec.Struct, frozen=True, kw_only=True):
    build: Build
    origin: tuple[Package, ...]


def origin(build: Build) -> tuple[Package, ...]:
    """The files that a build's prefix was made of; none if it is not one of ours."""
    document = atomic.read_json(Path(build.prefix) / "build.json", Published)
    return document.origin if document else ()


def prefixes(source: str) -> list[Build]:
    files = sorted((home_path() / "builds").glob(f"{source}-*/build.json"))
    return [build for file in files if (build := _build_of(file)) is not None]


def prefix_of(path: str) -> Path | None:
    """The prefix under flushlab's home that a path is in, or None if it is elsewhere."""
    builds = (home_path() / "builds").resolve()
    inside = Path(path).resolve()
    return builds / inside.relative_to(builds).parts[0] if inside.is_relative_to(builds) else None


def published(key: str) -> Build | None:
    """The build in the prefix `key`, or None if it is not there."""
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
    """The build in the prefix `key`, made with `fill` if it is not there.

    Args:
        fill: unpacks into the directory given and says what is in it; its paths may lie in that directory.

    Raises:
        NoSpace: less than that is free.
        StorageError: something that flushlab did not make is in its place.
    """

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
    """What is in the prefix `key`, made with `fill` if it is not there.

    Args:
        there: what a prefix holds, or None if it is not there.
        fill: makes the content in the directory given; it will lie in the second one.

    Raises:
        NoSpace, StorageError: as `publish`.
    """
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
    """Finds out first whether there is room.

    Raises:
        NoSpace: there is not.
    """
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if free < needed_bytes:
        raise NoSpace(
            f"{folder} has {format_size(free)} free; a server needs {format_size(needed_bytes)}",
            hint="make room there, or set FLUSHLAB_HOME to another file system",
        )


class Obtainable(msgspec.Struct, frozen=True, kw_only=True):
    """A build that is not here and can be fetched.

    Attributes:
        version: as far as it is known before fetching: (10, 11, 19), (10, 11) or ().
        release: the other Debian release that it comes from, with its libraries; empty for builds that run
            with this system's.
    """

    flavor: Flavor
    version: tuple[int, ...]
    source: str
    what: str
    release: str = ""

    @property
    def name(self) -> str:
        return server_name(self.flavor, self.version)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    builds: tuple[Build, ...] = ()
    problems: tuple[FlushlabError, ...] = ()


class Source:
    """Where builds come from: a class that says what it does otherwise, and one line in `find.SOURCES`."""

    name: ClassVar[str]
    """Stands in `Build.source`."""

    def installed(self) -> Found:
        """Builds of this source that are here. Quick, no network, raises nothing for a broken build."""
        return Found(builds=tuple(prefixes(self.name)))

    def obtainable(self) -> Iterable[Obtainable]:
        """Builds that `get` can fetch on this machine. Quick, no network."""
        return ()

    def get(self, wanted: Obtainable, progress: Progress) -> Build:
        """Fetches a build into flushlab's home, or finds it there.

        Raises:
            ServerError: it could not be fetched or does not run here.
        """
        raise ServerError(f"{wanted.name} cannot be fetched from {self.name}")
