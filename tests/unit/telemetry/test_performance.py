"""Tests."""

from __future__ import annotations

from typing import Any

from flushlab.server.control import StatementFailed
from flushlab.telemetry import performance
from flushlab.telemetry.files import Names
from flushlab.telemetry.performance import Reading
from tests.fakes.server import Answer, FakeServer

IS_ON = "SHOW GLOBAL VARIABLES LIKE 'performance_schema'"
NAMES = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin_basename', 'innodb_data_file_path')"


def test_what_one_collector_cannot_tell_is_noted_and_the_others_go_on() -> None:
    answers = {
        IS_ON: [("performance_schema", "OFF")],
        NAMES: [],
        "SHOW GLOBAL STATUS LIKE 'Com\\_%'": [("Com_insert", "7")],
    }
    before = performance.Readings(Reading(), Reading(), Reading(), Names())
    told = performance.between(before, performance.snapshot(FakeServer(answers=answers)), {"ib_logfile0": 3})
    assert [(one.kind, one.count) for one in told.statements_by_kind] == [("insert", 7)]
    assert [(one.file, one.fsyncs) for one in told.io_by_file] == [("ib_logfile0", 3)]
    assert told.untold.keys() == {"io_by_file", "statements_by_kind", "stages"}


def test_a_right_that_the_account_lacks_is_noted_as_the_grant_that_gives_it() -> None:
    def denied() -> list[tuple[object, ...]]:
        raise StatementFailed(1142, "SELECT command denied to user", "\nSELECT EVENT_NAME, '', COUNT_READ")

    answers: dict[str, Answer] = {
        IS_ON: [("performance_schema", "ON")],
        performance._SUMMARY % "information_schema": denied,
        "SELECT CURRENT_USER()": [("me@%",)],
    }
    assert performance.read_files(FakeServer(answers=answers)).note == (
        "the account lacks SELECT on performance_schema (GRANT SELECT ON performance_schema.* TO 'me'@'%')"
    )


def test_switching_on_reaches_every_collectors_instruments_and_leaves_out_flushlabs_own_connection() -> None:
    class Taking(FakeServer):
        def query(
            self, sql: str, args: object = (), *, answer_s: float | None = None
        ) -> list[tuple[object, ...]]:
            self.statements.append(sql)
            return [("performance_schema", "ON")] if sql == IS_ON else []

    server = Taking()
    assert performance.switch_on(server) is True
    updates = [sql for sql in server.statements if sql.startswith("UPDATE performance_schema.")]
    for instruments in performance.INSTRUMENTS:
        assert any(
            f"setup_instruments SET ENABLED = 'YES', TIMED = 'YES' WHERE NAME LIKE '{instruments}'" in sql
            for sql in updates
        )
    assert "CONNECTION_ID()" in updates[-1]


def test_where_it_is_off_nothing_is_switched_on() -> None:
    server = FakeServer(answers={IS_ON: [("performance_schema", "OFF")]})
    assert performance.switch_on(server) is False
    assert server.statements == [IS_ON]


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
