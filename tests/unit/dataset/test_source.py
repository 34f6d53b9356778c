"""A script that reads other files: which, and which it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.dataset import open_dataset
from flushlab.dataset.dump import Dump
from flushlab.dataset.survey import DEEPEST
from flushlab.errors import DumpRefused, StorageError

pytestmark = pytest.mark.usefixtures("private_home")

EMPLOYEES = """-- Sample database
DROP DATABASE IF EXISTS employees;
CREATE DATABASE IF NOT EXISTS employees;
USE employees;
CREATE TABLE departments (dept_no CHAR(4) NOT NULL PRIMARY KEY);
SELECT 'LOADING departments' as 'INFO';
source load_departments.dump ;
\\. more/rows.dump
"""


def employees(folder: Path, main: str = EMPLOYEES) -> Dump:
    (folder / "more").mkdir(exist_ok=True)
    (folder / "load_departments.dump").write_text("INSERT INTO `departments` VALUES ('d001');\n")
    (folder / "more/rows.dump").write_text("INSERT INTO `departments` VALUES ('d002');\n")
    (folder / "employees.sql").write_text(main)
    found = open_dataset(folder / "employees.sql")
    assert isinstance(found, Dump)
    return found


def followed(data: Dump) -> list[str]:
    return [one.path for one in data.survey().followed]


def test_files_that_a_dump_reads_belong_to_it(tmp_path: Path) -> None:
    data = employees(tmp_path)
    assert data.databases == ("employees",)
    assert followed(data) == [str(tmp_path / "load_departments.dump"), str(tmp_path / "more/rows.dump")]
    before = data.key
    assert employees(tmp_path).key == before
    (tmp_path / "more/rows.dump").write_text("INSERT INTO `departments` VALUES ('d003');\n")
    found = open_dataset(tmp_path / "employees.sql")
    assert isinstance(found, Dump)
    assert found.key != before, "the snapshot depends on every file"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/etc/passwd", "has an absolute path"),
        ("../beside.sql", "leads out of the dump's folder"),
        ("link.sql", "leads out of the dump's folder"),
        ("more/../../beside.sql", "leads out of the dump's folder"),
        ("nowhere.dump", "there is no "),
        ("employees.sql", "which is being read"),
        ("more", "there is no "),
    ],
)
def test_files_outside_the_folder_and_circles_are_refused(tmp_path: Path, name: str, why: str) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    (tmp_path / "beside.sql").write_text("SELECT 1;\n")
    (folder / "link.sql").symlink_to(tmp_path / "beside.sql")
    with pytest.raises(StorageError, match=why) as refused:
        _ = employees(folder, f"SELECT 1;\nSELECT 2; source {name};\n").key
    if "which" not in why:
        assert f"employees.sql, line 2: source {name}" in refused.value.message


def test_files_within_files_are_followed_so_deep(tmp_path: Path) -> None:
    def nest(depth: int) -> Dump:
        for at in range(1, depth):
            (tmp_path / f"{at}.dump").write_text(f"source {at + 1}.dump\n")
        (tmp_path / f"{depth}.dump").write_text("SELECT 1;\n")
        return employees(tmp_path, "source 1.dump\n")

    assert len(followed(nest(DEEPEST - 1))) == DEEPEST - 1
    with pytest.raises(StorageError, match=f"or one within {DEEPEST} others"):
        followed(nest(DEEPEST))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("system rm -rf /tmp/x", "line 2: the client's command system runs a program of the shell"),
        ("\\! id", r"line 2: the client's command \\! runs a program of the shell"),
        ("connect shop db2", "line 2: the client's command connect connects to another server"),
        ("SELECT 1; System id;", "line 2: the client's command System runs a program of the shell"),
        ("source", "line 2: source has no argument"),
    ],
)
def test_commands_that_are_not_taken_are_refused_before_a_server_starts(
    tmp_path: Path, command: str, why: str
) -> None:
    (tmp_path / "x.sql").write_text(f"SELECT 1;\n{command}\nSELECT 2;\n")
    with pytest.raises(DumpRefused, match=f"^x.sql, {why}"):
        _ = open_dataset(tmp_path / "x.sql").key


def test_commands_in_bodies_strings_and_comments_are_none(tmp_path: Path) -> None:
    body = "DELIMITER //\nCREATE PROCEDURE p() BEGIN\nsystem id;\nEND//\n"
    (tmp_path / "x.sql").write_text(f"/*\nsystem id\n*/\nSELECT '\nsource x\n';\n{body}")
    found = open_dataset(tmp_path / "x.sql")
    assert isinstance(found, Dump)
    assert followed(found) == []
