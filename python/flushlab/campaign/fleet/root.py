"""Root: what of a campaign needs it on each machine of a fleet. Sits in `campaign.fleet`; pure."""

from __future__ import annotations

from typing import Protocol

from flushlab.spec.parts import ServerSpec, ServersSpec


class Placed(Protocol):
    """What names the disk of its data."""

    @property
    def disk(self) -> str | None:
        """As `StorageSpec`."""
        ...


def root_for(server: ServerSpec | ServersSpec, *placed: Placed) -> str:
    """What of a campaign needs root, in words; empty if nothing does.

    Args:
        server: of the campaign.
        placed: all that names a disk.
    """
    if any(one.disk is not None for one in placed):
        return "a slow disk"
    return "a network latency" if server.network_latency is not None else ""
