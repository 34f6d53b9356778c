"""Real Galera clusters: what every node has, and what is set on each."""

from __future__ import annotations

import pytest

from flushlab.bulk.destinations import relaxed_cluster
from flushlab.bulk.fill import fill
from flushlab.campaign.bench import bench
from flushlab.errors import UsageError
from flushlab.server import SandboxSpec
from flushlab.server.galera.cluster import Cluster
from flushlab.settings.floor import Floor
from flushlab.workload.tables import OltpWorkload
from tests.integration.cluster.conftest import SETTINGS

FLUSH = "innodb_flush_log_at_trx_commit"


def test_what_one_node_commits_every_node_has(cluster: Cluster) -> None:
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
    hosts = [node.endpoint.host for node in cluster.nodes]
    assert len(set(hosts)) == 2
    for node, host in zip(cluster.nodes, hosts, strict=True):
        assert node.query("SELECT @@bind_address, @@wsrep_node_address") == [(host, host)]


def test_rows_are_filled_into_every_node(cluster: Cluster) -> None:
    filled = fill("users", rows=100, server=f"cluster:{cluster.name}", database="filled", create=True)
    assert (filled.rows, filled.verified, filled.server.nodes) == (100, True, 2)
    cluster.settled()
    assert [node.query("SELECT COUNT(*) FROM filled.users") for node in cluster.nodes] == [[(100,)]] * 2


def test_commits_are_relaxed_on_every_node_while_rows_come(cluster: Cluster) -> None:
    with relaxed_cluster(cluster, Floor.RELAXED) as quicken:
        quicken()
        assert [node.read_back([FLUSH]) for node in cluster.nodes] == [{FLUSH: 0}] * 2
    assert [node.read_back([FLUSH]) for node in cluster.nodes] == [SETTINGS] * 2


def test_a_new_cluster_is_filled_and_kept(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[int, bool]] = []

    def start(spec: SandboxSpec, _: object) -> Cluster:
        started.append((spec.nodes, spec.kept))
        return cluster

    monkeypatch.setattr(Cluster, "start", start)
    filled = fill("users", rows=100, server="mariadb@10.11", cluster=3, database="anew")
    assert started == [(3, True)]
    assert filled.sandbox == cluster.name
    cluster.settled()
    assert [node.query("SELECT COUNT(*) FROM anew.users") for node in cluster.nodes] == [[(100,)]] * 2


def test_tables_prepared_on_a_cluster_have_the_rows_that_loads_look_for(cluster: Cluster) -> None:
    OltpWorkload(name="oltp_update_non_index", tables=1, table_size=50).prepare(cluster)
    assert cluster.query("SELECT MIN(id), MAX(id) FROM sbtest.sbtest1") == [(1, 50)]


def test_one_node_alone_takes_no_rows_and_no_settings(cluster: Cluster) -> None:
    node = f"sandbox:{cluster.nodes[1].name}"
    with pytest.raises(UsageError, match=f"a node of the cluster {cluster.name}"):
        fill("users", rows=100, server=node)
    with pytest.raises(UsageError, match=f"a node of the cluster {cluster.name}"):
        bench(server=node, settings={"sync_binlog": 1})
