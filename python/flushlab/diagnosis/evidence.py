"""Evidence: all that was seen of a server in the window, with the questions that findings ask of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from flushlab.diagnosis.host import Host, ServerStart
from flushlab.diagnosis.shares import WriteTime
from flushlab.machine import Pressure
from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import load_catalog
from flushlab.settings.in_force import in_force
from flushlab.telemetry.live.questions import MetadataLock, OpenTransaction, ThreadState
from flushlab.telemetry.live.status import ServerStatus
from flushlab.units import format_size

# Commits: the one definition for `doctor`, `watch` and own load. What the counters grew by, for each
# transaction of 6 connections (MySQL 8.0.15, MariaDB 10.11.19):
#
# | | Binlog_commits | Binlog_cache_use | Innodb_max_trx_id | Handler_commit | Handler_rollback |
# |---|---|---|---|---|---|
# | update by autocommit | 1 | 1 | 2 | 1, with a binary log 2 | 0 |
# | update and COMMIT | 1 | 1 | 2 | 2, with a binary log 4 | 0 |
# | update and ROLLBACK | 0 | 1 | 2 | 1, with a binary log 2 | 1, with a binary log 2 |
# | read and ROLLBACK | 0 | 0 | 0 | 1 | 1 |
# | insert with a duplicate key | 0 | 0 | 1 | 0 | 1 |
# | larger than max_binlog_cache_size | 0 | 1 | 2 | 0 | 2 |
# | read | 0 | 0 | 0 | 1 | 0 |
#
# Without a binary log, MariaDB's ROLLBACK of an update differs from its commit in the redo log alone.
COUNTERS: Mapping[str, float] = {
    "wsrep_local_commits": 1.0,
    "binlog_commits": 1.0,
    "binlog_cache_use": 1.0,
    "innodb_max_trx_id": 0.5,
    "handler_commit": 1.0,
}
"""Transactions per count, the best counter first."""
WITH_READS, WITH_ROLLBACKS = "handler_commit", "innodb_max_trx_id"
_CACHED = "binlog_cache_use"


def commits_counter(status: ServerStatus) -> str:
    """The status variable that counts the commits of a server's own clients: the transactions of the binary
    log, where there is one; else the best of InnoDB's. A MariaDB replica may apply without logging."""
    variables = status.variables
    if variables.get("wsrep_on", "").upper() in ("ON", "1"):
        return "wsrep_local_commits"
    applies = status.number("slaves_running") and variables.get("log_slave_updates", "").upper() == "OFF"
    if variables.get("log_bin", "").upper() in ("ON", "1") and not applies:
        return "binlog_commits" if status.number("binlog_commits") is not None else _CACHED
    return WITH_ROLLBACKS if status.number(WITH_ROLLBACKS) is not None else WITH_READS


def committed(counter: str, growth: Callable[[str], float | None], after: ServerStatus) -> float | None:
    """`growth` is of a status variable, `after` has the settings; None if the server does not have the
    counter."""
    if (grown := growth(counter)) is None:
        return None
    commits = grown * COUNTERS.get(counter, 1.0)
    if counter == _CACHED:  # a ROLLBACK of a transaction that wrote is counted once more for the binary log
        asked = growth("com_rollback") or 0.0
        commits -= max(0.0, min(asked, (growth("handler_rollback") or 0.0) - asked))
    elif counter == WITH_ROLLBACKS and after.variables.get("innodb_flush_log_at_trx_commit", "0") != "0":
        # MariaDB writes the redo log at a commit, of each connection once at most, and not at a ROLLBACK.
        most = (growth("innodb_log_writes") or 0.0) * (after.number("threads_connected") or 0.0)
        commits = min(commits, most or commits)
    every = growth(WITH_READS)
    return max(0.0, commits if every is None else min(commits, every))


def commits_by_words(counter: str) -> str:
    if counter == WITH_ROLLBACKS:
        return "half of the growth of Innodb_max_trx_id, which counts transactions that are rolled back, too"
    name = counter if counter.startswith("wsrep") else counter.capitalize()
    return f"{name}, which counts statements and reads, too" if counter == WITH_READS else name


def commit_counts(status: ServerStatus) -> Mapping[str, float]:
    names = (*COUNTERS, "com_rollback", "handler_rollback", "innodb_log_writes")
    counts = {name: status.number(name) for name in names}
    return {name: count for name, count in counts.items() if count is not None}


class Latch(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    waiting: int
    longest_s: float


LOG_SYNCS = "syncs of the redo log"


class Monitor(msgspec.Struct, frozen=True, kw_only=True):
    """An output of SHOW ENGINE INNODB STATUS.

    Attributes:
        checkpoint_max_age: bytes; None where the server does not print it.
        history_length: transactions that purge has not reached.
        averaged_s: seconds before it, to which its rates belong.
        flushing: transactions that InnoDB has committed, but for the sync of the redo log.
        absent: sections that are missing, or their end.
    """

    lsn: int | None = None
    flushed: int | None = None
    checkpoint: int | None = None
    checkpoint_max_age: int | None = None
    history_length: int | None = None
    pages: int | None = None
    dirty_pages: int | None = None
    free_pages: int | None = None
    averaged_s: int | None = None
    rows_per_s: float | None = None
    pending: Mapping[str, int] = {}
    latches: tuple[Latch, ...] = ()
    transactions: tuple[OpenTransaction, ...] = ()
    flushing: int = 0
    main_flushes: bool = False
    absent: tuple[str, ...] = ()

    @property
    def syncs_log(self) -> bool:
        return bool(self.flushing or self.main_flushes or self.pending.get(LOG_SYNCS))

    @property
    def checkpoint_age(self) -> int | None:
        if self.lsn is None or self.checkpoint is None or self.lsn < self.checkpoint:
            return None
        return self.lsn - self.checkpoint


_WRITES = (
    *("insert", "insert_select", "update", "update_multi", "delete", "delete_multi"),
    *("replace", "replace_select", "load"),
)
_LEAST_S = 0.5
"""Two answers that are closer have no rate worth a point: the last of a window follows the one before at
once."""
STOPPED = "the server stopped answering"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Seen in `seconds`, from the first status to the last.

    Attributes:
        began: Unix time of the window's begin; 0 if it is not known.
        checkpoint_ages: bytes, of each second.
        looks: the oldest open transactions, each sample by itself.
        longest, asleep: what connections were longest seen to do, or asleep, by connection; short times are
            left out.
        start: option files and command line; None, as `host`, if flushlab does not see the machine.
        interrupted: why the window is shorter than it should be; empty if it is not.
        silent_s: that the server took for its first answers, before the window.
        files: from which all of this is, with what each was read as; empty for a server that was watched.
    """

    began: float = 0.0
    seconds: float
    before: ServerStatus
    after: ServerStatus
    checkpoint_ages: tuple[int, ...] = ()
    commit_counts: tuple[tuple[float, Mapping[str, float]], ...] = ()
    write_time: WriteTime | None = None
    transactions: Mapping[int, OpenTransaction] = {}
    looks: tuple[tuple[OpenTransaction, ...], ...] = ()
    longest: Mapping[int, ThreadState] = {}
    asleep: Mapping[int, ThreadState] = {}
    locks: tuple[MetadataLock, ...] = ()
    settings: Mapping[str, Value] = {}
    host: Host | None = None
    start: ServerStart | None = None
    missing: tuple[str, ...] = ()
    between: str = ""
    interrupted: str = ""
    silent_s: float = 0.0
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    running: tuple[float, ...] = ()
    monitors: tuple[Monitor, ...] = ()

    @property
    def identity(self) -> ServerIdentity:
        return self.after.identity

    @property
    def pressure(self) -> Pressure | None:
        return self.host.pressure if self.host is not None else None

    @property
    def cpus(self) -> int:
        return self.host.cpus if self.host is not None else 0

    @property
    def server(self) -> str:
        known = self.identity
        return known.name if known.version else f"{known.flavor} of unknown version"

    @property
    def time(self) -> WriteTime:
        time = self.write_time or WriteTime()
        queued = self.host.cpu_waiting if self.host is not None else None
        return msgspec.structs.replace(time, queued=queued) if queued else time

    def syncs_at_commit(self) -> tuple[bool, bool]:
        """One sync is the redo log's, where the binary log is in InnoDB (MariaDB 12.3 and later)."""
        in_redo = self.variable("binlog_storage_engine").lower() == "innodb"
        has_binlog = self.is_on("log_bin") and self.variable("sync_binlog") == "1" and not in_redo
        return self.variable("innodb_flush_log_at_trx_commit") in ("1", "3"), has_binlog

    def delta(self, *names: str) -> float | None:
        """Growth of the first of these counters that the server has; None if it has none of them, or if the
        counter was set back."""
        for name in names:
            if (grown := self.after.growth(self.before, name)) is not None:
                return grown if grown >= 0 else None
        return None

    def per_s(self, *names: str) -> float | None:
        grown = self.delta(*names)
        return None if grown is None or self.seconds <= 0 else grown / self.seconds

    def grew(self, *names: str) -> float:
        return self.delta(*names) or 0.0

    @property
    def commits_by(self) -> str:
        counter = commits_counter(self.after)
        if self.variable("log_bin") and self.delta(counter) is not None:
            return counter
        return next((name for name in COUNTERS if self.delta(name)), "")

    @property
    def commits(self) -> float | None:
        if self.seconds <= 0 or all(self.delta(name) is None for name in COUNTERS):
            return None
        counter = self.commits_by
        return (committed(counter, self.delta, self.after) or 0.0) / self.seconds if counter else 0.0

    @property
    def commit_rates(self) -> tuple[tuple[float, float], ...]:
        """Seconds since the window began, and commits/s since the point before."""
        rates, counter = list[tuple[float, float]](), self.commits_by
        last: tuple[float, Mapping[str, float]] | None = None
        for at_s, counts in self.commit_counts:
            if counter not in counts or (last is not None and at_s - last[0] < _LEAST_S):
                continue
            if last is not None:
                grown = {name: count - last[1][name] for name, count in counts.items() if name in last[1]}
                commits = committed(counter, grown.get, self.after) or 0.0
                rates.append((at_s, commits / (at_s - last[0])))
            last = at_s, counts
        return tuple(rates)

    @property
    def write_statements(self) -> float | None:
        """Per second; None without two statuses. A replica's applier has none."""
        grown = [count for name in _WRITES if (count := self.delta(f"com_{name}")) is not None]
        return sum(grown) / self.seconds if grown and self.seconds > 0 else None

    def variable(self, name: str) -> str:
        return self.after.variables.get(name, "")

    def is_on(self, name: str) -> bool:
        return self.variable(name).upper() in ("ON", "1", "YES")

    def is_off(self, name: str) -> bool:
        return bool(self.variable(name)) and not self.is_on(name)

    def sized(self, name: str) -> str:
        size = self.after.variable(name)
        return f"{name} is {'not known' if size is None else format_size(size)}"


def settings_of(seen: ServerStatus, path: str) -> dict[str, Value]:
    if not seen.identity.version or not seen.variables:
        return {}
    known = in_force(seen.variables, seen.identity, path=path).settings
    return {name: value for name, value in known.items() if name in load_catalog()}
