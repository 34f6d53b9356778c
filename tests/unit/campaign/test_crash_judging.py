"""Images that are judged side by side, and a Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

from flushlab.campaign.crash.judging import judge_all
from flushlab.record import CrashImage, CrashPoint

POINTS = [CrashPoint(at=number, kind="random", seed=number) for number in range(200)]


def kept(at: CrashPoint) -> CrashImage:
    return CrashImage(point=at, outcome="kept", acknowledged=1)


def test_images_come_in_the_order_of_their_points() -> None:
    seen: list[int] = []
    found, ended = judge_all(POINTS, kept, lambda known: seen.append(len(known)))
    assert ([image.point for image in found], ended) == (POINTS, False)
    assert seen == list(range(1, 201))


def test_a_ctrl_c_while_images_are_queued_waits_for_those_that_are_judged_only() -> None:
    judged: list[CrashPoint] = []
    go_on = Event()

    class Interrupted(list[CrashPoint]):
        def __iter__(self) -> Iterator[CrashPoint]:
            for point in super().__iter__():
                if point.at == 150:
                    go_on.set()
                    raise KeyboardInterrupt
                yield point

    def judge(at: CrashPoint) -> CrashImage:
        go_on.wait(60)
        judged.append(at)
        return kept(at)

    found, ended = judge_all(Interrupted(POINTS), judge, lambda _: None)
    assert ended
    assert len(judged) < 100
    assert {image.point for image in found} <= set(judged)
