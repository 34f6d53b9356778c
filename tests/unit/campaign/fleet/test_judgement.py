from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flushlab.campaign.fleet.health import Needs, problems
from flushlab.campaign.fleet.worker import MachineFacts

HERE = MachineFacts(flushlab="1.0", cpu_count=8, memory_bytes=16 << 30, is_root=True, now_s=1000.0)


def found(root: str = "", **changes: Any) -> list[str]:
    return [*problems("m2", msgspec.structs.replace(HERE, **changes), Needs(HERE, root), 1000.0)]


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
