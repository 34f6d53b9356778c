"""Real Galera clusters: what every node has, how a killed one comes back, and that none outlives flushlab."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from flushlab.campaign.bench import bench
from flushlab.campaign.fill import fill
from flushlab.errors import ServerDied, StartFailed, UsageError
from flushlab.process import reap, run_folder
from flushlab.record import Arm
from flushlab.server import Sandbox, Server
from flushlab.server.cluster import Cluster
from flushlab.settings.catalog import load_catalog
from flushlab.trial.measurement import Draft, measure
from flushlab.workload import Measured, OltpWorkload, Timing, Window
from tests.conftest import require_galera
from tests.waiting import wait_until

SETTINGS = {"innodb_flush_log_at_trx_commit": 2}
"""What is committed is written, so that a killed server has it, and not synced, which may take long."""

SCRIPT = """\
#!/bin/sh
[ ! -e "{folder}/broken" ] || {{ echo "WSREP_SST: [ERROR] there is no route to the donor" >&2; exit 1; }}
[ ! -e "{folder}/hanging" ] || {{ tail -f "{folder}/hanging"; exit 1; }}
exec "{real}" "$@"
"""

VICTIM = """
import sys
import msgspec
from flushlab.build import find_build
from flushlab.build.galera import Galera
from flushlab.server import cluster

galera = msgspec.json.decode(sys.argv[2], type=Galera)
cluster.galera_for = lambda *_: galera
build, settings = find_build(sys.argv[1], get=False), {"innodb_flush_log_at_trx_commit": 2}
with cluster.Cluster.start(build, size=2, settings=settings, name=sys.argv[3]) as two:
    two.nodes[1].stop()
    (two.nodes[1].datadir / "grastate.dat").unlink()
    two.nodes[1].begin_again()
    two.nodes[1].await_again()
"""


def scripted(folder: Path) -> bytes:
    """Galera whose transfers fail while `folder` has a file `broken`, and hang while it has `hanging`."""
    _, galera = require_galera()
    script = folder / "wsrep_sst_rsync"
    script.write_text(SCRIPT.format(folder=folder, real=Path(galera.folders[0]) / "wsrep_sst_rsync"))
    script.chmod(0o755)
    return msgspec.json.encode(msgspec.structs.replace(galera, folders=(str(folder), *galera.folders)))


@pytest.fixture(scope="module")
def scripts() -> Iterator[Path]:
    """A folder that the servers' user can enter; pytest closes its own to others again and again."""
    folder = Path(tempfile.mkdtemp(prefix="flh-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def cluster(scripts: Path) -> Iterator[Cluster]:
    build, _ = require_galera()
    galera = msgspec.json.decode(scripted(scripts), type=type(require_galera()[1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flushlab.server.cluster.galera_for", lambda *_: galera)
        started = Cluster.start(build, size=2, settings=SETTINGS, kept=True)
    yield started
    started.remove()


def lose_data(node: Sandbox) -> None:
    for entry in node.datadir.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def test_what_one_node_commits_every_node_has(cluster: Cluster) -> None:
    cluster.query("CREATE DATABASE app")
    cluster.query("CREATE TABLE app.t (id INT PRIMARY KEY)")
    cluster.query("INSERT INTO app.t VALUES (1), (2)")
    cluster.settled()
    assert [node.query("SELECT COUNT(*) FROM app.t") for node in cluster.nodes] == [[(2,)], [(2,)]]


def test_a_setting_goes_to_every_node_and_a_difference_names_node_and_setting(cluster: Cluster) -> None:
    applied = cluster.apply({"sync_binlog": 7})
    assert (applied.settings, applied.restarted) == ({"sync_binlog": 7}, False)
    assert [node.read_back(["sync_binlog"]) for node in cluster.nodes] == [{"sync_binlog": 7}] * 2
    assert cluster.differences(["sync_binlog"]) == []
    first, second = cluster.nodes
    second.query("SET GLOBAL sync_binlog = 3")
    assert cluster.differences(["sync_binlog"]) == [
        f"sync_binlog is 3 on {second.name} and 7 on {first.name}"
    ]
    second.query("SET GLOBAL sync_binlog = 7")


def test_nodes_listen_at_addresses_of_their_own(cluster: Cluster) -> None:
    hosts = [endpoint.host for endpoint in cluster.endpoints]
    assert len(set(hosts)) == 2
    for node, host in zip(cluster.nodes, hosts, strict=True):
        assert node.query("SELECT @@bind_address, @@wsrep_node_address") == [(host, host)]


def test_rows_are_filled_into_every_node(cluster: Cluster) -> None:
    filled = fill("users", rows=100, server=f"cluster:{cluster.name}", database="filled", create=True)
    assert (filled.rows, filled.verified, filled.server.nodes) == (100, True, 2)
    cluster.settled()
    assert [node.query("SELECT COUNT(*) FROM filled.users") for node in cluster.nodes] == [[(100,)]] * 2


def test_tables_prepared_on_a_cluster_have_the_rows_that_loads_look_for(cluster: Cluster) -> None:
    OltpWorkload(name="oltp_update_non_index", tables=1, table_size=50).prepare(cluster)
    assert cluster.query("SELECT MIN(id), MAX(id) FROM sbtest.sbtest1") == [(1, 50)]
    assert cluster.query("SELECT @@global.wsrep_auto_increment_control") == [(1,)]


def test_one_node_alone_takes_no_rows_and_no_settings(cluster: Cluster) -> None:
    node = f"sandbox:{cluster.nodes[1].name}"
    with pytest.raises(UsageError, match=f"a node of the cluster {cluster.name}"):
        fill("users", rows=100, server=node)
    with pytest.raises(UsageError, match=f"a node of the cluster {cluster.name}"):
        bench(server=node, settings={"sync_binlog": 1})


class LosesANode(OltpWorkload, frozen=True):
    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        assert isinstance(server, Cluster)
        with window:
            server.nodes[1].kill()
        return Measured(
            figure=1.0, unit="transactions/s", higher_is_better=True, warm_up_s=0.0, window_s=timing.seconds
        )


def test_a_trial_that_loses_a_node_fails_and_names_it(cluster: Cluster) -> None:
    draft = Draft(arm=Arm(name="A", settings={}), stage="bench", block=1, variant=0)
    trial = measure(draft, cluster, LosesANode(name="oltp_write_only"), Timing(seconds=0.1), load_catalog())
    assert trial.outcome == "failed"
    assert f"{cluster.nodes[1].name} is no longer running" in trial.reason
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
    command = [sys.executable, "-c", VICTIM, require_galera()[0].id, scripted(scripts).decode(), name]
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
