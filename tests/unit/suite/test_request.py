"""What a run of a suite takes from the user's data."""

from __future__ import annotations

from pathlib import Path

from flushlab.dataset import open_dataset
from flushlab.suite.request import _shape
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
