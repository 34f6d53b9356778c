"""What a result counts, and how many rows that writes."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.record import TxnStatement
from flushlab.workload.parse import Event, build_workload, event_of, rows_of


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("REPLACE INTO t VALUES (?, ?)", 1),
        ("INSERT INTO t (a, b) VALUES (?, ?), (?, NOW()),(1, f(2, (3)))", 3),
        ("INSERT INTO t VALUES (?, '), (') ON DUPLICATE KEY UPDATE a = VALUES(a)", 1),
        ("INSERT INTO t VALUES ROW(1, 2), ROW(3, 4)", 2),
        ("INSERT INTO t SET a = ?", 1),
        ("INSERT INTO t SELECT * FROM u", None),
        ("UPDATE t SET a = ? WHERE id = ?", 1),
    ],
)
def test_a_statement_writes_the_rows_of_its_values_list(sql: str, rows: int | None) -> None:
    assert rows_of(TxnStatement(name="", sql=sql, place="")) == rows


def test_what_reads_writes_nothing() -> None:
    assert rows_of(TxnStatement(name="", sql="SELECT 1", place="", writes=False)) == 0


@pytest.mark.parametrize(
    ("name", "options", "event"),
    [
        ("oltp_update_index", {}, Event("transactions/s", 1)),
        ("oltp_read_only", {}, Event("transactions/s", 0)),
        ("oltp_write_only", {}, Event("transactions/s", 4)),
        ("oltp_write_only", {"index_updates": 11}, Event("transactions/s", 14)),
        ("upsert", {"rows": 100}, Event("rows/s", 1)),
        ("command: true", {}, Event("s")),
    ],
)
def test_each_workload_counts_something(name: str, options: dict[str, Any], event: Event) -> None:
    assert event_of(build_workload(name, options)) == event


def test_events_differ_in_unit_or_rows_as_far_as_these_are_known() -> None:
    one, unknown = Event("transactions/s", 1), Event("transactions/s")
    assert one.differs(Event("rows/s", 1)) and one.differs(Event("transactions/s", 2))
    assert one.differs(Event("transactions/s", 0))
    assert not one.differs(Event("transactions/s", 1.05)) and not one.differs(unknown)
