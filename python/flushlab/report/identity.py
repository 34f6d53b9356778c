"""A disk in words. Pure."""

from __future__ import annotations

from flushlab.record import DiskEmulation
from flushlab.units import format_latency


def disk_words(slow: DiskEmulation) -> str:
    """`gp3: 1.10 ms a sync, 1.12 ms measured`."""
    asked, measured = format_latency(slow.asked_sync_us_p50), format_latency(slow.measured_sync_us_p50)
    return f"{slow.profile.name}: {asked} a sync, {measured} measured"
