"""What is told of nodes that die while a load goes on without them."""

from __future__ import annotations

from flushlab.record import LostNode
from flushlab.workload.engine import Losses, lost_node_warnings
from tests.fakes.server import FakeServer


def test_a_dead_node_is_told_with_the_longest_stretch_without_a_commit_from_then_on() -> None:
    nodes = [FakeServer(), FakeServer(), FakeServer()]
    losses = Losses(nodes)
    losses.glance(1.0, 100)
    losses.glance(3.0, 200)
    nodes[1].die("killed")
    for now_s, events in ((3.1, 200), (5.5, 200), (5.6, 210), (6.0, 210), (9.0, 400)):
        losses.glance(now_s, events)
    assert losses.nodes == (LostNode(node=2, at_s=3.1, without_commit_s=2.5),)
    (caveat,) = lost_node_warnings(losses.nodes)
    assert caveat.text.startswith("node 2 died 3.1 s into the window: for 2.5 s no transaction was committed")


def test_a_node_that_died_in_the_warm_up_is_told_as_dead_before_the_window() -> None:
    nodes = [FakeServer(), FakeServer()]
    nodes[0].die("killed")
    (caveat,) = lost_node_warnings(Losses(nodes).nodes)
    assert "node 1 died before the window" in caveat.text
