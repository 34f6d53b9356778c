"""`data` as a workload: its plan as transactions of the engine, and what reports tell of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from flushlab.errors import MeasurementError, UsageError
from flushlab.generate.schema import Column
from flushlab.generate.types import parse_type
from flushlab.record import (
    ColumnParameter,
    SequenceParameter,
    SkippedTable,
    UuidParameter,
)
from flushlab.workload.data import DataWorkload
from flushlab.workload.data import columns as of
from flushlab.workload.data.plan import DOOMED, SAMPLED, DataPlan, TablePlan, plan_of
from flushlab.workload.parse import event_of, on_data, parse_workload


def table(name: str, rows: int, *kinds: str, doomed: int = 100, **changes: Any) -> TablePlan:
    """A table with these kinds of transactions."""
    insert = of.Statement("INSERT", (SequenceParameter(start=1000),))
    doomed_row = ColumnParameter(rows=DOOMED, column=0)
    statements = {
        "update": (of.Statement("UPDATE", ("UPDATE", ColumnParameter(rows=SAMPLED, column=0))),),
        "insert": (insert,),
        "delete": (of.Statement("DELETE", (doomed_row,)), of.Statement("INSERT", (doomed_row,))),
    }
    return TablePlan(
        schema="shop",
        name=name,
        rows=rows,
        column="n",
        statements={kind: statements[kind] for kind in kinds},
        sets=(((1, 2, 3),), (), (tuple(range(doomed)),)),
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
    assert [one.rand_type for one in spec.rows] == ["zipfian", "uniform", "zipfian"]
    assert [one.own for one in spec.rows] == [False, True, False]
    assert update.statements[0].sql == "UPDATE?"


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
    assert [*enough.statements] == [*ALL]
    assert [*few.statements] == ["update", "insert"]
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


Row = tuple[Any, ...]


def asked(tables: Sequence[Row], keys: Sequence[Row] = (), triggers: Sequence[Row] = ()) -> Any:
    """A server with these tables; whatever else it is asked for it has none of."""

    def query(sql: str, args: Sequence[Any] = ()) -> list[Row]:
        if "sql_mode" in sql:
            return [("STRICT_TRANS_TABLES",)]
        if "FROM information_schema.TABLES" in sql:
            return list(tables)
        if "FROM information_schema.STATISTICS" in sql:
            return list(keys)
        if "FROM information_schema.TRIGGERS" in sql:
            return list(triggers)
        return [(0,)] if sql.startswith("SELECT COUNT(*)") else []

    return query


def refusal(*tables: Row, **more: Any) -> MeasurementError:
    with pytest.raises(MeasurementError) as raised:
        plan_of(asked(tables, **more), databases=(), most=8, seed=1)
    return raised.value


def test_data_without_a_table_that_can_be_written_to_is_refused_with_the_reasons() -> None:
    keys = [(name, "PRIMARY", "id", None) for name in ("none", "log")]
    error = refusal(
        ("shop", "hits", "BASE TABLE", "MyISAM"),
        ("shop", "heap", "BASE TABLE", "InnoDB"),
        ("shop", "none", "BASE TABLE", "InnoDB"),
        ("shop", "log", "BASE TABLE", "InnoDB"),
        ("shop", "v", "VIEW", None),
        keys=keys,
        triggers=[("orders", "INSERT INTO `Log` VALUES (NEW.id)")],
    )
    assert error.message == (
        "the data has no table that --workload data can write to: shop.hits (MyISAM, not InnoDB), shop.heap"
        " (no primary key), shop.none (no rows), shop.log (a trigger of orders uses it), 1 view"
    )
    assert "txn:FILE" in (error.hint or "")


def test_views_alone_and_nothing_at_all_are_refused() -> None:
    views = refusal(("shop", "a", "VIEW", None), ("shop", "b", "VIEW", None)).message
    assert views == "the data has no table that --workload data can write to: 2 views"
    assert refusal().message == "the data has no table that --workload data can write to"


def test_many_tables_are_counted() -> None:
    tables = [("shop", f"t{number}", "BASE TABLE", "MyISAM") for number in range(500)]
    assert refusal(*tables).message.endswith("shop.t4 (MyISAM, not InnoDB), 495 more tables")


def column(definition: str, name: str = "c") -> Column:
    kind = parse_type(definition)
    assert kind is not None
    return Column(
        name=name,
        type=kind,
        definition=definition,
        nullable=False,
        auto_increment=False,
        generated=False,
        has_default=False,
        srid=0,
        charset="latin1",
        collation="latin1_german1_ci",
    )


@pytest.mark.parametrize(
    ("definition", "read", "compared"),
    [
        ("int", "`c`", "?"),
        ("bigint unsigned", "HEX(CAST(`c` AS CHAR))", "CAST(CONVERT(? USING utf8mb4) AS UNSIGNED)"),
        ("decimal(9,2)", "HEX(CAST(`c` AS CHAR))", "CAST(CONVERT(? USING utf8mb4) AS DECIMAL(9, 2))"),
        ("time", "HEX(CAST(`c` AS CHAR))", "CAST(CONVERT(? USING utf8mb4) AS TIME(6))"),
        ("varchar(9)", "HEX(`c`)", "CONVERT(? USING latin1) COLLATE latin1_german1_ci"),
        ("binary(16)", "HEX(`c`)", "?"),
        ("bit(3)", "HEX(CAST(`c` + 0 AS CHAR))", "CAST(CONVERT(? USING utf8mb4) AS UNSIGNED)"),
    ],
)
def test_a_key_is_read_and_compared_without_a_conversion_of_the_column(
    definition: str, read: str, compared: str
) -> None:
    around = of.compared(column(definition))
    assert of.read_key(column(definition)) == read
    assert around is not None and "?".join(around) == compared


@pytest.mark.parametrize("definition", ["float", "double", "json", "point"])
def test_a_type_that_no_index_finds_exactly_is_no_key(definition: str) -> None:
    assert of.compared(column(definition)) is None


@pytest.mark.parametrize(
    ("definition", "sql"),
    [
        ("int unsigned", "IF(`c` > 0, `c` - 1, COALESCE(`c`, 0) + 1)"),
        ("decimal(3,3)", "IF(`c` > 0, `c` - 0.001, COALESCE(`c`, 0) + 0.001)"),
        ("date", "IF(`c` = '2021-01-05', '2021-01-06', '2021-01-05')"),
        ("enum('a','b')", "IF(`c` + 0 = 1, 2, 1)"),
        ("varchar(40)", "CONCAT(?, SUBSTRING(COALESCE(`c`, ''), 9))"),
        ("char(3)", "CONCAT(?, SUBSTRING(COALESCE(`c`, ''), 4))"),
        ("bit(1)", "IF(`c` = 0, 1, 0)"),
    ],
)
def test_an_update_changes_whatever_the_column_holds_within_its_type(definition: str, sql: str) -> None:
    change = of.change(column(definition))
    assert change is not None
    assert f"{change.before}{'?' if change.parameter else ''}{change.after}" == sql


@pytest.mark.parametrize("definition", ["json", "geometry", "year", "enum('a')", "uuid"])
def test_a_type_without_a_change_that_is_always_one_is_not_updated(definition: str) -> None:
    assert of.change(column(definition)) is None


def made(definition: str, greatest: str = "7", sample: str = "", marked: str = "") -> str:
    new = of.new(column(definition), None, greatest, sample, marked)
    assert new is not None
    assert isinstance(new.parameter, SequenceParameter)
    return f"{new.before}<{new.parameter.start}>{new.after}"


def test_new_values_come_after_the_greatest() -> None:
    assert made("bigint", "41") == "<42>"
    assert made("bigint", "-9") == "<1>"
    assert made("decimal(20,4)", "12.5000") == "<13>"
    assert made("datetime", "2024-05-06 07:08:09") == "'2024-05-06 07:08:09' + INTERVAL <1> SECOND"
    assert made("varchar(40)") == "CONCAT('flushlab-', <1000000000>)"


def test_few_new_values_come_again() -> None:
    assert made("tinyint unsigned", "3") == "4 + MOD(<0>, 251)"
    assert made("smallint", "7") == "8 + MOD(<0>, 32759)"
    assert made("date", "9998-12-31") == "'9998-12-31' + INTERVAL 1 + MOD(<0>, 364) DAY"
    assert made("char(8)") == "CONCAT('f', 1000000 + MOD(<0>, 9000000))"


def test_new_texts_come_after_those_of_an_earlier_load() -> None:
    assert made("varchar(40)", marked="flushlab-1000000041") == "CONCAT('flushlab-', <1000000042>)"
    assert made("varchar(40)", marked="flushlab-from-abroad") == "CONCAT('flushlab-', <1000000000>)"
    assert of.marked(column("varchar(40)"), None) == "`c` LIKE 'flushlab-__________'"
    assert of.marked(column("int"), None) == ""


def test_a_column_with_uuids_gets_uuids() -> None:
    text = of.new(column("char(36)"), None, "", "01234567-89ab-cdef-0123-456789abcdef")
    assert text is not None and text.parameter == UuidParameter()
    binary = of.new(column("binary(16)"), None, "", "")
    assert binary is not None and binary.parameter == UuidParameter(binary=True)


@pytest.mark.parametrize(
    ("definition", "greatest"),
    [
        ("tinyint", "127"),
        ("int", "2147483647"),
        ("char(2)", "zz"),
        ("enum('a','b')", "b"),
        ("timestamp", "0000-00-00 00:00:00"),
        ("date", "9999-12-31"),
    ],
)
def test_a_column_without_room_is_not_made_new(definition: str, greatest: str) -> None:
    assert of.new(column(definition), None, greatest, "") is None


def test_what_applications_update_comes_before_long_texts_and_indexed_columns() -> None:
    columns = [column(one, one) for one in ("text", "varchar(9)", "datetime", "int", "bigint")]
    found = sorted(columns, key=lambda one: of.changed_first(one, {"bigint"}))
    assert [one.name for one in found] == ["int", "datetime", "varchar(9)", "text", "bigint"]


def test_a_literal_is_what_the_engine_binds() -> None:
    assert [of.literal(one) for one in (-3, "31", None)] == ["-3", "UNHEX('31')", "NULL"]
