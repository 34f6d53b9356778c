"""Progress of `flushlab fill` on stderr: a live bar on a terminal; elsewhere a line every ten seconds."""

from __future__ import annotations

import time

from flushlab.bulk.loading import RowProgress
from flushlab.cli.output import console, say
from flushlab.cli.progress import LiveBar
from flushlab.units import format_seconds, format_size

_SAY_EVERY_S = 10.0


class FillBar(LiveBar):
    """Shows how far a load is, how fast, and what its limit is now."""

    def __init__(self) -> None:
        super().__init__()
        self._said = time.monotonic()

    def show_rows(self, far: RowProgress) -> None:
        """It is so far."""
        rate, left = f"{far.table} {far.rows_per_s:,.0f} rows/s", f"{format_seconds(far.seconds_left)} left"
        self.show(
            far.rows, far.total, f"{rate} ({far.bound.what}), {left}"
        )  # 80 columns have no room for more
        text = f"{rate}, {format_size(far.bytes)}, {left}, bound by {far.bound.what}"
        if not console.is_terminal and time.monotonic() - self._said >= _SAY_EVERY_S:
            self._said = time.monotonic()
            say(f"{far.rows:,} of {far.total:,} rows: {text}")
