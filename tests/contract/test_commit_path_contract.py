"""The commit path and its fake: the same refusals, and results of the same form."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest

from flushlab import _core
from flushlab.probe.ceilings import (
    BINLOG_STRATEGIES,
    SECOND,
    STRICT,
    CommitCell,
    Maker,
    ProbePlace,
    StrategyGroup,
    SyncSettings,
    measure,
    measure_switching,
    refusal,
)
from flushlab.probe.disk import MAX_BYTES
from tests.fakes.commit_path import FakeCommitPath
from tests.unit.probes import MEDIUM

MAKERS: dict[str, Maker] = {"core": _core.CommitPath, "fake": FakeCommitPath}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Maker:
    return MAKERS[request.param]


@pytest.mark.parametrize(("trx_commit", "sync_binlog"), [*itertools.product((0, 1, 2, 3), (0, 1, 1000))])
def test_the_fake_refuses_what_the_core_refuses(tmp_path: Path, trx_commit: int, sync_binlog: int) -> None:
    for strategy in BINLOG_STRATEGIES:
        settings = SyncSettings(trx_commit, sync_binlog)
        core, fake = (
            refusal(settings, strategy, ProbePlace(tmp_path, MEDIUM, MAX_BYTES, maker))
            for maker in MAKERS.values()
        )
        assert (core is None) == (fake is None), strategy
        assert core is None or (core[0] and core[1]), "the rule and the way out"


def test_a_cell_has_every_result(tmp_path: Path, make: Maker) -> None:
    cell = CommitCell(sync_settings=STRICT, binlog_strategy="serial", threads=2)
    for seconds in (
        0.3,
        3,
        30,
        100,
    ):  # until a commit of the few that are timed is among them, on a slow machine
        reached = measure(ProbePlace(tmp_path, MEDIUM, MAX_BYTES, make), cell, seconds=seconds)
        if reached is not None and reached.ordered_ns_per_commit and reached.encode_ns_per_commit:
            break
    assert reached is not None
    assert reached.commits_per_s > 0 and 0 < reached.latency_us.p50 <= reached.latency_us.p99
    assert 1 <= reached.group_size <= 2
    assert reached.cpu_us_per_commit and reached.ordered_ns_per_commit and reached.encode_ns_per_commit
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_stopped_has_the_result_so_far(tmp_path: Path, make: Maker) -> None:
    cell = CommitCell(sync_settings=SECOND, binlog_strategy="parallel", threads=2)
    reached = measure(ProbePlace(tmp_path, MEDIUM, 200 << 20, make), cell, seconds=30)
    assert reached is not None and reached.commits_per_s > 0
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_spec_is_a_usage_error() -> None:
    with pytest.raises(_core.CoreError) as raised:
        _core.CommitPath(msgspec.json.encode({"trx_commit": 1}))
    assert raised.value.kind == "usage"


def test_modes_are_switched_while_commits_go_on_and_the_binlog_stays_whole(tmp_path: Path) -> None:
    group = StrategyGroup(SECOND, ("serial", "parallel", "serial"), 8)
    for seconds in (1, 10, 60):  # until something is committed, on a machine with little time
        folder = tmp_path / str(seconds)
        folder.mkdir()
        place = ProbePlace(folder, MEDIUM, 200 << 20, _core.CommitPath)
        found = measure_switching(place, group, seconds=seconds)
        if found is not None:
            break
    assert found is not None and found.binlog_is_whole
    strategies = [phase.binlog_strategy for phase in found.phases]
    assert strategies == list(group.strategies[: len(strategies)])
    assert [phase.switch_us > 0 for phase in found.phases] == [
        number > 0 for number in range(len(strategies))
    ]
    assert 0 < sum(phase.commits for phase in found.phases) <= found.transactions


@pytest.mark.parametrize("name", ["redo", "binlog.index", "binlog.000001", "binlog.000042"])
def test_a_folder_with_somebodys_logs_is_refused_before_anything_is_made_and_left_alone(
    tmp_path: Path, name: str
) -> None:
    foreign = tmp_path / name
    foreign.write_bytes(b"somebody's")
    spec = {"directory": str(tmp_path), "trx_commit": 2, "sync_binlog": 1000, "binlog_strategy": "serial"}
    run = _core.CommitPath(msgspec.json.encode({**spec, "threads": 1, "transactions": 10}))
    with pytest.raises(_core.CoreError) as raised:
        run.start()
        run.wait(60)
    assert raised.value.kind == "usage" and name in raised.value.message and raised.value.hint
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [(name, b"somebody's")]
