"""Which rows are compared after a load, by which key, and what counts as different."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from flushlab.bulk import tables
from flushlab.bulk.tables import SAMPLED, LoadSample, orphans, sampled_rows
from flushlab.errors import UsageError
from flushlab.generate.plan import PlanTable
from flushlab.server.control import StatementFailed

TABLE = PlanTable(name="t", rows=10, columns=("id", "name", "made"), create="CREATE TABLE t (id INT)")
KINDS = {"id": "bigint", "name": "varchar", "made": "datetime"}


class Theirs:
    """A server, as far as the comparison asks it.

    Attributes:
        indexes: of the table, name and column of each part, in the server's order.
        kinds: data type of each column.
        counts: answers to SELECT COUNT(*), the first first.
        most: max_allowed_packet.
        refused: it takes no row.
        said: statements that are no question about the schema.
    """

    def __init__(self) -> None:
        self.indexes: list[tuple[str, str]] = [("PRIMARY", "id")]
        self.kinds = dict(KINDS)
        self.foreign: list[tuple[str, str, str, str, str]] = []
        self.counts: list[int] = []
        self.most = 1 << 20
        self.refused = False
        self.said: list[str] = []

    def query(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        if "information_schema.statistics" in sql:
            return self.indexes
        if "information_schema.columns" in sql:
            return [*self.kinds.items()]
        if "key_column_usage" in sql:
            return self.foreign
        if "max_allowed_packet" in sql:
            return [(self.most,)]
        self.said.append(sql)
        if sql.startswith("SELECT COUNT"):
            return [(self.counts.pop(0),)]
        if self.refused:
            raise StatementFailed(1406, "Data too long for column 'name'", sql)
        return []


def sample(server: Theirs, rows: Sequence[int] = range(10)) -> LoadSample:
    there: Any = server
    plan: Any = None
    return LoadSample(there, "db", plan, TABLE, rows)


def test_few_rows_are_all_compared() -> None:
    assert sampled_rows(5, 5) == []
    assert sampled_rows(0, SAMPLED) == list(range(SAMPLED))


@pytest.mark.parametrize(("first", "end", "count"), [(0, 11, 10), (100, 1_000_000, 1000), (3, 1_000_000, 2)])
def test_of_many_rows_both_ends_and_others_between_are_compared(first: int, end: int, count: int) -> None:
    rows = sampled_rows(first, end, count)
    assert (rows[0], rows[-1], len(set(rows))) == (first, end - 1, count)
    assert rows == sorted(rows) == sampled_rows(first, end, count)


@pytest.mark.parametrize(
    ("indexes", "found"),
    [
        ([("PRIMARY", "id")], "t.`id` = s.`id`"),
        ([("PRIMARY", "id"), ("PRIMARY", "made")], "t.`id` = s.`id` AND t.`made` = s.`made`"),
        ([("PRIMARY", "number"), ("by_name", "name")], "t.`name` = s.`name`"),
        ([("PRIMARY", "id"), ("PRIMARY", "number"), ("by_name", "name")], "t.`name` = s.`name`"),
        ([("PRIMARY", "number")], None),
        ([], None),
    ],
)
def test_rows_are_found_by_a_unique_key_that_the_plan_fills(
    indexes: list[tuple[str, str]], found: str | None
) -> None:
    server = Theirs()
    server.indexes, server.counts = indexes, [7]
    assert sample(server).different() == (None if found is None else 3)
    assert [f" ON {found} WHERE " in sql for sql in server.said] == ([] if found is None else [True])


@pytest.mark.parametrize(
    ("kind", "by_byte"),
    [
        *((kind, True) for kind in ("char", "VARCHAR", "binary", "varbinary", "enum", "set")),
        *((kind, True) for kind in ("text", "longtext", "tinyblob", "geometry", "point", "linestring")),
        *((kind, True) for kind in ("polygon", "geometrycollection")),
        *((kind, False) for kind in ("int", "double", "decimal", "datetime", "json", "bit")),
    ],
)
def test_strings_differ_by_any_byte_and_other_values_by_their_value(kind: str, by_byte: bool) -> None:
    server = Theirs()
    server.kinds["name"], server.counts = kind, [10]
    assert sample(server).different() == 0
    bytes_differ = "CAST(t.`name` AS BINARY) <=> CAST(s.`name` AS BINARY)"
    compared = server.said[0].partition(" WHERE ")[2].split(" AND ")
    same = [*compared[:1], bytes_differ if by_byte else "t.`name` <=> s.`name`", *compared[-1:]]
    assert server.said[0].endswith(" AND ".join(same))
    assert (same[0], same[-1]) == ("t.`id` <=> s.`id`", "t.`made` <=> s.`made`")


@pytest.fixture
def own_tables(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Tables that samples are put into; rows are so many bytes as `row_bytes` says."""
    made: list[tuple[str, ...]] = []

    @contextmanager
    def own_table(_: object, *names: str) -> Iterator[None]:
        made.append(names)
        yield
        made.append(("gone",))

    monkeypatch.setattr(tables, "own_table", own_table)
    return made


def inserted(server: Theirs, row_bytes: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of rows in each statement."""

    def sample_rows(_server: object, _plan: object, table: str, rows: Sequence[int]) -> str:
        assert table == "t"
        return ",".join("(" + str(row).rjust(row_bytes - 3, "0") + ")" for row in rows)

    monkeypatch.setattr(tables, "sample_rows", sample_rows)
    with sample(server, range(rows)).inserted():
        assert all(
            sql.startswith("INSERT INTO `db`.`flushlab_sample` (`id`,`name`,`made`)") for sql in server.said
        )
    seen = [int(one[-9:]) for sql in server.said for one in sql.partition("VALUES (")[2][:-1].split("),(")]
    assert seen == list(range(rows)), "each row once, in order"
    return [sql.count("(") - 1 for sql in server.said]


def test_a_sample_is_inserted_in_statements_that_the_server_takes(
    own_tables: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert inserted(Theirs(), 100, 250, monkeypatch) == [100, 100, 50]
    assert own_tables == [("db", "flushlab_sample", "t"), ("gone",)]
    small = Theirs()
    small.most = 6000
    assert inserted(small, 100, 100, monkeypatch) == [50, 50]
    assert all(len(sql) < small.most for sql in small.said)


@pytest.mark.usefixtures("own_tables")
def test_a_row_that_no_statement_can_hold_is_refused_before_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Theirs()
    server.most = 1024
    assert inserted(server, 8 << 10, 2, monkeypatch) == [1, 1], "servers take 16 KiB whatever they say"
    with pytest.raises(UsageError, match=r"a row of t takes .* and max_allowed_packet is"):
        inserted(server, 16400, 2, monkeypatch)


@pytest.mark.usefixtures("own_tables")
def test_a_row_that_the_table_cannot_hold_is_refused_in_the_servers_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Theirs()
    server.refused = True
    with pytest.raises(UsageError, match=r"t cannot hold the plan's rows: Data too long .* \(error 1406\)"):
        inserted(server, 100, 2, monkeypatch)


def test_rows_without_a_parent_are_counted_for_each_foreign_key() -> None:
    server = Theirs()
    there: Any = server
    server.foreign = [
        ("one", "db", "parent", "a", "x"),
        ("one", "db", "parent", "b", "y"),
        ("two", "other", "uncle", "c", "z"),
    ]
    server.counts = [1234, 0]
    assert orphans(there, "db", "t") == ["1,234 rows of t break the foreign key one"]
    one, two = server.said
    assert one == (
        "SELECT COUNT(*) FROM `db`.`t` c LEFT JOIN `db`.`parent` p ON p.`x` = c.`a` AND p.`y` = c.`b`"
        " WHERE c.`a` IS NOT NULL AND c.`b` IS NOT NULL AND p.`x` IS NULL"
    )
    assert "LEFT JOIN `other`.`uncle` p ON p.`z` = c.`c` WHERE c.`c` IS NOT NULL AND p.`z` IS NULL" in two
