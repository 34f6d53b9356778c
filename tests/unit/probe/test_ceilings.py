from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from flushlab import _core
from flushlab.errors import FlushlabError, MeasurementError, NoSpace, NotWritable, StorageError, UsageError
from flushlab.probe.ceilings import (
    FULL,
    QUICK,
    RELAXED,
    SECOND,
    STRICT,
    CommitCell,
    Maker,
    Matrix,
    ProbePlace,
    StrategyGroup,
    SyncSettings,
    measure,
    measure_switching,
    noise,
    parse_binlog_strategy,
    parse_sync_settings,
    plan,
    refusal,
    strategy_groups,
    switching_groups,
)
from flushlab.record import BinlogStrategy, Ceiling
from tests.fakes.commit_path import FakeCommitPath
from tests.unit.probes import MEDIUM

HERE = Path("/nowhere/probe")
PLACE = ProbePlace(HERE, MEDIUM, 1 << 30, FakeCommitPath)
CELL = CommitCell(sync_settings=SECOND, binlog_strategy="serial", threads=1)


def measured(cell: CommitCell, make: Maker, *, most_bytes: int = 1 << 30) -> Ceiling | None:
    return measure(ProbePlace(HERE, MEDIUM, most_bytes, make), cell, seconds=1.0)


def test_the_matrix_has_what_policies_permit_and_names_what_they_refuse() -> None:
    cells, refused = plan(Matrix(), PLACE)
    assert len(cells) == len(set(cells)) == 4 * (3 + 3 + 2 + 2)
    assert {(one.trx_commit, one.sync_binlog, one.binlog_strategy) for one in refused} == {
        (1, 1, "parallel"),
        (3, 1, "parallel"),
        (2, 1000, "redo"),
        (0, 0, "redo"),
        (2, 1000, "two-syncs"),
        (0, 0, "two-syncs"),
    }
    assert all(one.reason for one in refused)


def test_modes_of_one_policy_stand_side_by_side() -> None:
    cells, _ = plan(QUICK, PLACE)
    assert [(one.binlog_strategy, one.threads) for one in cells[:6]] == [
        ("serial", 1), ("redo", 1), ("two-syncs", 1), ("serial", 64), ("redo", 64), ("two-syncs", 64),
    ]  # fmt: skip


def test_a_policy_that_syncs_once_a_second_has_a_window_with_such_a_sync() -> None:
    timed = CommitCell(sync_settings=SECOND, binlog_strategy="serial", threads=1)
    synced = CommitCell(sync_settings=STRICT, binlog_strategy="serial", threads=1)
    assert timed.natural_seconds > 1 > synced.natural_seconds


def test_a_refusal_has_the_rule_and_the_way_out() -> None:
    told = refusal(STRICT, "parallel", PLACE)
    assert told is not None
    assert "sync_binlog=1" in told[0] and told[1]
    assert refusal(SECOND, "parallel", PLACE) is None


def test_one_cell_gives_a_ceiling_with_its_noise() -> None:
    cell = CommitCell(sync_settings=SECOND, binlog_strategy="parallel", threads=16)
    reached = measured(cell, FakeCommitPath)
    assert reached is not None
    assert (reached.trx_commit, reached.sync_binlog, reached.binlog_strategy, reached.threads) == (
        2,
        1000,
        "parallel",
        16,
    )
    assert reached.commits_per_s == pytest.approx(160_000)
    assert reached.noise is not None and reached.noise < 0.01


def failing(error: Exception, stopped: list[bool]) -> Maker:
    class Failing(FakeCommitPath):
        def wait(self, seconds: float) -> bytes | None:
            raise error

        def stop(self) -> None:
            stopped.append(True)

    return Failing


def core_error(
    kind: Literal["storage", "measurement"], message: str, errno: int | None = None
) -> _core.CoreError:
    error = _core.CoreError(message)
    error.kind, error.errno = kind, errno
    error.message = message
    error.hint = "a hint"
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (core_error("storage", "writing: No space left on device", 28), NoSpace),
        (core_error("storage", "making: Read-only file system", 30), NotWritable),
        (core_error("storage", "syncing: Input/output error", 5), StorageError),
        (core_error("measurement", "no thread is to be had"), MeasurementError),
    ],
)
def test_a_run_that_fails_is_stopped_and_told(error: Exception, kind: type[FlushlabError]) -> None:
    stopped: list[bool] = []
    with pytest.raises(kind) as raised:
        measured(CELL, failing(error, stopped))
    assert type(raised.value) is kind and raised.value.hint
    assert stopped


def test_a_run_that_never_ends_is_given_up_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now, stopped = [0.0], []

    class Hanging(FakeCommitPath):
        def wait(self, seconds: float) -> bytes | None:
            now[0] += seconds
            return None

        def stop(self) -> None:
            stopped.append(now[0])

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with pytest.raises(MeasurementError, match="did not end within 31 s") as raised:
        measured(CELL, Hanging)
    assert raised.value.hint
    assert stopped and 31 < stopped[0] < 32
    assert now[0] < 62, "the caller is not held for longer"


def test_a_window_without_a_commit_is_no_ceiling() -> None:
    class Slow(FakeCommitPath):
        def _result(self) -> dict[str, Any]:
            return {**super()._result(), "commits": 0, "commits_per_s": 0.0, "latency_us": None}

    assert measured(CELL, Slow) is None


def test_a_run_whose_files_are_large_enough_is_ended() -> None:
    stopped = []

    class Filling(FakeCommitPath):
        def stop(self) -> None:
            stopped.append(self._waited)

    assert measured(CELL, Filling, most_bytes=128 << 20) is not None
    assert stopped[:-1] == [], "100,000 commits/s for 0.25 s fit"
    stopped.clear()
    assert measured(CELL, Filling, most_bytes=65 << 20) is not None
    assert stopped[0] < 6


def test_the_spec_has_the_policy_and_bounds_the_redo_log() -> None:
    seen: list[dict[str, object]] = []

    def make(spec: bytes) -> FakeCommitPath:
        seen.append(msgspec.json.decode(spec))
        return FakeCommitPath(spec)

    measured(CommitCell(sync_settings=STRICT, binlog_strategy="redo", threads=64), make, most_bytes=200 << 20)
    spec = seen[0]
    assert (spec["trx_commit"], spec["sync_binlog"], spec["binlog_strategy"]) == (1, 1, "redo")
    assert (spec["threads"], spec["committers"], spec["think_us"]) == (2, 64, 0)
    assert spec["directory"] == str(HERE) and spec["keep"] is False
    assert spec["redo_capacity_bytes"] == 64 << 20


def test_noise_is_the_standard_error_of_the_slices() -> None:
    even = [(0.1 * step, 100 * step) for step in range(8)]
    wild = [(0.1 * step, 100 * step + (40 if step % 2 else 0)) for step in range(8)]
    assert noise(even) == pytest.approx(0, abs=1e-9)
    spread = noise(wild)
    assert spread is not None and spread > 0.1
    assert noise(even[:3]) is None
    assert noise([(0.1 * step, 0) for step in range(8)]) is None


def test_the_usual_matrix_leaves_out_what_time_does_not_hold_and_calls_none_of_it_refused() -> None:
    cells, refused = plan(FULL, PLACE)
    assert len(cells) == 4 * (3 + 1 + 2 + 1)
    told = {(one.trx_commit, one.sync_binlog, one.binlog_strategy) for one in refused}
    assert (3, 1, "redo") not in told and (0, 0, "parallel") not in told
    assert sum(cell.natural_seconds for cell in cells) < 33


def planned(*strategies: BinlogStrategy, threads: int = 4) -> list[CommitCell]:
    return [
        CommitCell(sync_settings=SECOND, binlog_strategy=strategy, threads=threads) for strategy in strategies
    ]


def test_each_policy_goes_through_its_modes_and_back_with_the_most_threads() -> None:
    strict = [CommitCell(sync_settings=STRICT, binlog_strategy="serial", threads=64)]
    cells = [*planned("serial", "parallel"), *planned("serial", threads=1), *strict]
    assert strategy_groups(cells) == (StrategyGroup(SECOND, ("serial", "parallel"), 64),)
    assert switching_groups(cells) == (StrategyGroup(SECOND, ("serial", "parallel", "serial"), 64),)


def test_one_flush_mode_alone_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match="two binlog write strategies") as raised:
        switching_groups(planned("serial"))
    assert "--binlog-strategy serial --binlog-strategy parallel" in (raised.value.hint or "")


def test_a_binlog_that_lacks_transactions_is_not_whole(tmp_path: Path) -> None:
    (group,) = switching_groups(planned("serial", "parallel"))
    found = measure_switching(PLACE._replace(folder=tmp_path), group, seconds=0.3)
    assert found is not None and found.transactions > 0
    assert [phase.binlog_strategy for phase in found.phases] == ["serial", "parallel", "serial"]
    assert not found.binlog_is_whole, "the fake writes none"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("strict", STRICT),
        ("second", SECOND),
        ("relaxed", RELAXED),
        ("3/1", SyncSettings(3, 1)),
        ("1/0", SyncSettings(1, 0)),
        ("2/4294967295", SyncSettings(2, 4294967295)),
    ],
)
def test_a_policy_is_a_floor_or_two_settings(text: str, settings: SyncSettings) -> None:
    assert parse_sync_settings(text) == settings


@pytest.mark.parametrize(
    "text", ["", "fast", "1", "1/", "1/1/1", "-1/1", "4/1", "1/4294967296", "1/99999999999"]
)
def test_what_no_server_takes_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_sync_settings(text)
    assert raised.value.hint


def test_names_say_the_floor_where_there_is_one() -> None:
    assert [one.name for one in (STRICT, SyncSettings(3, 1), SECOND, RELAXED, SyncSettings(1, 0))] == [
        "strict 1/1",
        "strict 3/1",
        "second 2/1000",
        "relaxed 0/0",
        "1/0",
    ]


def test_only_mariadb_has_3() -> None:
    assert "MariaDB" in SyncSettings(3, 1).format
    assert "MariaDB" not in STRICT.format


def test_a_flush_mode_is_one_of_four() -> None:
    assert parse_binlog_strategy("two-syncs") == "two-syncs"
    with pytest.raises(UsageError) as raised:
        parse_binlog_strategy("Serial")
    assert "serial, parallel, redo, two-syncs" in (raised.value.hint or "")
