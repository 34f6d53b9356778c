"""Which node a stopped cluster is started from."""

from __future__ import annotations

import pytest

from flushlab.errors import StorageError
from flushlab.server.galera.bootstrap import choose
from flushlab.server.sandbox.node import NOWHERE, State

GROUP = "468fa093-8086-4859-a9c5-a8c9ebf88205"
OTHER = "11111111-8086-4859-a9c5-a8c9ebf88205"


def found(*seqnos: int, safe: int = 0, recovered: bool = False) -> dict[str, State]:
    return {
        f"trio-{number}": State(GROUP, seqno, safe=number == safe, recovered=recovered)
        for number, seqno in enumerate(seqnos, 1)
    }


def test_node_that_left_last_starts_the_cluster() -> None:
    choice = choose(found(10, 12, 12, safe=3))
    assert choice.number == 3
    assert choice.why == "trio-3 left last, at 12 (safe_to_bootstrap)"


def test_of_killed_nodes_the_one_that_came_furthest_starts_the_cluster() -> None:
    choice = choose(found(100, 105, 103, recovered=True))
    assert choice.number == 2
    assert choice.why == (
        "trio-2 came furthest, to 105 (mariadbd --wsrep-recover: trio-1 100, trio-2 105, trio-3 103)"
    )


def test_a_node_that_is_behind_does_not_start_the_cluster_even_if_it_calls_itself_safe() -> None:
    assert choose(found(100, 105, 103, safe=1)).number == 2


def test_the_first_of_equal_nodes_starts_the_cluster() -> None:
    choice = choose(found(7, 7, 7, recovered=True))
    assert choice.number == 1
    assert choice.why.startswith("all nodes are at 7 (mariadbd --wsrep-recover")


def test_a_node_without_a_position_does_not_start_the_cluster() -> None:
    nodes = found(-1, 3, -1)
    assert choose(nodes).number == 2
    assert "trio-1 unknown, trio-2 3, trio-3 unknown" in choose(nodes).why


def test_no_position_at_all_is_an_error_that_names_the_nodes() -> None:
    nodes = {"trio-1": NOWHERE, "trio-2": State(GROUP, -1)}
    with pytest.raises(StorageError, match="trio-1 unknown, trio-2 unknown"):
        choose(nodes)


def test_histories_of_different_clusters_are_not_joined() -> None:
    with pytest.raises(StorageError, match="different clusters"):
        choose({**found(7), "trio-2": State(OTHER, 9)})
