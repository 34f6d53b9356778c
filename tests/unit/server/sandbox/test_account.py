from __future__ import annotations

import stat
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.server.clients import Access
from flushlab.server.sandbox.option_files import account_sql, new_password, write_secret
from tests.unit.builds import MARIADB, MYSQL57, MYSQL80, MYSQL97


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
