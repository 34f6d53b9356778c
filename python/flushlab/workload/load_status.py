"""Load status: the totals of a running load, published once a second for `flushlab watch`.

Sits in `workload`, between the load engine and `process.running`. Called by the thread that waits for the
load, never by the one that drives the load; does nothing while nobody watches this process.
"""

from __future__ import annotations

from itertools import count

import msgspec

from flushlab.process.running import live_status
from flushlab.record import LoadProgress, LoadResult, LoadSeen
from flushlab.record.running import LoadTotals
from flushlab.server.clients import Load

_numbers = count(1)


class LoadStatus:
    """Publishes the totals of one load.

    Args:
        load: the running load.
        unit: of its throughput.
    """

    def __init__(self, load: Load, unit: str) -> None:
        self._load = load
        self._unit = unit
        self._board = live_status()
        self._number = next(_numbers)
        self._second = 0
        self._counts: dict[int, int] = {}

    def glance(self, progress: LoadProgress) -> None:
        """The load runs; another second may be over."""
        second = int(progress.elapsed_s)
        if second <= self._second or not progress.per_second or not self._board.is_seen:
            return
        self._second = second
        before, self._counts = self._counts, dict(self._totals().latencies_us)
        news = [(us, events - before.get(us, 0)) for us, events in self._counts.items()]
        self._board.second(
            float(progress.per_second[-1]),
            self._unit,
            p50_ms=quantile_ms(news, 0.5),
            p99_ms=quantile_ms(news, 0.99),
        )

    def slice(self, result: LoadResult) -> None:
        """A slice is over, and the load not paused yet."""
        if not self._board.is_seen:
            return
        self._totals()
        latency = result.latency_us
        self._board.second(
            result.throughput,
            self._unit,
            p50_ms=latency.p50 / 1000 if latency else None,
            p99_ms=latency.p99 / 1000 if latency else None,
        )

    def _totals(self) -> LoadSeen:
        seen = msgspec.json.decode(self._load.seen(), type=LoadSeen)
        self._board.load(
            self._number,
            LoadTotals(
                events=seen.events,
                errors=dict(seen.errors),
                latencies_us=seen.latencies_us,
                latency_sum_s=seen.latency_sum_s,
                backlog=seen.backlog,
                lag_s=None if seen.lag_p99_us is None else seen.lag_p99_us / 1e6,
            ),
        )
        return seen


def quantile_ms(counts_us: list[tuple[int, int]], quantile: float) -> float | None:
    """The latency in milliseconds that this share of the events stayed within; None without events."""
    due = quantile * sum(events for _, events in counts_us)
    passed = 0
    for us, events in counts_us:
        passed += events
        if events and passed >= due:
            return us / 1000
    return None
