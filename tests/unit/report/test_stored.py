from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec
import pytest

from flushlab.record import Value
from flushlab.report.page.repeat import plan_text
from flushlab.report.repeat import command
from flushlab.report.stored import Facts, facts_of, plan_of, recommended
from flushlab.store import CampaignRow
from tests.unit.report import campaigns as made


def words(kind: str, **changes: object) -> list[str]:
    base = made.TUNE_PLAN if kind == "tune" else made.SERIES_PLAN
    row = made.row(kind, None, {**base, **changes})
    return shlex.split(command(row, plan_of(row)).replace("\\\n", " "))


def test_a_tuning_is_repeated_by_its_options() -> None:
    assert words("tune") == [
        *("flushlab", "tune", "--server", "mariadb@10.11.19", "--workload", "oltp_update_non_index"),
        *("--threads", "16", "--table-size", "20000", "--floor", "second", "--minutes", "6"),
        *("--seed", "7", "--set", "sync_binlog=1"),
    ]


def test_words_that_a_shell_would_split_are_quoted() -> None:
    told = words("tune", workload="command: ./load.sh $X 'y'", dataset="/my data", original={"x": "a b"})
    assert "command: ./load.sh $X 'y'" in told
    assert "/my data" in told
    assert "x=a b" in told
    assert "--table-size" not in told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"timing": {"seconds": 9.0}}, ["--seconds", "9"]),
        ({"objective": "p99", "shape": {"rate": 2000.0}}, ["--rate", "2000"]),
        ({"shape": {"rand_type": None, "rows": 10, "commit": "1 s"}}, ["--rows", "10", "--commit", "1 s"]),
        (
            {"shape": {"options": {"skip_trx": "on", "point_selects": 3}}},
            ["--skip-trx", "on", "--point-selects", "3"],
        ),
        ({"p99_limit": 3.0}, ["--p99-limit", "3"]),
        ({"standalone": True}, ["--standalone"]),
        ({"data_root": "/data", "disk_iops": 120}, ["--data-root", "/data", "--disk-iops", "120"]),
        ({"trials": 40, "minutes": None}, ["--trials", "40"]),
        ({"threads": [1, 16]}, ["--threads", "1,16"]),
        ({"basedir": "/opt/mysql"}, ["--basedir", "/opt/mysql"]),
    ],
    ids=str,
)
def test_what_was_not_the_default_is_said(change: dict[str, object], told: list[str]) -> None:
    assert " ".join(told) in " ".join(words("tune", **change))


def test_a_series_is_repeated_by_its_plan() -> None:
    assert words("series", scale=0.5) == [
        *("flushlab", "series", "insert-on-duplicate", "--server", "mariadb@10.11.19", "--blocks", "5"),
        *("--seconds", "10", "--scale", "0.5", "--seed", "3"),
    ]


def test_a_stored_plan_is_shown_without_its_texts_and_without_passwords() -> None:
    row = made.row("series", None)
    assert msgspec.json.decode(plan_text(row)) == made.SERIES_PLAN
    row = made.row("tune", None, {"workload": "command: mysql -pgeheim", "sources": [{"text": "x"}]})
    assert msgspec.json.decode(plan_text(row)) == {"workload": "command: mysql -p***"}


@pytest.mark.parametrize("plan", [b"", b"{", b"\xff", b'{"threads": "many"}'])
def test_a_plan_that_cannot_be_read_is_no_plan(plan: bytes) -> None:
    row = made.row("tune", None)
    row = msgspec.structs.replace(row, plan=plan)
    assert plan_of(row).build == ""


def advised(row: CampaignRow, facts: Facts | None) -> Mapping[str, Value]:
    """Settings of the only server."""
    found = recommended(row, facts)
    return found[0].settings if found else {}


def test_a_tuning_advises_its_winner_and_what_was_lifted() -> None:
    facts = made.tune_facts(raised={"innodb_doublewrite": "ON"})
    row = made.row("tune", facts, made.TUNE_PLAN)
    assert advised(row, facts_of(row)) == {"innodb_doublewrite": "ON", **made.FAST}


def test_a_tuning_without_a_winner_advises_nothing() -> None:
    facts = made.tune_facts()
    facts = msgspec.structs.replace(facts, result=msgspec.structs.replace(facts.result, winner=None))
    assert advised(made.row("tune", facts), facts) == {}


def test_a_series_advises_best() -> None:
    facts = made.series_facts()
    assert advised(made.row("series", facts), facts) == {"innodb_flush_log_at_trx_commit": 0}


def test_a_series_without_a_proven_best_advises_its_fastest_arm() -> None:
    arms = [arm for arm in made.series_facts().arms if arm.name != "best"]
    arms.append(
        msgspec.structs.replace(
            made.series_facts().arms[-1], comparison=made.comparison("best", made.ratio(2.4, 0.9, 5.0))
        )
    )
    facts = made.series_facts(arms=tuple(arms))
    assert advised(made.row("series", facts), facts) == {"innodb_flush_log_at_trx_commit": 0}


def test_a_series_whose_fastest_arm_is_a_place_advises_no_setting() -> None:
    arm = msgspec.structs.replace(made.series_facts().arms[2], data_root="/zfs")
    facts = made.series_facts(arms=(arm,))
    assert advised(made.row("series", facts), facts) == {}
