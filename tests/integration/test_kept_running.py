"""Arms side by side on servers kept running."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

import flushlab
from flushlab.store import Store
from tests.conftest import require_build
from tests.integration.interrupted import servers_of

PLAN = """
title = "Side by side"
best = false
blocks = 2
window = 0.5

[workload]
name = "oltp_update_non_index"
threads = 2
tables = 1
table_size = 100

[base.settings]
innodb_flush_log_at_trx_commit = 0

[[arm]]
name = "victim"
settings = { innodb_flush_log_at_trx_commit = 2 }

[[arm]]
name = "other"
settings = { innodb_flush_log_at_timeout = 2 }
"""


def server_with(home: Path, line: str) -> int:
    """Process id of the server whose option file has a line."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            program, *arguments = (entry / "cmdline").read_text().split("\0")
            if entry.name.isdigit() and program.endswith("mariadbd"):
                option_file = Path(arguments[0].removeprefix("--defaults-file="))
                if option_file.is_relative_to(home) and line in option_file.read_text():
                    return int(entry.name)
    raise AssertionError(f"no server has {line}")


@pytest.mark.long
def test_a_server_that_dies_puts_its_arm_out_and_the_others_go_on(
    furnished_home: Path, tmp_path: Path
) -> None:
    require_build("mariadb@10.11")
    home, plan = furnished_home, tmp_path / "plan.toml"
    plan.write_text(PLAN)

    def kill_the_victim(line: str) -> None:
        if line.startswith("arms 0 · "):
            os.kill(server_with(home, "innodb_flush_log_at_trx_commit = 2"), signal.SIGKILL)

    found = flushlab.series(plan, server="mariadb@10.11", progress=kill_the_victim)
    assert found.interleaved
    victim, other = found.arms
    assert (victim.outcome, victim.comparison) == ("failed", None)
    assert victim.reason
    assert found.control is not None and other.comparison is not None
    assert found.control.comparison is not None
    assert found.control.comparison.blocks == other.comparison.blocks == found.blocks == 5
    assert not servers_of(home)
    with Store(home / "store.sqlite") as store:
        trials = list(store.trials(found.campaign_id))
    slices = [len(trial.slices) for trial in trials if trial.arm.name == "victim"]
    assert slices[0] >= 1 and slices[1:] == [0], "a round in which the machine stood still is taken again"
    for trial in trials:
        kept = [one for one in trial.slices if not one.dropped]
        if trial.outcome == "measured":
            assert trial.result == pytest.approx(
                sum(one.events for one in kept) / sum(one.seconds for one in kept), rel=1e-3
            )
    starts = [(one.start_s, one.seconds) for trial in trials for one in trial.slices]
    assert all(
        start + seconds <= next_start
        for (start, seconds), (next_start, _) in zip(sorted(starts), sorted(starts)[1:], strict=False)
    ), "only one server is driven at a time"
