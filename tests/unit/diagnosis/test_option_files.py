"""The files that a server starts with: those of its command line, or the usual ones, as it reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from flushlab.diagnosis.host import Start, _lines, read_start
from tests.unit.telemetry.live.told import MARIADB, MYSQL97


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with Debian's files."""
    for name, text in {
        "etc/mysql/my.cnf": "[mysqld]\nsync_binlog = 1\n!includedir /etc/mysql/conf.d/\n",
        "etc/mysql/conf.d/b.cnf": "[mysqld]\ninnodb_flush_log_at_trx_commit = 2\n",
        "etc/mysql/conf.d/a.cnf": "[mysqld]\ninnodb_flush_log_at_trx_commit = 1\n\nquery_cache_size = 1M\n",
        "etc/mysql/conf.d/c.txt": "[mysqld]\ninnodb_flush_log_at_trx_commit = 0\n",
        "srv/own.cnf": "[mysqld]\nsync_binlog = 7\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def started(root: Path, *words: str, named: Sequence[str] = ()) -> Start:
    return read_start(("/usr/sbin/mysqld", *words), MYSQL97, named, root)


def test_the_last_included_file_wins(root: Path) -> None:
    found = started(root)
    assert found.files == ("/etc/mysql/my.cnf",)
    assert found.checked.settings["innodb_flush_log_at_trx_commit"] == 2
    assert found.checked.lines["innodb_flush_log_at_trx_commit"] == ("/etc/mysql/conf.d/b.cnf", 2)
    wrong = [one for one in found.checked.findings if one.name == "query_cache_size"]
    assert [one.place for one in wrong] == ["/etc/mysql/conf.d/a.cnf:4"]


@pytest.mark.parametrize(
    ("words", "files", "value"),
    [
        (["--defaults-file=/srv/own.cnf"], ("/srv/own.cnf",), 7),
        (["--defaults-extra-file=/srv/own.cnf"], ("/etc/mysql/my.cnf", "/srv/own.cnf"), 7),
        (["--no-defaults", "--sync-binlog=5"], (), None),
        (["--defaults-file=/srv/absent.cnf"], (), None),
    ],
)
def test_the_command_line_says_which(
    words: list[str], files: tuple[str, ...], value: int | None, root: Path
) -> None:
    found = started(root, *words, named=["/etc/mysql/my.cnf"])
    assert found.files == files
    assert found.checked.settings.get("sync_binlog") == value


def test_a_file_that_the_server_names_is_read(root: Path) -> None:
    found = started(root, named=["/etc/mysql/conf.d/a.cnf", "/srv/own.cnf", ""])
    assert found.files == ("/etc/mysql/my.cnf", "/srv/own.cnf")
    assert found.checked.settings["sync_binlog"] == 7


def test_options_follow_the_program_also_behind_a_loader(root: Path) -> None:
    words = (
        "/lib/ld.so",
        "--library-path",
        "/lib",
        "/usr/sbin/mysqld",
        "--sync-binlog=9",
        "--skip-log-bin",
        "--loose-innodb-doublewrite=0",
        "--innodb-flush-log-at-trx-commit",
        "2",
        "--defaults-group-suffix",
        "_two",
    )
    found = read_start(words, MYSQL97, (), root)
    assert found.arguments == {
        "sync_binlog": 9,
        "log_bin": "OFF",
        "innodb_doublewrite": "OFF",
        "innodb_flush_log_at_trx_commit": 2,
    }


def test_a_value_of_the_command_line_has_no_comment_and_no_quotes() -> None:
    words = ("/usr/sbin/mysqld", "--tmpdir=/tmp #1", "--init-connect", 'SET @a = "b"', "--skip-log-bin")
    lines = "".join(_lines(words)).splitlines()
    assert lines == [
        'tmpdir="/tmp #1"',
        'init-connect="SET @a = \\"b\\""',
        "skip-log-bin",
    ]


def test_a_suffix_chooses_groups(root: Path) -> None:
    (root / "etc/my.cnf").write_text("[mariadb]\nsync_binlog=1\n[mariadb.two]\nsync_binlog=2\n")
    (root / "etc/mysql/my.cnf").unlink()
    words = ("/usr/sbin/mariadbd", "--defaults-group-suffix=.two")
    assert read_start(words, MARIADB, (), root).checked.settings["sync_binlog"] == 2


def test_a_file_that_cannot_be_read_is_named(root: Path) -> None:
    (root / "etc/mysql/conf.d/b.cnf").unlink()
    (root / "etc/mysql/conf.d/b.cnf").mkdir()
    assert started(root).unread == ("/etc/mysql/conf.d/b.cnf",)


def test_a_file_that_anybody_may_write_to_was_not_read_by_the_server(root: Path) -> None:
    (root / "etc/mysql/my.cnf").unlink()
    (root / "etc/my.cnf").write_text("[mysqld]\nsync_binlog=7\n")
    assert read_start(("/usr/sbin/mysqld",), MYSQL97, (), root).checked.settings == {"sync_binlog": 7}
    (root / "etc/my.cnf").chmod(0o666)
    found = read_start(("/usr/sbin/mysqld",), MYSQL97, (), root)
    assert (found.checked.settings, found.unread) == ({}, ())
