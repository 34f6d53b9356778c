"""Prefix: an unpacked build under flushlab's home, published whole or not at all.

Build layer. A prefix is filled in a temporary directory beside its final place and renamed; `build.json`
inside tells what it is and what it was made of. Two processes that want the same prefix take turns by a lock
file, and the second finds it done.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from flushlab.build.apt import Package
from flushlab.build.build import Build
from flushlab.errors import NoSpace
from flushlab.machine import home
from flushlab.units import format_size

_NEEDED_BYTES = 300 << 20
"""Largest prefix seen is MySQL 8.0.15 with 240 MB; checked before anything is fetched."""


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a prefix's `build.json`.

    Attributes:
        build: what can be started; its paths are absolute.
        origin: files that it was made of, with their hashes.
    """

    build: Build
    origin: tuple[Package, ...]


def prefixes(source: str) -> list[Build]:
    """Builds of a source that are published under flushlab's home."""
    builds = []
    for file in sorted(_folder().glob(f"{source}-*/build.json")):
        try:
            build = msgspec.json.decode(file.read_bytes(), type=Published).build
        except (OSError, msgspec.DecodeError):
            continue  # removed meanwhile, or written by another version: not a build of ours
        if Path(build.mysqld).is_file():
            builds.append(build)
    return builds


def publish(key: str, fill: Callable[[Path], tuple[Build, Sequence[Package]]]) -> Build:
    """The build in the prefix `key`, made with `fill` if it is not there.

    Args:
        key: directory name, starting with the source's name and a hyphen.
        fill: unpacks into the directory given and says what is in it; its paths may lie in that directory.

    Raises:
        NoSpace: less than 300 MiB are free there.
    """
    final = _folder() / key
    with _lock(final.with_name(f".{key}.lock")):
        if (final / "build.json").is_file():
            found = msgspec.json.decode((final / "build.json").read_bytes(), type=Published).build
            if Path(found.mysqld).is_file():
                return found
        if final.exists():
            shutil.rmtree(final)
        _require_space(final.parent)
        for left_over in final.parent.glob(f".{key}.new-*"):  # we hold the lock: its maker is dead
            shutil.rmtree(left_over)
        staging = Path(tempfile.mkdtemp(prefix=f".{key}.new-", dir=final.parent))
        try:
            staging.chmod(0o755)
            build, origin = fill(staging)
            build = _moved(build, staging, final)
            document = Published(build=build, origin=tuple(origin))
            (staging / "build.json").write_bytes(msgspec.json.encode(document))
            staging.rename(final)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    return build


def _moved(build: Build, old: Path, new: Path) -> Build:
    text = msgspec.json.encode(build).decode()
    return msgspec.json.decode(text.replace(str(old), str(new)), type=Build)


def _folder() -> Path:
    folder = home() / "builds"
    folder.mkdir(exist_ok=True)
    return folder


def _require_space(folder: Path) -> None:
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if free < _NEEDED_BYTES:
        raise NoSpace(
            f"{folder} has {format_size(free)} free; a server needs {format_size(_NEEDED_BYTES)}",
            hint="make room there, or set FLUSHLAB_HOME to another file system",
        )


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
