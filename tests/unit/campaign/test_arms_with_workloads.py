"""An arm may have a workload of its own: what it keeps of the base's, its caveats, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flushlab
from flushlab.campaign.campaign import ArmServers
from flushlab.campaign.objective import objective_of_plan
from flushlab.campaign.pool.room import Volumes
from flushlab.campaign.request import SeriesRequest
from flushlab.campaign.series import _require_same_tables
from flushlab.campaign.series_analysis import SeriesAnalysis
from flushlab.campaign.watcher import Watcher
from flushlab.datadir import Volume
from flushlab.errors import UsageError
from flushlab.plan.parse import parse_plan
from flushlab.record import Storage
from flushlab.spec.parts import StorageSpec, WorkloadSpec
from flushlab.workload.parse import build_workload
from tests.unit.builds import MARIADB

SETUP = "CREATE TABLE t (id INT PRIMARY KEY, n INT);"
TXN = """setup_file = "{setup}"
[transaction.write]
autocommit = true
statements = [{{ sql = "{sql}", repeat = {repeat} }}]
"""
REPLACE = "REPLACE INTO t VALUES (1, 2)"
UPDATE = "INSERT INTO t VALUES (1, 2) ON DUPLICATE KEY UPDATE n = VALUES(n)"
PLAN = """title = "Which statement?"
[workload]
name = "{base}"
threads = 8
[base]
name = "old"
[[arm]]
name = "new"
workload = {{ name = "{arm}" }}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("setup.sql", "other.sql"):
        Path(name).write_text(f"{SETUP} -- {name}")
    write("replace", REPLACE)
    write("update", UPDATE)
    return tmp_path


def write(name: str, sql: str, repeat: int = 1, setup: str = "setup.sql") -> None:
    Path(f"{name}.toml").write_text(TXN.format(sql=sql, repeat=repeat, setup=setup))


def compared(decided: list[Any], *words: str, **given: Any) -> SeriesRequest:
    flushlab.compare(words, **given)
    request = decided[-1]
    assert isinstance(request, SeriesRequest)
    return request


def slugs(request: SeriesRequest) -> list[str]:
    return [note.slug for note in request.notes if note.slug.startswith("other-")]


def test_two_statements_on_the_same_tables_are_compared_without_a_caveat(decided: list[Any]) -> None:
    request = compared(
        decided, "old: --workload txn:replace.toml", "new: --workload txn:update.toml", threads=4
    )
    (arm,) = request.arms
    assert request.base.workload.name.endswith("/replace.toml")
    assert arm.workload.name.endswith("/update.toml")
    assert request.base.workload.options == arm.workload.options == {"threads": 4}
    assert arm.workload_changes == {"name": arm.workload.name}
    assert request.base.workload_digest != arm.workload_digest
    keys = {tuple(request.workload_of(one).data_key.items()) for one in (request.base, arm)}
    assert len(keys) == 1, "they start from one snapshot"
    assert [Path(source.name).name for source in request.sources] == [
        "replace.toml",
        "setup.sql",
        "update.toml",
    ]
    assert slugs(request) == []


def test_transactions_of_more_rows_are_other_work(decided: list[Any]) -> None:
    write("batch", UPDATE, repeat=10)
    request = compared(decided, "old: --workload txn:replace.toml", "new: --workload txn:batch.toml")
    (arm,) = request.arms
    assert slugs(request) == ["other-unit"]
    assert arm.other_event == (
        "new is measured in transactions/s of 10 rows each, old in transactions/s of 1 row each: their ratio"
        " does not compare the same work; per row, it is 10 times as large"
    )
    assert not arm.composable


def test_workloads_with_other_units_and_other_tables_have_a_caveat(decided: list[Any]) -> None:
    request = compared(
        decided, "base --workload oltp_update_index", "--workload upsert", "now: base", tables=2, rows=5
    )
    upsert, base = request.arms
    assert (request.base_name, upsert.name, base.name) == ("oltp_update_index", "upsert", "now")
    assert upsert.workload == WorkloadSpec(name="upsert", options={"tables": 2, "rows": 5})
    assert base.workload == WorkloadSpec(name="oltp_update_non_index", options={"tables": 2})
    assert slugs(request) == ["other-unit", "other-data"]
    assert "upsert is measured in rows/s, oltp_update_index in transactions/s" in upsert.other_event


def test_another_setup_is_other_data(decided: list[Any]) -> None:
    write("elsewhere", UPDATE, setup="other.sql")
    request = compared(decided, "old: --workload txn:replace.toml", "new: --workload txn:elsewhere.toml")
    assert slugs(request) == ["other-data"]
    assert "with the same setup_file both would share them" in request.notes[-1].text


def test_a_configuration_has_nothing_of_the_first_ones_options(decided: list[Any]) -> None:
    request = compared(decided, "many: --threads 64", "usual: sync_binlog=0")
    assert request.base.workload.options == {"threads": 64}
    (arm,) = request.arms
    assert arm.workload_changes == {"threads": 16}


def test_commands_are_compared_with_each_other(decided: list[Any]) -> None:
    request = compared(decided, "--workload 'command: true one'", "--workload 'command: true two'", blocks=2)
    assert (request.base_name, request.arms[0].name) == ("command: true one", "command: true two")
    assert slugs(request) == []


def test_a_place_of_its_own_is_an_arms(decided: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Volumes, "_made", lambda _, root, __: Volume(root))
    (arm,) = compared(decided, "base", "slow: --disk iops=100").arms
    assert (arm.disk, arm.workload_changes) == ("iops=100", {})


@pytest.mark.parametrize(
    ("words", "given", "message"),
    [
        (["base", "--workload 'command: true'"], {}, "one is timed until it ends, the other counted"),
        (["base", "fast: --rate 100"], {}, "runs at rate 100, rate_kind constant, the base as fast as it"),
        (["base", "--workload upset"], {}, "there is no workload 'upset'"),
        (["base", "--workload upsert"], {"timeout": 3.0}, "takes no --timeout"),
        (["base", "--workload upsert --skip-trx"], {}, "the workload upsert takes no skip_trx"),
        (["slow: --disk iops=100", "base"], {}, "'slow' is what the others are compared with"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    words: list[str], given: dict[str, Any], message: str, decided: list[Any]
) -> None:
    with pytest.raises(UsageError) as caught:
        flushlab.compare(words, **given)
    assert message in caught.value.message
    assert not decided


def test_a_plans_arm_keeps_the_options_that_its_workload_takes(decided: list[Any]) -> None:
    Path("plan.toml").write_text(PLAN.format(base="txn:replace.toml", arm="txn:update.toml"))
    flushlab.series("plan.toml", threads=2)
    (arm,) = decided[-1].arms
    assert arm.workload == WorkloadSpec(name="txn:update.toml", options={"threads": 2})
    assert arm.workload_changes == {"name": "txn:update.toml"}


@pytest.mark.parametrize(
    ("base", "arm", "message"),
    [
        ("upsert", "upset", "plan.toml:9:14: there is no workload 'upset'"),
        ("upset", "upsert", "plan.toml:3:1: there is no workload 'upset'"),
        ("upsert", "command: true", "plan.toml:9:14: arm 'new' runs command:, the base upsert"),
    ],
)
def test_mistakes_of_a_plans_workloads_are_named_with_their_place(base: str, arm: str, message: str) -> None:
    plan = parse_plan(PLAN.format(base=base, arm=arm), path="plan.toml")
    with pytest.raises(UsageError) as caught:
        objective_of_plan(None, plan)
    assert caught.value.message.startswith(message)


def test_a_resumed_campaign_refuses_a_workload_of_an_arm_that_has_changed(decided: list[Any]) -> None:
    request = compared(decided, "old: --workload txn:replace.toml", "new: --workload txn:update.toml")
    write("update", REPLACE)
    bound = SeriesAnalysis(request, MARIADB.identity, Storage(filesystem="ext4"))
    none: Any = None
    with (
        ArmServers(bound, none, none, none, Watcher()) as servers,
        pytest.raises(UsageError, match=r"the workload txn:.*update.toml has changed since"),
    ):
        servers.open()


def test_on_one_server_workloads_need_the_same_tables_unless_they_lie_apart() -> None:
    def workloads(*names: str, **options: int) -> dict[str, Any]:
        return {name: build_workload(name, options) for name in names}

    _require_same_tables(workloads("oltp_update_index", "oltp_insert", "upsert"))
    few = build_workload("upsert", {"table_size": 5})
    with pytest.raises(UsageError, match="few and upsert need different tables"):
        _require_same_tables({**workloads("oltp_update_index", "upsert"), "few": few})


def test_in_python_workloads_are_configurations(decided: list[Any]) -> None:
    flushlab.compare({"old": WorkloadSpec(name="txn:replace.toml"), "new": WorkloadSpec(name="upsert")})
    request = decided[-1]
    assert [one.workload.name.split("/")[-1] for one in (request.base, *request.arms)] == [
        "replace.toml",
        "upsert",
    ]
    assert request.spec.storage == StorageSpec()
