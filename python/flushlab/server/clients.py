"""Clients: machines that load a server over the network, and how they get in.

Server layer. A server that has clients listens on one address that they reach. Their account has a password
that no argument and no log has, logs in from their addresses only, and needs TLS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from flushlab.record import LoadSpec

USER = "flushlab_load"


class ClientLoad(Protocol):
    """A load that runs, or will: `_core.LoadRun`, or several on other machines."""

    def start(self) -> None:
        """Starts it."""
        ...

    def progress(self) -> bytes:
        """JSON of a `LoadProgress`."""
        ...

    def seen(self) -> bytes:
        """JSON of a `LoadSeen`."""
        ...

    def open_window(self) -> None:
        """Opens a window, or opens it anew."""
        ...

    def close_window(self) -> bytes:
        """JSON of a `LoadResult`."""
        ...

    def pause(self) -> None:
        """Nothing of it is under way after that."""
        ...

    def resume(self) -> None:
        """It goes on."""
        ...

    def stop(self) -> None:
        """Ends it."""
        ...


@dataclass(frozen=True)
class Access:
    """Ways in for clients; `hosts` are theirs, `identity` is the server's key and certificate in PEM."""

    address: str
    hosts: tuple[str, ...]
    password: str = field(repr=False)
    identity: str = field(repr=False)


class Clients(Protocol):
    """The machines that load servers."""

    @property
    def access(self) -> Access:
        """How they get in."""
        ...

    def connect(self, spec: LoadSpec) -> ClientLoad:
        """The load on a server, connected from there.

        Raises:
            UsageError: it cannot be divided over them.
            MeasurementError: a client is gone.
            CoreError: a client cannot connect.
        """
        ...


def clients_of(server: object) -> Clients | None:
    found: Clients | None = getattr(server, "clients", None)
    return found
