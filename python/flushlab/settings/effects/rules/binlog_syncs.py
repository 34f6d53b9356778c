"""binlog-syncs: sync_binlog, judged by how often the binary log was synced.

Too few: with N, the server syncs with every N-th group of commits. A group holds at most one commit of each
connection. By the argument of `Evidence.fewest_syncs`, the commits take at least `fewest_syncs` groups, and
every N-th group takes a sync. A delay of groups (binlog_group_commit_sync_delay) does not change the limit.
The rule judges only if the binary log grew as commits make it grow; syncs of deleted files count.

Too many: with N, the server makes at most one sync in N commits, and with 0 none, apart from housekeeping.
The limit is twice that, which leaves room for commits from outside the workload.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.effects.evidence import Evidence, Finding, times
from flushlab.settings.effects.rules.binlog_written import LEAST_BINLOG_BYTES_PER_COMMIT, in_redo

_SETTING = "sync_binlog"


def too_few_binlog_syncs(evidence: Evidence) -> Iterator[Finding]:
    """1 or N, and fewer syncs than the commits take."""
    period, least = evidence.number(_SETTING), evidence.fewest_syncs
    if not period or least is None or not _judged(evidence):
        return
    synced = evidence.most_fsyncs("binlog")
    needed = least // period
    if synced is not None and synced < needed:
        yield Finding(
            setting=_SETTING,
            value=period,
            seen=f"the binary log was {times(synced)} for {evidence.load}, where at least {needed:,} are "
            "needed (a preloaded library such as libeatmydata, or --debug-no-sync)",
        )


def too_many_binlog_syncs(evidence: Evidence) -> Iterator[Finding]:
    """0 or N, and a sync for every group of commits."""
    period, least = evidence.number(_SETTING), evidence.fewest_syncs
    if period is None or period == 1 or not least or not _judged(evidence):
        return
    synced = evidence.fsyncs("binlog")
    expected = 2 * (evidence.commits or 0) // period if period else 0
    if synced is not None and 2 * (synced - expected - evidence.housekeeping) > least:
        yield Finding(
            setting=_SETTING,
            value=period,
            seen=f"the binary log was {times(synced)} for {evidence.load}, about as often as with 1",
        )


def _judged(evidence: Evidence) -> bool:
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
