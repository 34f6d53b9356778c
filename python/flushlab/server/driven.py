"""Driven: a server as it is told to whoever watches. Sits in `server`."""

from __future__ import annotations

from flushlab.record import SslMode
from flushlab.record.running import Driven
from flushlab.server.protocol import Server


def driven(
    server: Server,
    arm: str = "",
    *,
    transport: str = "socket",
    ssl_mode: SslMode = "disabled",
    ssl_ca: str = "",
) -> Driven:
    """A server that stands, with the arm whose settings it has."""
    endpoint, pid = server.endpoint, server.pid
    place = endpoint.socket or f"{endpoint.host}:{endpoint.port}"
    return Driven(
        key=f"{place} {pid}" if pid is not None else place,
        arm=arm,
        endpoint=endpoint,
        transport="tcp" if transport == "tcp" else "socket",
        ssl_mode=ssl_mode,
        ssl_ca=ssl_ca,
        pid=pid,
    )
