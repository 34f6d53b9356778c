from __future__ import annotations

from typing import Any

from flushlab.telemetry import performance
from flushlab.telemetry.performance import Reading
from tests.fakes.server import FakeServer

IS_ON = "SHOW GLOBAL VARIABLES LIKE 'performance_schema'"
INSTRUMENTS = (
    "SELECT COUNT(*), SUM(ENABLED = 'YES' AND TIMED = 'YES') FROM"
    " performance_schema.setup_instruments WHERE NAME LIKE 'stage/%'"
)
# events_stages_summary_global_by_event_name: EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT.
MYSQL_8_0 = (
    [("stage/sql/query end", 2, 4697000)],
    [
        ("stage/sql/query end", 67, 95815000),
        ("stage/innodb/alter table (log apply table)", 2, 107266566000),
        ("stage/innodb/alter table (flush)", 3, 3681893000),
    ],
)
MARIADB_10_11 = (
    [("stage/sql/Commit", 2, 891000)],
    [("stage/sql/Commit", 57, 481422478000), ("stage/sql/After create", 10, 82477495000)],
)


def told(rows: list[tuple[Any, ...]], on: int = 150) -> Reading:
    answers = {
        IS_ON: [("performance_schema", "ON")],
        performance._STAGE_SUMMARY: rows,
        INSTRUMENTS: [(150, on)],
    }
    return performance.read_stages(FakeServer(answers=answers))


def test_mysql_tells_what_alter_table_waits_for() -> None:
    found = performance.stages_between(*map(told, MYSQL_8_0))
    assert [(one.stage, one.count) for one in found] == [
        ("innodb/alter table (log apply table)", 2),
        ("innodb/alter table (flush)", 3),
        ("sql/query end", 65),
    ]
    assert round(found[0].seconds, 3) == 0.107


def test_mariadb_tells_the_same_under_its_own_names() -> None:
    commit, create = performance.stages_between(*map(told, MARIADB_10_11))
    assert (commit.stage, commit.count, round(commit.seconds, 3)) == ("sql/Commit", 55, 0.481)
    assert create.stage == "sql/After create"


def test_that_most_are_off_by_default_is_said() -> None:
    assert told([], on=13).note == "13 of 150 instruments stage/% are on"


def test_without_performance_schema_nothing_is_known() -> None:
    reading = performance.read_stages(FakeServer(answers={IS_ON: [("performance_schema", "OFF")]}))
    assert reading == Reading(note="performance_schema is OFF: start the server with performance_schema=ON")
