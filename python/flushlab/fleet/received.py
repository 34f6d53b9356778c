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

_WHAT = "content"
_MOST_NAME = 200
"""Characters of a name in a mark, which is read up to 4 KiB."""


class ReceivedContent(msgspec.Struct, frozen=True, kw_only=True):
    folder: Path
    what: str
    allocated_bytes: int

    @property
    def id(self) -> str:
        return self.folder.name.partition("-")[2]


class ReceivedFiles:
    def list(self) -> list[ReceivedContent]:
        directory = home_path() / "content"
        found = [] if not directory.is_dir() else sorted(directory.iterdir())
        return [content for folder in found if (content := _content(folder)) is not None]

    @property
    def limit_bytes(self) -> int:
        return limit_of(home_part("content"))

    def in_use(self, content: ReceivedContent) -> bool:
        with nobody_uses(content.folder, spare_ours=True) as free:
            return not free

    def evict(self, limit_bytes: int, *, spare_ours: bool = False) -> tuple[ReceivedContent, ...]:
        def remove(content: ReceivedContent) -> bool:
            with nobody_uses(content.folder, spare_ours=spare_ours) as free, suppress(OSError):
                return free and discard(content.folder, what=_WHAT)
            return False

        return evicted(latest_first(self.list()), limit_bytes, remove)


def make_part(folder: Path, name: str) -> None:
    make_lasting(folder, _WHAT, of=name[:_MOST_NAME])


def _content(folder: Path) -> ReceivedContent | None:
    mark = ownership.read_mark(str(folder))
    if mark is None or mark.get("what") != _WHAT:
        return None
    kind = folder.name.partition("-")[0]
    what = " · ".join(("received in part" if kind == "part" else kind, mark.get("of", folder.name)))
    return ReceivedContent(folder=folder, what=what, allocated_bytes=sum(_sizes(folder)))


def _sizes(folder: Path) -> Iterator[int]:
    for above, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a transfer has just put it in place
                yield (Path(above) / name).lstat().st_blocks * 512
