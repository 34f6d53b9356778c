"""Which unsynced sectors make a crash what it is, with crashes that are invented."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import pytest

from flushlab.crashed import minimise as minimising
from flushlab.crashed.minimise import minimise
from flushlab.crashed.recorded import CrashImages
from flushlab.datadir.recording import Part, Unsynced
from flushlab.errors import MeasurementError
from flushlab.record import Crash, CrashCause, CrashPart, CrashPoint

POINT = CrashPoint(at=50, kind="random", seed=3)
KEPT = (Part(40, 1000, 8), Part(42, 2000, 4), Part(45, 3000, 1))
MISSING = (Part(41, 5000, 16), Part(42, 2004, 4))


class Invented:
    """Crash crashes that break as a function of their sectors, by record and place, says."""

    def __init__(self, breaks: Callable[[set[tuple[int, int]]], bool]) -> None:
        self._breaks = breaks

    def judge(self, point: CrashPoint) -> Crash:
        return self.judge_parts(point, {40, 41, 42, 45}, KEPT)

    def judge_parts(self, point: CrashPoint, among: Collection[int], parts: Sequence[Part]) -> Crash:
        assert among == {40, 41, 42, 45}
        assert list(parts) == sorted(parts)
        there = {(one.number, one.sector) for part in parts for one in part.single()}
        outcome: Any = "not_started" if self._breaks(there) else "kept"
        return Crash(point=point, outcome=outcome, acknowledged=10)

    def unsynced(self, point: CrashPoint) -> Unsynced:
        return Unsynced(KEPT, MISSING)

    def extents(self, point: CrashPoint, among: Collection[int], parts: Sequence[Part]) -> Invented:
        return self

    def file_at(self, place: int) -> tuple[str, int] | None:
        return ("data/ibdata1", place - 512_000) if place < 1_500_000 else None


def cause(breaks: Callable[[set[tuple[int, int]]], bool]) -> CrashCause:
    found = minimise(cast(CrashImages, Invented(breaks)), POINT, lambda line: None)[0].cause
    assert found is not None
    return found


def test_sectors_that_are_there_and_should_not_matter() -> None:
    found = cause(lambda there: {(40, 1003), (40, 1004), (45, 3000)} <= there)
    assert (found.way, found.sectors, found.ended) == ("kept", 13, "done")
    assert found.parts == (
        CrashPart(record=40, place=1003 * 512, length=1024, file="data/ibdata1", offset=1003 * 512 - 512_000),
        CrashPart(record=45, place=3000 * 512, length=512),
    )


def test_sectors_that_are_missing_and_should_have_been_synced() -> None:
    found = cause(lambda there: (41, 5003) not in there)
    assert (found.way, found.sectors) == ("missing", 20)
    assert [(part.record, part.place, part.length) for part in found.parts] == [(41, 5003 * 512, 512)]


def test_what_breaks_whatever_was_kept() -> None:
    found = cause(lambda there: True)
    assert (found.way, found.parts) == ("any", ())


def test_what_keeps_everything_has_no_cause() -> None:
    said: list[str] = []
    crash, ended = minimise(cast(CrashImages, Invented(lambda there: False)), POINT, said.append)
    assert (crash.cause, ended) == (None, False)
    assert said == ["it kept everything: there is nothing to minimise"]


def test_a_ctrl_c_ends_the_search_and_leaves_the_image() -> None:
    class Interrupted(Invented):
        def judge_parts(self, point: CrashPoint, among: Collection[int], parts: Sequence[Part]) -> Crash:
            if parts == KEPT:
                return super().judge_parts(point, among, parts)
            raise KeyboardInterrupt

    said: list[str] = []
    crash, ended = minimise(cast(CrashImages, Interrupted(lambda there: True)), POINT, said.append)
    assert (crash.outcome, crash.cause, ended) == ("not_started", None, True)
    assert "interrupted after 1 crash" in said[-1]


def test_a_search_has_a_limit_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minimising, "MOST_TRIES", 2)
    found = cause(lambda there: (40, 1003) in there)
    assert (found.ended, found.way) == ("limit", "kept")
    assert any(part.record == 40 for part in found.parts)


def test_an_image_that_cannot_be_judged_shows_nothing_of_its_sectors() -> None:
    class Full(Invented):
        def judge_parts(self, point: CrashPoint, among: Collection[int], parts: Sequence[Part]) -> Crash:
            if parts == KEPT:
                return super().judge_parts(point, among, parts)
            return Crash(point=point, outcome="unknown", acknowledged=10, reasons=("no space",))

    with pytest.raises(MeasurementError, match="crash 1 could not be judged: no space"):
        minimise(cast(CrashImages, Full(lambda _: True)), POINT, lambda line: None)
