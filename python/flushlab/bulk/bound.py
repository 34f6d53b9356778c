"""Bound: what a load's limit was, from what was seen while it ran. Pure.

Sits in `bulk`. The first rule that holds names the limit, together with the measurements behind the rule.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flushlab.units import format_seconds

BUSY = 0.8
"""Of the processors, or of one processor per connection: from here on they are the limit."""
WAITS = 0.35
"""Share of the connections' time, or of the wall time for the disk: from here on it is the limit."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of a load between two samples.

    Attributes:
        cores: processors of this machine.
        client_cpu_s: flushlab's processor time.
        server_cpu_s: the server's processor time; None for a server on another machine.
        send_s: seconds that all connections together spent on sending.
        answer_s: the same for waiting for answers to statements.
        commit_s: the same for waiting for commits.
        log_syncs: fsyncs of the redo log; None if the server does not count them.
        pool_waits: waits for a free page of the buffer pool.
        held: seconds in which the throttle began no transaction, by reason.
        others_share: share of the processors' time that other programs took (not the server, not flushlab).
        io_share: share of the time in which some task waited for I/O, on this machine; None if unknown.
    """

    seconds: float
    cores: int
    connections: int
    rows: int
    statements: int
    commits: int
    client_cpu_s: float
    server_cpu_s: float | None
    send_s: float
    answer_s: float
    commit_s: float
    log_syncs: int | None = None
    pool_waits: int = 0
    io_share: float | None = None
    others_share: float | None = None
    held: Mapping[str, float] = {}


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A limit.

    Attributes:
        what: `replica lag`, `flow control`, `client CPU`, `server CPU`, `CPU`, `log syncs`, `buffer pool`,
            `disk`, `other programs`, `round trips` or `server`.
        why: the measurements behind it.
    """

    what: str
    why: str


def bound(seen: Evidence) -> Bound:
    """What the limit was."""
    waited_for = max(seen.held, key=lambda what: seen.held[what], default="")
    if waited_for and seen.held[waited_for] >= WAITS * seen.seconds:
        waited = format_seconds(seen.held[waited_for])
        return Bound(what=waited_for, why=f"waited {waited} of {format_seconds(seen.seconds)}")
    client = seen.client_cpu_s / seen.seconds
    server = (seen.server_cpu_s or 0.0) / seen.seconds
    workers = min(seen.connections, seen.cores)
    threads_s = seen.seconds * seen.connections
    figures = f"server {server:.0%} of a core, client {client:.0%}, {seen.cores} cores"
    if seen.server_cpu_s is None:
        figures = f"client {client:.0%} of a core, {seen.cores} cores"
    if client >= BUSY * workers:
        return Bound(what="client CPU", why=figures)
    if seen.pool_waits > seen.seconds:
        return Bound(what="buffer pool", why=f"{seen.pool_waits:,} waits for a free page")
    if seen.server_cpu_s is not None and server >= BUSY * workers:
        return Bound(what="server CPU", why=figures)
    if client + server >= BUSY * seen.cores:
        return Bound(what="CPU", why=figures)
    others = seen.others_share or 0.0
    # What uses little of what others leave of the processors waits for something else.
    if others >= WAITS and client + server >= 0.5 * (1 - others) * seen.cores:
        return Bound(what="other programs", why=f"they took {others:.0%} of the processors; {figures}")
    each = seen.rows / max(seen.statements, 1)
    syncs = seen.log_syncs / max(seen.commits, 1) if seen.log_syncs is not None else None
    waiting = (seen.commit_s + (seen.answer_s if each < 1000 else 0.0)) / threads_s
    blocked = seen.io_share is not None and seen.io_share >= WAITS
    if waiting >= WAITS and (blocked if syncs is None else syncs * seen.connections >= 0.5):
        told = f"{syncs:.2f} syncs of the redo log a commit, " if syncs is not None else ""
        return Bound(what="log syncs", why=f"{told}connections wait for answers {waiting:.0%} of the time")
    if blocked:
        return Bound(what="disk", why=f"programs waited for I/O {seen.io_share:.0%} of the time")
    few = 1000 if seen.server_cpu_s is None else 100  # on one machine a way there and back takes microseconds
    if each < few and seen.answer_s / threads_s >= WAITS:
        return Bound(
            what="round trips",
            why=f"{seen.statements / seen.seconds:,.0f} statements/s of {each:,.0f} rows; {figures}",
        )
    return Bound(
        what="server",
        why=figures if seen.server_cpu_s is not None else "its processor time cannot be seen from here",
    )
