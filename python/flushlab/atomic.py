"""Atomic: files that are written whole or not at all, and what one process does at a time.

Below all layers. The one way in which flushlab puts a file where another process, a later command or its user
looks for it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


def write(
    path: Path,
    content: bytes | str,
    *,
    mode: int | None = None,
    owner: tuple[int, int] = (-1, -1),
    new: bool = False,
) -> None:
    """By rename: readers see the old content or the new, after a crash, too. A symbolic link of that name is
    replaced, never followed. `mode` None: as the file that it replaces, else 0644; `owner` -1: the calling
    ones."""
    data = content.encode() if isinstance(content, str) else content
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as handle:
        try:
            handle.write(data)
            handle.flush()
            if owner != (-1, -1):
                os.fchown(handle.fileno(), *owner)
            os.fchmod(handle.fileno(), _mode_of(path) if mode is None else mode)
            os.fsync(handle.fileno())
            if new:
                path.hardlink_to(handle.name)
                Path(handle.name).unlink()
            else:
                Path(handle.name).replace(path)
        except BaseException:
            Path(handle.name).unlink(missing_ok=True)
            raise


def read_json(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def _mode_of(path: Path) -> int:
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return 0o644
    return stat.S_IMODE(found) if stat.S_ISREG(found) else 0o644


@contextmanager
def locked_by_one(file: Path) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
