"""Somebody's own server, or cluster, as one server."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.errors import ServerDied
from flushlab.server.remote.server import RemoteGroup
from tests.fakes.server import FakeServer


class Node(FakeServer):
    """A node that counts how often it is asked whether it lives."""

    asked = 0
    address: Any = None

    def alive(self) -> bool:
        self.asked += 1
        return super().alive()


def nodes_of(server: RemoteGroup) -> list[Any]:
    return list(server.nodes)


def cluster() -> RemoteGroup:
    nodes: list[Any] = [Node(answers={"SELECT @@node": [(number,)]}) for number in (1, 2)]
    return RemoteGroup(nodes)


def test_a_cluster_is_told_by_the_number_of_its_nodes() -> None:
    server = cluster()
    assert (server.identity.nodes, server.first) == (2, server.nodes[0])


def test_while_nodes_may_die_the_first_that_is_left_speaks_and_the_dead_are_not_asked_again() -> None:
    server = cluster()
    first, second = nodes_of(server)
    with server.losing_nodes():
        assert server.query("SELECT @@node") == [(1,)]
        first.die("killed")
        asked = first.asked
        assert [server.query("SELECT @@node") for _ in range(3)] == [[(2,)]] * 3
        assert server.alive()
        assert first.asked == asked + 1
        second.die("killed")
        assert not server.alive()
    with pytest.raises(ServerDied):
        server.query("SELECT @@node")
