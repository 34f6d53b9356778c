"""What guarantees are worth: against another server's, and for a floor. Values only; no rule is asked."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from flushlab.errors import UsageError
from flushlab.settings.durability import Guarantees, describe, keeps, level, meets
from flushlab.settings.durability.guarantee import FAILURES, LEVELS, Guarantee, Level, Replication
from flushlab.settings.floor import Floor, parse_floor

WHOLE = Guarantee(level="nothing_lost", text="nothing is lost")
SECOND = Guarantee(level="window", window_s=1.0, text="about 1 s")
MINUTE = Guarantee(level="window", window_s=60.0, text="about 60 s")
UNKNOWN = Guarantee(level="unknown", text="no rule can tell")
RISK = Guarantee(level="at_risk", text="beyond repair")
WORSE = (WHOLE, SECOND, MINUTE, UNKNOWN, RISK)
"""Each is weaker than the one before."""

NO_REPLICAS = Replication(level="not_applicable", text="no binary log")
AGREE = Replication(level="consistent", text="consistent")
UNSURE = Replication(level="unknown", text="unknown")
DIVERGE = Replication(level="may_diverge", text="may diverge")

Kept = Literal["process_crash", "os_crash", "power_loss", "torn_page", "node_loss", "cluster_loss", "binlog"]
KEPT: tuple[Kept, ...] = (*FAILURES, "binlog")
BEST = Guarantees(
    **dict.fromkeys(KEPT, WHOLE),
    replication=AGREE,
)


def but(**kept: Guarantee | Replication) -> Guarantees:
    return msgspec.structs.replace(BEST, **kept)


def test_levels_are_named_from_the_safest_to_the_worst() -> None:
    assert LEVELS == ("nothing_lost", "window", "unknown", "at_risk")


@pytest.mark.parametrize("kept", KEPT)
def test_what_is_weaker_in_one_thing_does_not_keep_the_reference(kept: Kept) -> None:
    for number, reference in enumerate(WORSE):
        for other, found in enumerate(WORSE):
            assert keeps(but(**{kept: found}), but(**{kept: reference})) is (other <= number)


@pytest.mark.parametrize("reference", [AGREE, UNSURE, DIVERGE])
@pytest.mark.parametrize("found", [AGREE, UNSURE, DIVERGE])
def test_replicas_that_agree_less_do_not_keep_the_reference(
    found: Replication, reference: Replication
) -> None:
    order = [AGREE, UNSURE, DIVERGE]
    as_good = order.index(found) <= order.index(reference)
    assert keeps(but(replication=found), but(replication=reference)) is as_good


def test_a_reference_without_replicas_asks_nothing_of_them_and_none_are_as_good_as_any() -> None:
    assert keeps(but(replication=DIVERGE), but(replication=NO_REPLICAS))
    assert keeps(but(replication=NO_REPLICAS), but(replication=AGREE))


@pytest.mark.parametrize(
    ("guarantee", "seconds", "is_within"),
    [
        (WHOLE, 0.0, True),
        (SECOND, 1.0, True),
        (SECOND, 0.999, False),
        (MINUTE, 1.0, False),
        (UNKNOWN, 1e9, False),
        (RISK, 1e9, False),
        (Guarantee(level="window", text="unbounded"), 1e9, False),
        (Guarantee(level="unknown", window_s=1.0, text=""), 2.0, False),
    ],
)
def test_only_a_window_that_is_short_enough_is_within(
    guarantee: Guarantee, seconds: float, is_within: bool
) -> None:
    assert guarantee.within(seconds) is is_within


FLOORS: list[tuple[dict[str, Guarantee], Floor]] = [
    ({}, Floor.STRICT),
    ({"node_loss": RISK}, Floor.STRICT),
    ({"cluster_loss": RISK}, Floor.STRICT),
    ({"binlog": SECOND}, Floor.SECOND),
    ({"binlog": UNKNOWN}, Floor.SECOND),
    ({"os_crash": SECOND}, Floor.SECOND),
    ({"power_loss": SECOND}, Floor.SECOND),
    ({"os_crash": SECOND, "binlog": SECOND}, Floor.SECOND),
    ({"os_crash": SECOND, "binlog": UNKNOWN}, Floor.THROWAWAY),
    ({"power_loss": SECOND, "binlog": UNKNOWN}, Floor.THROWAWAY),
    ({"process_crash": SECOND}, Floor.RELAXED),
    ({"process_crash": MINUTE}, Floor.THROWAWAY),
    ({"os_crash": MINUTE}, Floor.THROWAWAY),
    ({"os_crash": Guarantee(level="window", window_s=1.01, text="")}, Floor.THROWAWAY),
    ({"process_crash": Guarantee(level="window", window_s=1.01, text="")}, Floor.THROWAWAY),
    ({"power_loss": MINUTE}, Floor.THROWAWAY),
    *(({kept: RISK}, Floor.THROWAWAY) for kept in ("process_crash", "os_crash", "power_loss", "torn_page")),
    *(({kept: UNKNOWN}, Floor.THROWAWAY) for kept in ("process_crash", "os_crash", "power_loss")),
    ({"torn_page": UNKNOWN}, Floor.THROWAWAY),
]


@pytest.mark.parametrize(("kept", "floor"), FLOORS)
def test_the_floor_is_what_the_weakest_guarantee_allows(kept: dict[str, Guarantee], floor: Floor) -> None:
    found = but(**kept)
    assert level(found) is floor
    met = [one for one in Floor if meets(found, one)]
    assert met == [*Floor][[*Floor].index(floor) :]


def test_replication_is_part_of_no_floor() -> None:
    assert level(but(replication=DIVERGE)) is Floor.STRICT


def test_each_failure_has_its_own_words() -> None:
    texts = {kept: Guarantee(level="nothing_lost", text=f"of {kept}") for kept in KEPT}
    assert describe(but(**texts)) == {kept: f"of {kept}" for kept in KEPT} | {"replication": "consistent"}
    assert [but(**texts).under(failure).text for failure in FAILURES] == [f"of {one}" for one in FAILURES]


def test_every_level_of_a_guarantee_is_tried_here() -> None:
    tried: set[Level] = {one.level for one in WORSE}
    assert tried == {*LEVELS}


def test_floors_are_ordered_from_the_safest() -> None:
    order = [Floor.STRICT, Floor.SECOND, Floor.RELAXED, Floor.THROWAWAY]
    assert [str(one) for one in order] == ["strict", "second", "relaxed", "throwaway"]
    for number, one in enumerate(order):
        assert (one.rank, parse_floor(str(one))) == (number, one)
        for other, lower in enumerate(order):
            assert one.at_least(lower) is (number <= other)
            assert one.down_to(lower) == tuple(order[number : other + 1])


def test_an_unknown_floor_is_an_error_that_names_the_others() -> None:
    with pytest.raises(UsageError, match="unknown floor 'safe'") as raised:
        parse_floor("safe")
    assert raised.value.hint == "it takes strict, second, relaxed, throwaway"
