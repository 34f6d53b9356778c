"""The terminal report of a comparison on several machines; see test_reports for how to renew it."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.campaign.analysis import of_fleet
from flushlab.campaign.facts import ArmResult, CampaignFacts, FleetMachine
from flushlab.record import MachineRatio, OverMachines, Ratio
from flushlab.report import campaign
from tests.golden.test_compare_report import ARMS, FACTS
from tests.golden.test_reports import check, decoded, text_of
from tests.unit.changed import changed
from tests.unit.report.campaigns import ratio, tune_facts

NAMES = ("db1", "db2", "db3", "db4")


def over(*ratios: Ratio, share: float, unstable: bool = False) -> OverMachines:
    each = [MachineRatio(machine=name, ratio=one, blocks=2) for name, one in zip(NAMES, ratios, strict=False)]
    return OverMachines(ratios=tuple(each), between_share=share, unstable=unstable)


STEADY = over(
    ratio(1.66, 1.57, 1.75),
    ratio(1.70, 1.61, 1.80),
    ratio(1.48, 1.40, 1.56),
    ratio(1.65, 1.56, 1.74),
    share=0.12,
)
MOODY = over(
    ratio(1.31, 1.24, 1.38),
    ratio(1.02, 0.97, 1.08),
    ratio(0.79, 0.75, 0.83),
    ratio(0.98, 0.93, 1.03),
    share=0.97,
    unstable=True,
)
ON_FOUR = (
    msgspec.structs.replace(ARMS[0], machines=STEADY),
    msgspec.structs.replace(ARMS[1], machines=MOODY),
    *ARMS[2:],
)


def fleet(arms: tuple[ArmResult, ...], machines: int) -> CampaignFacts:
    names = [*NAMES, *(f"spot-instance-{number:02}" for number in range(28))][:machines]
    ran = tuple(
        FleetMachine(name=name, blocks=2, result=9_000.0 + 100 * number) for number, name in enumerate(names)
    )
    return changed(FACTS, arms=arms, machines=ran, warnings=tuple(of_fleet(arms)))


def test_a_comparison_on_four_machines_tells_the_slowest_and_whose_ratio_depends_on_them() -> None:
    facts = fleet(ON_FOUR, 4)
    check("compare-fleet.txt", text_of(campaign.document(facts, per_machine=True)))


def test_of_two_machines_it_is_said_that_the_intervals_are_about_them() -> None:
    arms = tuple(
        msgspec.structs.replace(
            arm, machines=msgspec.structs.replace(arm.machines, ratios=arm.machines.ratios[:2])
        )
        for arm in ON_FOUR
        if arm.machines is not None
    )
    text = " ".join(text_of(campaign.document(fleet(arms, 2))).split())
    assert f"the intervals hold for {NAMES[0]} and {NAMES[1]}, not for others like them" in text
    assert "all machines like them" not in text


@pytest.mark.parametrize(("confirming", "words"), [(1, ""), (2, ""), (3, "3 machines confirmed")])
def test_a_tuning_is_about_all_machines_only_if_three_confirmed(confirming: int, words: str) -> None:
    ran = tuple(
        FleetMachine(name=name, blocks=2, result=9_000.0, compared=number < confirming)
        for number, name in enumerate(NAMES)
    )
    text = " ".join(text_of(campaign.document(tune_facts(machines=ran))).split())
    assert "machines ran the blocks" not in text
    assert (f"{words}; intervals are about all machines like them" in text) == bool(words)
    assert ("all machines like them" in text) == bool(words)


def test_the_table_of_many_machines_fits_the_terminal() -> None:
    lines = text_of(campaign.document(fleet(ON_FOUR, 32), per_machine=True)).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(any(f"spot-instance-{number:02}" in line for line in lines) for number in range(28))


def test_without_a_fleet_the_table_says_what_it_takes() -> None:
    text = text_of(campaign.document(FACTS, per_machine=True))
    assert "Two machines or more have to run two blocks of an arm." in text


@pytest.mark.parametrize("field", ["machines", "arms"])
def test_the_document_has_the_machines(field: str) -> None:
    known = decoded(fleet(ON_FOUR, 4))[field]
    if field == "machines":
        assert known[2] == {"name": "db3", "blocks": 2, "result": 9200.0, "compared": True}
    else:
        assert known[1]["machines"]["unstable"] is True
        assert known[1]["machines"]["ratios"][2]["machine"] == "db3"
