"""Files of variables are known from option files, whatever wrote them, and mean what the server has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flushlab.settings.in_force import identity_of, in_force, read_dump

OPTION_FILES = Path(__file__).parents[2] / "data/option_files"

VARIABLES = {
    "innodb_flush_log_at_trx_commit": "2",
    "log_bin": "ON",
    "sync_binlog": "1",
    "hostname": "db1",
    "license": "GPL",
    "protocol_version": "10",
    "system_time_zone": "UTC",
    "version": "8.0.36-28",
    "version_comment": "Percona Server (GPL), Release 28",
}
BORDER = "+--------------------------------+----------+\n"
FORMS = {
    "tabs": "Variable_name\tValue\n" + "".join(f"{name}\t{text}\n" for name, text in VARIABLES.items()),
    "box": f"{BORDER}| Variable_name                  | Value    |\n{BORDER}"
    + "".join(f"| {name:<30} | {text:<8} |\n" for name, text in VARIABLES.items())
    + f"{BORDER}9 rows in set (0.01 sec)\n",
    "csv": '"Variable_name","Value"\n' + "".join(f'"{name}","{text}"\n' for name, text in VARIABLES.items()),
    "vertical": "".join(
        f"*************************** {row}. row ***************************\n"
        f"Variable_name: {name}\n        Value: {text}\n"
        for row, (name, text) in enumerate(VARIABLES.items(), start=1)
    ),
    "options": "[mysqld]\n" + "".join(f"{name} = {text}\n" for name, text in VARIABLES.items()),
    "aws": json.dumps(
        {
            "Parameters": [
                {"ParameterName": name, "ParameterValue": text, "IsModifiable": True}
                for name, text in VARIABLES.items()
            ]
            + [{"ParameterName": "innodb_flush_method", "Source": "engine-default"}]
        },
        indent=4,
    ),
    "az": json.dumps([{"name": name, "value": text} for name, text in VARIABLES.items()], indent=2),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_variables_of_a_server_are_read_with_their_lines(form: str) -> None:
    dump = read_dump(FORMS[form])
    assert dump is not None
    assert dump.variables == VARIABLES
    lines = FORMS[form].splitlines()
    assert all(name in lines[line - 1] for name, line in dump.lines.items())


@pytest.mark.parametrize("file", sorted(OPTION_FILES.glob("*.cnf")), ids=lambda file: file.stem)
def test_an_option_file_is_no_dump(file: Path) -> None:
    assert read_dump(file.read_text(errors="replace")) is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "[1, 2]", '{"a": 1}', "a\tb\n", "| a | b |\n", "sync_binlog=1\n", "[mysqld]\n"],
)
def test_what_has_no_known_variable_is_no_dump(text: str) -> None:
    assert read_dump(text) is None


def test_the_dump_tells_the_server() -> None:
    told = identity_of(VARIABLES)
    assert told is not None
    assert (told.flavor, told.version) == ("mysql", (8, 0, 36))
    mariadb = identity_of({"version": "10.11.19-MariaDB-0+deb12u1-log"})
    assert mariadb is not None
    assert (mariadb.flavor, mariadb.version) == ("mariadb", (10, 11, 19))
    assert identity_of({"sync_binlog": "1"}) is None


def test_the_settings_are_typed_and_the_rest_is_kept_as_text() -> None:
    identity = identity_of(VARIABLES)
    assert identity is not None
    checked = in_force(VARIABLES, identity, path="x.tsv", lines={"sync_binlog": 4})
    assert checked.settings == {"innodb_flush_log_at_trx_commit": 2, "log_bin": "ON", "sync_binlog": 1}
    assert checked.others["hostname"] == "db1"
    assert (checked.lines["sync_binlog"], checked.lines["hostname"]) == (("x.tsv", 4), ("x.tsv", 0))
    assert checked.findings == ()


def test_a_formula_of_a_service_and_an_unknown_value_are_noted_and_not_judged() -> None:
    identity = identity_of(VARIABLES)
    assert identity is not None
    given = {
        "innodb_buffer_pool_size": "{DBInstanceClassMemory*3/4}",
        "innodb_flush_method": "O_MAGIC",
        "sync_binlog": "1",
    }
    checked = in_force(given, identity, path="rds.json")
    assert checked.settings == {"sync_binlog": 1}
    assert [(one.kind, one.severity, one.name) for one in checked.findings] == [
        ("formula", "note", "innodb_buffer_pool_size"),
        ("unknown-value", "note", "innodb_flush_method"),
    ]


def test_aurora_is_said_to_keep_its_data_elsewhere() -> None:
    identity = identity_of(VARIABLES)
    assert identity is not None
    (finding,) = in_force({"aurora_version": "3.04.1"}, identity, path="x").findings
    assert (finding.kind, finding.severity) == ("product", "note")
    assert "Amazon Aurora" in finding.text
