"""Effects: whether settings that read back did anything, from what the server's files went through. Pure.

Sits in `settings`. A rule is one function with `@_rule`. It speaks only where the evidence leaves
no other explanation, under any load: what cannot be decided is passed over in silence.
docs/explanation/effects.md is the page for people.

    for one in no_effect(seen):
        one.setting, one.text
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from flushlab.record import FileActivity, ServerIdentity, Value

_LEAST_BYTES_PER_COMMIT = 50
"""Of the binary log, shorter than the headers of the events that a transaction takes (GTID, one statement,
XID). Of the redo log, less than an undo record, the row's change and the commit; measured: 400 to 1,000 bytes
for an update of one row."""
_FEWEST_COMMITS = 100
_POLICY = "innodb_flush_log_at_trx_commit"
_DIRECT = ("O_DIRECT", "O_DIRECT_NO_FSYNC", "ALL_O_DIRECT")
_UNSYNCED_METHODS = ("NOSYNC", "LITTLESYNC", "O_DIRECT_NO_FSYNC")
_SYNCED_WRITES = {"O_DSYNC", "O_SYNC"}
_SUSPECTS = " (a preloaded library such as libeatmydata, or --debug-no-sync)"


class SeenEffects(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of one window.

    Attributes:
        opened: classes of which a file was seen open, so that its flags are known.
        commits: transactions that the server acknowledged to the workload in the window, each of which
            changed rows; None where the workload does not know.
        connections: of the workload, each with at most one commit in flight; None where unknown.
        checkpointed: a checkpoint was made of redo that was written in the window.
    """

    identity: ServerIdentity
    settings: Mapping[str, Value]
    seconds: float
    activity: Mapping[str, FileActivity]
    opened: tuple[str, ...] = ()
    counted_by: Literal["kernel", "server"] | None = None
    in_memory: tuple[str, ...] = ()
    commits: int | None = None
    connections: int | None = None
    checkpointed: bool = False
    pages_written: int | None = None
    binlog_rotations: int = 0

    def is_set(self, name: str, value: Value) -> bool:
        return str(self.settings.get(name)).upper() == str(value).upper()

    def number(self, name: str) -> int | None:
        value = self.settings.get(name)
        return value if isinstance(value, int) else None

    @property
    def flush_method(self) -> str:
        return str(self.settings.get("innodb_flush_method", "")).upper()

    def flags(self, kind: str) -> set[str] | None:
        return set(self.activity[kind].flags) if kind in self.opened else None

    def fsyncs(self, kind: str) -> int | None:
        seen = self.activity.get(kind)
        return seen.fsyncs if seen is not None else None

    def most_fsyncs(self, kind: str) -> int | None:
        known = self.fsyncs(kind)
        return known + (self.fsyncs("other") or 0) if known is not None else None

    def written(self, kind: str) -> int | None:
        seen = self.activity.get(kind)
        return seen.bytes if seen is not None else None

    @property
    def load(self) -> str:
        connections = "1 connection" if self.connections == 1 else f"{self.connections} connections"
        return f"{self.commits or 0:,} commits on {connections}"

    @property
    def fewest_syncs(self) -> int | None:
        """Least number of syncs that so many acknowledged commits take, if each waits for one.

        A sync makes durable only what was written before it began, so of each connection at most the one
        commit that it then waited for. Hence commits ≤ connections × syncs, but for those (one a
        connection) whose sync had begun before the window: commits ≤ connections × (syncs + 1). That
        holds for any grouping, delay, schedule or device.
        """
        if not self.commits or not self.connections:
            return None
        return -(-self.commits // self.connections) - 1

    @property
    def housekeeping(self) -> int:
        """A generous limit for syncs that no commit asked for, per class.

        The limit is twenty per second, ten per rotation of the binary log, and two per page: a page's write
        waits for its redo, and its batch for the files.
        """
        return int(20 * (self.seconds + 1) + 2 * (self.pages_written or 0) + 10 * self.binlog_rotations)

    @property
    def binlog_in_redo(self) -> bool:
        """The binary log is a part of the redo log (MariaDB since 12.3): sync_binlog is then ignored."""
        return self.is_set("binlog_storage_engine", "innodb")


class NoEffect(NamedTuple):
    setting: str
    value: Value
    seen: str

    @property
    def text(self) -> str:
        return f"{self.setting}={self.value} reads back, but {self.seen}"


def no_effect(seen: SeenEffects) -> tuple[NoEffect, ...]:
    found: dict[str, NoEffect] = {}
    for rule in _RULES:
        for one in rule(seen):
            found.setdefault(one.setting, one)
    return tuple(found.values())


_Rule = Callable[[SeenEffects], Iterator[NoEffect]]
_RULES: list[_Rule] = []


def _rule(find: _Rule) -> _Rule:
    _RULES.append(find)
    return find


@_rule
def _syncs_in_memory(seen: SeenEffects) -> Iterator[NoEffect]:
    """The file system's type is the kernel's own word."""
    policy, period = seen.number(_POLICY), seen.number("sync_binlog")
    if policy in (1, 3) and "redo" in seen.in_memory:
        yield NoEffect(_POLICY, policy, "the redo log is in memory, where a sync makes nothing durable")
    if period and seen.is_set("log_bin", "ON") and "binlog" in seen.in_memory:
        yield NoEffect(
            "sync_binlog", period, "the binary log is in memory, where a sync makes nothing durable"
        )


@_rule
def _buffered_data(seen: SeenEffects) -> Iterator[NoEffect]:
    """A server keeps its system tablespace open; the flag is the kernel's own word.

    Single tables may rightly lack O_DIRECT (compressed pages smaller than a sector), so only its absence from
    all counts. A file in memory may carry the flag (Linux 6.6 and later lets it), but there is no device
    below it.
    """
    if seen.flush_method in _DIRECT:
        setting, value = "innodb_flush_method", seen.settings["innodb_flush_method"]
        if "data" in seen.in_memory:
            there = "the data files are in memory, where there is no device to write to directly"
            yield NoEffect(setting, value, there)
        elif _is_buffered(seen, "data"):
            yield NoEffect(setting, value, "the data files are open without O_DIRECT")


@_rule
def _file_buffering(seen: SeenEffects) -> Iterator[NoEffect]:
    for setting, kind, files in (
        ("innodb_data_file_buffering", "data", "the data files are"),
        ("innodb_log_file_buffering", "redo", "the redo log is"),
    ):
        if seen.is_set(setting, "OFF") and kind not in seen.in_memory and _is_buffered(seen, kind):
            yield NoEffect(setting, "OFF", f"{files} open without O_DIRECT")


def _is_buffered(seen: SeenEffects, kind: str) -> bool:
    flags = seen.flags(kind)
    return flags is not None and "O_DIRECT" not in flags


@_rule
def _redo_not_written_through(seen: SeenEffects) -> Iterator[NoEffect]:
    flags = seen.flags("redo")
    if flags is None or flags & _SYNCED_WRITES:
        return
    without = "the redo log is open without O_DSYNC or O_SYNC"
    if seen.flush_method == "O_DSYNC":
        yield NoEffect("innodb_flush_method", seen.settings["innodb_flush_method"], without)
    if seen.is_set("innodb_log_file_write_through", "ON"):
        yield NoEffect("innodb_log_file_write_through", "ON", without)


@_rule
def _never_synced(seen: SeenEffects) -> Iterator[NoEffect]:
    """A checkpoint of redo that was written in the window is made only when that redo and the checkpoint
    itself were synced."""
    policy = seen.number(_POLICY)
    if policy is not None and seen.checkpointed and _redo_syncs(seen) == 0:
        says = f"{_redo_was(0, seen)}, although a checkpoint was made{_suspects(seen)}"
        yield NoEffect(_POLICY, policy, says)


@_rule
def _too_few_commit_syncs(seen: SeenEffects) -> Iterator[NoEffect]:
    """1 (or MariaDB's 3), and fewer syncs than the commits take.

    Excludes every cause of a count that is too small. The redo log may not be seen open (mapped into memory);
    commits may not have written redo at all (another engine). Syncs of indistinguishable files count as the
    redo log's.
    """
    policy, least, written = seen.number(_POLICY), seen.fewest_syncs, seen.written("redo")
    if policy not in (1, 3) or least is None or written is None:
        return
    synced = _redo_syncs(seen)
    if synced is not None and synced < least and written >= _LEAST_BYTES_PER_COMMIT * (seen.commits or 0):
        needed = f"where at least {least:,} are needed{_suspects(seen)}"
        yield NoEffect(_POLICY, policy, f"{_redo_was(synced, seen)} for {seen.load}, {needed}")


@_rule
def _synced_writes(seen: SeenEffects) -> Iterator[NoEffect]:
    """At 2 every commit (or group of them) writes the redo log and leaves the sync to the background.

    Where the log is open with O_DSYNC or O_SYNC, that write waits for the device as a sync would.
    """
    through = (seen.flags("redo") or set()) & _SYNCED_WRITES
    if seen.number(_POLICY) != 2 or not through or "redo" in seen.in_memory:
        return
    synced = seen.fsyncs("redo")
    counted = f": {synced:,} for {seen.load}" if synced is not None and seen.commits else ""
    flags = ", ".join(sorted(through))
    says = f"the redo log is written through ({flags}), so the write of every commit is a sync{counted}"
    yield NoEffect(_POLICY, 2, says)


@_rule
def _too_many_commit_syncs(seen: SeenEffects) -> Iterator[NoEffect]:
    """At 0 and 2 no commit waits for a sync.

    More syncs than housekeeping explains, by half of what 1 would take at least, are the commits' own.
    """
    policy, least, synced = seen.number(_POLICY), seen.fewest_syncs, seen.fsyncs("redo")
    if policy not in (0, 2) or not least or synced is None or seen.pages_written is None:
        return
    if 2 * (synced - seen.housekeeping) > least:
        says = f"{_redo_was(synced, seen)} for {seen.load}, about as often as with 1"
        yield NoEffect(_POLICY, policy, says)


def _redo_syncs(seen: SeenEffects) -> int | None:
    if "redo" in seen.in_memory:
        return None
    if seen.counted_by == "kernel":
        return seen.most_fsyncs("redo") if "redo" in seen.opened else None
    flags = seen.flags("redo")
    written_through = flags is None or flags & _SYNCED_WRITES  # not in the server's own count
    return None if written_through else seen.fsyncs("redo")


def _redo_was(synced: int, seen: SeenEffects) -> str:
    who = "" if seen.counted_by == "kernel" else "by the server's own count "
    return f"{who}the redo log was {_times(synced)}"


def _suspects(seen: SeenEffects) -> str:
    if seen.flush_method in _UNSYNCED_METHODS:
        return f" (innodb_flush_method={seen.settings['innodb_flush_method']} skips syncs)"
    return _SUSPECTS


def _times(count: int) -> str:
    return ("never synced", "synced once")[count] if count < 2 else f"synced {count:,} times"


@_rule
def _binlog_not_written(seen: SeenEffects) -> Iterator[NoEffect]:
    """Each commit of the workload changed rows, and the workload does not switch its session's logging off.

    A filter (binlog_ignore_db) that leaves these commits out is just such a setting without effect.
    """
    commits, written = seen.commits or 0, seen.written("binlog")
    if not seen.is_set("log_bin", "ON") or seen.binlog_in_redo or commits < _FEWEST_COMMITS:
        return
    if written is not None and written < commits:
        yield NoEffect("log_bin", "ON", f"the binary log grew by {written:,} bytes for {commits:,} commits")


@_rule
def _too_few_binlog_syncs(seen: SeenEffects) -> Iterator[NoEffect]:
    """With N, the server syncs with every N-th group of commits.

    A group holds at most one commit of each connection: by the argument of `fewest_syncs`, the commits take
    at least so many groups. A delay of groups (binlog_group_commit_sync_delay) does not change the limit.
    Syncs of deleted files count.
    """
    period, least = seen.number("sync_binlog"), seen.fewest_syncs
    if not period or least is None or not _grew_by_commits(seen):
        return
    synced, needed = seen.most_fsyncs("binlog"), least // period
    if synced is not None and synced < needed:
        says = f"the binary log was {_times(synced)} for {seen.load}, where at least {needed:,} are needed"
        yield NoEffect("sync_binlog", period, says + _SUSPECTS)


@_rule
def _too_many_binlog_syncs(seen: SeenEffects) -> Iterator[NoEffect]:
    """With N, the server makes at most one sync in N commits, and with 0 none, apart from housekeeping.

    The limit is twice that, which leaves room for commits from outside the workload.
    """
    period, least = seen.number("sync_binlog"), seen.fewest_syncs
    if period is None or period == 1 or not least or not _grew_by_commits(seen):
        return
    synced = seen.fsyncs("binlog")
    expected = 2 * (seen.commits or 0) // period if period else 0
    if synced is not None and 2 * (synced - expected - seen.housekeeping) > least:
        says = f"the binary log was {_times(synced)} for {seen.load}, about as often as with 1"
        yield NoEffect("sync_binlog", period, says)


def _grew_by_commits(seen: SeenEffects) -> bool:
    if seen.counted_by != "kernel" or not seen.is_set("log_bin", "ON") or seen.binlog_in_redo:
        return False
    if "binlog" not in seen.opened or "binlog" in seen.in_memory:
        return False
    written = seen.written("binlog")
    return written is not None and written >= _LEAST_BYTES_PER_COMMIT * (seen.commits or 0)


@_rule
def _doublewritten(seen: SeenEffects) -> Iterator[NoEffect]:
    """The counter grows only if a page enters the doublewrite buffer.

    ON without such pages is not judged: new pages, temporary pages and devices with atomic writes are
    legitimate reasons.
    """
    written = seen.written("doublewrite")
    if written and seen.is_set("innodb_doublewrite", "OFF"):
        says = f"{written:,} bytes were written to the doublewrite buffer"
        yield NoEffect("innodb_doublewrite", "OFF", says)
