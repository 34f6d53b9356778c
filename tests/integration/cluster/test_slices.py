"""Arms that share one Galera cluster and alternate on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from flushlab.build import Build
from flushlab.experiment.protocol import Request
from flushlab.record import Arm, Trial
from flushlab.server import Server
from flushlab.server.galera.cluster import Cluster
from flushlab.trial.measurement import Draft, measure
from flushlab.trial.sliced import SlicedRunner
from flushlab.workload.protocol import Measured, Timing, Window
from flushlab.workload.tables import OltpWorkload
from tests.integration.test_trial import runner
from tests.waiting import wait_until

FLUSH = "innodb_flush_log_at_trx_commit"
ARMS = Arm(name="each commit", settings={FLUSH: 1}), Arm(name="once a second", settings={FLUSH: 2})


def block_of(sliced: SlicedRunner, number: int) -> list[Trial]:
    beside = [ARMS[index:] for index in range(len(ARMS))]
    return [sliced.run(Request(arm=arms[0], stage="arms", block=number, beside=arms)) for arms in beside]


def redo_syncs_per_commit(trial: Trial) -> float:
    assert trial.load is not None and trial.load.commits, trial.reason
    syncs = trial.file_activity["redo"].fsyncs
    assert syncs is not None
    return syncs / trial.load.commits


@pytest.mark.long
def test_arms_alternate_on_one_cluster_until_a_node_dies_which_only_a_bench_survives(
    build: Callable[[str], Build],
) -> None:
    alone = runner(build("mariadb@10.11"))
    trials = replace(
        alone,
        spec=replace(alone.spec, nodes=3),
        timing=Timing(warm_up_s=0.2, max_warm_up_s=0.2, seconds=2.0),
    )
    with SlicedRunner(lambda _: trials, 1, lambda _: "one cluster") as sliced:
        first = block_of(sliced, 0)
        (kept,) = sliced._kept.values()
        pids = [node.pid for node in kept.server.nodes]
        assert len(set(pids)) == 3
        assert [trial.settings[FLUSH] for trial in first] == [1, 2]
        assert "changed-nothing" not in {one.slug for trial in first for one in trial.warnings}
        assert {trial.server.nodes for trial in first if trial.server} == {3}
        each_commit, once_a_second = map(redo_syncs_per_commit, first)
        assert once_a_second < 0.5 * each_commit, "an arm's telemetry is of its own slice"
        set_otherwise = kept.server.nodes[2]
        set_otherwise.query("SET GLOBAL sync_binlog = 7")
        invalid = block_of(sliced, 1)
        assert [trial.outcome for trial in invalid] == ["invalid", "invalid"]
        assert invalid[0].reason == "sync_binlog is 0 on node 1, but 7 on node 3"
        set_otherwise.query("SET GLOBAL sync_binlog = 0")
        assert isinstance(kept.server, Cluster)
        the_load_goes_on_without_a_node(kept.server)
        assert [trial.outcome for trial in block_of(sliced, 2)] == ["discarded", "discarded"]
        assert not sliced._kept, "the next block has a new cluster"


class KilledInItsWindow(OltpWorkload, frozen=True):
    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        return super().run(server, timing, self.killing(server, window))

    @contextmanager
    def killing(self, server: Server, window: Window) -> Iterator[None]:
        with window:
            assert isinstance(server, Cluster)
            server.nodes[0].kill()
            size = "SHOW STATUS LIKE 'wsrep_cluster_size'"
            wait_until(lambda: server.nodes[1].query(size)[0][1] == "2", "the others go on")
            yield


def the_load_goes_on_without_a_node(cluster: Cluster) -> None:
    load = KilledInItsWindow(
        name="oltp_update_non_index", threads=2, tables=1, table_size=1000, cluster_load="failover"
    )
    load.prepare(cluster)
    draft = Draft(arm=Arm(name="A", settings={}), stage="bench", block=1, variant=0)
    timing = Timing(warm_up_s=0.2, max_warm_up_s=0.2, seconds=3.0)
    trial = measure(draft, cluster, load, timing)
    assert trial.result, trial.reason
    assert [one.node for one in trial.lost_nodes] == [1]
    assert "node-lost" in {one.slug for one in trial.warnings}
    assert [node.node for node in trial.nodes] == [2, 3]
    assert trial.nodes[0].commits > 0, "the load has moved to the next node"
    assert trial.deltas == {}
