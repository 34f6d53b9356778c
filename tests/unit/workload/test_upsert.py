from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.record import LoadResult, RowCounts
from flushlab.workload.parse import build_workload
from flushlab.workload.protocol import Measured
from flushlab.workload.tables import UpsertWorkload, parse_commit
from tests.unit.records import load_result


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
