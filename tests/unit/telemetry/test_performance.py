from __future__ import annotations

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
