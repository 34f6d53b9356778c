"""Crashes that are judged side by side, and a Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from flushlab.campaign.crash.runner import judge_all
from flushlab.record import Crash, CrashPoint

POINTS = {number: CrashPoint(at=number, kind="random", seed=number) for number in range(200)}


def kept(at: CrashPoint) -> Crash:
    return Crash(point=at, outcome="kept", acknowledged=1)


def test_every_image_comes_with_its_number() -> None:
    assert {number: crash.point for number, crash in judge_all(POINTS, kept)} == POINTS


def test_what_cannot_be_judged_for_a_mistake_ends_it() -> None:
    def judge(at: CrashPoint) -> Crash:
        assert at.at != 100, "a mistake"
        return kept(at)

    with pytest.raises(AssertionError, match="a mistake"):
        list(judge_all(POINTS, judge))


def test_a_ctrl_c_while_images_are_queued_waits_for_those_that_are_judged_only() -> None:
    judged: list[CrashPoint] = []
    go_on = Event()

    class Interrupted(dict[int, CrashPoint]):
        def items(self) -> Any:
            return self._until_150()

        def _until_150(self) -> Iterator[tuple[int, CrashPoint]]:
            for number, point in super().items():
                if number == 150:
                    go_on.set()
                    raise KeyboardInterrupt
                yield number, point

    def judge(at: CrashPoint) -> Crash:
        go_on.wait(60)
        judged.append(at)
        return kept(at)

    with pytest.raises(KeyboardInterrupt):
        list(judge_all(Interrupted(POINTS), judge))
    assert len(judged) < 100


def test_whoever_takes_no_more_images_waits_for_no_more() -> None:
    judged: list[CrashPoint] = []

    def judge(at: CrashPoint) -> Crash:
        judged.append(at)
        Event().wait(0.01)
        return kept(at)

    crashes: Any = judge_all(POINTS, judge)
    next(crashes)
    crashes.close()
    assert len(judged) < 100
