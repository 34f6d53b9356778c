"""Kept: folders that save time; who counts on one, when it was last used, and which go to make room.

Datadir layer; snapshots, templates and content from other machines are kept so. From the moment it asks for a
folder until it ends, in whatever way, a process holds a shared lock on `locks/NAME.use` beside that folder.
Making room never takes the folder away from it. The time of the folder's mark tells when it was last used.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from flushlab.machine import ownership
from flushlab.units import parse_size

OPEN_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_SHARE = 0.2
"""Of the file system, that kept folders may take if nobody says otherwise."""


class Kept(Protocol):
    """A kept folder."""

    @property
    def folder(self) -> Path:
        """With the mark in it."""
        ...

    @property
    def allocated_bytes(self) -> int:
        """What it takes on disk."""
        ...


K = TypeVar("K", bound=Kept)


class Cache(Protocol[K]):
    """Kept folders of one kind."""

    @property
    def limit_bytes(self) -> int:
        """What they may take together."""
        ...

    def list(self) -> list[K]:
        """All of them."""
        ...

    def in_use(self, one: K, /) -> bool:
        """True while a process counts on it."""
        ...

    def evict(self, limit_bytes: int, /) -> tuple[K, ...]:
        """Removes those used longest ago until the rest take no more; what is in use stays."""
        ...


def limit_of(directory: Path) -> int:
    if chosen := os.environ.get("FLUSHLAB_CACHE_SIZE"):
        return parse_size(chosen)
    facts = os.statvfs(directory)
    return int(facts.f_blocks * facts.f_frsize * _SHARE)


def latest_first(there: Iterable[K]) -> list[K]:
    return sorted(there, key=lambda one: last_used(one.folder), reverse=True)


def evicted(there: Iterable[K], limit_bytes: int, remove: Callable[[K], bool]) -> tuple[K, ...]:
    total, removed = 0, list[K]()
    for one in there:
        total += one.allocated_bytes
        if total > limit_bytes and remove(one):
            total -= one.allocated_bytes
            removed.append(one)
    return tuple(removed)


_held: dict[Path, int] = {}
"""By a lock's path, this process's descriptor of it."""


def hold(folder: Path) -> None:
    lock = _lock(folder)
    if lock not in _held:
        lock.parent.mkdir(exist_ok=True)
        descriptor = os.open(lock, OPEN_LOCK, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _held[lock] = descriptor
    with suppress(OSError):  # there is none yet, or it has no mark
        os.utime(folder / ownership.MARK, follow_symlinks=False)


@contextmanager
def nobody_uses(folder: Path, *, spare_ours: bool) -> Iterator[bool]:
    lock = _lock(folder)
    if lock in _held and spare_ours:
        yield False
        return
    if (ours := _held.pop(lock, None)) is not None:
        os.close(ours)
    lock.parent.mkdir(exist_ok=True)
    with flocked(os.open(lock, OPEN_LOCK, 0o600), fcntl.LOCK_EX | fcntl.LOCK_NB) as free:
        yield free


def last_used(folder: Path) -> float:
    try:
        return (folder / ownership.MARK).lstat().st_mtime
    except OSError:
        return 0.0


@contextmanager
def flocked(descriptor: int, mode: int) -> Iterator[bool]:
    try:
        try:
            fcntl.flock(descriptor, mode)
            free = True
        except BlockingIOError:
            free = False
        yield free
    finally:
        os.close(descriptor)


def _lock(folder: Path) -> Path:
    return folder.parent / "locks" / f"{folder.name}.use"
