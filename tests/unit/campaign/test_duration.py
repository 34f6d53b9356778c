"""How long trials will take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.dry_run import _group_s
from flushlab.campaign.request import ArmGroup
from flushlab.campaign.scheduling import trial_s
from flushlab.workload.protocol import Timing

TIMING = Timing(warm_up_s=2.0, seconds=10.0)


def test_a_fresh_cluster_takes_longer_with_every_node() -> None:
    alone, three = (trial_s("oltp_write_only", TIMING, cluster=nodes) for nodes in (None, 3))
    assert (alone, three) == (14.5, 20.5)
    assert trial_s("sql:load.sql", TIMING, cluster=3) == 8.5


def test_a_cluster_that_keeps_running_is_not_started_for_each_trial() -> None:
    assert trial_s("oltp_write_only", TIMING, kept_running=True, cluster=3) == trial_s(
        "oltp_write_only", TIMING, kept_running=True
    )


def test_slices_on_clusters_have_their_switches_and_the_clusters_their_starts() -> None:
    spec = SimpleNamespace(server=SimpleNamespace(cluster=3))
    request: Any = SimpleNamespace(workload="oltp_write_only", timing=TIMING, spec=spec)
    on_two = ArmGroup(arms=("a",), kept_running=True, blocks=4, seconds=2.0, places=2)
    beside = msgspec.structs.replace(on_two, places=0)
    switches_s, starts_s = 4 * 3 * 2 * 0.3, 2 * 3 * 3.0
    assert _group_s(request, on_two) - _group_s(request, beside) == pytest.approx(switches_s + starts_s)
    request.spec.server.cluster = None  # somebody's own, which runs already
    assert _group_s(request, on_two) - _group_s(request, beside) == pytest.approx(switches_s)
