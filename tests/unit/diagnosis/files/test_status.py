"""Statuses and variables in every form of the clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from flushlab.diagnosis.files import statements
from tests.unit.diagnosis.files import outputs
from tests.unit.diagnosis.files.outputs import STATUS, VARIABLES, box, tabs, vertical, vertical_pairs


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
