from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.campaign.arms import BoundArm, judged
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.server.settings_check import CheckRequest, judge_file
from flushlab.settings.durability import described, verdict

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
    checked = judge_file(file, CheckRequest(server="mysql@9.7.4", static=True))
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
