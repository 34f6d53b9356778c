"""Ports on loopback, where sandboxes listen, and addresses there for the nodes of a cluster.

Server layer. A sandbox keeps its port while it restarts. Hence it gets no port that the kernel gives to
outgoing connections (ip(7), `ip_local_port_range`). Such a connection could take the port in that
moment, or, trying to reach the server, connect to itself.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Collection
from pathlib import Path
from random import sample

from flushlab.errors import PortTaken
from flushlab.server.sandbox.node import NodeAddress

HOST = "127.0.0.1"
PORT_HINT = "choose another port, or none to get a free one"


LOWEST, HIGHEST = 10_000, 65_535
"""Ports that sandboxes listen on; below are those of well-known services."""
_TRIES = 100


def free_port(host: str = HOST) -> int:
    """A port that nobody uses now; if possible none that an outgoing connection may be given."""
    outgoing = _outgoing()
    below = range(LOWEST, min(max(LOWEST, outgoing.start), HIGHEST + 1))
    usable = [*below, *range(max(LOWEST, outgoing.stop), HIGHEST + 1)]
    for port in [*sample(usable, min(_TRIES, len(usable))), 0]:  # 0: the kernel chooses
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                if not port:
                    raise
                continue
            return int(probe.getsockname()[1])
    raise AssertionError("the last one returns or raises")


def _outgoing() -> range:
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


_NETWORKS = range(16, 255)
"""Second bytes of clusters' addresses: 127.0.0.1 and what others choose near it stay free."""
_OFFSETS = (0, 10_000, 20_000, 30_000)
_TRIES = 10


def free_places(size: int, taken: Collection[str] = ()) -> tuple[NodeAddress, ...]:
    """Addresses on loopback at which nobody listens on any of a node's ports.

    Args:
        taken: addresses of clusters that may not run now and will again.

    Raises:
        PortTaken: a program listens on one of the ports at every address.
    """
    busy = ""
    for offset in _OFFSETS:
        for _ in range(_TRIES):
            network = f"127.{secrets.choice(_NETWORKS)}.{secrets.randbelow(256)}"
            addresses = [f"{network}.{number}" for number in range(1, size + 1)]
            places = tuple(NodeAddress(address=address, port_offset=offset) for address in addresses)
            busy = next((text for place in places if (text := busy_port(place))), "")
            if not busy and not set(addresses) & set(taken):
                return places
    raise PortTaken(
        f"no loopback addresses are free for a cluster: {busy}",
        hint="a program listens on that port at every address (0.0.0.0): stop it",
    )


def require_free_places(places: Collection[NodeAddress]) -> None:
    """Makes sure that nobody listens where a cluster did and is to do again.

    Raises:
        PortTaken: somebody does.
    """
    if busy := next((text for place in places if (text := busy_port(place))), ""):
        raise PortTaken(busy, hint="stop the program that listens there")


def busy_port(place: NodeAddress) -> str:
    """Which of a node's ports is taken, or an empty string."""
    for port in place.ports:
        with socket.socket() as probe:
            # As servers do: ports of connections that were closed a moment ago are free to listen on.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((place.address, port))
            except OSError as error:
                return f"port {port} on {place.address} cannot be used: {error.strerror}"
    return ""
