from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from flushlab.build import Build
from flushlab.datadir import DataRoot
from flushlab.errors import UsageError, ValueOutOfRange
from flushlab.record import Endpoint, Value
from flushlab.server.clients import Access
from flushlab.server.sandbox.option_files import (
    SandboxPaths,
    account_sql,
    client_option_file,
    new_password,
    server_option_file,
    write_secret,
)
from tests.unit.builds import MARIADB, MYSQL57, MYSQL80, MYSQL97

ENDPOINT = Endpoint(user="u", password="secret", socket="/s", host="127.0.0.1", port=33060)
PATHS = SandboxPaths(name="it", folder=Path("/home/run/it"), data_folder=Path("/disk/it"))


def options(which: Build, settings: dict[str, Value] | None = None) -> list[str]:
    return server_option_file(which, PATHS, ENDPOINT, settings or {}).splitlines()


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
    assert not [line for line in options(MARIADB) if "secure_file_priv" in line]


def test_nothing_that_a_data_directory_brings_acts_by_itself() -> None:
    for which in (MARIADB, MYSQL57, MYSQL80):
        assert {"skip_slave_start", "event_scheduler = OFF"} <= set(options(which))
    assert {"skip_replica_start", "event_scheduler = OFF"} <= set(options(MYSQL97))
    assert "persisted_globals_load = OFF" in options(MYSQL80)
    assert "persisted_globals_load = OFF" not in options(MYSQL57)


def test_a_table_of_a_workload_is_not_made_where_its_data_directory_says() -> None:
    assert "skip_symbolic_links" in options(MARIADB)
    assert "skip_symbolic_links" in options(MYSQL57)
    assert "skip_symbolic_links" not in options(MYSQL80), "its default, and deprecated"


def test_a_server_that_would_make_a_key_at_every_start_is_given_one() -> None:
    """MariaDB 11.4 and later: MDEV-31856."""
    newer = msgspec.structs.replace(MARIADB, version=(11, 4, 2))
    assert {"ssl_cert = /home/run/it/tls.pem", "ssl_key = /home/run/it/tls.pem"} <= set(options(newer))
    for which in (MARIADB, MYSQL80):
        assert not [line for line in options(which) if "ssl" in line]


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
        "ft_boolean_syntax": "a#b",
        "old_mode": "",
    }
    assert options(MARIADB, settings)[-5:] == [
        "innodb_buffer_pool_size = 512M",
        "innodb_doublewrite = OFF",
        "sync_binlog = 1",
        'ft_boolean_syntax = "a#b"',
        'old_mode = ""',
    ]


def test_value_that_this_version_does_not_allow_is_refused() -> None:
    with pytest.raises(ValueOutOfRange):
        options(MARIADB, {"innodb_flush_log_at_trx_commit": 9})


def test_value_cannot_break_out_of_its_line() -> None:
    line = options(MARIADB, {"ft_boolean_syntax": "a\nport = 1"})[-1]
    assert line == 'ft_boolean_syntax = "a\\nport = 1"'


@pytest.mark.parametrize(
    ("name", "value"),
    [("init_connect", "SET a=1"), ("secure_file_priv", "/x"), ("log_bin", "/x/bin"), ("made_up", 1)],
)
def test_no_setting_that_is_not_admitted_is_written(name: str, value: Value) -> None:
    with pytest.raises(UsageError):
        options(MARIADB, {name: value})


def test_password_is_in_the_clients_option_file_and_not_in_the_servers() -> None:
    assert "password = secret" in client_option_file(ENDPOINT).splitlines()
    assert "password" not in server_option_file(MARIADB, PATHS, ENDPOINT, {})


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
    assert lines[1] == "DROP USER IF EXISTS 'flushlab'@'127.0.0.1';"  # flushlab 0.1 made it
    for host in ("localhost", "%"):
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


def test_clients_log_in_from_their_hosts_with_tls_and_flushlab_from_this_machine() -> None:
    access = Access(address="10.0.0.1", hosts=("10.0.0.2", "10.0.0.3"), password="theirs", identity="")
    text = account_sql(MARIADB, "ours", access)
    assert "%" not in text
    made = [line for line in text.splitlines() if line.startswith("CREATE USER")]
    assert [line.split()[5] for line in made] == [
        "'flushlab'@'localhost'",
        "'flushlab'@'10.0.0.1'",
        "'flushlab_load'@'10.0.0.2'",
        "'flushlab_load'@'10.0.0.3'",
    ]
    assert [("theirs" in line, "REQUIRE SSL" in line) for line in made] == [(False, False)] * 2 + [
        (True, True)
    ] * 2
    assert "theirs" not in repr(access)


@pytest.mark.usefixtures("private_home")
def test_random_names_differ() -> None:
    root = DataRoot.open()
    assert SandboxPaths.choose(None, root).name != SandboxPaths.choose(None, root).name


@pytest.mark.usefixtures("private_home")
@pytest.mark.parametrize("name", ["", "..", "a/b", "Big", "x" * 41, "-x", "a b"])
def test_names_that_are_no_plain_file_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid sandbox name"):
        SandboxPaths.choose(name, DataRoot.open())


def test_path_too_long_for_a_socket_is_refused(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUSHLAB_HOME", str(private_home / ("x" * 90)))
    with pytest.raises(UsageError, match=r"has \d+ bytes; the system allows 107") as caught:
        SandboxPaths.choose("it", DataRoot.open())
    assert caught.value.hint == "set FLUSHLAB_HOME to a directory with a shorter path"
