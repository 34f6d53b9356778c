"""Ports of sandboxes: free, and out of the way of outgoing connections."""

from __future__ import annotations

import socket

import pytest

from flushlab.errors import PortTaken
from flushlab.server.sandbox import node


def test_a_free_port_is_none_that_an_outgoing_connection_may_be_given() -> None:
    outgoing = node._outgoing()
    assert len(outgoing) > 1000
    for _ in range(50):
        port = node.free_port()
        assert node.LOWEST <= port <= node.HIGHEST
        assert port not in outgoing
        node.require_free_port(port)


def test_ports_in_use_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = node.free_port(), node.free_port()
    monkeypatch.setattr(node, "sample", lambda _population, _count: [first, second])
    with socket.socket() as taken:
        taken.bind((node.HOST, first))
        assert node.free_port() == second


@pytest.mark.parametrize("outgoing", [range(1024, 65_536), range(node.LOWEST, node.HIGHEST + 1)])
def test_where_all_ports_are_for_outgoing_connections_the_kernel_chooses(
    monkeypatch: pytest.MonkeyPatch, outgoing: range
) -> None:
    monkeypatch.setattr(node, "_outgoing", lambda: outgoing)
    assert node.free_port() > 0


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind((node.HOST, 0))
        taken.listen()
        with pytest.raises(PortTaken, match="cannot be used"):
            node.require_free_port(taken.getsockname()[1])
