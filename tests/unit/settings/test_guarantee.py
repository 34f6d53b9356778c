"""What guarantees are worth: against another server's, and for a floor. Values only; no rule is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from flushlab.campaign.arms import BoundArm, judged
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.server.settings_check import judge_file
from flushlab.settings.durability import Guarantees, describe, described, keeps, level, meets, verdict
from flushlab.settings.durability.guarantee import FAILURES, LEVELS, Guarantee, Level, Replication
from flushlab.settings.floor import Floor
from flushlab.spec.commands import SettingsSpec

WHOLE = Guarantee(level="nothing_lost", text="nothing is lost")
SECOND = Guarantee(level="window", window_s=1.0, text="about 1 s")
MINUTE = Guarantee(level="window", window_s=60.0, text="about 60 s")
UNKNOWN = Guarantee(level="unknown", text="no rule can tell")
RISK = Guarantee(level="at_risk", text="beyond repair")
WORSE = (WHOLE, SECOND, MINUTE, UNKNOWN, RISK)
"""Each is weaker than the one before."""

NO_REPLICAS = Replication("not_applicable", "no binary log")
AGREE = Replication("consistent", "consistent")
UNSURE = Replication("unknown", "unknown")
DIVERGE = Replication("may_diverge", "may diverge")

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
        assert one.rank == number
        for other, lower in enumerate(order):
            assert one.at_least(lower) is (number <= other)
            assert one.down_to(lower) == tuple(order[number : other + 1])


MYSQL = ServerIdentity(flavor="mysql", version=(9, 7, 4), version_text="9.7.4")
MARIADB = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB")
UNSEEN = Storage(visible=False)


@pytest.mark.parametrize(
    ("volatile", "said"),
    [
        (None, "strict, if the disk has no volatile write cache; throwaway with one"),
        (True, "throwaway, as the disk has a volatile write cache; strict without one"),
        (False, "strict, as the disk has no volatile write cache; throwaway with one"),
    ],
)
def test_a_floor_that_depends_on_the_disks_cache_says_so(volatile: bool | None, said: str) -> None:
    assert str(verdict({}, MYSQL, Storage(volatile_cache=volatile), Launch())) == said


def test_a_floor_that_holds_with_any_cache_has_no_condition() -> None:
    for settings in ({}, {"innodb_flush_log_at_trx_commit": 2}):
        for volatile in (None, True, False):
            found = verdict(settings, MARIADB, Storage(volatile_cache=volatile), Launch())
            assert found.condition == ""
    assert verdict({}, MYSQL, Storage(in_memory=True), Launch()).condition == ""


@pytest.mark.parametrize(
    ("identity", "settings", "said"),
    [
        (MARIADB, {}, "strict, if the disk honors flushes"),
        (MARIADB, {"innodb_flush_log_at_trx_commit": 2}, "second, if the disk honors flushes"),
        (MARIADB, {"innodb_flush_method": "nosync"}, "throwaway"),
        (MYSQL, {}, "strict, if the disk honors flushes and has no volatile write cache; throwaway with one"),
    ],
)
def test_the_floor_of_a_server_whose_host_is_not_seen_holds_on_an_honest_disk(
    identity: ServerIdentity, settings: dict[str, Value], said: str
) -> None:
    assert str(verdict(settings, identity, UNSEEN, Launch())) == said


@pytest.mark.parametrize("policy", [1, 2])
def test_a_power_cut_on_an_unseen_host_is_told_by_the_settings_and_the_open_question(policy: int) -> None:
    settings: dict[str, Value] = {"innodb_flush_log_at_trx_commit": policy}
    seen, unseen = (described(settings, MARIADB, one, Launch()) for one in (Storage(), UNSEEN))
    asks = "flushlab cannot see the server's host, so whether its disk honors flushes is unknown"
    assert unseen == {**seen, "power_loss": f"{seen['power_loss']}; {asks}", "floor": unseen["floor"]}
    assert unseen["floor"] == str(verdict(settings, MARIADB, UNSEEN, Launch()))


def test_a_check_and_a_comparison_say_the_same_of_one_configuration(tmp_path: Path) -> None:
    """`settings --check` said strict, `compare` on the same machine throwaway, both without a condition."""
    file = tmp_path / "my.cnf"
    file.write_text("[mysqld]\nmax_connections = 100\n")
    checked = judge_file(file, SettingsSpec(server="mysql@9.7.4", static=True))
    settings: dict[str, Value] = {"max_connections": 100}
    arm = BoundArm(name="base", settings=settings)
    compared = {
        volatile: judged(arm, arm, MYSQL, Storage(volatile_cache=volatile), Launch(), {}).guarantees["floor"]
        for volatile in (None, True)
    }
    assert checked.guarantees["floor"] == compared[None]
    assert {"strict", "throwaway"} == {text.partition(",")[0] for text in compared.values()}
    for text in compared.values():
        assert "strict" in text and "throwaway" in text and "volatile write cache" in text
