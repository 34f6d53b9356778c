from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.errors import UsageError
from flushlab.workload.parse import build_workload, parse_workload, settled_name
from flushlab.workload.sql import SqlWorkload


def test_a_script_is_read_relative_to_the_folder_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;")
    workload = build_workload("sql:a.sql", {"transport": "tcp"}, folder=tmp_path)
    assert workload == SqlWorkload(name="sql:a.sql", script=b"SELECT 1;", transport="tcp")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("SELECT 1;\nSELECT 'open", "a.sql, line 2: the string that begins here does not end"),
        ("-- nothing\n;;", "a.sql contains no statement"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_script_is_refused_before_anything_runs(
    tmp_path: Path, script: str | None, message: str
) -> None:
    if script is not None:
        (tmp_path / "a.sql").write_text(script)
    with pytest.raises(UsageError) as raised:
        build_workload("sql:a.sql", {}, folder=tmp_path)
    assert message in raised.value.message


def test_a_script_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="has no file"):
        build_workload("sql:", {})


def test_a_folder_is_no_script(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        build_workload(f"sql:{tmp_path}", {})


def test_flags_of_loads_are_no_matter_to_a_script_but_those_of_upsert_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.sql").write_text("SELECT 1")
    assert isinstance(parse_workload("sql:a.sql"), SqlWorkload)
    with pytest.raises(UsageError, match="the workload sql takes no --rows"):
        parse_workload("sql:a.sql", {"rows": 5})


def test_a_stored_name_finds_its_script_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert settled_name("sql:a.sql") == f"sql:{tmp_path}/a.sql"
    assert settled_name("sql:/b/a.sql") == "sql:/b/a.sql"
    assert settled_name("upsert") == "upsert"
