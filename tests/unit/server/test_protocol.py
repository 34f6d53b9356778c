"""Nodes of a cluster as others see them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.server.protocol import quorum_problem, replica_statement, sources_of
from tests.fakes.server import FakeServer


def node(status: str = "Primary", *, alive: bool = True) -> Any:
    return SimpleNamespace(
        alive=lambda: alive,
        storage=SimpleNamespace(visible=True),
        query=lambda *_, **__: [("wsrep_cluster_status", status)],
    )


def cluster(*nodes: Any) -> Any:
    return SimpleNamespace(nodes=nodes)


DEAD = node(alive=False)


@pytest.mark.parametrize(
    ("nodes", "lost", "says"),
    [
        ([node(), node()], (), ""),
        ([DEAD], (), ""),
        ([DEAD, node()], (), "node 1 died"),
        ([DEAD, node()], {1}, ""),  # the others go on, however slowly
        ([DEAD, node("non-Primary")], {1}, "the cluster lost its quorum: node 2 has no quorum"),
        ([DEAD, DEAD], {1, 2}, "node 1 died, node 2 died"),
    ],
)
def test_a_lost_node_is_no_trouble_while_others_are_left(nodes: list[Any], lost: Any, says: str) -> None:
    assert quorum_problem(cluster(*nodes), lost) == says


def test_the_sources_of_a_replica_are_named() -> None:
    server = FakeServer()
    row = ("", "Waiting", "Waiting", "db1", "db2")
    place = 3 if server.identity.flavor == "mariadb" else 1
    server = FakeServer(answers={replica_statement(server.identity): [row]})
    assert sources_of(server) == [row[place]]
