"""What a run of a suite takes from the user's data."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.build.choice import of_release
from flushlab.dataset import open_dataset
from flushlab.spec.commands import DatabaseSpec
from flushlab.suite.request import _shape, server_of
from tests.unit.builds import MYSQL80

BACKUP = """[mysqld]
innodb_page_size=8192
innodb_data_file_path=ibdata1:12M;ibdata2:12M:autoextend
innodb_undo_directory=./
innodb_frobnicated_size=7
sync_binlog=1
"""


def test_a_backup_says_how_its_files_are_shaped(tmp_path: Path, private_home: Path) -> None:
    (tmp_path / "ibdata1").write_bytes(b"")
    (tmp_path / "backup-my.cnf").write_text(BACKUP)
    found = _shape(open_dataset(str(tmp_path)).settings(), MYSQL80)
    assert found == {"innodb_page_size": 8192, "innodb_data_file_path": "ibdata1:12M;ibdata2:12M:autoextend"}


@pytest.mark.parametrize(
    ("spec", "server", "told"),
    [
        (DatabaseSpec(), "mysql@8.0", "chosen by your files; --server NAME"),
        (DatabaseSpec(server="mariadb"), "mariadb", ""),
        (DatabaseSpec(basedir="/opt/mysql"), "mariadb", ""),
    ],
)
def test_the_users_files_choose_the_server_where_none_is_named(
    spec: DatabaseSpec, server: str, told: str
) -> None:
    said = list[str]()
    assert server_of(spec, [of_release("schema.sql", "MySQL 8.0.36")], said.append) == (server, told)
    assert len(said) == (told != "")


def test_without_a_sign_it_is_the_default_and_nothing_is_said() -> None:
    said = list[str]()
    assert server_of(DatabaseSpec(), [], said.append) == ("mariadb", "default; --server mysql@8.0")
    assert said == []
