from __future__ import annotations

from typing import Any

import pytest

from flushlab.errors import ServerDied
from flushlab.record import StatementKind
from flushlab.telemetry import performance
from flushlab.telemetry.performance import Reading
from tests.fakes.server import FakeServer

IS_ON = "SHOW GLOBAL VARIABLES LIKE 'performance_schema'"
INSTRUMENTS = (
    "SELECT COUNT(*), SUM(ENABLED = 'YES' AND TIMED = 'YES') FROM"
    " performance_schema.setup_instruments WHERE NAME LIKE 'statement/%'"
)
# events_statements_summary_global_by_event_name: EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT, SUM_ERRORS,
# SUM_ROWS_AFFECTED.
MYSQL_5_7 = (
    [("statement/sql/select", 3, 2239758000, 0, 0), ("statement/com/Ping", 8, 90000000, 0, 0)],
    [
        ("statement/sql/select", 4, 4479516000, 1, 0),
        ("statement/sql/insert", 51, 329406454000, 0, 51),
        ("statement/sql/alter_table", 3, 398746039000, 0, 50),
        ("statement/com/Ping", 8, 90000000, 0, 0),
    ],
)
# SHOW GLOBAL STATUS LIKE 'Com\_%' of MariaDB 10.11, whose performance_schema is off by default.
MARIADB_10_11 = (
    [("Com_alter_table", "0"), ("Com_create_index", "0"), ("Com_insert", "1"), ("Com_select", "4")],
    [("Com_alter_table", "3"), ("Com_create_index", "1"), ("Com_insert", "53"), ("Com_select", "4")],
)


def told(rows: list[tuple[Any, ...]], on: int = 212) -> Reading:
    answers = {
        IS_ON: [("performance_schema", "ON")],
        performance._STATEMENT_SUMMARY: rows,
        INSTRUMENTS: [(212, on)],
    }
    return performance.read_statements(FakeServer(answers=answers))


def counted(rows: list[tuple[str, str]]) -> Reading:
    answers = {IS_ON: [("performance_schema", "OFF")], performance._STATEMENT_COUNTERS: rows}
    return performance.read_statements(FakeServer(answers=answers))


def test_mysql_tells_count_time_errors_and_rows_of_each_kind() -> None:
    kinds = performance.statements_between(*map(told, MYSQL_5_7))
    assert [one.kind for one in kinds] == ["alter_table", "insert", "select"]
    assert kinds[0].seconds is not None and round(kinds[0].seconds, 3) == 0.399
    assert (kinds[1].count, kinds[1].rows_affected, kinds[1].errors) == (51, 51, 0)
    assert (kinds[2].count, kinds[2].errors) == (1, 1)


def test_without_performance_schema_only_the_counts_are_known() -> None:
    before, after = map(counted, MARIADB_10_11)
    assert performance.statements_between(before, after) == (
        StatementKind(kind="insert", count=52),
        StatementKind(kind="alter_table", count=3),
        StatementKind(kind="create_index", count=1),
    )
    assert after.note.startswith("counts without times: performance_schema is OFF")


def test_switched_off_instruments_are_said() -> None:
    assert told([]).note == ""
    assert told([], on=0).note == "0 of 212 instruments statement/% are on"


def test_a_missing_right_is_a_note_and_no_end() -> None:
    reading = performance.read_statements(FakeServer(answers={IS_ON: [("performance_schema", "ON")]}))
    assert reading.counters == {} and "the server refused" in reading.note


def test_a_server_that_died_is_not_taken_for_one_that_says_no() -> None:
    server = FakeServer(answers={IS_ON: [("performance_schema", "ON")]})
    server.die("killed")
    with pytest.raises(ServerDied):
        performance.read_statements(server)
