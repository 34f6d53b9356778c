"""Limits: what bound a load, and when it waits for the servers behind its own.

Sits in `bulk`. `bound` is pure: the first rule that holds names the limit, with the measurements behind it.
The throttle reads, once a second, the status of the replicas that the user has named, and of a node's Galera
cluster. Its rules come from pt-online-schema-change (--max-lag, --max-flow-ctl). The load waits:

- while a replica is further behind than asked for, does not replicate or does not answer;
- while the cluster spends its time in flow control.

It changes nothing on these servers.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import msgspec

from flushlab.errors import ServerError, UsageError
from flushlab.progress import Progress
from flushlab.server.control import NOT_ALLOWED, ConnectionRefused, StatementFailed
from flushlab.server.protocol import Server, replica_statement
from flushlab.server.remote.login import Address
from flushlab.server.remote.server import RemoteServer
from flushlab.units import format_seconds

BUSY = 0.8
"""Of the processors, or of one processor per connection: from here on they are the limit."""
WAITS = 0.35
"""Share of the connections' time, or of the wall time for the disk: from here on it is the limit."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Times are sums over its threads; `retried` is by the server's error."""

    running: bool = False
    seconds: float = 0.0
    rows: int = 0
    committed: int = 0
    bytes: int = 0
    statements: int = 0
    commits: int = 0
    generate_s: float = 0.0
    send_s: float = 0.0
    answer_s: float = 0.0
    commit_s: float = 0.0
    cpu_s: float = 0.0
    notes: dict[str, int] = {}
    retried: dict[int, int] = {}

    @property
    def rows_per_s(self) -> float:
        return self.committed / max(self.seconds, 1e-6)

    def plus(self, other: Counts) -> Counts:
        sums = {name: getattr(self, name) + getattr(other, name) for name in SUMS}
        return msgspec.structs.replace(
            other,
            **sums,
            notes=dict(Counter(self.notes) + Counter(other.notes)),
            retried=dict(Counter(self.retried) + Counter(other.retried)),
        )


SUMS = [name for name in Counts.__struct_fields__ if name not in ("running", "notes", "retried")]


class LimitEvidence(Counts, frozen=True, kw_only=True):
    """None: unknown; `held`: seconds in which the throttle began no transaction, by reason."""

    cores: int
    connections: int
    server_cpu_s: float | None
    log_syncs: int | None = None
    pool_waits: int = 0
    io_share: float | None = None
    others_share: float | None = None
    held: Mapping[str, float] = {}


class LoadBound(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    why: str


def bound(seen: LimitEvidence) -> LoadBound:
    waited_for = max(seen.held, key=lambda what: seen.held[what], default="")
    if waited_for and seen.held[waited_for] >= WAITS * seen.seconds:
        waited = format_seconds(seen.held[waited_for])
        return LoadBound(what=waited_for, why=f"waited {waited} of {format_seconds(seen.seconds)}")
    client = seen.cpu_s / seen.seconds
    server = (seen.server_cpu_s or 0.0) / seen.seconds
    workers = min(seen.connections, seen.cores)
    threads_s = seen.seconds * seen.connections
    figures = f"server {server:.0%} of a core, client {client:.0%}, {seen.cores} cores"
    if seen.server_cpu_s is None:
        figures = f"client {client:.0%} of a core, {seen.cores} cores"
    if client >= BUSY * workers:
        return LoadBound(what="client CPU", why=figures)
    if seen.pool_waits > seen.seconds:
        return LoadBound(what="buffer pool", why=f"{seen.pool_waits:,} waits for a free page")
    if seen.server_cpu_s is not None and server >= BUSY * workers:
        return LoadBound(what="server CPU", why=figures)
    if client + server >= BUSY * seen.cores:
        return LoadBound(what="CPU", why=figures)
    others = seen.others_share or 0.0
    # What uses little of what others leave of the processors waits for something else.
    if others >= WAITS and client + server >= 0.5 * (1 - others) * seen.cores:
        return LoadBound(what="other programs", why=f"they took {others:.0%} of the processors; {figures}")
    each = seen.rows / max(seen.statements, 1)
    syncs = seen.log_syncs / max(seen.commits, 1) if seen.log_syncs is not None else None
    waiting = (seen.commit_s + (seen.answer_s if each < 1000 else 0.0)) / threads_s
    blocked = seen.io_share is not None and seen.io_share >= WAITS
    if waiting >= WAITS and (blocked if syncs is None else syncs * seen.connections >= 0.5):
        told = f"{syncs:.2f} syncs of the redo log a commit, " if syncs is not None else ""
        return LoadBound(
            what="log syncs", why=f"{told}connections wait for answers {waiting:.0%} of the time"
        )
    if blocked:
        return LoadBound(what="disk", why=f"programs waited for I/O {seen.io_share:.0%} of the time")
    few = 1000 if seen.server_cpu_s is None else 100  # on one machine a way there and back takes microseconds
    if each < few and seen.answer_s / threads_s >= WAITS:
        return LoadBound(
            what="round trips",
            why=f"{seen.statements / seen.seconds:,.0f} statements/s of {each:,.0f} rows; {figures}",
        )
    return LoadBound(
        what="server",
        why=figures if seen.server_cpu_s is not None else "its processor time cannot be seen from here",
    )


SAMPLE_EVERY_S = 1.0
"""Seconds_Behind_Master is in whole seconds."""
REPLICATED_CHUNK_BYTES = 8 << 20
"""Bytes of rows in one transaction, if replicas or a cluster apply the load. A replica starts when it has the
whole transaction, so it lags by the time of one transaction. A cluster certifies a transaction as a whole."""
MOST_PAUSED = 0.1
"""Share of the time between two samples that a cluster spends in flow control."""
MOST_QUEUED = 16
"""Write sets that a node has yet to apply: `gcs.fc_limit`, from which on it stops the others."""
GALERA = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_flow_control_paused_ns', 'wsrep_local_recv_queue')"
)
_CONNECT_S = 5.0


class Throttle:
    def __init__(
        self,
        server: Server,
        replicas: Mapping[str, Server],
        max_lag_s: float,
        say: Progress,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._replicas = replicas
        self._max_lag_s = max_lag_s
        self._say = say
        self._clock = clock
        for name, replica in replicas.items():
            try:
                found = replica_lag_s(replica)
            except StatementFailed as error:
                if error.errno not in NOT_ALLOWED:
                    raise
                raise ServerError(
                    f"{name} does not tell this account how far behind it is: {error.text}",
                    hint="grant one of these there, or leave out --replica",
                ) from error
            if not found:
                raise UsageError(
                    f"{name} is not a replica",
                    hint="--replica names servers that replicate from the one to fill",
                )
        self._paused_ns = _cluster(server).get("wsrep_flow_control_paused_ns")
        self.waited: dict[str, float] = defaultdict(float)
        self._holds: LoadBound | None = None
        self._since = self._seen = self._paused_at = clock()
        self._sampled = self._seen - SAMPLE_EVERY_S

    @property
    def watches(self) -> bool:
        return bool(self._replicas) or self._paused_ns is not None

    def holds(self) -> LoadBound | None:
        now = self._clock()
        if self._holds is not None:
            self.waited[self._holds.what] += now - self._seen
        self._seen = now
        if now - self._sampled >= SAMPLE_EVERY_S:
            found = self._lag() or self._flow_control()
            self._sampled = self._clock()
            if found is not None and self._holds is None:
                self._since = now
                self._say(f"waiting: {found.why}")
            elif found is None and self._holds is not None:
                self._say(f"going on after {format_seconds(now - self._since)}")
            self._holds = found
        return self._holds

    def _lag(self) -> LoadBound | None:
        late = (self._late(name, replica) for name, replica in self._replicas.items())
        why = next(filter(None, late), "")
        return LoadBound(what="replica lag", why=why) if why else None

    def _late(self, name: str, replica: Server) -> str:
        try:
            found = replica_lag_s(replica)
        except ServerError as error:
            if isinstance(error, ConnectionRefused) and error.is_final:
                raise  # each try counts as a failed login there
            return error.message
        seconds = [one for one in found if one is not None]
        if len(seconds) < len(found) or not found:
            return f"{name} does not replicate: see {replica_statement(replica.identity)} there"
        return f"{name} is {max(seconds)} s behind" if max(seconds) > self._max_lag_s else ""

    def _flow_control(self) -> LoadBound | None:
        if self._paused_ns is None:
            return None
        found, now = _cluster(self._server), self._clock()
        paused_ns = found.get("wsrep_flow_control_paused_ns", self._paused_ns)
        share = (paused_ns - self._paused_ns) / max((now - self._paused_at) * 1e9, 1.0)
        self._paused_ns, self._paused_at = paused_ns, now
        queued, why = found.get("wsrep_local_recv_queue", 0), ""
        if share > MOST_PAUSED:
            why = f"the cluster spent {share:.0%} of the time in flow control"
        elif queued > MOST_QUEUED:
            why = f"this node has {queued} write sets to apply"
        return LoadBound(what="flow control", why=why) if why else None


@contextmanager
def throttle(
    server: Server, replicas: Sequence[Address], max_lag_s: float, say: Progress
) -> Iterator[Throttle]:
    with ExitStack() as stack:
        attached = {
            one.name: stack.enter_context(RemoteServer(one, connect_s=_CONNECT_S)) for one in replicas
        }
        yield Throttle(server, attached, max_lag_s, say)


def replica_lag_s(replica: Server) -> list[int | None]:
    """Seconds that a replica is behind, by its sources; None for one that it does not replicate now."""
    rows = replica.query(replica_statement(replica.identity))
    # Seconds_Behind_Master or _Source; MariaDB's columns begin with the connection's name and state.
    place = 34 if replica.identity.flavor == "mariadb" else 32
    return [None if row[place] is None else int(row[place]) for row in rows]


def _cluster(server: Server) -> dict[str, int]:
    return {str(name).lower(): int(value) for name, value in server.query(GALERA)}
