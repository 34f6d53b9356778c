"""`data` as a workload: its plan as transactions of the engine, and what reports tell of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flushlab.errors import MeasurementError, UsageError
from flushlab.record import (
    ColumnParameter,
    SequenceParameter,
    SkippedTable,
    TxnRows,
    TxnSpec,
    TxnStatement,
    TxnTransaction,
)
from flushlab.workload.data import DataWorkload
from flushlab.workload.data.plan import DataPlan, TablePlan
from flushlab.workload.parse import event_of, on_data, parse_workload


def statement(name: str, *parameters: int) -> TxnStatement:
    return TxnStatement(name=name, sql=name, place="t", parameters=parameters)


def table(name: str, rows: int, *kinds: str, doomed: int = 100, **changes: Any) -> TablePlan:
    """A table with these kinds of transactions; its first set has keys, the second has rows to delete."""
    statements = {
        "update": (statement("UPDATE", 0),),
        "insert": (statement("INSERT", 1),),
        "delete": (statement("DELETE", 2), statement("INSERT", 2)),
    }
    return TablePlan(
        schema="shop",
        name=name,
        rows=rows,
        column="n",
        spec=TxnSpec(
            parameters=(
                ColumnParameter(rows=0, column=0),
                SequenceParameter(start=1000),
                ColumnParameter(rows=1, column=0),
            ),
            transactions=tuple(TxnTransaction(name=kind, statements=statements[kind]) for kind in kinds),
            rows=(TxnRows(columns=((1, 2, 3),)), TxnRows(columns=(tuple(range(doomed)),), own=True)),
        ),
        **changes,
    )


ALL = ("update", "insert", "delete")
PLAN = DataPlan(seed=1, tables=(table("lines", 300, *ALL), table("orders", 100, "update")))


def test_each_kind_has_its_share_and_each_table_its_part_by_rows() -> None:
    spec = DataWorkload(update=60, insert=30, delete=10).transactions(PLAN)
    weights = {one.name: one.weight for one in spec.transactions}
    assert weights == {
        "update shop.lines": 450_000,
        "insert shop.lines": 300_000,
        "delete shop.lines": 100_000,
        "update shop.orders": 150_000,
    }


def test_tables_keep_their_own_parameters_and_rows() -> None:
    spec = DataWorkload(rand_type="zipfian").transactions(PLAN)
    update = next(one for one in spec.transactions if one.name == "update shop.orders")
    assert update.statements[0].parameters == (3,)
    assert spec.parameters[3] == ColumnParameter(rows=2, column=0)
    assert [one.rand_type for one in spec.rows] == ["zipfian", "uniform", "zipfian", "uniform"]


def test_loads_on_the_same_data_have_new_values_of_their_own() -> None:
    plan = msgspec.structs.replace(PLAN, tables=(table("lines", 300, *ALL, room=64_000),))
    starts = [
        one.start
        for seed in (1, 2, 65)
        for one in DataWorkload(seed=seed).transactions(plan).parameters
        if isinstance(one, SequenceParameter)
    ]
    assert starts == [1000, 2000, 1000]


def test_a_share_that_no_table_takes_goes_to_the_others() -> None:
    plan = msgspec.structs.replace(PLAN, tables=(table("lines", 300, "update", "delete"),))
    stand_in = DataWorkload(update=60, insert=30, delete=20).stand_in(plan)
    assert stand_in.shares == {"update": 0.75, "delete": 0.25}
    assert stand_in.tables[0].keys == 3
    inserts = msgspec.structs.replace(plan.tables[0], without={"insert": "all its keys are foreign"})
    plan = msgspec.structs.replace(plan, tables=(inserts,), skipped=(SkippedTable("shop.log", "MyISAM"),))
    with pytest.raises(MeasurementError, match="no table takes inserts: all its keys are foreign") as raised:
        DataWorkload(update=0, insert=1, delete=0).transactions(plan)
    assert raised.value.hint == "give --update or --delete a share"


def test_a_table_with_fewer_rows_to_delete_than_connections_has_no_deletes() -> None:
    plan = msgspec.structs.replace(PLAN, tables=(table("lines", 300, *ALL, doomed=15),))
    enough = DataWorkload(threads=15)._enough(plan).tables[0]
    few = DataWorkload(threads=16)._enough(plan).tables[0]
    assert [one.name for one in enough.spec.transactions] == [*ALL]
    assert [one.name for one in few.spec.transactions] == ["update", "insert"]
    assert few.without == {"delete": "15 rows can be deleted, fewer than the 16 connections"}


def test_its_plan_depends_on_the_data_the_tables_and_the_seed_but_not_on_the_shares() -> None:
    workload = DataWorkload()
    assert workload.data_key == DataWorkload(update=1, threads=3, rand_type="pareto").data_key
    for other in (DataWorkload(seed=2), DataWorkload(tables=3), on_data(workload, "shop")):
        assert other.data_key != workload.data_key


def test_a_delete_writes_its_row_twice() -> None:
    assert event_of(DataWorkload(update=50, insert=25, delete=25)).rows == 1.25


def test_shares_that_leave_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="--update, --insert, --delete are all 0"):
        parse_workload("data", {"update": 0, "insert": 0, "delete": 0})
