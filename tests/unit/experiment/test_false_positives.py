"""The whole procedure, small: the full figures come from benchmarks/false_positives.py.

`FLUSHLAB_CAMPAIGNS` sets the number of campaigns per scenario; `make soak` simulates many.
"""

from __future__ import annotations

import math
import os
from typing import Any

import pytest

from tests.scripts import script

CAMPAIGNS = int(os.environ.get("FLUSHLAB_CAMPAIGNS", "120"))


@pytest.fixture(scope="module")
def simulation() -> Any:
    return script("benchmarks/false_positives.py")


def rates(simulation: Any, name: str) -> dict[str, float]:
    (scenario,) = [s for s in simulation.SCENARIOS if s.name == name]
    found: dict[str, float] = simulation.summarise(scenario, CAMPAIGNS, 1)
    return found


@pytest.mark.parametrize(
    "name", ["A/A, noise 5 %", "A/A, arms twice as noisy", "A/A, drift 5 %, short memory"]
)
def test_identical_arms_are_called_faster_no_more_often_than_advertised(simulation: Any, name: str) -> None:
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / CAMPAIGNS)
    found = rates(simulation, name)
    assert found["false_claim"] <= 0.05
    assert found["interval_missed"] <= limit


@pytest.mark.parametrize("name", ["series A/A, noise 5 %", "series A/A, 2 blocks"])
def test_a_series_of_identical_arms_keeps_what_it_promises(simulation: Any, name: str) -> None:
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / CAMPAIGNS)
    found = rates(simulation, name)
    assert found["false_claim"] <= limit
    assert found["interval_missed"] <= limit


def test_identical_servers_differ_at_any_analysis_as_often_as_advertised(
    simulation: Any,
) -> None:
    found = rates(simulation, "compare A/A, 15 blocks, busy MariaDB 10.11")
    assert found["interval_missed"] <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / CAMPAIGNS)
    assert abs(found["bias"]) < 0.02


def test_the_ratio_of_best_is_not_flattered_by_what_chose_it(simulation: Any) -> None:
    """At this noise the arm of 1.05 is chosen only where its own figures overrate it."""
    found = rates(simulation, "series known, noise 5 %")
    assert found["improvement_found"] >= 0.9
    assert found["frontier_missed"] <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / CAMPAIGNS)
    assert abs(found["bias"]) < 0.01


def test_a_planted_gain_is_found_and_its_interval_holds(simulation: Any) -> None:
    found = rates(simulation, "known, noise 5 %")
    assert found["improvement_found"] >= 0.95
    assert found["right_bought"] >= 0.95
    assert found["frontier_missed"] <= 0.05
    assert abs(found["bias"]) < 0.01
