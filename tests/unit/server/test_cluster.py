"""What is found out before any node of a cluster starts."""

from __future__ import annotations

import pytest

from flushlab.build.galera import Galera
from flushlab.errors import NoMemory, UsageError
from flushlab.server.cluster import Cluster, require_size
from tests.unit.builds import MARIADB, MYSQL80

GALERA = Galera(provider="/g/libgalera_smm.so", folders=("/g/bin",), id="galera-1")


@pytest.mark.parametrize("size", [0, 1, 10])
def test_a_cluster_of_too_few_or_too_many_nodes_is_refused(size: int) -> None:
    with pytest.raises(UsageError, match=f"a cluster of {size} nodes") as refused:
        require_size(size)
    assert "--cluster 3" in (refused.value.hint or "")


def test_a_cluster_of_mysql_servers_is_refused() -> None:
    with pytest.raises(UsageError, match=r"mysql@8\.0\.15 cannot run in a Galera cluster"):
        Cluster.start(MYSQL80)


def test_memory_for_every_node_is_counted_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flushlab.server.cluster.galera_for", lambda *_: GALERA)
    monkeypatch.setattr("flushlab.server.cluster.available_memory_bytes", lambda: 5 << 30)
    with pytest.raises(NoMemory, match=r"3 nodes need about 6\.6 GiB of memory, and 5 GiB is free"):
        Cluster.start(MARIADB, size=3, settings={"innodb_buffer_pool_size": 2 << 30})


def test_a_kept_cluster_that_there_is_not_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flushlab.server.kept.statuses", list)
    with pytest.raises(UsageError, match="there is no kept cluster named 'trio'") as refused:
        Cluster.attach("trio")
    assert refused.value.hint == "`flushlab server start --cluster 3` starts one"
