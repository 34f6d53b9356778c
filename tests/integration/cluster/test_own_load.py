"""The load of somebody's own cluster: settings change on every node, commits of every node count."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flushlab.campaign.compare import compare
from flushlab.campaign.pool import own_load
from flushlab.campaign.pool.remote import RemotePool
from flushlab.server import Server
from flushlab.telemetry.live import session
from flushlab.workload.protocol import OwnLoad
from tests.integration import application
from tests.integration.cluster.conftest import left
from tests.integration.cluster.own import FLUSH, Own
from tests.waiting import wait_until

SLICE_S = 1.0


def test_commits_of_all_nodes_are_observed_and_all_is_put_back(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "DEADLINE_S", 30.0)
    for where, name in (
        (RemotePool, "slice_s"),
        (OwnLoad, "slice_s"),
        (own_load.ObservedSlices, "least_slice_s"),
    ):
        monkeypatch.setattr(where, name, SLICE_S)
    monkeypatch.setattr(own_load, "OWN_LOAD_LEAD_S", 0.2)
    cluster, account, before = own.cluster, own.cluster.endpoint, own.flushes
    login = (account.user, account.password)
    for statement in application.SETUP:
        cluster.query(statement)
    programs = [
        subprocess.Popen(
            [sys.executable, application.__file__, f"{one.host}:{one.port}", *login, "1", "20"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        )
        for one in (node.endpoint for node in cluster.nodes)
    ]  # fmt: skip
    try:
        wait_until(lambda: all(map(_has_committed, cluster.nodes)), "a commit on every node")
        facts = compare(
            ["base", f"{FLUSH}=0"], own_load=True, allow_set_global=True, dsn=own.dsn(), floor="throwaway",
            blocks=2, duration=6 * SLICE_S,
        )  # fmt: skip
    finally:
        for program in programs:
            program.communicate()
        cluster.query(f"DROP DATABASE {application.DATABASE}")
    (arm,) = facts.arms
    assert facts.server.nodes == len(cluster.nodes) > 1
    assert (arm.outcome, facts.objective) == ("measured", "latency")
    observed = facts.base.observed
    assert observed is not None and observed.commits > 0
    assert observed.commits_by == "wsrep_local_commits"
    assert own.flushes == before
    assert left() == []


def _has_committed(node: Server) -> bool:
    return int(node.query("SHOW STATUS LIKE 'wsrep_local_commits'")[0][1]) > 0
