"""Addresses of servers that are not flushlab's."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.errors import StorageError, UsageError
from flushlab.server.remote.login import from_dsn, from_option_file


def test_a_dsn_names_user_password_host_port_and_database() -> None:
    found = from_dsn("mysql://me:p%40ss%2Fword@db.example.com:3307/shop")
    at = found.endpoint
    assert (at.user, at.password, at.host, at.port) == ("me", "p@ss/word", "db.example.com", 3307)
    assert (found.database, found.transport, found.ssl_mode) == ("shop", "tcp", "required")


@pytest.mark.parametrize(
    ("dsn", "mode"),
    [
        ("mysql://me@127.0.0.1/a", "disabled"),
        ("mysql://me@localhost/a", "disabled"),
        ("mysql://me@127.0.1.7/a", "disabled"),
        ("mysql://me@[::1]/a", "disabled"),
        ("mysql://me@127.example.com/a", "required"),
        ("mysql://me@db/a?ssl-mode=DISABLED", "disabled"),
        ("mysql://me@db/a?ssl-ca=/ca.pem", "verify_ca"),
        ("mysql://me@db/a?ssl-mode=verify_identity&ssl-ca=/ca.pem", "verify_identity"),
    ],
)
def test_tls_is_left_out_on_loopback_only_or_by_word(dsn: str, mode: str) -> None:
    assert from_dsn(dsn).ssl_mode == mode


def test_a_socket_is_taken_unless_a_host_is_named() -> None:
    assert from_dsn("mysql://me@localhost/a?socket=/run/mysqld.sock").transport == "socket"
    assert from_dsn("mysql://me@db/a?socket=/run/mysqld.sock").transport == "tcp"


@pytest.mark.parametrize(
    "dsn",
    ["", "shop", "postgres://me:secret@db/a", "mysql://me:secret@db:port/a", "mysql:///a", "mysql://db/?x"],
)
def test_what_is_no_dsn_is_refused_without_repeating_it(dsn: str) -> None:
    with pytest.raises(UsageError) as refused:
        from_dsn(dsn)
    assert "secret" not in f"{refused.value.message}{refused.value.hint}"


def test_an_option_file_is_read_as_the_clients_read_it(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text(
        '[mysqld]\nport=1\n[client]\nuser = me\npassword = "a # b"\nhost=db\n[mysql]\ndatabase=shop\n'
    )
    found = from_option_file(file)
    at = found.endpoint
    assert (at.user, at.password, at.host, at.port, found.database) == ("me", "a # b", "db", 3306, "shop")


def test_an_option_file_without_a_clients_group_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my.cnf").write_text("[mysqld]\nuser=mysql\n")
    with pytest.raises(UsageError, match="has no group for clients"):
        from_option_file(tmp_path / "my.cnf")
    with pytest.raises(StorageError):
        from_option_file(tmp_path / "absent.cnf")
