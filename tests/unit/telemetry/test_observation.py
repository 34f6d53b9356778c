"""Telemetry of clusters, from what three real nodes of MariaDB 10.11 told at both ends of a load of 4 s.

16 connections to node 1, 7,587 transactions, one applier a node."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.record import ErrorCount, LoadResult, NodeActivity
from flushlab.telemetry import observation
from flushlab.telemetry.observation import CpuTimes, foreign_share
from flushlab.trial.measurement import cluster_findings
from tests.fakes.server import FakeServer

TOLD = """\
name                         | 1 before    1 after     | 2 before    2 after     | 3 before    3 after
wsrep_local_commits          | 11467       19056       | 0           0           | 0           0
wsrep_received               | 164         282         | 11637       19343       | 11637       19383
wsrep_local_cert_failures    | 0           0           | 0           0           | 0           0
wsrep_local_bf_aborts        | 0           0           | 0           0           | 0           0
wsrep_flow_control_paused_ns | 380211058   532247242   | 373596707   584913668   | 375757238   573276365
wsrep_flow_control_paused    | 0.0318966   0.033392    | 0.034901    0.0397264   | 0.04085     0.0433552
wsrep_flow_control_sent      | 0           0           | 15          33          | 4           17
wsrep_local_recv_queue       | 0           0           | 1           0           | 0           0
wsrep_local_recv_queue_avg   | 0.0121951   0.0070922   | 5.56865     5.45314     | 4.57609     4.64469
wsrep_cert_deps_distance     | 55.7068     57.3984     | 55.7039     57.3984     | 55.7002     57.4228
wsrep_apply_window           | 2.25878     2.24578     | 1           1           | 1           1
wsrep_commit_window          | 1.99956     1.9745      | 1           1           | 1           1
wsrep_slave_threads          | 1           1           | 1           1           | 1           1
wsrep_local_state_comment    | Synced      Synced      | Synced      Synced      | Synced      Synced
"""
SECONDS = 4.0


def status(node: int, end: int) -> observation.Status:
    """What a node told before (0) or after (1)."""
    lines = [line.split("|") for line in TOLD.splitlines()[1:]]
    return observation.numbers([(name.strip(), columns[node - 1].split()[end]) for name, *columns in lines])


def nodes() -> tuple[NodeActivity, ...]:
    before, after = ([status(node, end) for node in (1, 2, 3)] for end in (0, 1))
    return observation.nodes_between(before, after, SECONDS)


def load(commits: int, deadlocks: int = 0) -> LoadResult:
    errors = (ErrorCount(errno=1213, sqlstate="40001", message="Deadlock", count=deadlocks),)
    return LoadResult(
        seconds=SECONDS,
        events=commits,
        throughput=commits / SECONDS,
        per_second=(),
        latency_us=None,
        commits=commits,
        errors=errors if deadlocks else (),
    )


def slugs(activity: tuple[NodeActivity, ...], result: LoadResult | None = None) -> list[str]:
    return [one.slug for one in cluster_findings(activity, result, SECONDS)]


def test_counters_are_what_happened_in_the_window() -> None:
    first, second, third = nodes()
    assert (first.node, first.commits, first.received) == (1, 7589, 118)
    assert (second.commits, second.received) == (0, 7706)
    assert (first.pauses_asked, second.pauses_asked, third.pauses_asked) == (0, 18, 13)
    assert first.paused_share == pytest.approx(0.038, abs=0.001)
    assert (second.recv_queue_end, second.appliers) == (0, 1)
    assert first.deps_distance == pytest.approx(57.4, abs=0.1)


def test_the_queues_mean_is_of_the_window_not_since_the_start() -> None:
    second = nodes()[1]
    samples = 19343 - 11637
    assert second.recv_queue_avg == pytest.approx((5.45314 * 19343 - 5.56865 * 11637) / samples)
    nothing = [status(2, 0)]
    assert observation.nodes_between(nothing, nothing, SECONDS)[0].recv_queue_avg is None


def test_a_node_that_restarted_in_between_counts_nothing_backwards() -> None:
    (again,) = observation.nodes_between([status(2, 1)], [status(2, 0)], SECONDS)
    assert (again.received, again.paused_share, again.recv_queue_avg) == (0, 0.0, None)


def test_a_server_that_is_alone_tells_nothing_and_is_not_asked() -> None:
    assert observation.cluster_snapshot(FakeServer()) == ()
    assert observation.nodes_between((), (), SECONDS) == ()
    assert slugs(()) == []


def test_flow_control_names_the_node_that_asked_for_it_and_its_appliers() -> None:
    (found,) = cluster_findings(nodes(), load(7587), SECONDS)
    assert (found.slug, found.setting) == ("flow-control", "wsrep_slave_threads")
    assert found.text == (
        "flow control paused writers 4% of the time: node 2 asked for it 18 times, with 5 write sets in its "
        "queue, so its applier is the bound (wsrep_slave_threads is 1)"
    )


def quiet(**changes: object) -> tuple[NodeActivity, ...]:
    calm = [msgspec.structs.replace(one, paused_share=0.0, pauses_asked=0) for one in nodes()]
    return (msgspec.structs.replace(calm[0], **changes), *calm[1:])


def test_nothing_is_found_of_a_cluster_that_keeps_up() -> None:
    assert slugs(quiet(), load(7587)) == []


def test_conflicts_are_told_by_kind_with_what_the_load_saw() -> None:
    (found,) = cluster_findings(
        quiet(commits=9_900, cert_failures=60, bf_aborts=40), load(9_900, 71), SECONDS
    )
    assert found.text == (
        "1.0% of the transactions lost a conflict between nodes: 60 in certification, 40 to a transaction "
        "that was applied; the load saw error 1213 71 times. One node that takes all writes has none"
    )
    assert slugs(quiet(commits=1_000_000, cert_failures=5)) == []


def test_a_node_that_is_behind_when_the_window_ends_is_a_caveat() -> None:
    first, second, third = quiet()
    behind = msgspec.structs.replace(third, recv_queue_end=2_000)
    (found,) = cluster_findings((first, second, behind), load(7587), SECONDS)
    assert found.slug == "node-behind"
    assert "node 3 had 2,000 write sets still to apply" in found.text
    assert slugs((first, second, msgspec.structs.replace(third, recv_queue_end=20))) == []


def test_transactions_that_no_node_heard_of_are_a_caveat() -> None:
    assert slugs(quiet(commits=4_669), load(14_321)) == ["changed-nothing"]
    assert slugs(quiet(commits=0), load(14_321)) == [], "a load that only reads"
    assert slugs(quiet(commits=430), load(549)) == ["changed-nothing"], "seen of arms that drew the same rows"
    assert slugs(quiet(commits=4_669)) == []


def test_what_neither_server_nor_client_used_is_foreign() -> None:
    before = CpuTimes(busy_s=100.0, own_s=10.0, server_s=20.0)
    after = CpuTimes(busy_s=110.0, own_s=12.0, server_s=26.0)
    assert foreign_share(before, after, seconds=10.0, cpu_count=2) == (10 - 2 - 6) / 20


def test_an_unseen_server_leaves_the_share_unknown() -> None:
    unseen = CpuTimes(busy_s=1.0, own_s=1.0, server_s=None)
    assert foreign_share(unseen, unseen, seconds=1.0, cpu_count=1) is None
