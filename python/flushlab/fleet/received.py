"""Received: content from other machines that is kept in flushlab's home.

Fleet layer; no Ray. `content/KIND-HASH` is whole, `content/part-HASH` is not: a transfer was broken off, or
goes on. Only folders with flushlab's mark are known here, and only these are removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from flushlab.datadir.kept import evicted, latest_first, limit_of, nobody_uses
from flushlab.machine import home_part, home_path, ownership
from flushlab.process import discard, make_lasting

WHAT = "content"
_MOST_NAME = 200
"""Characters of a name in a mark, which is read up to 4 KiB."""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of received content.

    Attributes:
        folder: with the mark in it.
        what: is in it, as its sender named it.
        allocated_bytes: what it takes on disk.
    """

    folder: Path
    what: str
    allocated_bytes: int

    @property
    def id(self) -> str:
        """Hash of its manifest."""
        return self.folder.name.partition("-")[2]


class Received:
    """The content in flushlab's home; safe to use from several processes at once."""

    def list(self) -> list[Content]:
        """All of it, by the folders' names."""
        directory = home_path() / "content"
        found = [] if not directory.is_dir() else sorted(directory.iterdir())
        return [one for folder in found if (one := _content(folder)) is not None]

    @property
    def limit_bytes(self) -> int:
        """What it may take together; a UsageError if `$FLUSHLAB_CACHE_SIZE` is not a size."""
        return limit_of(home_part("content"))

    def in_use(self, content: Content) -> bool:
        """True while a campaign counts on it, or receives it."""
        with nobody_uses(content.folder, spare_ours=True) as free:
            return not free

    def evict(self, limit_bytes: int, *, spare_ours: bool = False) -> tuple[Content, ...]:
        """Removes what was used longest ago until the rest takes at most `limit_bytes`; what is in use stays.

        Args:
            limit_bytes: of all.
            spare_ours: keep what this process uses, too.

        Returns:
            What was removed.
        """

        def remove(one: Content) -> bool:
            with nobody_uses(one.folder, spare_ours=spare_ours) as free, suppress(OSError):
                return free and discard(one.folder, what=WHAT)
            return False

        return evicted(latest_first(self.list()), limit_bytes, remove)


def make_part(folder: Path, name: str) -> None:
    """A new folder for content that arrives.

    Args:
        folder: in `content`.
        name: of what will be in it.

    Raises:
        OSError: it cannot be made.
    """
    make_lasting(folder, WHAT, of=name[:_MOST_NAME])


def _content(folder: Path) -> Content | None:
    mark = ownership.read_mark(str(folder))
    if mark is None or mark.get("what") != WHAT:
        return None
    kind = folder.name.partition("-")[0]
    what = " · ".join(("received in part" if kind == "part" else kind, mark.get("of", folder.name)))
    return Content(folder=folder, what=what, allocated_bytes=sum(_sizes(folder)))


def _sizes(folder: Path) -> Iterator[int]:
    for above, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a transfer has just put it in place
                yield (Path(above) / name).lstat().st_blocks * 512
