"""Workloads of scripts, and upsert: what is refused, and what their data depend on."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.errors import UsageError
from flushlab.record import LoadResult, RowCounts
from flushlab.workload.parse import build_workload, parse_workload, settled_name
from flushlab.workload.protocol import Measured
from flushlab.workload.sql import SqlWorkload
from flushlab.workload.tables import UpsertWorkload, parse_commit
from tests.unit.records import load_result


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


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("autocommit", (None, None)),
        ("1000 rows", (1000, None)),
        ("1 row", (1, None)),
        ("500rows", (500, None)),
        ("1 s", (None, 1.0)),
        ("0.25 s", (None, 0.25)),
        ("3600s", (None, 3600.0)),
    ],
)
def test_a_commit_is_autocommit_or_a_number_of_rows_or_seconds(
    text: str, due: tuple[int | None, float | None]
) -> None:
    assert parse_commit(text) == due


@pytest.mark.parametrize(
    "text", ["", "never", "1", "1 m", "0 rows", "-1 s", "0 s", "3601 s", "10000001 rows"]
)
def test_any_other_commit_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="commit"):
        build_workload("upsert", {"commit": text})


def test_data_depend_on_the_kind_of_key_and_not_on_what_is_written() -> None:
    base = build_workload("upsert", {})
    assert base == UpsertWorkload()
    for same in (
        {"rows": 50},
        {"hit_ratio": 1.0},
        {"commit": "1 s"},
        {"threads": 1},
        {"rand_type": "special"},
    ):
        assert build_workload("upsert", same).data_key == base.data_key
    for other in ({"key": "unique"}, {"tables": 1}, {"table_size": 50}):
        assert build_workload("upsert", other).data_key != base.data_key


def test_a_window_of_few_commits_has_a_caveat() -> None:
    def caveats(commits: int) -> list[str]:
        load: LoadResult = load_result()
        load = LoadResult(
            **{name: getattr(load, name) for name in load.__struct_fields__}
            | {"rows": RowCounts(committed=50_000, updated=25_000, commits=commits)}
        )
        measured = Measured(
            result=1.0, unit="rows/s", higher_is_better=True, warm_up_s=1.0, window_s=5.0, load=load
        )
        return [warning.slug for warning in UpsertWorkload(threads=4, commit="1 s")._caveats(measured)]

    assert caveats(11) == ["few-commits"]
    assert caveats(12) == []
