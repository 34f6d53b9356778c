"""A server as JSON documents have it. Pure."""

from __future__ import annotations

from flushlab.record import ServerIdentity


def server_document(server: ServerIdentity) -> dict[str, str | int]:
    """Flavor, version as the server prints it, and the number of a cluster's nodes (1: it is alone)."""
    return {"flavor": server.flavor, "version": server.version_text, "nodes": server.nodes}
