from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from flushlab.experiment.tune.confirmation import Confirmation
from flushlab.experiment.tune.pool import CandidatePool, half_on
from flushlab.experiment.tune_plan import Guards, TunePlan
from flushlab.record import Value
from flushlab.settings.candidates import Candidate
from flushlab.settings.floor import Floor
from tests.unit.records import trial

PAIRS: list[tuple[str, Value]] = [("flush", 2), ("a", 1), ("b", 1), ("m", "y"), ("m", "z"), ("sync", 0)]


def level_of(settings: Mapping[str, Value]) -> Floor:
    if settings["flush"] == 1 and settings["sync"] == 1:
        return Floor.STRICT
    return Floor.SECOND if settings["sync"] == 1 else Floor.RELAXED


def pool(
    base: Mapping[str, Value] | None = None, pairs: Sequence[tuple[str, Value]] = PAIRS
) -> CandidatePool:
    plan = TunePlan(
        base=base or {"flush": 1, "a": 0, "b": 0, "m": "x", "sync": 1},
        candidates=tuple(Candidate(settings={n: v}, group="commit", why="test") for n, v in pairs),
        floor=Floor.THROWAWAY,
        level_of=level_of,
        is_free=lambda s: level_of(s) is Floor.STRICT,
    )
    return CandidatePool(plan)


def of(*indices: int) -> frozenset[int]:
    return frozenset(indices)


def test_values_of_one_setting_compete() -> None:
    assert not pool().legal(of(3, 4), Floor.THROWAWAY)
    assert pool().slots(range(6)) == [(0,), (1,), (2,), (3, 4), (5,)]


def test_what_is_below_the_floor_is_not_legal() -> None:
    assert pool().legal(of(0, 1), Floor.SECOND)
    assert not pool().legal(of(0, 5), Floor.SECOND)


def test_the_free_part_lowers_no_guarantee() -> None:
    assert pool().free_part(of(0, 1, 3, 5)) == of(1, 3)
    assert pool().free_part(of(0)) == of()


def test_a_base_below_a_floor_finds_the_fewest_changes_that_reach_it() -> None:
    unsafe = pool({"flush": 2, "sync": 0}, [("flush", 1), ("sync", 1)])
    assert unsafe.foundation(Floor.RELAXED, range(2)) == of()
    assert unsafe.foundation(Floor.SECOND, range(2)) == of(1)
    assert unsafe.foundation(Floor.STRICT, range(2)) == of(0, 1)
    assert unsafe.foundation(Floor.STRICT, [0]) is None


def test_a_screening_design_is_balanced_and_legal() -> None:
    subject = pool()
    design = half_on(subject, [(1,), (2,), (3, 4)], of(0), Floor.SECOND, 24, "seed")
    counts = Counter(index for run in design for index in run)
    assert counts == {0: 24, 1: 12, 2: 12, 3: 8, 4: 8}
    assert all(subject.legal(run, Floor.SECOND) for run in design)
    together = sum(1 for run in design if {1, 2} <= run)
    assert together == pytest.approx(6, abs=3)


def test_a_design_depends_on_its_seed_only() -> None:
    args = (pool(), [(1,), (2,), (3, 4)], of(0), Floor.SECOND, 12)
    assert half_on(*args, "one") == half_on(*args, "one")
    assert half_on(*args, "one") != half_on(*args, "two")


def test_a_long_name_says_how_much_it_leaves_out() -> None:
    assert pool().name(of(0, 1)) == "flush=2 + a=1"
    assert pool().name(of(0, 1, 2, 3)) == "flush=2 + a=1 + 2 more"


def test_where_all_candidates_left_early_what_would_have_stayed_is_detectable() -> None:
    pool: Any = None
    confirmation, random = Confirmation(pool, Guards(), "throughput"), Random(1)
    confirmation.admit("A", frozenset({0}))
    for block in range(12):
        arms = {"base": 0.0, "control": 0.0} | ({"A": -0.4} if block < 4 else {})
        for arm, effect in arms.items():
            result = 1000 * math.exp(effect + random.gauss(0, 0.03))
            confirmation.record(arm, block, [trial(arm=arm, block=block, result=result)])
        if block == 3:
            confirmation.judge(4, 0.0008, arms={"control", "A"})
            early = confirmation.detectable_log(0.9)
            assert confirmation.is_beaten("A")
    confirmation.judge(12, 0.0379, arms={"control"})
    late = confirmation.detectable_log(0.9)
    assert early is not None and late is not None
    assert late < early / 2
