"""Rules: settings whose effect would be seen and is not, one function each. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.effects.evidence import NoEffect, SeenEffects, times

LEAST_BINLOG_BYTES_PER_COMMIT = 50
"""The headers of the events that a transaction takes at the least (GTID, one statement, XID) are longer."""

_FEWEST_COMMITS = 100


def binlog_not_written(evidence: SeenEffects) -> Iterator[NoEffect]:
    """ON, and no bytes in it though rows were changed."""
    commits, written = evidence.commits or 0, evidence.written("binlog")
    if (
        evidence.is_set("log_bin", "ON")
        and not in_redo(evidence)
        and commits >= _FEWEST_COMMITS
        and written is not None
        and written < commits
    ):
        yield NoEffect(
            setting="log_bin",
            value="ON",
            seen=f"the binary log grew by {written:,} bytes for {commits:,} commits",
        )


def in_redo(evidence: SeenEffects) -> bool:
    """The binary log is a part of the redo log (MariaDB since 12.3): sync_binlog is then ignored."""
    return evidence.is_set("binlog_storage_engine", "innodb")


_SETTING = "sync_binlog"


def too_few_binlog_syncs(evidence: SeenEffects) -> Iterator[NoEffect]:
    """1 or N, and fewer syncs than the commits take."""
    period, least = evidence.number(_SETTING), evidence.fewest_syncs
    if not period or least is None or not _judged(evidence):
        return
    synced = evidence.most_fsyncs("binlog")
    needed = least // period
    if synced is not None and synced < needed:
        yield NoEffect(
            setting=_SETTING,
            value=period,
            seen=f"the binary log was {times(synced)} for {evidence.load}, where at least {needed:,} are "
            "needed (a preloaded library such as libeatmydata, or --debug-no-sync)",
        )


def too_many_binlog_syncs(evidence: SeenEffects) -> Iterator[NoEffect]:
    """0 or N, and a sync for every group of commits."""
    period, least = evidence.number(_SETTING), evidence.fewest_syncs
    if period is None or period == 1 or not least or not _judged(evidence):
        return
    synced = evidence.fsyncs("binlog")
    expected = 2 * (evidence.commits or 0) // period if period else 0
    if synced is not None and 2 * (synced - expected - evidence.housekeeping) > least:
        yield NoEffect(
            setting=_SETTING,
            value=period,
            seen=f"the binary log was {times(synced)} for {evidence.load}, about as often as with 1",
        )


def _judged(evidence: SeenEffects) -> bool:
    written = evidence.written("binlog")
    return (
        evidence.counted_by == "kernel"
        and evidence.is_set("log_bin", "ON")
        and not in_redo(evidence)
        and "binlog" in evidence.opened
        and "binlog" not in evidence.in_memory
        and written is not None
        and written >= LEAST_BINLOG_BYTES_PER_COMMIT * (evidence.commits or 0)
    )


_METHODS = ("O_DIRECT", "O_DIRECT_NO_FSYNC", "ALL_O_DIRECT")
_DATA = "the data files are open without O_DIRECT"
_REDO = "the redo log is open without O_DIRECT"


def buffered_data(evidence: SeenEffects) -> Iterator[NoEffect]:
    """innodb_flush_method=O_DIRECT, and data files that go through the page cache or lie in memory."""
    if evidence.flush_method in _METHODS:
        setting, value = "innodb_flush_method", evidence.settings["innodb_flush_method"]
        if "data" in evidence.in_memory:
            seen = "the data files are in memory, where there is no device to write to directly"
            yield NoEffect(setting=setting, value=value, seen=seen)
        elif _buffered(evidence, "data"):
            yield NoEffect(setting=setting, value=value, seen=_DATA)


def file_buffering(evidence: SeenEffects) -> Iterator[NoEffect]:
    """MariaDB's innodb_data_file_buffering=OFF and innodb_log_file_buffering=OFF, likewise."""
    for setting, kind, seen in (
        ("innodb_data_file_buffering", "data", _DATA),
        ("innodb_log_file_buffering", "redo", _REDO),
    ):
        if evidence.is_set(setting, "OFF") and kind not in evidence.in_memory and _buffered(evidence, kind):
            yield NoEffect(setting=setting, value="OFF", seen=seen)


def _buffered(evidence: SeenEffects, kind: str) -> bool:
    flags = evidence.flags(kind)
    return flags is not None and "O_DIRECT" not in flags


def doublewritten(evidence: SeenEffects) -> Iterator[NoEffect]:
    """OFF, and pages that were written twice."""
    written = evidence.written("doublewrite")
    if written and evidence.is_set("innodb_doublewrite", "OFF"):
        yield NoEffect(
            setting="innodb_doublewrite",
            value="OFF",
            seen=f"{written:,} bytes were written to the doublewrite buffer",
        )


def syncs_in_memory(evidence: SeenEffects) -> Iterator[NoEffect]:
    """Sync policies of logs that lie in memory."""
    policy = evidence.number("innodb_flush_log_at_trx_commit")
    if policy in (1, 3) and "redo" in evidence.in_memory:
        yield NoEffect(
            setting="innodb_flush_log_at_trx_commit",
            value=policy,
            seen="the redo log is in memory, where a sync makes nothing durable",
        )
    period = evidence.number("sync_binlog")
    if period and evidence.is_set("log_bin", "ON") and "binlog" in evidence.in_memory:
        yield NoEffect(
            setting="sync_binlog",
            value=period,
            seen="the binary log is in memory, where a sync makes nothing durable",
        )


SYNCED_WRITES = ("O_DSYNC", "O_SYNC")


def redo_not_written_through(evidence: SeenEffects) -> Iterator[NoEffect]:
    """innodb_flush_method=O_DSYNC or innodb_log_file_write_through=ON, and a redo log without the flag."""
    flags = evidence.flags("redo")
    if flags is None or set(flags) & set(SYNCED_WRITES):
        return
    seen = "the redo log is open without O_DSYNC or O_SYNC"
    if evidence.flush_method == "O_DSYNC":
        yield NoEffect(
            setting="innodb_flush_method", value=evidence.settings["innodb_flush_method"], seen=seen
        )
    if evidence.is_set("innodb_log_file_write_through", "ON"):
        yield NoEffect(setting="innodb_log_file_write_through", value="ON", seen=seen)


_COMMIT_SYNCS_SETTING = "innodb_flush_log_at_trx_commit"
_UNSYNCED_METHODS = ("NOSYNC", "LITTLESYNC", "O_DIRECT_NO_FSYNC")
_LEAST_REDO_BYTES_PER_COMMIT = 50
"""A transaction that changed a row writes more redo: at least an undo record, the row's change and the
commit. Measured: 400 to 1,000 bytes for an update of one row."""


def too_few_commit_syncs(evidence: SeenEffects) -> Iterator[NoEffect]:
    """1 (or MariaDB's 3), and fewer syncs than the commits take."""
    policy, least = evidence.number(_COMMIT_SYNCS_SETTING), evidence.fewest_syncs
    synced = _redo_syncs(evidence)
    if policy not in (1, 3) or least is None or synced is None or not _wrote_redo(evidence):
        return
    if synced < least:
        yield NoEffect(
            setting=_COMMIT_SYNCS_SETTING,
            value=policy,
            seen=f"{_times(synced, evidence)} for {evidence.load}, where at least {least:,} are needed"
            f"{_suspects(evidence)}",
        )


def synced_writes(evidence: SeenEffects) -> Iterator[NoEffect]:
    """2, and a redo log of which every write is a sync."""
    through = set(evidence.flags("redo") or ()) & set(SYNCED_WRITES)
    if evidence.number(_COMMIT_SYNCS_SETTING) != 2 or not through or "redo" in evidence.in_memory:
        return
    synced = evidence.fsyncs("redo")
    counted = f": {synced:,} for {evidence.load}" if synced is not None and evidence.commits else ""
    yield NoEffect(
        setting=_COMMIT_SYNCS_SETTING,
        value=2,
        seen=f"the redo log is written through ({', '.join(sorted(through))}), so the write of every "
        f"commit is a sync{counted}",
    )


def too_many_commit_syncs(evidence: SeenEffects) -> Iterator[NoEffect]:
    """0 or 2, and a sync for every group of commits."""
    policy, least = evidence.number(_COMMIT_SYNCS_SETTING), evidence.fewest_syncs
    synced = evidence.fsyncs("redo")
    if policy not in (0, 2) or not least or synced is None or evidence.pages_written is None:
        return
    if 2 * (synced - evidence.housekeeping) > least:
        yield NoEffect(
            setting=_COMMIT_SYNCS_SETTING,
            value=policy,
            seen=f"{_times(synced, evidence)} for {evidence.load}, about as often as with 1",
        )


def never_synced(evidence: SeenEffects) -> Iterator[NoEffect]:
    """A checkpoint was made, and the redo log was not synced once."""
    policy, synced = evidence.number(_COMMIT_SYNCS_SETTING), _redo_syncs(evidence)
    if policy is not None and evidence.checkpointed and synced == 0:
        yield NoEffect(
            setting=_COMMIT_SYNCS_SETTING,
            value=policy,
            seen=f"{_times(0, evidence)}, although a checkpoint was made{_suspects(evidence)}",
        )


def _redo_syncs(evidence: SeenEffects) -> int | None:
    """Most syncs that the redo log can have had; None where nothing can be said."""
    if "redo" in evidence.in_memory:
        return None
    if evidence.counted_by == "kernel":
        return evidence.most_fsyncs("redo") if "redo" in evidence.opened else None
    flags = evidence.flags("redo")
    written_through = flags is None or set(flags) & set(SYNCED_WRITES)  # not in the server's own count
    return None if written_through else evidence.fsyncs("redo")


def _wrote_redo(evidence: SeenEffects) -> bool:
    written = evidence.written("redo")
    return written is not None and written >= _LEAST_REDO_BYTES_PER_COMMIT * (evidence.commits or 0)


def _times(synced: int, evidence: SeenEffects) -> str:
    who = "" if evidence.counted_by == "kernel" else "by the server's own count "
    return f"{who}the redo log was {times(synced)}"


def _suspects(evidence: SeenEffects) -> str:
    if evidence.flush_method in _UNSYNCED_METHODS:
        return f" (innodb_flush_method={evidence.settings['innodb_flush_method']} skips syncs)"
    return " (a preloaded library such as libeatmydata, or --debug-no-sync)"
