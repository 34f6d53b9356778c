"""Texts that no server reads as the option file that they are meant as."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.settings.check import check, unusable
from flushlab.settings.in_force import read_dump
from flushlab.settings.optionfile import lines
from tests.unit.settings.servers import MARIADB118, MYSQL57, MYSQL80, MYSQL97

ROOT = Path(__file__).parents[3]
FILES = [*(ROOT / "tests/data/option_files").glob("*.cnf"), *(ROOT / "examples").rglob("*.cnf")]
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: mysql
data:
  my.cnf: |
    [mysqld]
    sync_binlog = 1
"""


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("innodb_buffer_pool_size = {{ mysql_innodb_buffer_pool_size }}", "{{ … }}"),
        ("server_id = {{ .Values.mysql.serverId | default 1 }}", "{{ … }}"),
        ("{{- with .Values.extra }}", "{{ … }}"),
        ("{% if mysql_slow_query_log %}", "{% … %}"),
        ("port = <%= @port %>", "<% … %>"),
        ("<% if $mysql::slow_log { -%>", "<% … %>"),
        ("port = ${MYSQL_PORT:-3306}", "${…}"),
        ("server-id=$(SERVER_ID)", "$(…)"),
        ('server_id = "$SERVER_ID"', "$NAME"),
        ("basedir=@MYSQL_PREFIX@", "@NAME@"),
        ("datadir = %DATA_DIR%", "%NAME%"),
    ],
)
def test_a_template_is_told_in_one_line_by_its_first_mark(line: str, form: str) -> None:
    text = f"# {{{{ ansible_managed }}}}\n[mysqld]\n{line}\n" + "port = {{ mysql_port }}\n" * 57
    assert unusable(text) == (f"is a template: line 3 has {form}", "give the rendered file")


@pytest.mark.parametrize(
    "text", [CONFIG_MAP, "---\nmysql:\n  port: 3306\n", "services:\n  db:\n    image: mysql\n"]
)
def test_yaml_is_not_an_option_file(text: str) -> None:
    says, hint = unusable(f"# values\n\n{text}") or ("", "")
    assert says == "is YAML, not an option file"
    assert hint == "write the options inside it to an option file, under [mysqld], and give that"


def test_json_is_not_an_option_file() -> None:
    assert (unusable('{"sync_binlog": 1}') or ("",))[0] == "is JSON, not an option file"


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named_and_variables_in_it_are_read(coding: str) -> None:
    text = "[mysqld]\n# Größe\ninnodb_buffer_pool_size = 1G\n".encode(coding).decode(errors="replace")
    assert (unusable(text) or ("",))[0] == "is UTF-16, which no server reads"
    said = "Variable_name\tValue\nsync_binlog\t1\nversion\t8.0.36\n".encode(coding).decode(errors="replace")
    dump = read_dump(said)
    assert dump is not None and dump.variables == {"sync_binlog": "1", "version": "8.0.36"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# {{ ansible_managed }}\n[mysqld]\nport = 3306\n",
        "[client]\npassword = $ecret{1}\n[mysqld]\ninit_connect = 'SET @a = 1'\n",
        "[mysqld]\nport: 3306\n",
        "sync_binlog = 1\n",
        "[mysqld]\nport = 1\n" + "\0" * 4096,
        *(file.read_text() for file in FILES),
    ],
)
def test_an_option_file_is_one_with_whatever_mistakes(text: str) -> None:
    assert unusable(text) is None


def test_a_byte_order_mark_stops_every_server_and_is_told_once() -> None:
    for identity in (MYSQL57, MYSQL97, MARIADB118):
        (finding,) = check("\ufeff[mysqld]\nsync_binlog = 1\n", identity).findings
        assert finding.text == "the line begins with a byte order mark"
        assert (finding.line, finding.fatal) == (1, True)


@pytest.mark.parametrize(
    ("text", "fgets", "getline"),
    [
        ("# a\0b\nport=7\n", ["--port=7"], []),
        ("port=7\0\nsocket=/x\n", ["--port=7", "--socket=/x"], ["--port=7socket=/x"]),
        ("\0\nport=7\n", ["--port=7"], []),
        ("port=7\n\0\0\0\0\nport=8\n", ["--port=7", "--port=8"], ["--port=7"]),
        ("po\0rt=7\n\0\nport=8\n", ["--po", "--port=8"], ["--po", "--port=8"]),
        ("port=7\n\0\0\0", ["--port=7"], ["--port=7"]),
        ("port=7\0", ["--port=7"], ["--port=7"]),
    ],
)
def test_a_nul_byte_ends_a_line_or_joins_it_to_the_next_one(
    text: str, fgets: list[str], getline: list[str]
) -> None:
    """As MySQL 5.7.22 and MariaDB 11.8.9, and MySQL 9.7.4, print it with --print-defaults."""
    for whole, arguments in ((False, fgets), (True, getline)):
        found = list(lines(f"[mysqld]\n{text}", "my.cnf", whole=whole))
        assert [one.argument for one in found if one.argument] == arguments
        assert any("NUL byte" in one.problem for one in found)


def test_a_last_line_without_its_end_is_whole() -> None:
    found = list(lines("[mysqld]\n#\0\nport=7\nport=8", "my.cnf", whole=True))
    assert [one.line for one in found if "NUL byte" in one.problem] == [2]
    (told,) = lines("# a\0b\nport=7", "my.cnf", whole=True)
    assert "NUL byte" in told.problem


def test_carriage_returns_and_tabs_are_blanks() -> None:
    text = "\t[mysqld]\t\r\n\tsync_binlog\t=\t7\t\r\n"
    checked = check(text, MYSQL80)
    assert (checked.settings, checked.findings) == ({"sync_binlog": 7}, ())


def test_an_included_template_is_one_finding() -> None:
    template = "[mysqld]\n" + "port = {{ port }}\n" * 9
    found = check("!includedir /d\n", MYSQL80, loader=lambda *_: [("/d/a.cnf", template)]).findings
    told = [one.text for one in found if one.severity == "error"]
    assert told == ["is a template: line 2 has {{ … }}"]


def test_includes_name_what_was_read_and_where() -> None:
    names = [f"/etc/mysql/conf.d/{number}.cnf" for number in range(9)]
    text = "!includedir /etc/mysql/conf.d/\n!include extra.cnf\n"
    checked = check(text, MYSQL80, loader=lambda _, directory: [(name, "") for name in names if directory])
    folder, file, relative = checked.findings
    assert folder.text == (
        "/etc/mysql/conf.d/ was read on this machine: 0.cnf, 1.cnf, 2.cnf, 3.cnf, 4.cnf, 5.cnf and 3 more"
    )
    assert (file.text, file.severity) == ("extra.cnf was read on this machine", "note")
    assert (relative.hint, relative.severity) == ("write the whole path", "warning")
