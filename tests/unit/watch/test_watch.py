"""What is watched where a server has several nodes."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.process.running import publish_status
from flushlab.record import Endpoint
from flushlab.server.remote.server import watched
from flushlab.telemetry import observation
from flushlab.watch.http import LOOPBACK
from flushlab.watch.watch import Watch, _of_sandbox, in_this_process, of

PIDS = (1 << 30, (1 << 30) + 1, (1 << 30) + 2)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Three nodes that share all that is used of the machine's CPU time: a day of it between two samples."""
    samples = itertools.count()

    def processes_s(pids: Collection[int]) -> dict[int, float]:
        day = next(samples)
        return {pid: day * 28_800.0 for pid in pids if pid in PIDS}

    busy = itertools.count()
    monkeypatch.setattr(observation, "processes_s", processes_s)
    monkeypatch.setattr(observation, "busy_s", lambda: next(busy) * 86_400.0)
    nodes = [SimpleNamespace(pid=pid) for pid in PIDS]
    return SimpleNamespace(
        name="trio",
        pid=PIDS[0],
        nodes=nodes,
        kept=True,
        endpoint=Endpoint(user="me", password="", socket="/s"),
    )


def others(watch: Watch) -> float | None:
    for _ in range(2):
        watch._sampler.take()
    return watch.latest.machine.others if watch.latest else None


def test_the_nodes_of_a_cluster_are_no_others(cluster: Any) -> None:
    assert others(_of_sandbox(cluster, LOOPBACK, None, False)) == 0.0


def test_the_nodes_of_a_cluster_that_a_command_drives_are_no_others(cluster: Any) -> None:
    with publish_status("bench") as board, board.running_server(watched(cluster)):
        assert others(of(in_this_process(), page=False)) == 0.0
