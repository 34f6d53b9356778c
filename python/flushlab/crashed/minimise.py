"""Minimise: the fewest unsynced sectors that cause an outcome of a crash. In `crashed`, above `recorded`.

A server that was promised nothing of what it had not synced must cope with any part of it being there. So
either something is there that it does not cope with (`kept`), or something is missing that it should have
synced (`missing`).

Delta debugging: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions
on Software Engineering 28 (2), 2002, section 3 (`ddmin`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from flushlab.crashed.recorded import CrashImages
from flushlab.datadir.extents import Extents
from flushlab.datadir.recording import SECTOR_BYTES, Part
from flushlab.errors import MeasurementError
from flushlab.record import Crash, CrashCause, CrashPart, CrashPoint
from flushlab.units import counted

MOST_TRIES = 300
_TELL = 10
T = TypeVar("T")


def minimise(images: CrashImages, point: CrashPoint, say: Callable[[str], object]) -> tuple[Crash, bool]:
    """A crash with its cause; without one if it keeps all, could not be judged, or a Ctrl-C came: True.

    Raises:
        StorageError, HarnessError: a crash image cannot be made.
        MeasurementError: one of them cannot be judged.
    """
    crash = images.judge(point)
    if crash.outcome not in ("lost", "inconsistent", "not_started"):
        if crash.outcome != "unknown":
            say("it kept everything: there is nothing to minimise")
        return crash, False
    search = _Search(images, crash, say)
    try:
        return msgspec.structs.replace(crash, cause=search.cause()), False
    except KeyboardInterrupt:
        say(f"interrupted after {counted(search.tries, 'crash')}: the fewest sectors are not known yet")
        return crash, True


class _Search:
    """What makes a crash what it is.

    Attributes:
        tries: crashes that were judged.
    """

    def __init__(self, images: CrashImages, crash: Crash, say: Callable[[str], object]) -> None:
        self._images, self._crash, self._say = images, crash, say
        self._kept, self._missing = images.unsynced(crash.point)
        self._all = sorted({*self._kept, *self._missing})
        self._among = {part.number for part in self._all}
        self.tries = 0

    def cause(self) -> CrashCause:
        """The fewest sectors."""
        if not self._breaks(()):
            return self._told("kept", self._fewest(self._kept, self._breaks), self._kept)
        if self._breaks(self._all):
            return CrashCause(way="any", tries=self.tries)
        return self._told("missing", self._fewest(self._missing, self._breaks_without), self._missing)

    def _fewest(self, parts: Sequence[Part], breaks: Callable[[Sequence[Part]], bool]) -> list[Part]:
        """Of whole parts first: most are of no account."""

        def tried(some: Sequence[Part]) -> bool:
            if self.tries >= MOST_TRIES:
                return False
            found = breaks(some)
            if self.tries % _TELL == 0:
                self._say(f"{counted(self.tries, 'crash')} judged to find the fewest sectors")
            return found

        coarse = ddmin(parts, tried)
        return _joined(ddmin([sector for part in coarse for sector in part.single()], tried))

    def _breaks(self, parts: Sequence[Part]) -> bool:
        self.tries += 1
        found = self._images.judge_parts(self._crash.point, self._among, sorted(parts))
        if found.outcome == "unknown":
            raise MeasurementError(
                f"the fewest sectors cannot be found: crash {self.tries:,} could not be judged:"
                f" {found.reasons[0]}",
                hint="fix the cause, and run --minimise again",
            )
        return found.outcome == self._crash.outcome

    def _breaks_without(self, parts: Sequence[Part]) -> bool:
        gone = {sector for part in parts for sector in part.single()}
        return self._breaks([one for part in self._all for one in part.single() if one not in gone])

    def _told(self, way: str, found: Sequence[Part], of: Sequence[Part]) -> CrashCause:
        extents = self._images.extents(self._crash.point, self._among, self._all)
        return CrashCause(
            way="kept" if way == "kept" else "missing",
            parts=tuple(_named(part, extents) for part in found),
            sectors=sum(part.sectors for part in of),
            tries=self.tries,
            ended="limit" if self.tries >= MOST_TRIES else "done",
        )


def ddmin(units: Sequence[T], breaks: Callable[[Sequence[T]], bool]) -> list[T]:
    """Units that break it, and of which none can be left out.

    Args:
        units: all of them together break it.
        breaks: whether these do; asked about parts of `units` in their order. The search ends early where it
            says no to whatever it is asked.
    """
    left = list(units)
    pieces = 2
    while len(left) >= 2:
        size = -(-len(left) // pieces)
        chunks = [left[at : at + size] for at in range(0, len(left), size)]
        found = next((chunk for chunk in chunks if breaks(chunk)), None)
        if found is not None:
            left, pieces = list(found), 2
            continue
        if len(chunks) > 2:
            rests = ([one for other in chunks if other is not chunk for one in other] for chunk in chunks)
            found = next((rest for rest in rests if breaks(rest)), None)
            if found is not None:
                left, pieces = list(found), max(len(chunks) - 1, 2)
                continue
        if size == 1:
            break
        pieces = min(len(left), 2 * pieces)
    return left


def _joined(sectors: Sequence[Part]) -> list[Part]:
    """Sectors of a write that follow each other, as one part."""
    found: list[Part] = []
    for one in sorted(sectors):
        last = found[-1] if found else None
        if last and last.number == one.number and last.sector + last.sectors == one.sector:
            found[-1] = last._replace(sectors=last.sectors + one.sectors)
        else:
            found.append(one)
    return found


def _named(part: Part, extents: Extents) -> CrashPart:
    place = part.sector * SECTOR_BYTES
    file, offset = extents.file_at(place) or ("", 0)
    return CrashPart(
        record=part.number, place=place, length=part.sectors * SECTOR_BYTES, file=file, offset=offset
    )
