"""Members: all nodes of a Galera cluster that is not flushlab's, found from one of them or named.

Server layer. Settings change on every node of a cluster, and the load measures all nodes together. It is an
error if a node cannot be reached, is not in step, or is not like the others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack

import msgspec

from flushlab.errors import ServerError, UsageError
from flushlab.server.node_group import differences
from flushlab.server.remote.address import other_address
from flushlab.server.remote.server import RemoteServer

CONNECT_S = 5.0
"""Longest wait for a connection to a server that is there, or is not."""
_STATUS = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'wsrep_cluster_status',"
    " 'wsrep_gcomm_uuid', 'wsrep_cluster_state_uuid', 'wsrep_local_state_comment',"
    " 'wsrep_incoming_addresses')"
)
_EVERY = "a cluster is measured and changed as a whole"


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """What a server tells of its part in a cluster.

    Attributes:
        name: address of the node.
        version: of the server, as it words it.
        on: wsrep_on: it is a node.
        node: unlike that of any other node (wsrep_gcomm_uuid).
        cluster: of the cluster (wsrep_cluster_state_uuid).
        size: members that it sees, arbitrators too.
        primary: the node has a quorum.
        state: `Synced` for one that is in step.
        incoming: where it says that clients reach the members; empty for an arbitrator.
    """

    name: str
    version: str
    on: bool
    node: str = ""
    cluster: str = ""
    size: int = 0
    primary: bool = False
    state: str = ""
    incoming: tuple[str, ...] = ()


def members(named: Sequence[RemoteServer], stack: ExitStack) -> tuple[RemoteServer, ...]:
    """All nodes of the cluster that a server is of; the server itself if it is of none.

    Args:
        named: one node, or all nodes.
        stack: closes those that are found.

    Raises:
        UsageError: they are no cluster, or not all of it.
        ServerError: the cluster is not whole and in step.
    """
    told = [member(one) for one in named]
    if len(named) == 1 and not told[0].on:
        return tuple(named)
    found = dict(zip((one.node for one in told), named, strict=True))
    lost = []
    for place in told[0].incoming if len(named) == 1 else ():
        try:
            one = stack.enter_context(
                RemoteServer(other_address(named[0].address, place), connect_s=CONNECT_S)
            )
        except (ServerError, ValueError) as error:
            if place:  # an arbitrator tells none
                lost.append(f"{place}: {error}")
            continue
        if (tells := member(one)).node not in found:
            found[tells.node] = one
            told.append(tells)
    require_whole(told, lost)
    return tuple(found.values())


def require_alike(nodes: Sequence[RemoteServer], names: Collection[str]) -> None:
    """Makes sure that settings are the same on every node.

    Raises:
        ServerError: they are not; names node and setting.
    """
    if found := differences({node.address.name: node for node in nodes}, names):
        raise ServerError(found[0])


def member(server: RemoteServer) -> Member:
    """What a server tells of its part in a cluster.

    Raises:
        ServerError: it does not answer.
    """
    name, version = server.address.name, server.identity.version_text
    on = server.query("SHOW GLOBAL VARIABLES LIKE 'wsrep\\_on'")
    if not on or str(on[0][1]).upper() not in ("ON", "1"):
        return Member(name=name, version=version, on=False)
    facts = {str(key).lower(): str(value) for key, value in server.query(_STATUS)}
    return Member(
        name=name,
        version=version,
        on=True,
        node=facts.get("wsrep_gcomm_uuid", ""),
        cluster=facts.get("wsrep_cluster_state_uuid", ""),
        size=int(facts.get("wsrep_cluster_size", "0")),
        primary=facts.get("wsrep_cluster_status") == "Primary",
        state=facts.get("wsrep_local_state_comment", ""),
        incoming=tuple(one.strip() for one in facts.get("wsrep_incoming_addresses", "").split(",")),
    )


def require_whole(told: Sequence[Member], lost: Sequence[str] = ()) -> None:
    """Makes sure that these are all nodes of one cluster, alike and in step.

    Args:
        told: state that each node reports.
        lost: nodes that could not be reached, with the reason.

    Raises:
        UsageError: they are no cluster, or not all of it.
        ServerError: the cluster is not in step.
    """
    for one in told:
        if not one.on:
            raise UsageError(
                f"{one.name} is not a node of a cluster: wsrep_on is OFF", hint="name nodes alone"
            )
        if not one.primary:
            raise ServerError(f"{one.name} has no quorum", hint="see wsrep_cluster_status there")
        if one.state != "Synced":
            raise ServerError(f"{one.name} is {one.state}, not Synced", hint="wait until it is in step")
        if one.cluster != told[0].cluster:
            raise UsageError(f"{one.name} and {told[0].name} are nodes of different clusters", hint=_EVERY)
    first = told[0]
    arbitrators = sum(not place for place in first.incoming)
    if len({one.node for one in told}) < (nodes := first.size - arbitrators):
        why = "".join(f"; {one}" for one in lost)
        raise UsageError(
            f"{len({one.node for one in told})} of the cluster's {nodes} nodes can be reached{why}",
            hint=f"{_EVERY}: name all nodes, as in --dsn mysql://USER:PASSWORD@NODE1,NODE2,NODE3/DATABASE",
        )
    if len({one.version for one in told}) > 1:
        versions = ", ".join(f"{one.name} runs {one.version}" for one in told)
        raise UsageError(
            f"the nodes run different versions: {versions}", hint=f"{_EVERY}: upgrade them first"
        )
