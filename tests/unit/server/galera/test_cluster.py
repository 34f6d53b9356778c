"""What is found out before any node of a cluster starts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.build.galera import Galera
from flushlab.datadir import DataRoot, Snapshots
from flushlab.errors import (
    FlushlabError,
    HarnessError,
    NoMemory,
    NoSpace,
    PortTaken,
    ServerDied,
    ServerError,
    StartFailed,
    UsageError,
)
from flushlab.record import Endpoint, Storage
from flushlab.server import SandboxSpec
from flushlab.server.galera.cluster import Cluster, require_size
from flushlab.server.sandbox.node import NodeAddress
from tests.unit.builds import MARIADB, MYSQL80

GALERA = Galera(provider="/g/libgalera_smm.so", folders=("/g/bin",), id="galera-1")


@pytest.mark.parametrize("size", [0, 1, 10])
def test_a_cluster_of_too_few_or_too_many_nodes_is_refused(size: int) -> None:
    with pytest.raises(UsageError, match=f"a cluster of {size} nodes") as refused:
        require_size(size)
    assert "--cluster 3" in (refused.value.hint or "")


def test_a_cluster_of_mysql_servers_is_refused() -> None:
    with pytest.raises(UsageError, match=r"mysql@8\.0\.15 cannot run in a Galera cluster"):
        Cluster.start(SandboxSpec(MYSQL80, nodes=3))


def test_memory_for_every_node_is_counted_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flushlab.server.galera.cluster.galera_for", lambda *_: GALERA)
    monkeypatch.setattr("flushlab.server.galera.cluster.available_memory_bytes", lambda: 5 << 30)
    with pytest.raises(NoMemory, match=r"3 nodes need about 6\.6 GiB of memory, and 5 GiB is free"):
        Cluster.start(SandboxSpec(MARIADB, nodes=3, settings={"innodb_buffer_pool_size": 2 << 30}))


@pytest.fixture
def data_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node copies 100 MiB, and makes 128 MiB of write-set cache."""
    monkeypatch.setattr("flushlab.server.galera.cluster.galera_for", lambda *_: GALERA)
    data = SimpleNamespace(allocated_bytes=100 << 20)
    monkeypatch.setattr("flushlab.server.galera.cluster.node_data", lambda *_, **__: data)


def has_free(monkeypatch: pytest.MonkeyPatch, mebibytes: int) -> None:
    monkeypatch.setattr("flushlab.datadir.data_root.free_bytes", lambda *_, **__: mebibytes << 20)


@pytest.mark.usefixtures("data_of_a_node")
def test_disk_space_for_every_node_is_counted_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[object] = []
    monkeypatch.setattr("flushlab.server.galera.cluster.Sandbox.begin", lambda *_, **__: begun.append(1))
    has_free(monkeypatch, 683)
    root = DataRoot(path=tmp_path, storage=Storage())
    with pytest.raises(NoSpace, match=r"a cluster of 3 nodes of mariadb@10\.11\.19 needs 684 MiB") as refused:
        Cluster.start(SandboxSpec(MARIADB, nodes=3, data_root=root, snapshots=Snapshots(tmp_path)))
    assert "only 683 MiB is free" in refused.value.message
    assert begun == []


@pytest.mark.usefixtures("data_of_a_node")
def test_nodes_with_data_roots_of_their_own_need_their_own_space_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def reached(*_: object, **__: object) -> None:
        raise PortTaken("nodes are about to begin")

    monkeypatch.setattr("flushlab.server.galera.cluster.Sandbox.begin", reached)
    roots = [DataRoot(path=tmp_path, storage=Storage()) for _ in range(3)]
    has_free(monkeypatch, 228)
    with pytest.raises(PortTaken, match="about to begin"):
        Cluster.start(
            SandboxSpec(MARIADB, nodes=3, data_root=roots[0], node_roots=roots, snapshots=Snapshots(tmp_path))
        )
    has_free(monkeypatch, 227)
    with pytest.raises(NoSpace, match=r"a node of mariadb@10\.11\.19 needs 228 MiB"):
        Cluster.start(
            SandboxSpec(MARIADB, nodes=3, data_root=roots[0], node_roots=roots, snapshots=Snapshots(tmp_path))
        )


def test_a_kept_cluster_that_there_is_not_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flushlab.server.sandbox.kept.statuses", list)
    with pytest.raises(UsageError, match="there is no kept cluster named 'trio'") as refused:
        Cluster.attach("trio")
    assert refused.value.hint == "`flushlab server start --cluster 3` starts one"


def stopped(folder: Path, *, killed: bool = False) -> list[Any]:
    """Two nodes that do not run, and whose logs have what was wrong last year."""
    nodes = [
        SimpleNamespace(
            name=f"duo-{number}",
            log=folder / f"{number}.err",
            endpoint=Endpoint(user="root", password=""),
            was_killed=killed and number == 1,
            alive=lambda: False,
            give_up_start=lambda: None,
        )
        for number in (1, 2)
    ]
    for node in nodes:
        node.log.write_text("rsync: write failed: No space left on device (28)\n")
    return nodes


def starts(
    monkeypatch: pytest.MonkeyPatch, nodes: list[Any], error: FlushlabError, said: str = ""
) -> FlushlabError:
    """What a start of nodes ends with of which the last one fails while the first one's log says this."""
    cluster = Cluster("duo", nodes)

    def fails() -> None:
        with nodes[0].log.open("a") as log:
            log.write(said)
        raise error

    monkeypatch.setattr(cluster, "_start_again", fails)
    with pytest.raises(FlushlabError) as told:
        cluster.start_again()
    return told.value


@pytest.mark.parametrize("error", [StartFailed("no donor"), ServerDied("gone")])
def test_a_node_that_another_one_failed_for_want_of_something_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: FlushlabError
) -> None:
    assert starts(monkeypatch, stopped(tmp_path), error) is error
    full = starts(
        monkeypatch, stopped(tmp_path), error, "rsync: write failed: No space left on device (28)\n"
    )
    assert isinstance(full, NoSpace)
    assert full.message.startswith("duo-1, a node of the cluster duo, says: rsync: write failed")
    taken = starts(
        monkeypatch,
        stopped(tmp_path),
        error,
        "WSREP_SST: [ERROR] rsync or stunnel daemon port '4444' has been taken by another program\n",
    )
    assert isinstance(taken, PortTaken)
    assert "'4444' has been taken" in taken.message
    killed = starts(monkeypatch, stopped(tmp_path, killed=True), error)
    assert isinstance(killed, NoSpace)
    assert "duo-1, a node of the cluster duo, was killed by SIGKILL" in killed.message


def test_nodes_do_not_start_where_others_listen_even_if_one_of_them_still_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes = stopped(tmp_path)
    nodes[0].alive = lambda: True
    for number, node in enumerate(nodes, 1):
        node.membership = SimpleNamespace(place=NodeAddress(address=f"127.9.9.{number}"))
    asked: list[NodeAddress] = []

    def taken(places: list[NodeAddress]) -> None:
        asked.extend(places)
        raise PortTaken("port 4444 is in use")

    monkeypatch.setattr("flushlab.server.galera.cluster.require_free_places", taken)
    with pytest.raises(PortTaken):
        Cluster("duo", nodes).start_again()
    assert [place.address for place in asked] == ["127.9.9.2"]


class Begun:
    """A node that was begun."""

    def __init__(self, undone: list[str], name: str, error: Exception | None = None) -> None:
        self.name, self.disk, self.seconds = name, None, {"restore": 0.0}
        self._undone, self._error = undone, error

    def close(self) -> None:
        self._undone.append(self.name)
        if self._error is not None:
            raise self._error

    remove = give_up_start = close

    def stop(self) -> None: ...

    def keep(self) -> None:
        if self.name == "node 2":
            raise ServerError("it cannot be written down")

    def __enter__(self) -> Begun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def undone(data_of_a_node: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was undone, of nodes of which the second takes something amiss when it ends."""
    found: list[str] = []
    begun: list[Begun] = []

    def begin(*_: object, **__: object) -> Begun:
        if len(begun) == 2:
            raise StartFailed("node 3 does not start")
        amiss = HarnessError("node 2 survived SIGKILL") if begun else None
        begun.append(Begun(found, f"node {len(begun) + 1}", amiss))
        return begun[-1]

    monkeypatch.setattr("flushlab.server.galera.cluster.Sandbox.begin", begin)
    has_free(monkeypatch, 1000)
    return found


def started(root: Path, **how: Any) -> Cluster:
    data_root = DataRoot(path=root, storage=Storage())
    return Cluster.start(SandboxSpec(MARIADB, data_root=data_root, snapshots=Snapshots(root), **how))


def test_addresses_that_are_taken_are_chosen_anew(
    undone: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def taken(size: int, _: object) -> None:
        tries.append(size)
        raise PortTaken("no loopback addresses are free")

    monkeypatch.setattr("flushlab.server.galera.cluster.free_places", taken)
    with pytest.raises(PortTaken):
        started(tmp_path, nodes=2)
    assert (tries, undone) == ([2, 2, 2], [])


def test_all_is_undone_and_the_first_error_raised_if_a_node_does_not_start(
    undone: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Network(Begun):
        def __init__(self, _latency_s: float) -> None:
            super().__init__(undone, "network")

        def address(self, number: int) -> str:
            return f"127.0.0.{number}"

        def attach(self, number: int, pid: int) -> None: ...

    monkeypatch.setattr("flushlab.server.galera.cluster.EmulatedNetwork", Network)
    with pytest.raises(StartFailed, match="node 3 does not start") as failed:
        started(tmp_path, nodes=3, latency_s=0.001)
    assert undone == ["node 2", "node 1", "network"]
    assert failed.value.__notes__ == ["node 2 survived SIGKILL"]


def test_no_node_is_kept_if_one_cannot_be(
    undone: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "_await_first", lambda _: None)
    with pytest.raises(ServerError, match="cannot be written down"):
        started(tmp_path, nodes=2, kept=True)
    assert undone == ["node 2", "node 1"]


def test_every_node_is_closed_whichever_of_them_fails() -> None:
    undone: list[str] = []
    nodes: Any = [Begun(undone, "1", HarnessError("1 hangs")), Begun(undone, "2", HarnessError("2 too"))]
    with pytest.raises(HarnessError, match="1 hangs") as failed:
        Cluster("duo", nodes).close()
    assert (undone, failed.value.__notes__) == (["1", "2"], ["2 too"])


def test_a_start_that_fails_gives_up_the_nodes_that_nobody_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    undone: list[str] = []
    nodes: Any = [Begun(undone, "1"), Begun(undone, "2")]
    cluster = Cluster("duo", nodes)

    def fails() -> None:
        raise HarnessError("the network is gone")

    for node in nodes:
        node.log = Path("/nonexistent")
    monkeypatch.setattr(cluster, "_start_again", fails)
    with pytest.raises(HarnessError, match="the network is gone"):
        cluster.start_again()
    assert sorted(undone) == ["1", "2"]
