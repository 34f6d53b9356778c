"""Configurations on several servers are arms of one campaign, under names that tell their server."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

import flushlab
from flushlab.campaign.several_servers import differing, joined
from flushlab.errors import UsageError
from flushlab.record import Arm, ServerIdentity, Trial, Value
from tests.unit.records import trial

MYSQL80 = ServerIdentity(flavor="mysql", version=(8, 0, 36), version_text="8.0.36")


def read_back(**settings: Value) -> Trial:
    return trial(arm=Arm(name="A", settings={}), stage="arms", settings=settings)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> None:
    from flushlab.campaign.pool import sandboxes
    from tests.unit.builds import build

    monkeypatch.setattr(sandboxes, "find_build", lambda *_, **__: build("mysql", 8, 0, 36))


@pytest.mark.parametrize(
    ("words", "base", "arms"),
    [
        ([], "mariadb@10.11.19", ["mysql@8.0.36"]),
        (
            ["base", "innodb_redo_log_capacity=1G"],
            "mariadb@10.11.19 base",
            [
                "mariadb@10.11.19 innodb_redo_log_capacity=1G",
                "mysql@8.0.36 base",
                "mysql@8.0.36 innodb_redo_log_capacity=1G",
            ],
        ),
    ],
)
def test_every_server_has_all_configurations(
    words: list[str],
    base: str,
    arms: list[str],
    decided: list[Any],
    builds: None,
) -> None:
    flushlab.compare(words, server=["mariadb", "mysql@8.0"])
    (request,) = decided
    assert (request.base_name, [arm.name for arm in request.arms]) == (base, arms)
    assert [arm.build for arm in request.arms[-len(words) or -1 :]] == ["mysql@8.0.36"] * (len(words) or 1)
    assert request.spec.server.servers == ("mariadb@10.11.19", "mysql@8.0.36")
    others = [arm.against for arm in request.arms if arm.build]
    assert others == ["", "mysql@8.0.36 base"][: len(words) or 1]


def test_what_one_of_them_lacks_is_not_in_its_version_and_the_others_run(
    decided: list[Any],
    builds: None,
) -> None:
    flushlab.compare(["base", "innodb_redo_log_capacity=1G"], server=["mariadb", "mysql@8.0"])
    (request,) = decided
    assert [arm.outcome for arm in request.arms] == ["not_in_version", "measured", "measured"]
    assert request.arms[-1].settings == {"innodb_redo_log_capacity": 1 << 30}


@pytest.mark.parametrize(
    ("words", "more", "why"),
    [
        (["innodb_flush=1"], {}, "innodb_flush is not a setting"),
        ([], {"basedir": "/usr"}, "--basedir is one server"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: list[str],
    more: Mapping[str, Any],
    why: str,
    decided: list[Any],
    builds: None,
) -> None:
    with pytest.raises(UsageError, match=why):
        flushlab.compare(words, server=["mariadb", "mysql@8.0"], **more)
    assert decided == []


def test_the_same_server_twice_is_refused(decided: list[Any], builds: None) -> None:
    flushlab.compare([], server=["mariadb", "mysql@8.0"])
    (request,) = decided
    with pytest.raises(UsageError, match=r"mysql@8\.0\.36 is given twice"):
        joined((request, request), ("mysql@8.0", "mysql@8.0.36"), (MYSQL80, MYSQL80))


def test_defaults_that_decide_what_a_commit_is_are_told_and_what_was_asked_for_is_not() -> None:
    base = read_back(log_bin="OFF", sync_binlog=1, sql_mode="A", innodb_io_capacity=200, gtid_mode="OFF")
    own = read_back(
        log_bin="ON", sync_binlog=0, sql_mode="B" * 99, innodb_io_capacity=10_000, gtid_mode="OFF"
    )
    words = differing(base.settings, own.settings, ["sync_binlog"])
    assert words == "log_bin=ON (OFF), sql_mode differs"


def test_defaults_that_differ_are_told_in_the_same_order_however_a_server_lists_them() -> None:
    theirs: dict[str, Any] = {
        "sync_binlog": 0,
        "log_bin": "OFF",
        "sql_mode": "B",
        "innodb_doublewrite": "OFF",
    }
    base = read_back(sync_binlog=1, log_bin="ON", sql_mode="A", innodb_doublewrite="ON")
    told = {
        differing(base.settings, read_back(**{name: theirs[name] for name in names}).settings, ())
        for names in permutations(theirs)
    }
    assert told == {"innodb_doublewrite=OFF (ON), log_bin=OFF (ON), sync_binlog=0 (1), sql_mode=B (A)"}


def test_what_is_scaled_for_each_of_several_servers_names_the_server(
    decided: list[Any], builds: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def settings(path: Path | None, *_: object) -> Mapping[str, int]:
        return {"innodb_buffer_pool_size": 4 << 30} if path else {}

    monkeypatch.setattr("flushlab.campaign.pool.settings.file_settings", settings)
    monkeypatch.chdir(tmp_path)
    Path("my.cnf").write_text("[mysqld]\n")
    said: list[str] = []
    flushlab.compare(["my.cnf"], server=["mariadb", "mysql@8.0"], memory="600M", progress=said.append)
    told = [line.partition(" is scaled to ")[0] for line in said if " is scaled to " in line]
    assert told == ["mariadb@10.11.19: my.cnf", "mysql@8.0.36: my.cnf"]
    (request,) = decided
    scaled = [note for note in request.notes if note.slug == "scaled"]
    assert [note.text.partition(" was ")[0] for note in scaled] == [
        "mariadb@10.11.19: my.cnf: innodb_buffer_pool_size",
        "mysql@8.0.36: my.cnf: innodb_buffer_pool_size",
    ]
    assert [note.arms for note in scaled] == [("mariadb@10.11.19 base",), ("mysql@8.0.36 base",)]
