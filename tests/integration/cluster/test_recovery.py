"""Nodes that freeze, die, lose their data or cannot fetch it, and that none outlives flushlab.

Its tests are the last of the shared cluster, and the order counts.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from flushlab.campaign.bench import bench
from flushlab.errors import ServerDied, ServerError, StartFailed
from flushlab.process import reap, run_folder
from flushlab.record import Arm
from flushlab.server import Sandbox, Server
from flushlab.server.galera.cluster import Cluster
from flushlab.trial.measurement import Draft, measure
from flushlab.workload.protocol import Measured, Timing, Window
from flushlab.workload.tables import OltpWorkload
from tests.conftest import require_galera
from tests.integration.cluster.conftest import scripted
from tests.integration.cluster.own import Own
from tests.waiting import stop, wait_until

VICTIM = """
import sys
import msgspec
from flushlab.build import find_build
from flushlab.build.galera import Galera
from flushlab.server import SandboxSpec
from flushlab.server.galera import cluster

galera = msgspec.json.decode(sys.argv[2], type=Galera)
cluster.galera_for = lambda *_: galera
build, settings = find_build(sys.argv[1], get=False), {"innodb_flush_log_at_trx_commit": 2}
with cluster.Cluster.start(SandboxSpec(build, nodes=2, settings=settings, name=sys.argv[3])) as two:
    two.nodes[1].stop()
    (two.nodes[1].datadir / "grastate.dat").unlink()
    two.nodes[1].begin_again()
    two.nodes[1].await_again()
"""


def lose_data(node: Sandbox) -> None:
    for entry in node.datadir.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


class FreezesANode(OltpWorkload, frozen=True):
    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        return super().run(server, timing, self.freezing(server, window))

    @contextmanager
    def freezing(self, server: Server, window: Window) -> Iterator[None]:
        with window:
            assert server.nodes[1].pid is not None
            stop(server.nodes[1].pid)
            yield


def has_quorum(node: Server) -> bool:
    ((_, status),) = node.query("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_status'")
    return str(status) == "Primary"


def test_a_trial_whose_cluster_loses_its_quorum_ends_and_says_so(cluster: Cluster) -> None:
    draft = Draft(arm=Arm(name="A", settings={}), stage="bench", block=1, variant=0)
    load = FreezesANode(name="oltp_update_non_index", threads=2, tables=1, table_size=50)
    load.prepare(cluster)
    frozen = cluster.nodes[1].pid
    assert frozen is not None
    try:
        trial = measure(draft, cluster, load, Timing(warm_up_s=0.2, max_warm_up_s=0.2, seconds=600))
        wait_until(lambda: not has_quorum(cluster.nodes[0]), "the node says so too")
        with pytest.raises(ServerError, match=f"{cluster.nodes[0].name} runs, but it has no quorum"):
            Cluster.attach(cluster.name)
        with pytest.raises(ServerError, match=":3306 has no quorum"):
            bench(dsn=Own(cluster).dsn())
    finally:
        os.kill(frozen, signal.SIGCONT)
        cluster.await_synced()
    assert trial.outcome == "failed"
    assert "the cluster lost its quorum: node 1 has no quorum, node 2 does not answer" in trial.reason


class LosesANode(OltpWorkload, frozen=True):
    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        assert isinstance(server, Cluster)
        with window:
            server.nodes[1].kill()
        return Measured(
            result=1.0, unit="transactions/s", higher_is_better=True, warm_up_s=0.0, window_s=timing.seconds
        )


def test_a_trial_that_loses_a_node_fails_and_names_it(cluster: Cluster) -> None:
    draft = Draft(arm=Arm(name="A", settings={}), stage="bench", block=1, variant=0)
    trial = measure(draft, cluster, LosesANode(name="oltp_write_only"), Timing(seconds=0.1))
    assert trial.outcome == "failed"
    assert (
        f"{cluster.nodes[1].name}, a node of the cluster {cluster.name}, is no longer running" in trial.reason
    )
    with pytest.raises(ServerDied, match=f"{cluster.nodes[1].name}, a node of the cluster {cluster.name}"):
        cluster.query("SELECT 1")


def test_a_killed_cluster_starts_again_and_a_node_without_data_gets_them_from_another(
    cluster: Cluster,
) -> None:
    cluster.kill()
    lose_data(cluster.nodes[1])
    choice = cluster.start_again()
    assert choice.number == 1
    assert "mariadbd --wsrep-recover" in choice.why
    assert f"{cluster.nodes[1].name} unknown" in choice.why
    assert [node.query("SELECT COUNT(*) FROM app.t") for node in cluster.nodes] == [[(2,)], [(2,)]]


def test_a_transfer_that_fails_is_told_with_the_end_of_the_nodes_log(cluster: Cluster, scripts: Path) -> None:
    (scripts / "broken").touch()
    node = cluster.nodes[1]
    node.stop()
    lose_data(node)
    with pytest.raises(StartFailed, match="there is no route to the donor"):
        cluster.start_again()


def test_no_node_and_no_transfer_outlives_flushlab(scripts: Path) -> None:
    name = f"v{secrets.token_hex(4)}"
    (scripts / "broken").unlink(missing_ok=True)
    (scripts / "hanging").touch()
    galera = msgspec.json.encode(scripted(scripts)).decode()
    command = [sys.executable, "-c", VICTIM, require_galera()[0].id, galera, name]
    victim = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    hangs = str(scripts / "hanging")
    try:
        wait_until(lambda: processes_naming(hangs) or victim.poll() is not None, "a transfer runs")
        assert victim.poll() is None, victim.communicate()[1].decode()
    finally:
        victim.kill()
        victim.communicate()
    wait_until(lambda: not processes_naming(f"{name}-"), "all nodes gone")
    wait_until(lambda: not processes_naming(hangs), "the transfer gone")
    reap()
    assert [entry.name for entry in run_folder().iterdir() if entry.name.startswith(name)] == []


def processes_naming(text: str) -> list[int]:
    """Living processes whose command line has the text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(FileNotFoundError, ProcessLookupError):
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found
