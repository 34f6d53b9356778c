"""Clients: machines that drove a load over the network, in a sentence. Pure; in `report`."""

from __future__ import annotations

from collections.abc import Sequence

from flushlab.record import LoadClient
from flushlab.units import format_latency


def load_came_from(clients: Sequence[LoadClient], skew_us: int | None = None) -> str:
    """`the load came from db2 over the network; round trip 0.21 ms (p99 0.40 ms)`.

    Args:
        clients: the machines.
        skew_us: between their windows' beginnings, of one window.
    """
    trips = [
        f"{format_latency(one.round_trip_us.p50)} (p99 {format_latency(one.round_trip_us.p99)})"
        for one in clients
    ]
    if len(clients) == 1:
        return f"the load came from {clients[0].machine} over the network; round trip {trips[0]}"
    each = ", ".join(f"{one.machine} {trip}" for one, trip in zip(clients, trips, strict=True))
    began = "" if skew_us is None else f"; their windows began within {format_latency(skew_us)}"
    return f"the load came from {len(clients)} machines over the network; round trips: {each}{began}"
