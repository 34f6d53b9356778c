"""Points: where a recorded run is cut, or what lives is killed. Pure: the same seed gives the same points."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flushlab.record import CrashPoint, PointKind

_ADVERSARIAL = 4
"""One point in so many is where a promise is most likely to break; the others are random moments."""


_LARGEST = 20
"""One flush in so many has most to write out."""


class Moments(NamedTuple):
    """What a recorded run has to be cut at.

    Attributes:
        first: the first record that may be the last one before the crash.
        last: the last one.
        acknowledged: positions of acknowledged commits.
        flushes: numbers of records that are flushes, with the bytes that were written since the last one.
        among: the records that random ones are drawn from; all if there are none.
        times: when each record was the last one, from `first` on, and when the run ended: ascending, one more
            than records. Random points are moments in that time; without it, each record is as likely.
        writes: numbers of the writes to each file, by name; None: not known.
        recovery: recoveries may crash, too.
    """

    first: int
    last: int
    acknowledged: Sequence[int] = ()
    flushes: Mapping[int, int] = {}
    among: Sequence[int] = ()
    times: Sequence[int] = ()
    writes: Mapping[str, Sequence[int]] | None = None
    recovery: bool = False


def choose(run: Moments, crashes: int, seed: int) -> list[CrashPoint]:
    """So many points, in the order in which they are to be judged.

    A bound holds for points that are drawn at random from this run, so all other points are marked:

    - just after an acknowledgement, to catch a server that acknowledged too early
    - just before a flush
    - just before the flushes with the most data waiting: pages, and the copies that restore them
    - just after a write to a file, each file equally often
    - anywhere, with another crash while the server recovers

    Args:
        seed: of the draws, and of each point's own seed.
    """
    first, last, times, flushes = run.first, run.last, run.times, run.flushes
    assert 0 <= first <= last, f"{first} to {last} is no range"
    draws = random.Random(seed)
    after = sorted({position for position in run.acknowledged if first <= position <= last})
    in_front = sorted({number - 1 for number in flushes if first <= number - 1 <= last})
    largest = sorted(in_front, key=lambda at: (-flushes[at + 1], at))[: -(-len(in_front) // _LARGEST)]
    assert len(times) in (0, last - first + 2), f"{len(times)} times of {last - first + 1} records"
    anywhere = run.among or range(first, last + 1)

    def moment() -> int:
        if run.among or not times:
            return draws.choice(anywhere)
        place = bisect_right(times, draws.randint(times[0], times[-1])) - 1
        return min(first + place, last)

    by_file = [
        inside
        for _, numbers in sorted((run.writes or {}).items())
        if (inside := [number for number in numbers if first <= number <= last])
    ]
    kinds: list[tuple[PointKind, Sequence[Sequence[int]]]] = [
        ("after_ack", [after]),
        ("before_flush", [in_front]),
        ("most_unsynced", [largest]),
        ("after_write", by_file),
        ("in_recovery", [anywhere] if run.recovery else []),
    ]
    kinds = [(kind, groups) for kind, groups in kinds if any(groups)]
    points = []
    for number in range(crashes):
        kind: PointKind = "random"
        at = moment()
        if kinds and number % _ADVERSARIAL == _ADVERSARIAL - 1:
            kind, groups = kinds[number // _ADVERSARIAL % len(kinds)]
            at = moment() if kind == "in_recovery" else draws.choice(draws.choice(groups))
        points.append(CrashPoint(at=at, kind=kind, seed=draws.getrandbits(32)))
    return points


def kills(number: int, seed: int, *, recovery: bool) -> list[CrashPoint]:
    """So many kills; each point's seed, counted up from the first, draws its moment.

    Every fourth is one of the recovery, too, if asked for.
    """
    return [
        CrashPoint(
            at=0,
            kind="in_recovery" if recovery and one % _ADVERSARIAL == _ADVERSARIAL - 1 else "random",
            seed=seed + one,
        )
        for one in range(number)
    ]
