from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.errors import UsageError
from flushlab.probe.ceilings import CommitCell, SwitchCell, measure_switching, switch_cells
from flushlab.probe.folder import MAX_BYTES
from flushlab.probe.sync_settings import SECOND, STRICT
from flushlab.record import BinlogStrategy
from tests.fakes.commit_path import FakeCommitPath
from tests.unit.probes import MEDIUM


def planned(*strategies: BinlogStrategy, threads: int = 4) -> list[CommitCell]:
    return [
        CommitCell(sync_settings=SECOND, binlog_strategy=strategy, threads=threads) for strategy in strategies
    ]


def test_each_policy_goes_through_its_modes_and_back_with_the_most_threads() -> None:
    strict = [CommitCell(sync_settings=STRICT, binlog_strategy="serial", threads=64)]
    (found,) = switch_cells([*planned("serial", "parallel"), *planned("serial", threads=1), *strict])
    assert found == SwitchCell(sync_settings=SECOND, strategies=("serial", "parallel", "serial"), threads=64)


def test_one_flush_mode_alone_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match="two binlog write strategies") as raised:
        switch_cells(planned("serial"))
    assert "--binlog-strategy serial --binlog-strategy parallel" in (raised.value.hint or "")


def test_a_binlog_that_lacks_transactions_is_not_whole(tmp_path: Path) -> None:
    (cell,) = switch_cells(planned("serial", "parallel"))
    found = measure_switching(
        tmp_path, cell, seconds=0.3, most_bytes=MAX_BYTES, medium=MEDIUM, make=FakeCommitPath
    )
    assert found is not None and found.transactions > 0
    assert [phase.binlog_strategy for phase in found.phases] == ["serial", "parallel", "serial"]
    assert not found.binlog_is_whole, "the fake writes none"
