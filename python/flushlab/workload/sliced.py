"""Sliced load: a load that is warmed up once and then paused but for short slices.

Beside `engine.drive`, for servers that run side by side and are driven one at a time. Between its slices
nothing of it is under way, on the server neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from flushlab.errors import MeasurementError
from flushlab.record import (
    ClientCost,
    ErrorCount,
    FailedAttempts,
    Latency,
    LoadResult,
    ObservedLoad,
    OpenLoop,
    RowCounts,
    StatementLatency,
    TransactionLatency,
    Warning,
)
from flushlab.server.protocol import Server
from flushlab.workload.engine import LoadStatus, closed, connected, measured, native, raise_if_failed, warm_up
from flushlab.workload.protocol import COMMITS, MOST_SLICE_S, Driving, Measured, Timing

LEAD_S = 0.01
"""From the first event of a slice to the beginning of its window: connections fall into step again."""
PROBES_S = (0.5, 2.0, 8.0)
PROBES_AGAIN = 2
"""So many more where a slice would have to be longer than the first: a machine that stalls just then must not
make every slice of every server long."""
LATENCIES = 50
"""A slice has room for so many events of each connection, as for `COMMITS`."""


class Sliceable(Protocol):
    """A load that is measured in slices: one that flushlab drives, or one that is there.

    Attributes:
        least_slice_s: shortest slice, in seconds.
        warm_up_s: seconds that its warm-up took.
    """

    least_slice_s: float
    warm_up_s: float

    def slice(
        self, seconds: float, window: Callable[[], None] = ..., lead_s: float = ...
    ) -> LoadResult | ObservedLoad:
        """Measures one slice; see `SlicedLoad.slice`."""
        ...

    def measured(self, results: Sequence[Any]) -> Measured:
        """Result of its slices together."""
        ...

    def stop(self) -> None:
        """Ends it and closes its connections."""
        ...


class SlicedLoad:
    """Connects, warms up and pauses when made."""

    def __init__(self, driving: Driving, server: Server, timing: Timing) -> None:
        self._driving, self._server = driving, server
        self._load = connected(driving, server)
        self._telling = LoadStatus(self._load, driving.unit)
        began = time.monotonic()
        try:
            self._load.start()
            self.warnings: list[Warning] = warm_up(self._load, server, timing, driving, self._telling)
            native(self._load.pause, server)
            self.least_slice_s = MOST_SLICE_S
            if not any(self.slice(seconds).events for seconds in PROBES_S):
                raise MeasurementError(
                    f"no event ended within {PROBES_S[-1]:g} s", hint="measure with --fresh"
                )
            for _ in range(PROBES_AGAIN):
                if self.least_slice_s > PROBES_S[0]:
                    self.slice(PROBES_S[0])
        except BaseException:
            self._load.stop()
            raise
        self.warm_up_s = time.monotonic() - began

    def slice(
        self, seconds: float, window: Callable[[], None] = lambda: None, lead_s: float = LEAD_S
    ) -> LoadResult:
        """`window` is called at both of its ends, the second time before commits that are under way have
        ended."""
        load, server = self._load, self._server
        native(load.resume, server)
        time.sleep(lead_s)
        window()
        native(load.open_window, server)
        time.sleep(seconds)
        raise_if_failed(load, server)
        window()  # before a commit is waited for: a disk that stalls is no gap in the clock
        result = closed(load, server)
        self._telling.slice(result)
        native(load.pause, server)
        if result.events and result.latency_us is not None:
            least_s = LATENCIES * result.latency_us.p50 / 1e6
            if result.rows is not None and result.rows.commit_latency_us is not None:
                commits = result.rows.commits / self._driving.spec.threads
                least_s = max(least_s, COMMITS * result.seconds / commits if commits else MOST_SLICE_S)
            self.least_slice_s = min(self.least_slice_s, least_s)
        return result

    def measured(self, results: Sequence[LoadResult]) -> Measured:
        whole = together(results)
        if not whole.throughput:
            whole = whole.stalled()
        return measured(self._driving, whole, self.warm_up_s, self.warnings)

    def stop(self) -> None:
        self._load.stop()


def together(results: Sequence[LoadResult]) -> LoadResult:
    """Percentiles are means of those of the windows, by the number of events."""
    seconds = sum(one.seconds for one in results)
    events = sum(one.events for one in results)
    client_s = sum((one.client_busy or 0.0) * one.seconds for one in results)
    rows = [one.rows for one in results if one.rows is not None]
    failed = [one.failed for one in results if one.failed is not None]
    failing = _latency([(one.count, one.latency_us) for one in failed])
    errors: dict[tuple[int, str], ErrorCount] = {}
    for error in (error for one in results for error in one.errors):
        key = error.errno, error.sqlstate
        before = errors[key].count if key in errors else 0
        errors[key] = msgspec.structs.replace(error, count=before + error.count)
    loops = [(one.seconds, one.open_loop) for one in results if one.open_loop is not None]
    return LoadResult(
        seconds=seconds,
        events=events,
        throughput=sum(one.throughput * one.seconds for one in results) / seconds,
        per_second=(),
        latency_us=_latency([(one.events, one.latency_us) for one in results]),
        errors=tuple(errors[key] for key in sorted(errors)),
        client_cpu_us_per_event=client_s * 1e6 / events if events else None,
        client=_client([(one.events, one.client) for one in results if one.client is not None]),
        client_busy=client_s / seconds,
        client_bound=sum(one.client_bound for one in results) * 2 > len(results),
        statements=tuple(
            StatementLatency(statement=name, count=count, latency_us=latency)
            for name, (count, latency) in _by_name(
                (s.statement, s) for one in results for s in one.statements
            )
            if latency is not None
        ),
        transactions=tuple(
            TransactionLatency(transaction=name, count=count, throughput=count / seconds, latency_us=latency)
            for name, (count, latency) in _by_name(
                (t.transaction, t) for one in results for t in one.transactions
            )
        ),
        commits=sum(one.commits or 0 for one in results),
        lost_connections=sum(one.lost_connections for one in results),
        failed=FailedAttempts(count=sum(one.count for one in failed), latency_us=failing)
        if failing
        else None,
        capped=sum(one.capped for one in results),
        rows=RowCounts(
            committed=sum(one.committed for one in rows),
            updated=sum(one.updated for one in rows),
            rolled_back=sum(one.rolled_back for one in rows),
            commits=sum(one.commits for one in rows),
            commit_latency_us=_latency([(one.commits, one.commit_latency_us) for one in rows]),
        )
        if rows
        else None,
        open_loop=OpenLoop(
            intended=sum(loop.intended * each_s for each_s, loop in loops) / seconds,
            backlog_max=max(loop.backlog_max for _, loop in loops),
            backlog_end=loops[-1][1].backlog_end,
            lag_us=_latency([(one.events, one.open_loop.lag_us) for one in results if one.open_loop]),
        )
        if loops
        else None,
        clients=results[-1].clients,
        clients_skew_us=max(one.clients_skew_us for one in results),
    )


def _latency(counted: Sequence[tuple[int, Latency | None]]) -> Latency | None:
    parts = [(count, one) for count, one in counted if one is not None and count]
    if not parts:
        return None
    total = sum(count for count, _ in parts)

    def mean(name: str) -> float:
        return sum(count * (getattr(one, name) or 0) for count, one in parts) / total

    percentiles = {name: round(mean(name)) for name in ("p50", "p90", "p95", "p99", "p999")}
    return Latency(mean=mean("mean"), **percentiles, max=max(one.max for _, one in parts))


def _client(parts: Sequence[tuple[int, ClientCost]]) -> ClientCost | None:
    if not parts:
        return None
    clients = [one for _, one in parts]
    waits = sum(one.waits for one in clients)
    answers = sum(one.waits * (one.answers_per_wait or 0.0) for one in clients)
    split = [
        (events, one.user_us_per_event, one.system_us_per_event)
        for events, one in parts
        if one.user_us_per_event is not None and one.system_us_per_event is not None
    ]
    events = sum(each for each, _, _ in split)
    return ClientCost(
        voluntary_switches=sum(one.voluntary_switches for one in clients),
        involuntary_switches=sum(one.involuntary_switches for one in clients),
        waits=waits,
        answers_per_wait=answers / waits if waits else None,
        user_us_per_event=sum(each * user for each, user, _ in split) / events if events else None,
        system_us_per_event=sum(each * system for each, _, system in split) / events if events else None,
    )


def _by_name(
    parts: Iterable[tuple[str, StatementLatency | TransactionLatency]],
) -> Iterable[tuple[str, tuple[int, Latency | None]]]:
    named = dict[str, list[tuple[int, Latency | None]]]()
    for name, part in parts:
        named.setdefault(name, []).append((part.count, part.latency_us))
    return {name: (sum(count for count, _ in some), _latency(some)) for name, some in named.items()}.items()
