"""Ports on loopback, where sandboxes listen."""

from __future__ import annotations

import socket

from flushlab.errors import PortTaken

HOST = "127.0.0.1"
PORT_HINT = "choose another port, or none to get a free one"


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def require_free_port(port: int) -> None:
    """Makes sure that nobody listens on a port.

    Raises:
        PortTaken: somebody does, or it is no port.
    """
    with socket.socket() as probe:
        # As servers do: ports of connections that were closed a moment ago are free to listen on.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise PortTaken(f"port {port} on {HOST} cannot be used: {error}", hint=PORT_HINT) from None
