"""Watched server: the description of a running server for `watch` and `doctor`. Sits in `server`."""

from __future__ import annotations

from flushlab.record.running import WatchedServer
from flushlab.server.protocol import Server
from flushlab.server.remote.address import Address
from flushlab.server.remote.group import RemoteGroup
from flushlab.server.remote.server import RemoteServer


def watched_at(address: Address) -> WatchedServer:
    """The user's own server."""
    return WatchedServer(
        key=address.name,
        endpoint=address.endpoint,
        transport=address.transport,
        ssl_mode=address.ssl_mode,
        ssl_ca=address.ssl_ca,
    )


def watched(server: Server, arm: str = "") -> WatchedServer:
    """A server that runs, with the arm whose settings it has."""
    endpoint, pid = server.endpoint, server.pid
    place = endpoint.socket or f"{endpoint.host}:{endpoint.port}"
    address = server.address if isinstance(server, RemoteServer | RemoteGroup) else None
    return WatchedServer(
        key=f"{place} {pid}" if pid is not None else place,
        arm=arm,
        endpoint=endpoint,
        transport="socket" if endpoint.socket else "tcp",
        ssl_mode=address.ssl_mode if address else "disabled",
        ssl_ca=address.ssl_ca if address else "",
        pid=pid,
        pids=tuple(node.pid for node in server.nodes if node.pid is not None),
    )
