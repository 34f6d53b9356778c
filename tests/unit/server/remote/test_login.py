"""Where the account and the address of a running server come from."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from flushlab.errors import StorageError, UsageError
from flushlab.server.remote import login
from flushlab.server.remote.login import Address, addresses_of
from flushlab.spec.parts import RemoteAccess

VARIABLES = ("MYSQL_HOST", "MYSQL_TCP_PORT", "MYSQL_UNIX_PORT", "MYSQL_PWD", "MYSQL_GROUP_SUFFIX")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and an /etc of the test's own; nothing of this machine's is read."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    files = [tmp_path / "etc.cnf", tmp_path / "etc-mysql.cnf", tmp_path / ".my.cnf"]
    monkeypatch.setattr(login, "USUAL_FILES", tuple(map(str, files)))
    monkeypatch.setattr(login, "USUAL_SOCKETS", (str(tmp_path / "usual.sock"),))
    monkeypatch.setattr(login, "getuser", lambda: "me")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    return tmp_path


def reached(**flags: Any) -> Address:
    (found,) = addresses_of(RemoteAccess(**flags))
    return found


def test_the_home_of_the_user_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert login.USUAL_FILES == ("/etc/my.cnf", "/etc/mysql/my.cnf", "~/.my.cnf")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".my.cnf").write_text("[client]\nuser = anna\npassword = hers\n")
    found = reached(host="db1").endpoint
    assert (found.user, found.password, found.host, found.port) == ("anna", "hers", "db1", found.port)


def test_later_files_win_and_in_a_file_later_lines_whatever_their_group(home: Path) -> None:
    (home / "etc.cnf").write_text("[client]\nuser=a\npassword=a\nport=1\n")
    (home / "etc-mysql.cnf").write_text("[mysql]\nuser=b\npassword=b\n[client]\npassword=c\n")
    (home / ".my.cnf").write_text("[client]\npassword=d\nhost=db\n")
    at = reached(ask_pass=False, host="db").endpoint
    assert (at.user, at.password, at.host, at.port) == ("b", "d", "db", 1)


@pytest.mark.parametrize("group", login.GROUPS)
def test_the_groups_of_clients_are_read(home: Path, group: str) -> None:
    (home / ".my.cnf").write_text(f"[{group}]\nuser=anna\n[mysqld]\nuser=mysql\n[mysqldump]\nuser=dump\n")
    assert reached(host="db").endpoint.user == "anna"


def test_flags_win_over_files_and_files_over_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_HOST", "env")
    monkeypatch.setenv("MYSQL_TCP_PORT", "11")
    monkeypatch.setenv("MYSQL_PWD", "env's")
    at = reached(user="u").endpoint
    assert (at.user, at.host, at.port, at.password) == ("u", "env", 11, "env's")
    (home / ".my.cnf").write_text("[client]\nhost=file\nport=22\npassword=file's\nuser=file\n")
    at = reached(ask_pass=False, port=33).endpoint
    assert (at.user, at.host, at.port, at.password) == ("file", "file", 33, "file's")
    at = reached(host="flag", user="flag").endpoint
    assert (at.user, at.host, at.port, at.password) == ("flag", "flag", 22, "file's")


def test_a_named_file_replaces_the_usual_ones(home: Path) -> None:
    (home / ".my.cnf").write_text("[client]\nuser=usual\npassword=usual\n")
    (home / "own.cnf").write_text("[client]\nhost=db\n")
    at = reached(defaults_file=str(home / "own.cnf")).endpoint
    assert (at.user, at.password, at.host) == ("me", "", "db")


def test_a_suffix_adds_groups(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".my.cnf").write_text("[client]\nuser=a\nhost=one\n[client_Two]\nhost=two\n")
    assert reached(user="a").endpoint.host == "one"
    assert reached(defaults_group_suffix="_Two").endpoint.host == "two"
    monkeypatch.setenv("MYSQL_GROUP_SUFFIX", "_two")
    assert reached(user="a").endpoint.host == "two"


def test_included_files_stand_in_their_place(home: Path) -> None:
    (home / "conf.d").mkdir()
    (home / "conf.d" / "b.cnf").write_text("[client]\nhost=b\n")
    (home / "conf.d" / "a.cnf").write_text("[client]\nhost=a\nuser=a\n")
    (home / "conf.d" / "c.txt").write_text("[client]\nhost=c\n")
    (home / ".my.cnf").write_text("[client]\nuser=x\n!includedir conf.d\n!include circle.cnf\n")
    (home / "circle.cnf").write_text("!include circle.cnf\n")
    at = reached(port=7).endpoint
    assert (at.user, at.host) == ("a", "b")


def test_a_file_that_everybody_may_write_is_refused(home: Path) -> None:
    (home / ".my.cnf").write_text("[client]\nhost=evil\n")
    (home / ".my.cnf").chmod(0o666)
    with pytest.raises(StorageError, match="world-writable") as refused:
        reached(user="me")
    assert refused.value.hint == f"chmod o-w {home / '.my.cnf'}"


def test_localhost_means_the_socket_that_is_there(home: Path) -> None:
    assert reached(user="me").name == "127.0.0.1:3306"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(home / "usual.sock"))
    usual = str(home / "usual.sock")
    assert reached(user="me").name == usual
    assert reached(host="localhost").name == usual
    assert reached(host="127.0.0.1").name == "127.0.0.1:3306"
    assert reached(port=3307).name == "127.0.0.1:3307"


def test_a_flag_chooses_the_transport(home: Path) -> None:
    (home / ".my.cnf").write_text("[client]\nsocket=/run/file.sock\nport=3306\n")
    assert reached(user="me").name == "/run/file.sock"
    assert reached(host="localhost").name == "/run/file.sock"
    assert reached(port=3307).name == "127.0.0.1:3307"
    assert reached(host="db").name == "db:3306"
    (home / ".my.cnf").write_text("[client]\nhost=db\nport=3306\n")
    assert reached(socket="/run/flag.sock").name == "/run/flag.sock"
    (home / ".my.cnf").write_text("[client]\nsocket=/run/file.sock\nprotocol=TCP\n")
    assert reached(user="me").name == "127.0.0.1:3306"


@pytest.mark.parametrize("other", [{"host": "db"}, {"port": 3307}])
def test_a_socket_beside_a_place_on_the_network_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--socket and --"):
        reached(socket="/run/a.sock", **other)


@pytest.mark.parametrize(
    ("lines", "mode"),
    [
        ("", "required"),
        ("ssl-mode=PREFERRED", "required"),
        ("ssl-mode=DISABLED", "disabled"),
        ("skip-ssl", "disabled"),
        ("ssl=0", "disabled"),
        ("ssl", "required"),
        ("ssl-verify-server-cert", "verify_identity"),
        ("ssl_ca=/ca.pem", "verify_ca"),
        ("ssl-verify-server-cert=0", "required"),
        ("loose-ssl-mode=VERIFY_CA", "verify_ca"),
    ],
)
def test_tls_is_asked_for_as_clients_are_told(home: Path, lines: str, mode: str) -> None:
    (home / ".my.cnf").write_text(f"[client]\n{lines}\n")
    assert reached(host="db.example.com").ssl_mode == mode


def test_a_group_that_no_client_reads_may_refuse_tls(home: Path) -> None:
    (home / ".my.cnf").write_text("[client]\nhost=db.example.com\n[flushlab]\nssl-mode = disabled\n")
    assert reached().ssl_mode == "disabled"


def test_nodes_of_a_cluster_are_named_together() -> None:
    found = addresses_of(RemoteAccess(host="n1, n2,n3", user="u", port=3307))
    assert [one.name for one in found] == ["n1:3307", "n2:3307", "n3:3307"]


def test_the_prompt_wins_over_every_other_password(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "typed"

    monkeypatch.setattr(login, "ask_password", ask)
    monkeypatch.setenv("MYSQL_PWD", "env's")
    (home / ".my.cnf").write_text("[client]\nuser=a\npassword=file's\n")
    assert reached(host="db", ask_pass=True).endpoint.password == "typed"
    assert reached(dsn="mysql://u@db/app", ask_pass=True).endpoint.password == "typed"
    assert asked == ["Password of a at db:3306: ", "Password of u at db:3306: "]
    with pytest.raises(UsageError, match="--dsn has a password"):
        reached(dsn="mysql://u:p@db/app", ask_pass=True)
    assert len(asked) == 2


def test_a_password_line_without_a_value_asks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "ask_password", lambda _: "typed")
    (home / ".my.cnf").write_text("[client]\npassword\n")
    assert reached(host="db").endpoint.password == "typed"
    (home / ".my.cnf").write_text("[client]\npassword=\n")
    assert reached(host="db").endpoint.password == ""


def test_an_address_reads_no_files(home: Path) -> None:
    (home / ".my.cnf").write_text("[client]\nuser=file\npassword=file's\nport=1\n")
    at = reached(dsn="mysql://u@db/app").endpoint
    assert (at.user, at.password, at.port) == ("u", "", 3306)
