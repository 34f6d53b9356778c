from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flushlab.campaign.fleet.health import Health, problems
from flushlab.campaign.fleet.worker import MachineFacts
from flushlab.record import Arm, Trial
from tests.unit.records import trial


def block(base: float, control: float | None = None, arm: float = 1000.0) -> list[Trial]:
    results = {"base": base, "control": base if control is None else control, "fast": arm}
    return [trial(arm=Arm(name=name, settings={}), result=result) for name, result in results.items()]


def test_blocks_like_the_first_raise_no_doubt_whatever_an_arm_does() -> None:
    health = Health()
    assert [health.doubt("arms", block(1000.0, arm=1000.0 / n)) for n in (1, 10, 100)] == ["", "", ""]


def test_a_base_that_is_three_times_slower_raises_a_doubt() -> None:
    health = Health()
    for _ in range(3):
        health.doubt("arms", block(1000.0))
    assert health.doubt("arms", block(300.0)) == (
        "the base runs 3.3 times slower than in the machine's first blocks"
    )


def test_base_and_control_are_compared_in_the_first_block_already() -> None:
    assert Health().doubt("arms", block(1000.0, 400.0)) == (
        "base and control, which are the same, differ by a factor of 2.5"
    )


def test_blocks_of_another_kind_have_their_own_first_blocks() -> None:
    health = Health()
    assert health.doubt("short", block(1000.0)) == ""
    assert health.doubt("long", block(100.0)) == ""


HERE = MachineFacts(flushlab="1.0", cpu_count=8, memory_bytes=16 << 30, is_root=True, now_s=1000.0)


def found(root: str = "", **changes: Any) -> list[str]:
    return [*problems("m2", msgspec.structs.replace(HERE, **changes), HERE, root)]


def test_a_machine_like_the_drivers_is_fit() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cpu_count": 4}, "machine m2 has 4 processors, and the one that decides the settings 8"),
        ({"now_s": 1180.0}, "the clock of machine m2 is 3 min fast"),
        ({"now_s": 820.0}, "the clock of machine m2 is 3 min slow"),
        ({"flushlab": "0.9", "cpu_count": 1}, "machine m2 has flushlab 0.9, and this one 1.0"),
    ],
)
def test_what_a_machine_lacks_is_named_with_both_values(changes: dict[str, Any], words: str) -> None:
    assert found(**changes) == [words]


def test_a_machine_with_less_memory_is_refused_from_a_tenth_on() -> None:
    assert found(memory_bytes=15 << 30) == []
    assert "14 GiB of memory" in found(memory_bytes=14 << 30)[0]


def test_root_matters_only_where_the_plan_needs_it() -> None:
    assert found(is_root=False) == []
    assert found("a slow disk", is_root=False) == [
        "machine m2 runs flushlab without root, which a slow disk needs"
    ]
