"""Columns: SQL by type."""

from __future__ import annotations

import pytest

from flushlab.generate.schema import Column
from flushlab.generate.types import parse_type
from flushlab.record import SequenceParameter, UuidParameter
from flushlab.workload.data import columns as of


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
