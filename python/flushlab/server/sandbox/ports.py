"""Ports on loopback, where sandboxes listen.

Server layer. A sandbox keeps its port while it restarts. Hence it gets none of those that the kernel gives to
outgoing connections (ip(7), `ip_local_port_range`): one of these could take it in that moment, or, trying to
reach the server, connect to itself.
"""

from __future__ import annotations

import socket
from pathlib import Path
from random import sample

from flushlab.errors import PortTaken

HOST = "127.0.0.1"
PORT_HINT = "choose another port, or none to get a free one"


LOWEST, HIGHEST = 10_000, 65_535
"""Ports that sandboxes listen on; below are those of well-known services."""
_TRIES = 100


def free_port() -> int:
    """A port on loopback that nobody uses now; if possible none that an outgoing connection may be given."""
    outgoing = _outgoing()
    usable = [port for port in range(LOWEST, HIGHEST + 1) if port not in outgoing]
    for port in [*sample(usable, min(_TRIES, len(usable))), 0]:  # 0: the kernel chooses
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                if not port:
                    raise
                continue
            return int(probe.getsockname()[1])
    raise AssertionError("the last one returns or raises")


def _outgoing() -> range:
    """The ports that the kernel gives to outgoing connections of this network namespace."""
    try:
        lowest, highest = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    except (OSError, ValueError):
        return range(32_768, 61_000)  # the kernel's default
    return range(int(lowest), int(highest) + 1)


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
