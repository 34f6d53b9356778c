"""Arms that share one Galera cluster and take turns on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flushlab.build import Build
from flushlab.experiment.protocol import Request
from flushlab.record import Arm, Trial
from flushlab.trial import StandingRunner
from flushlab.workload import Timing
from tests.integration.test_trial import runner

FLUSH = "innodb_flush_log_at_trx_commit"
ARMS = Arm(name="each commit", settings={FLUSH: 1}), Arm(name="once a second", settings={FLUSH: 2})


def block_of(standing: StandingRunner, number: int) -> list[Trial]:
    beside = [ARMS[index:] for index in range(len(ARMS))]
    return [standing.run(Request(arm=arms[0], stage="arms", block=number, beside=arms)) for arms in beside]


def redo_syncs_per_commit(trial: Trial) -> float:
    assert trial.load is not None and trial.load.commits, trial.reason
    syncs = trial.file_activity["redo"].fsyncs
    assert syncs is not None
    return syncs / trial.load.commits


@pytest.mark.long
def test_arms_take_turns_on_one_cluster_and_a_node_that_dies_makes_the_block_run_again(
    build: Callable[[str], Build],
) -> None:
    trials = replace(
        runner(build("mariadb@10.11")),
        nodes=3,
        timing=Timing(warm_up_s=0.2, max_warm_up_s=0.2, seconds=0.5),
    )
    with StandingRunner(lambda _: trials, 1, lambda _: "one cluster") as standing:
        first = block_of(standing, 0)
        (stand,) = standing._stands.values()
        pids = [node.pid for node in stand.server.nodes]
        assert len(set(pids)) == 3
        assert [trial.settings[FLUSH] for trial in first] == [1, 2]
        assert "changed-nothing" not in {one.slug for trial in first for one in trial.warnings}
        assert {trial.server.nodes for trial in first if trial.server} == {3}
        each_commit, once_a_second = map(redo_syncs_per_commit, first)
        assert once_a_second < 0.5 * each_commit, "an arm's telemetry is of its own slice"
        set_otherwise = stand.server.nodes[2]
        set_otherwise.query("SET GLOBAL sync_binlog = 7")
        invalid = block_of(standing, 1)
        assert [trial.outcome for trial in invalid] == ["invalid", "invalid"]
        assert invalid[0].reason == "sync_binlog is 0 on node 1, but 7 on node 3"
        set_otherwise.query("SET GLOBAL sync_binlog = 0")
        stand.server.nodes[1].stop()
        assert [trial.outcome for trial in block_of(standing, 2)] == ["void", "void"]
        assert [trial.outcome for trial in block_of(standing, 3)] == ["measured", "measured"]
        (again,) = standing._stands.values()
        assert not set(pids) & {node.pid for node in again.server.nodes}
