"""Status: the answers of a watched server, and rates between two of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from flushlab.record import ServerIdentity, ServerSample, WrittenStatements
from flushlab.settings.configuration import Configuration
from flushlab.telemetry.live.questions import (
    NO_LSN_BEFORE,
    FileEvents,
    MetadataLock,
    Metric,
    OpenTransaction,
    Origin,
    Threads,
    ThreadState,
)

MOST_GROUPS = 200
"""Users and commands with a line of their own: names are the server's, and nobody reads more."""
OTHERS = "(others)"
_OVERHEAD = 31 * 2048 + 2 * 65536
"""Headers of the redo log's files, and bytes that are never written."""
_CAPACITY, _DEFAULT_CAPACITY = "innodb_redo_log_capacity", 100 << 20
_DEFAULT_FILES = {"innodb_log_file_size": 48 << 20, "innodb_log_files_in_group": 2}


class Redo(msgspec.Struct, frozen=True, kw_only=True):
    checkpoint_age: int | None = None
    capacity: int | None = None
    limit: float | None = None


FILE_KINDS = ("redo", "data", "binlog")
ROW_KINDS = {"inserted": "write", "updated": "update", "deleted": "delete"}
"""Rows as InnoDB counts them, and the handler's word."""


class LockWaits(msgspec.Struct, frozen=True, kw_only=True):
    now: int | None = None
    per_s: float | None = None


class Connections(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    command: str
    count: int
    oldest_s: int
    in_transaction: int | None = None


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The latest answers of a server, each part from its own query.

    Attributes:
        key: names the server: counters of two servers are never compared.
        at_s: monotonic clock of `status`.
        driven_s: how long flushlab's load had driven it by then; None where it is not flushlab's to drive.
        syncs: by class of files, as the kernel counts them since some moment; or None.
        asleep, locks: the connections that sleep longest and the metadata locks, while any are waited for.
        history: transactions whose old row versions are not purged yet, where no status variable tells it.
        xids: of prepared transactions, as XA ROLLBACK takes them, while one is left prepared.
        histogram: write statements by upper bound of their latency in microseconds; empty if nobody counts.
        monitor: InnoDB's, where there is no other source of the checkpoint.
        asked_s: by question, the monotonic clock when what was answered last was asked.
        spared: questions that were not asked once or more, as too many connections waited for row locks.
    """

    key: str
    identity: ServerIdentity
    at_s: float = 0.0
    driven_s: float | None = None
    status: Mapping[str, str] = {}
    variables: Mapping[str, str] = {}
    threads: tuple[Threads, ...] | None = None
    states: tuple[ThreadState, ...] | None = None
    transactions: tuple[OpenTransaction, ...] | None = None
    asleep: tuple[ThreadState, ...] = ()
    locks: tuple[MetadataLock, ...] = ()
    metrics: tuple[Metric, ...] = ()
    files: Mapping[str, FileEvents] = {}
    syncs: Mapping[str, int] | None = None
    scans: Mapping[str, tuple[int, int]] | None = None
    origins: Mapping[str, Origin] | None = None
    persisted: Mapping[str, str] = {}
    history: int | None = None
    errors: Mapping[str, int] = {}
    xids: tuple[str, ...] = ()
    statements: tuple[Mapping[str, WrittenStatements], int] | None = None
    histogram: Mapping[float, int] = {}
    monitor: ServerSample | None = None
    missing: tuple[str, ...] = ()
    took_s: Mapping[str, float] = {}
    asked_s: Mapping[str, float] = {}
    failed: frozenset[str] = frozenset()
    spared: frozenset[str] = frozenset()

    def number(self, name: str) -> float | None:
        return _number(self.status.get(name))

    def growth(self, since: ServerStatus, name: str) -> float | None:
        before, after = since.number(name), self.number(name)
        return None if before is None or after is None else after - before

    def variable(self, name: str) -> int | None:
        value = _number(self.variables.get(name))
        return None if value is None else int(value)

    @property
    def row_lock_waiters(self) -> float | None:
        return waiting_for_rows(self.status)

    @property
    def history_length(self) -> float | None:
        told = self.number("innodb_history_list_length")
        return told if told is not None else self.history

    @property
    def all_syncs(self) -> Mapping[str, float]:
        if self.syncs is not None:
            return {name: float(count) for name, count in self.syncs.items()}
        redo, everything = self.number("innodb_os_log_fsyncs"), self.number("innodb_data_fsyncs")
        found = {name: float(events.syncs) for name, events in self.files.items()}
        if redo is not None:
            found["redo"] = redo
            if everything is not None:
                found["data"] = max(0.0, everything - redo)
        return found

    @property
    def redo(self) -> Redo:
        capacity = self._redo_capacity or None
        age = self.number("innodb_checkpoint_age")
        if age is None:
            ends = ("current", "checkpoint")
            current, checkpoint = (self.number(f"innodb_redo_log_{end}_lsn") for end in ends)
            if current is not None and checkpoint is not None:
                age = current - checkpoint
            elif self.monitor:
                age = self.monitor.checkpoint_age_bytes
        return Redo(
            checkpoint_age=None if age is None else int(age),
            capacity=capacity,
            limit=self._redo_limit(capacity),
        )

    def _redo_limit(self, capacity: int | None) -> float | None:
        """MariaDB tells it. MySQL's is what its source computes (log0files_capacity.cc and
        log_concurrency_margin, log_calc_max_ages of older versions): some of the files, of the space and of
        each thread is kept free.
        """
        limit = self.number("innodb_checkpoint_max_age")
        if limit or not capacity or self.identity.flavor != "mysql":
            return limit or capacity
        page = self.variable("innodb_page_size") or 16384
        threads = 10 + (self.variable("innodb_thread_concurrency") or 0)
        if self.identity.version >= NO_LSN_BEFORE:
            return max(0.5 * capacity, 0.95 * (capacity * 30 / 32 - _OVERHEAD) - 4 * threads * page)
        return max(0.5 * capacity, 0.9 * (0.9 * capacity - (4 * threads + 8) * page))

    @property
    def _redo_capacity(self) -> int:
        if in_force := self.number("innodb_redo_log_capacity_resized"):
            return int(in_force)
        names = (_CAPACITY, "innodb_log_file_size", "innodb_log_files_in_group")
        given = {
            name: int(self.variables[name]) for name in names if self.variables.get(name, "").isdecimal()
        }
        older = {name: size for name, size in given.items() if name != _CAPACITY}
        if given.get(_CAPACITY) == _DEFAULT_CAPACITY and older not in ({}, _DEFAULT_FILES):
            given = older  # MySQL 8.0.30 and later shows the default, and takes the older variables
        return Configuration({}, self.identity, given).redo_capacity_bytes if given else 0

    @property
    def dirty(self) -> float | None:
        dirty, total = (self.number(f"innodb_buffer_pool_pages_{name}") for name in ("dirty", "total"))
        return dirty / total if dirty is not None and total else None

    @property
    def connections(self) -> tuple[Connections, ...]:
        groups: dict[tuple[str, str], list[Threads]] = {}
        for alike in sorted(self.threads or (), key=lambda alike: -alike.count):
            key = alike.user, alike.command
            if alike.command == "Daemon" or alike.user in ("system user", "event_scheduler"):
                continue
            if key not in groups and len(groups) >= MOST_GROUPS:
                key = OTHERS, OTHERS
            groups.setdefault(key, []).append(alike)
        found = [
            Connections(
                user=user,
                command=command,
                count=sum(alike.count for alike in group),
                oldest_s=max(alike.oldest_s for alike in group),
                in_transaction=sum(inside) if len(inside) == len(group) else None,
            )
            for (user, command), group in groups.items()
            for inside in [[alike.in_transaction for alike in group if alike.in_transaction is not None]]
        ]
        return tuple(sorted(found, key=lambda one: (-one.count, one.user, one.command)))


def was_reset(before: ServerStatus, after: ServerStatus) -> bool:
    """FLUSH STATUS sets counters back while the server goes on."""
    flushed = after.growth(before, "uptime_since_flush_status")
    went_on = after.growth(before, "uptime")
    # Two clocks of whole seconds may differ by so much.
    return flushed is not None and went_on is not None and went_on - flushed > 2.0


class Rates:
    def __init__(self, before: ServerStatus | None, after: ServerStatus) -> None:
        self._before = before if before is not None and before.key == after.key else None
        self._after = after
        self._seconds = 0.0
        if self._before is not None:
            # Counters could grow under load only, if the server is measured in slices.
            began_s, ended_s = self._before.driven_s, after.driven_s
            if began_s is None or ended_s is None:
                began_s, ended_s = self._before.at_s, after.at_s
            self._seconds = ended_s - began_s
            if (self._delta("uptime") or 0.0) < 0:
                self._before = None

    def per_s(self, *names: str) -> float | None:
        deltas = [self._delta(name) for name in names]
        total = None if None in deltas else sum(delta for delta in deltas if delta is not None)
        return self._rate(total)

    @property
    def rows(self) -> Mapping[str, float | None]:
        rates = {kind: self.per_s(f"innodb_rows_{kind}") for kind in ROW_KINDS}
        return {
            kind: self.per_s(f"handler_{ROW_KINDS[kind]}") if rate is None else rate
            for kind, rate in rates.items()
        }

    @property
    def lock_waits(self) -> LockWaits:
        now = self._after.row_lock_waiters
        return LockWaits(now=None if now is None else int(now), per_s=self.per_s("innodb_row_lock_waits"))

    @property
    def syncs(self) -> Mapping[str, float | None]:
        return {kind: self._rate(self._sync_delta(kind)) for kind in FILE_KINDS}

    @property
    def binlog_bytes(self) -> float | None:
        told = self.per_s("binlog_bytes_written")
        return told if told is not None else self._rate(self._file_delta("binlog", "bytes_written"))

    @property
    def commits_per_group(self) -> float | None:
        """Transactions in a group of the binary log; on MySQL, those per sync of it."""
        commits, groups = self._delta("binlog_commits"), self._delta("binlog_group_commits")
        if commits is None:
            commits, groups = self._delta("binlog_cache_use"), self._file_delta("binlog", "syncs")
        return commits / groups if commits and groups else None

    def _sync_delta(self, kind: str) -> float | None:
        """None unless both ends counted in the same way. A class without a file for the kernel had no syncs;
        the server's counters are not of one moment, and their differences may shrink."""
        before, after = self._before, self._after
        if before is None or (before.syncs is None) != (after.syncs is None) or kind not in after.all_syncs:
            return None
        if after.syncs is None and kind not in before.all_syncs:
            return None
        delta = after.all_syncs[kind] - before.all_syncs.get(kind, 0.0)
        return max(0.0, delta) if after.syncs is None else delta

    def _rate(self, delta: float | None) -> float | None:
        return delta / self._seconds if delta is not None and delta >= 0 and self._seconds > 0 else None

    def _delta(self, name: str) -> float | None:
        return None if self._before is None else self._after.growth(self._before, name)

    def _file_delta(self, name: str, what: str) -> float | None:
        if self._before is None or not {name} <= self._before.files.keys() & self._after.files.keys():
            return None
        return float(getattr(self._after.files[name], what) - getattr(self._before.files[name], what))


def waiting_for_rows(status: Mapping[str, str]) -> float | None:
    """Connections that wait for row locks; None if that is not known.

    MySQL's counter may fall below zero, and shows 18446744073709551615 until a restart (8.0.15).
    """
    waiting = _number(status.get("innodb_row_lock_current_waits"))
    return None if waiting is None or waiting >= 2.0**63 else waiting


def _number(text: str | None) -> float | None:
    try:
        value = math.nan if text is None else float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
