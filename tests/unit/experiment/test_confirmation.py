"""What the confirmation says of gains that it did not find."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from flushlab.experiment.tune.confirmation import Confirmation
from flushlab.experiment.tune_plan import Guards
from tests.unit.records import trial


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
