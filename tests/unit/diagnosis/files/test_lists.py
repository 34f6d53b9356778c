"""Lists of connections and of transactions."""

from __future__ import annotations

from flushlab.diagnosis.files import statements
from flushlab.telemetry.live.questions import OpenTransaction, ThreadState
from tests.unit.diagnosis.files.outputs import connection, processlists, vertical

ROWS = [
    connection(7, "Query", 0, "waiting for handler commit", "COMMIT"),
    connection(
        8, "Query", 2, "updating", "/* shop:\n stock */ UPDATE stock\n  SET note = 'Time: 9'\nTime: 77"
    ),
    connection(9, "Sleep", 0, ""),
    connection(10, "Sleep", 500, "NULL"),
]
STATES = (
    ThreadState(7, "Query", 0, "waiting for handler commit", "commit"),
    ThreadState(8, "Query", 2, "updating", "update"),
    ThreadState(9, "Sleep", 0, "", ""),
    ThreadState(10, "Sleep", 500, "", ""),
)


def test_each_list_of_pt_stalk_is_a_moment() -> None:
    assert statements.parse_processlist(processlists([ROWS, ROWS[:1], ROWS])).moments == (
        STATES,
        STATES[:1],
        STATES,
    )


def test_a_list_with_more_columns_is_one_as_well() -> None:
    rows = [{**row, "Time_ms": "12", "Rows_sent": "0"} for row in ROWS]
    assert statements.parse_processlist(vertical(rows)).moments == (STATES,)


def test_a_list_in_a_box_or_with_tabs_is_one_as_well() -> None:
    rows = [list(ROWS[0]), list(ROWS[0].values()), list(ROWS[2].values())]
    box = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    tabs = "".join("\t".join(row) + "\n" for row in rows)
    assert statements.parse_processlist(f"+---+\n{box}+---+\n").moments == ((STATES[0], STATES[2]),)
    assert statements.parse_processlist(tabs + tabs).moments == ((STATES[0], STATES[2]),) * 2


def test_a_number_that_no_server_has_is_none() -> None:
    """Statements are text of clients, and may look like a list."""
    text = (
        f"Id\tUser\tCommand\tTime\tState\tInfo\n{'9' * 5000}\tapp\tQuery\t{'9' * 5000}\tupdating\tUPDATE t\n"
    )
    assert statements.parse_processlist(text).moments[0][0].seconds == 0


def test_other_results_are_no_connections() -> None:
    assert not statements.parse_processlist(vertical([{"Slave_IO_State": "Waiting", "Master_Host": "db2"}]))


def test_each_list_of_transactions_has_its_own_moment() -> None:
    text = "".join(
        f"TS 17672256{second}.5 2026-01-01 00:00:{second}\n"
        + vertical(
            [{"trx_id": "1", "trx_state": "RUNNING", "trx_started": f"2026-01-01 00:00:{second}",
              "trx_mysql_thread_id": "8", "trx_rows_locked": "2", "trx_rows_modified": "1"}]
        )
        for second in range(10, 40)
    )  # fmt: skip
    found = statements.parse_transactions(text).transactions
    assert len(found) == 30
    assert {one.age_s for look in found for one in look} == {0}


def test_transactions_have_an_age_at_the_moment() -> None:
    rows = [
        {
            "trx_id": "1",
            "trx_state": "LOCK WAIT",
            "trx_started": "2026-01-01 00:00:00",
            "trx_mysql_thread_id": "8",
            "trx_rows_locked": "2",
            "trx_rows_modified": "1",
        }
    ]
    text = f"TS 1767225645.5 2026-01-01 00:00:45\n{vertical(rows)}"
    assert statements.parse_transactions(text).transactions == (
        (OpenTransaction(id=1, thread=8, waits=True, age_s=45, rows_locked=2, rows_modified=1),),
    )
    later = {**rows[0], "trx_id": "2", "trx_started": "2026-01-01 00:00:30", "trx_mysql_thread_id": "0"}
    (found,) = statements.parse_transactions(
        vertical([*rows, {**later, "trx_state": "RUNNING"}])
    ).transactions
    assert [(one.age_s, one.is_left, one.key) for one in found] == [(30, False, 8), (0, True, -2)]
