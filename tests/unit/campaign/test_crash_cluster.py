from __future__ import annotations

import pytest

from flushlab.campaign.crash.cluster import failure_of, which_nodes
from flushlab.errors import UsageError
from flushlab.record import CrashKind


def test_one_node_of_a_cluster_crashes_unless_it_is_said() -> None:
    assert which_nodes(None, None, "power") == ""
    assert which_nodes(None, 3, "power") == "one"
    assert which_nodes("cascade", 3, "process") == "cascade"
    assert which_nodes("all", 2, "process") == "all"


@pytest.mark.parametrize(
    ("nodes", "cluster", "fail", "complaint"),
    [
        ("all", None, "power", "--nodes is of a cluster"),
        ("two", 3, "power", "'two' is not known"),
        ("all", 3, "eio", "--fail eio is for one server"),
        (None, 2, "power", "--nodes one needs three nodes"),
        ("rolling", 2, "process", "--nodes rolling needs three nodes"),
    ],
)
def test_what_makes_no_sense_is_refused(
    nodes: str, cluster: int | None, fail: CrashKind, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        which_nodes(nodes, cluster, fail)


def test_all_nodes_are_a_loss_of_the_cluster_and_nodes_that_come_back_are_not() -> None:
    assert [failure_of(which) for which in ("one", "rolling", "all", "cascade")] == [
        "node_loss",
        "node_loss",
        "cluster_loss",
        "cluster_loss",
    ]
