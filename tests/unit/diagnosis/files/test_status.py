"""Statuses and variables in every form of the clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from flushlab.diagnosis.files import statements
from flushlab.telemetry.live.questions import OpenTransaction, ThreadState
from tests.unit.diagnosis.files import outputs
from tests.unit.diagnosis.files.outputs import (
    STATUS,
    VARIABLES,
    box,
    connection,
    processlists,
    tabs,
    vertical,
    vertical_pairs,
)


def csv(pairs: Mapping[str, str]) -> str:
    return "".join(f'"{name.upper()}","{value}"\n' for name, value in pairs.items())


def windows(pairs: Mapping[str, str]) -> str:
    return tabs(pairs).replace("\n", "\r\n")


def headless(pairs: Mapping[str, str]) -> str:
    return tabs(pairs, head=False)


def at_a_prompt(pairs: Mapping[str, str]) -> str:
    return f"mysql> SHOW GLOBAL STATUS;\n{box(pairs)}21 rows in set (0.00 sec)\n\nmysql> exit\n"


FORMS: tuple[Callable[[Mapping[str, str]], str], ...] = (
    tabs,
    headless,
    box,
    vertical_pairs,
    csv,
    windows,
    at_a_prompt,
)


@pytest.mark.parametrize("form", FORMS)
def test_two_statuses_are_read_in_every_form(form: Callable[[Mapping[str, str]], str]) -> None:
    told = statements.parse_status(form(outputs.status()) + form(outputs.status(10, Com_insert=30)))
    assert [one["uptime"] for one in told.statuses] == ["1000", "1010"]
    assert [one["com_insert"] for one in told.statuses] == ["500", "530"]
    assert told.statuses[0].keys() == {name.lower() for name in STATUS}


@pytest.mark.parametrize("form", FORMS)
def test_variables_are_read_in_every_form(form: Callable[[Mapping[str, str]], str]) -> None:
    told = statements.parse_variables(form(VARIABLES))
    assert told.variables == (VARIABLES,)
    assert not statements.parse_variables(form(outputs.status()))
    assert not statements.parse_status(form(VARIABLES))


def test_a_status_and_variables_in_one_file_are_both_read() -> None:
    text = box(VARIABLES) + box(outputs.status())
    assert len(statements.parse_status(text).statuses) == 1
    assert statements.parse_variables(text).variables[0]["version"] == "8.0.40"


def test_a_value_with_bars_and_one_over_several_lines_are_no_trouble() -> None:
    odd = {"ft_boolean_syntax": '+ -><()~*:""&|', **VARIABLES}
    assert statements.parse_variables(box(odd)).variables[0]["ft_boolean_syntax"] == '+ -><()~*:""&|'
    key = "| Rsa_public_key | -----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n |\n"
    assert statements.parse_status(box(outputs.status()) + key).statuses[0]["uptime"] == "1000"


def test_two_columns_are_two_statuses() -> None:
    before, after = outputs.status(), outputs.status(10, Com_insert=30)
    text = "".join(f"{name} {before[name]} {after[name]}\n" for name in before)
    text += "Binlog_snapshot_file mysql-bin.000002 mysql-bin.000002\n"
    told = statements.parse_status(text)
    assert [one["uptime"] for one in told.statuses] == ["1000", "1010"]
    assert told.statuses[1]["com_insert"] == "530"


def test_differences_of_mysqladmin_relative_are_added_up() -> None:
    difference = {**dict.fromkeys(STATUS, "0"), "Uptime": "10", "Com_insert": "30", "Threads_running": "-1"}
    told = statements.parse_status(box(outputs.status()) + box(difference) + box(difference))
    assert [one["uptime"] for one in told.statuses] == ["1000", "1010", "1020"]
    assert [one["com_insert"] for one in told.statuses] == ["500", "530", "560"]
    assert told.statuses[2]["threads_running"] == "0"


def test_a_status_without_uptime_is_counted() -> None:
    cut = box(outputs.status(10)).partition("| Threads_connected")[0]
    told = statements.parse_status(box(outputs.status()) + cut)
    assert (len(told.statuses), told.timeless) == (2, 1)


@pytest.mark.parametrize("like", ["Innodb_row_lock", "Innodb_log"])
def test_a_part_of_a_status_is_one(like: str) -> None:
    part = {name: value for name, value in outputs.status().items() if name.startswith(like)}
    assert statements.parse_status(tabs(part)).statuses == (
        {name.lower(): value for name, value in part.items()},
    )
    assert not statements.parse_variables(tabs(part))


def test_a_part_of_the_variables_is_one_and_a_list_of_anything_is_none() -> None:
    assert statements.parse_variables(tabs({"sync_binlog": "1", "sync_relay_log": "0"})).variables
    assert not statements.parse_variables(tabs({"hostname": "db1", "kernel": "6.1"}))
    columns = {"VARIABLE_NAME": "SYNC_BINLOG", "VARIABLE_VALUE": "1"}
    assert statements.parse_variables(vertical([columns])).variables == ({"sync_binlog": "1"},)


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
