"""Data and the load: what is refused before anything starts, and what reports tell of a doubt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flushlab.campaign.bench import bench
from flushlab.campaign.compare import compare
from flushlab.campaign.crash.crash import crash
from flushlab.campaign.data import open_data, warnings_of
from flushlab.campaign.tune import tune
from flushlab.errors import BuildNotFound, UsageError
from flushlab.machine import home
from flushlab.record import DataFacts, SkippedTable, StandIn, WrittenTable
from flushlab.spec.parts import DataSpec

DUMP = "CREATE TABLE t (id INT PRIMARY KEY);\n"
TWO = "CREATE DATABASE a; USE a; CREATE TABLE t (id INT PRIMARY KEY); CREATE DATABASE b;\n"


@pytest.fixture
def dump(tmp_path: Path, private_home: Path) -> str:
    home()  # as every command makes it before it reads a dump
    path = tmp_path / "shop.sql"
    path.write_text(DUMP)
    return str(path)


def compared(**given: Any) -> Any:
    return compare(["base", "sync_binlog=0"], **given)


@pytest.mark.parametrize("command", [bench, tune, compared], ids=["bench", "tune", "compare"])
def test_data_without_a_workload_is_refused_with_the_ways_out(command: Any, dump: str) -> None:
    with pytest.raises(UsageError, match="--dataset needs a workload") as raised:
        command(dataset=dump)
    for way in (
        "--workload data",
        "txn:FILE",
        "sql:FILE",
        "'command: …'",
        "--workload oltp_update_non_index",
    ):
        assert way in (raised.value.hint or "")


def test_configurations_that_all_name_a_workload_need_none_for_all(dump: str) -> None:
    one, other = "a: --workload data", "b: --workload data --update 100"
    with pytest.raises(UsageError, match="needs a workload"):
        compare([one, "sync_binlog=0"], dataset=dump)
    with pytest.raises(BuildNotFound):
        compare([one, other], dataset=dump, server=["mariadb@99.9"])


@pytest.mark.parametrize("command", [bench, tune, compared], ids=["bench", "tune", "compare"])
def test_a_workload_from_the_data_needs_data(command: Any, private_home: Path) -> None:
    with pytest.raises(UsageError, match="--workload data needs --dataset"):
        command(workload="data")


def test_crashes_take_no_workload_from_the_data(private_home: Path) -> None:
    with pytest.raises(UsageError, match="--workload data needs --dataset, and crash makes tables") as raised:
        crash(workload="data")
    assert "acked_inserts" in (raised.value.hint or "")


def test_a_load_that_does_not_touch_the_data_is_told_at_once(dump: str) -> None:
    said: list[str] = []
    data = open_data(DataSpec(dataset=dump), ("oltp_insert", "data"), said.append)
    assert data is not None
    assert data.facts == DataFacts(
        path=dump, kind="SQL dump", size_bytes=len(DUMP), untouched=("oltp_insert",)
    )
    assert said == [
        "--workload data makes a load from your data, which stands in for yours",
        "warning: oltp_insert runs on tables of its own: its load does not touch the data",
    ]


def test_a_workload_from_the_data_takes_all_databases_unless_one_is_named(dump: str) -> None:
    def database(workload: str, named: str | None = None) -> str:
        data = open_data(DataSpec(dataset=dump, database=named), (workload,))
        assert data is not None
        return data.database

    assert database("data") == "shop"
    Path(dump).write_text(TWO)
    assert (database("data"), database("data", "b")) == ("", "b")
    with pytest.raises(UsageError, match="has 2 databases: a, b"):
        database("command: true")


def test_a_stand_in_tells_its_tables_its_shares_and_what_it_leaves_out() -> None:
    def written(name: str, rows: int, **without: str) -> WrittenTable:
        return WrittenTable(name=name, rows=rows, keys=1, without=without)

    load = StandIn(
        shares={"update": 0.7, "insert": 0.2, "delete": 0.1},
        tables=(
            written("shop.lines", 2_000_000),
            written("shop.orders", 900, delete="rows of shop.lines refer to every sampled row"),
            written("shop.customers", 500),
            written("shop.products", 400, delete="rows of shop.lines refer to every sampled row"),
        ),
        skipped=(SkippedTable("shop.log", "MyISAM, not InnoDB"), SkippedTable("shop.hits", "no rows")),
        smaller=12,
    )
    assert [(one.slug, one.text) for one in warnings_of(None, load)] == [
        (
            "stand-in",
            "the load is made from your data and stands in for yours: 70% updates, 20% inserts and 10%"
            " deletes by primary key, on shop.lines (2,000,000 rows), shop.orders (900 rows), shop.customers"
            " (500 rows) and 1 more table. Gains for your own statements may differ",
        ),
        (
            "not-written",
            "the load leaves out shop.log (MyISAM, not InnoDB); shop.hits (no rows); 12 smaller tables",
        ),
        (
            "not-written",
            "no deletes on shop.orders and shop.products: rows of shop.lines refer to every sampled row",
        ),
    ]


def test_a_load_of_the_users_own_has_no_doubt() -> None:
    assert not list(warnings_of(DataFacts(path="/d.sql", kind="SQL dump", size_bytes=1)))
