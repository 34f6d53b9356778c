"""Whole tunings on a fleet, small: the full figures come from benchmarks/fleet_tuning.py.

`FLUSHLAB_CAMPAIGNS` sets the number of campaigns of each case; `make soak` simulates many.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CAMPAIGNS = int(os.environ.get("FLUSHLAB_CAMPAIGNS", "30"))


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    path = Path(__file__).parents[4] / "benchmarks" / "fleet_tuning.py"
    spec = importlib.util.spec_from_file_location("fleet_tuning", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def simulated(simulation: ModuleType, *case: object, **changes: object) -> Any:
    """The summary of a case that misses no bar."""
    one = simulation.Case(*case, **changes)
    found = simulation.simulate(one, CAMPAIGNS)
    assert simulation.faults(one, found) == []
    return found


@pytest.mark.parametrize("machines", [2, 4])
def test_what_gains_on_the_selecting_machines_only_is_not_claimed(
    simulation: ModuleType, machines: int
) -> None:
    found = simulated(simulation, machines, interaction="selecting")
    assert found.confirming == machines - machines // 2


def test_where_nothing_gains_no_more_is_claimed_than_advertised(simulation: ModuleType) -> None:
    assert simulated(simulation, 3, interaction="even", noise=0.05).claimed <= 0.05


def test_a_gain_on_all_machines_is_found_beside_a_candidate_that_suits_some(simulation: ModuleType) -> None:
    found = simulated(simulation, 8, 1.5)
    assert found.right >= 0.6
    assert found.claimed == found.right
