"""Whether the nodes of a cluster that is not flushlab's are all there, in step and alike."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flushlab.errors import FlushlabError
from flushlab.server.remote.login import from_dsn, from_nodes
from flushlab.server.remote.server import Member, require_whole

NODE = Member(
    name="db1:3306",
    version="10.11.6-MariaDB",
    on=True,
    node="1",
    cluster="c",
    size=3,
    primary=True,
    state="Synced",
    incoming=("db1:3306", "db2:3306", "db3:3306"),
)


def three(**third: Any) -> list[Member]:
    second = msgspec.structs.replace(NODE, name="db2:3306", node="2")
    return [NODE, second, msgspec.structs.replace(NODE, **{"name": "db3:3306", "node": "3", **third})]


def test_three_nodes_in_step_are_a_cluster() -> None:
    require_whole(three())


def test_an_arbitrator_is_no_node_that_could_be_reached() -> None:
    incoming = ("db1:3306", "", "db2:3306")
    require_whole([msgspec.structs.replace(one, incoming=incoming) for one in three()[:2]])


@pytest.mark.parametrize(
    ("third", "message"),
    [
        ({"on": False}, "db3:3306 is not a node of a cluster: wsrep_on is OFF"),
        ({"primary": False}, "db3:3306 has no quorum"),
        ({"state": "Donor/Desynced"}, "db3:3306 is Donor/Desynced, not Synced"),
        ({"cluster": "other"}, "db3:3306 and db1:3306 are nodes of different clusters"),
        ({"node": "2"}, "2 of the cluster's 3 nodes can be reached; db4:3306: refused"),
        ({"version": "11.8.2-MariaDB"}, "the nodes run different versions: .*db3:3306 runs 11.8.2-MariaDB"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_cluster_that_is_not_whole_is_refused_with_the_node(third: dict[str, Any], message: str) -> None:
    with pytest.raises(FlushlabError, match=message) as refused:
        require_whole(three(**third), ["db4:3306: refused"])
    assert refused.value.hint


def test_a_dsn_may_name_several_nodes() -> None:
    found = from_nodes("mysql://me:p%40ss@db1,db2:3307,[::1]:3308/shop?ssl-mode=required")
    assert [(one.endpoint.host, one.endpoint.port) for one in found] == [
        ("db1", 3306),
        ("db2", 3307),
        ("::1", 3308),
    ]
    assert {(one.endpoint.password, one.database, one.ssl_mode) for one in found} == {
        ("p@ss", "shop", "required")
    }
    assert from_nodes("mysql://me@db/a") == (from_dsn("mysql://me@db/a"),)
