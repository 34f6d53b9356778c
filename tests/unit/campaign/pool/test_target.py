"""Servers that a command names: on this machine, or on a fleet."""

from __future__ import annotations

import pytest

from flushlab.campaign.pool.target import FLEET, NewServers, OnFleet, target_of
from flushlab.errors import UsageError
from flushlab.spec.kinds import CompareSpec, SeriesSpec
from flushlab.spec.parts import RunSpec, ServerSpec, StorageSpec

HERE = NewServers(ServerSpec(), StorageSpec())
THERE = OnFleet(ServerSpec(), StorageSpec(), "10.0.0.5:9377")
EARLIER = SeriesSpec(plan="mine")


def test_a_campaign_of_a_fleet_goes_on_there() -> None:
    assert HERE.resuming(EARLIER, "10.0.0.5:9377").on_fleet == "10.0.0.5:9377"


def test_a_fleet_may_have_another_address_when_its_campaign_goes_on() -> None:
    assert THERE.resuming(EARLIER, "10.0.0.9:9377").on_fleet == "10.0.0.5:9377"


def test_a_campaign_that_began_on_one_machine_does_not_go_on_elsewhere() -> None:
    assert HERE.resuming(EARLIER).on_fleet == ""
    with pytest.raises(UsageError, match="began on this machine alone") as refused:
        THERE.resuming(EARLIER)
    assert FLEET in (refused.value.hint or "")


def test_an_early_end_by_precision_is_refused_on_a_fleet() -> None:
    run = RunSpec(fleet="10.0.0.5:9377")
    for spec in (CompareSpec(run=run, precision=0.02), SeriesSpec(run=run, precision=0.02)):
        with pytest.raises(UsageError, match="--precision"):
            target_of(spec)
        assert target_of(type(spec)(run=run)).on_fleet
