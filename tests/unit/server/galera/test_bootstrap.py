"""Which node a stopped cluster is started from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from flushlab.errors import NoSpace, StartFailed, StorageError
from flushlab.record import Endpoint
from flushlab.server.galera import bootstrap as recovering
from flushlab.server.galera.bootstrap import choose
from flushlab.server.sandbox.node import NOWHERE, NodeState
from tests.unit.builds import MARIADB
from tests.unit.server.sandbox.test_log import MARIADB_SPACE
from tests.unit.server.sandbox.test_node import GROUP, RECOVERED

BOOTSTRAP_GROUP = "468fa093-8086-4859-a9c5-a8c9ebf88205"
OTHER = "11111111-8086-4859-a9c5-a8c9ebf88205"


def found(*seqnos: int, safe: int = 0, recovered: bool = False) -> dict[str, NodeState]:
    return {
        f"trio-{number}": NodeState(BOOTSTRAP_GROUP, seqno, safe=number == safe, recovered=recovered)
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
    nodes = {"trio-1": NOWHERE, "trio-2": NodeState(BOOTSTRAP_GROUP, -1)}
    with pytest.raises(StorageError, match="trio-1 unknown, trio-2 unknown"):
        choose(nodes)


def test_histories_of_different_clusters_are_not_joined() -> None:
    with pytest.raises(StorageError, match="different clusters"):
        choose({**found(7), "trio-2": NodeState(OTHER, 9)})


def node(folder: Path) -> Any:
    (folder / "ibdata1").touch()
    return SimpleNamespace(
        name="trio-2",
        build=MARIADB,
        datadir=folder,
        folder=folder,
        folders=(folder,),
        log=folder / "server.err",
        endpoint=Endpoint(user="root", password=""),
        settings={},
        membership=SimpleNamespace(environment=lambda _: {}),
    )


def ends(monkeypatch: pytest.MonkeyPatch, code: int | None, said: str = "") -> None:
    """Recovery ends with this exit code, or not at all, after it has written this."""

    class Guard:
        def __init__(self, name: str) -> None:
            self.name = name

        def spawn(self, _: object, *, log: Path, **__: object) -> Any:
            log.write_text(said)
            return SimpleNamespace(wait=lambda _: code)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(recovering, "Guard", Guard)


def test_the_position_of_a_killed_node_is_what_its_recovery_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends(monkeypatch, 0, RECOVERED)
    assert recovering.recover(node(tmp_path)) == NodeState(GROUP, 105, recovered=True)


def test_a_recovery_that_the_kernel_kills_or_that_has_no_space_says_nothing_of_the_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends(monkeypatch, -9)
    with pytest.raises(NoSpace, match="was killed by SIGKILL while it recovered trio-2"):
        recovering.recover(node(tmp_path))
    ends(monkeypatch, 1, MARIADB_SPACE)
    with pytest.raises(NoSpace, match=r"could not recover trio-2 \(exit code 1\)"):
        recovering.recover(node(tmp_path))


def test_a_recovery_that_fails_and_one_that_takes_too_long_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends(monkeypatch, 1, "[ERROR] InnoDB: page 7 is torn\n")
    with pytest.raises(StartFailed, match="page 7 is torn") as failed:
        recovering.recover(node(tmp_path))
    assert not failed.value.unfinished
    assert f"empty {tmp_path} and start the cluster again" in (failed.value.hint or "")
    ends(monkeypatch, None)
    with pytest.raises(StartFailed, match="had not recovered trio-2 after 900 s") as slow:
        recovering.recover(node(tmp_path))
    assert slow.value.unfinished
