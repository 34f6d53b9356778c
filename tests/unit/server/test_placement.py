from __future__ import annotations

import stat
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.datadir import DataRoot
from flushlab.errors import UsageError, ValueOutOfRange
from flushlab.record import Endpoint, Value
from flushlab.server.placement import (
    Placement,
    account_sql,
    check_names,
    client_option_file,
    new_password,
    server_option_file,
    write_secret,
)
from tests.unit.builds import MARIADB, MYSQL57, MYSQL80, MYSQL97

PLACE = Placement(name="it", folder=Path("/home/run/it"), data_folder=Path("/disk/it"))


def options(which: Build, settings: dict[str, Value] | None = None) -> list[str]:
    return server_option_file(which, PLACE, 33060, settings or {}).splitlines()


def test_server_listens_on_its_socket_and_loopback_only() -> None:
    lines = options(MARIADB)
    assert "socket = /home/run/it/server/mysqld.sock" in lines
    assert "bind_address = 127.0.0.1" in lines
    assert "port = 33060" in lines


def test_second_listener_of_mysql_8_is_off() -> None:
    assert "loose_mysqlx = OFF" in options(MYSQL80)
    assert "loose_mysqlx = OFF" not in options(MYSQL57)
    assert "loose_mysqlx = OFF" not in options(MARIADB)


def test_mysql_needs_no_directory_of_the_systems_own_server() -> None:
    assert "secure_file_priv = NULL" in options(MYSQL57)
    assert options(MYSQL80, {"secure_file_priv": "/x"})[-1] == "secure_file_priv = /x"
    assert not [line for line in options(MARIADB) if "secure_file_priv" in line]


def test_data_and_temporary_files_lie_in_the_data_root() -> None:
    lines = options(MARIADB)
    assert "datadir = /disk/it/data" in lines
    assert "tmpdir = /disk/it/tmp" in lines


def test_messages_of_an_unpacked_server_are_found() -> None:
    assert "lc_messages_dir = /opt/it/share" in options(MYSQL57)


def test_binlog_is_left_as_the_server_has_it_unless_it_is_set() -> None:
    for which in (MARIADB, MYSQL57, MYSQL80):
        assert not [line for line in options(which) if "log_bin" in line]
    assert options(MYSQL80, {"log_bin": "OFF"})[-1] == "skip_log_bin"


def test_binlog_that_is_on_has_a_name_without_the_machines_and_a_server_id() -> None:
    lines = options(MYSQL57, {"log_bin": "ON"})
    assert lines[-1] == "log_bin = binlog"
    assert "server_id = 1" in lines


def test_server_id_that_is_set_stands_alone() -> None:
    assert [line for line in options(MARIADB, {"server_id": 7}) if "server_id" in line] == ["server_id = 7"]


def test_settings_are_spelled_as_option_files_have_them() -> None:
    settings: dict[str, Value] = {
        "innodb_buffer_pool_size": 512 << 20,
        "innodb_doublewrite": "OFF",
        "sync_binlog": 1,
        "not_in_the_catalog": "a#b",
        "empty": "",
    }
    assert options(MARIADB, settings)[-5:] == [
        "innodb_buffer_pool_size = 512M",
        "innodb_doublewrite = OFF",
        "sync_binlog = 1",
        'not_in_the_catalog = "a#b"',
        'empty = ""',
    ]


def test_value_that_this_version_does_not_allow_is_refused() -> None:
    with pytest.raises(ValueOutOfRange):
        options(MARIADB, {"innodb_flush_log_at_trx_commit": 9})


@pytest.mark.parametrize("name", ["datadir", "socket", "port", "bind-address", "PID_FILE", "init_file"])
def test_settings_that_place_the_server_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is set by the sandbox itself"):
        check_names({name: "x"})


def test_name_that_would_break_out_of_its_line_is_refused() -> None:
    with pytest.raises(UsageError, match="is not the name of a server variable"):
        check_names({"sync_binlog\n[client]": 1})


def test_value_cannot_break_out_of_its_line() -> None:
    line = options(MARIADB, {"init_connect": "SET a=1\nport = 1"})[-1]
    assert line == 'init_connect = "SET a=1\\nport = 1"'


def test_names_are_spelled_as_variables() -> None:
    assert check_names({"Sync-Binlog": 1}) == {"sync_binlog": 1}


def test_password_is_in_the_clients_option_file_and_not_in_the_servers() -> None:
    endpoint = Endpoint(user="u", password="secret", socket="/s", host="127.0.0.1", port=1)
    assert "password = secret" in client_option_file(endpoint).splitlines()
    assert "password" not in server_option_file(MARIADB, PLACE, 1, {})


@pytest.mark.parametrize(
    ("which", "plugin"),
    [
        (MARIADB, "IDENTIFIED VIA mysql_native_password USING PASSWORD('p')"),
        (MYSQL57, "IDENTIFIED WITH mysql_native_password BY 'p'"),
        (MYSQL80, "IDENTIFIED WITH mysql_native_password BY 'p'"),
        (MYSQL97, "IDENTIFIED BY 'p'"),
    ],
)
def test_account_is_made_for_both_ways_in_and_kept_out_of_the_binlog(which: Build, plugin: str) -> None:
    lines = account_sql(which, "p").splitlines()
    assert lines[0] == "SET sql_log_bin = 0;"
    for host in ("localhost", "127.0.0.1"):
        assert f"ALTER USER 'flushlab'@'{host}' {plugin};" in lines


def test_passwords_differ_and_need_no_quoting() -> None:
    passwords = {new_password() for _ in range(100)}
    assert len(passwords) == 100
    assert all(word.replace("-", "").isalnum() and len(word) > 30 for word in passwords)


def test_secret_file_is_readable_by_its_owner_only_and_replaces_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("old")
    file = tmp_path / "secret"
    file.symlink_to(victim)
    write_secret(file, "new")
    assert stat.S_IMODE(file.lstat().st_mode) == 0o600
    assert victim.read_text() == "old"


@pytest.mark.usefixtures("private_home")
def test_random_names_differ() -> None:
    root = DataRoot.open()
    assert Placement.choose(None, root).name != Placement.choose(None, root).name


@pytest.mark.usefixtures("private_home")
@pytest.mark.parametrize("name", ["", "..", "a/b", "Big", "x" * 41, "-x", "a b"])
def test_names_that_are_no_plain_file_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a sandbox's name"):
        Placement.choose(name, DataRoot.open())


def test_path_too_long_for_a_socket_is_refused(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUSHLAB_HOME", str(private_home / ("x" * 90)))
    with pytest.raises(UsageError, match=r"has \d+ bytes; the system allows 107") as caught:
        Placement.choose("it", DataRoot.open())
    assert caught.value.hint == "set FLUSHLAB_HOME to a directory with a shorter path"
