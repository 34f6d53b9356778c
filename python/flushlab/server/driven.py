"""Driven: a server as it is told to whoever watches. Sits in `server`."""

from __future__ import annotations

from flushlab.record.running import Driven
from flushlab.server.attached import Attached
from flushlab.server.external import External
from flushlab.server.protocol import Server


def driven(server: Server, arm: str = "") -> Driven:
    """A server that stands, with the arm whose settings it has."""
    endpoint, pid = server.endpoint, server.pid
    place = endpoint.socket or f"{endpoint.host}:{endpoint.port}"
    address = server.address if isinstance(server, Attached | External) else None
    return Driven(
        key=f"{place} {pid}" if pid is not None else place,
        arm=arm,
        endpoint=endpoint,
        transport="socket" if endpoint.socket else "tcp",
        ssl_mode=address.ssl_mode if address else "disabled",
        ssl_ca=address.ssl_ca if address else "",
        pid=pid,
        pids=tuple(node.pid for node in server.nodes if node.pid is not None),
    )
