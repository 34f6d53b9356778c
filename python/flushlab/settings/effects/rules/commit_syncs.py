"""commit-syncs: innodb_flush_log_at_trx_commit, judged by how often the redo log was synced.

Too few: `Evidence.fewest_syncs` is the least number of syncs that acknowledged commits take. The rule
excludes every cause of a count that is too small. It is silent if the redo log is not seen open (mapped into
memory), and if commits may not have written redo at all (another engine). Syncs of indistinguishable files
count as the redo log's.

Synced writes: at 2 every commit (or group of them) writes the redo log and leaves the sync to the background.
Where the log is open with O_DSYNC or O_SYNC, that write waits for the device as a sync would.

Too many: at 0 and 2 no commit waits for a sync. More syncs than housekeeping explains, by half of what 1
would take at least, are the commits' own.

Never: a checkpoint of redo that was written in the window is made only when that redo and the checkpoint
itself were synced.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.effects.evidence import Evidence, Finding, times
from flushlab.settings.effects.rules.write_through import SYNCED_WRITES

_SETTING = "innodb_flush_log_at_trx_commit"
_UNSYNCED_METHODS = ("NOSYNC", "LITTLESYNC", "O_DIRECT_NO_FSYNC")
_LEAST_REDO_BYTES_PER_COMMIT = 50
"""A transaction that changed a row writes more redo: at least an undo record, the row's change and the
commit. Measured: 400 to 1,000 bytes for an update of one row."""


def too_few_commit_syncs(evidence: Evidence) -> Iterator[Finding]:
    """1 (or MariaDB's 3), and fewer syncs than the commits take."""
    policy, least = evidence.number(_SETTING), evidence.fewest_syncs
    synced = _redo_syncs(evidence)
    if policy not in (1, 3) or least is None or synced is None or not _wrote_redo(evidence):
        return
    if synced < least:
        yield Finding(
            setting=_SETTING,
            value=policy,
            seen=f"{_times(synced, evidence)} for {evidence.load}, where at least {least:,} are needed"
            f"{_suspects(evidence)}",
        )


def synced_writes(evidence: Evidence) -> Iterator[Finding]:
    """2, and a redo log of which every write is a sync."""
    through = set(evidence.flags("redo") or ()) & set(SYNCED_WRITES)
    if evidence.number(_SETTING) != 2 or not through or "redo" in evidence.in_memory:
        return
    synced = evidence.fsyncs("redo")
    counted = f": {synced:,} for {evidence.load}" if synced is not None and evidence.commits else ""
    yield Finding(
        setting=_SETTING,
        value=2,
        seen=f"the redo log is written through ({', '.join(sorted(through))}), so the write of every "
        f"commit is a sync{counted}",
    )


def too_many_commit_syncs(evidence: Evidence) -> Iterator[Finding]:
    """0 or 2, and a sync for every group of commits."""
    policy, least = evidence.number(_SETTING), evidence.fewest_syncs
    synced = evidence.fsyncs("redo")
    if policy not in (0, 2) or not least or synced is None or evidence.pages_written is None:
        return
    if 2 * (synced - evidence.housekeeping) > least:
        yield Finding(
            setting=_SETTING,
            value=policy,
            seen=f"{_times(synced, evidence)} for {evidence.load}, about as often as with 1",
        )


def never_synced(evidence: Evidence) -> Iterator[Finding]:
    """A checkpoint was made, and the redo log was not synced once."""
    policy, synced = evidence.number(_SETTING), _redo_syncs(evidence)
    if policy is not None and evidence.checkpointed and synced == 0:
        yield Finding(
            setting=_SETTING,
            value=policy,
            seen=f"{_times(0, evidence)}, although a checkpoint was made{_suspects(evidence)}",
        )


def _redo_syncs(evidence: Evidence) -> int | None:
    """Most syncs that the redo log can have had; None where nothing can be said."""
    if "redo" in evidence.in_memory:
        return None
    if evidence.counted_by == "kernel":
        return evidence.most_fsyncs("redo") if "redo" in evidence.opened else None
    flags = evidence.flags("redo")
    written_through = flags is None or set(flags) & set(SYNCED_WRITES)  # not in the server's own count
    return None if written_through else evidence.fsyncs("redo")


def _wrote_redo(evidence: Evidence) -> bool:
    written = evidence.written("redo")
    return written is not None and written >= _LEAST_REDO_BYTES_PER_COMMIT * (evidence.commits or 0)


def _times(synced: int, evidence: Evidence) -> str:
    who = "" if evidence.counted_by == "kernel" else "by the server's own count "
    return f"{who}the redo log was {times(synced)}"


def _suspects(evidence: Evidence) -> str:
    if evidence.flush_method in _UNSYNCED_METHODS:
        return f" (innodb_flush_method={evidence.settings['innodb_flush_method']} skips syncs)"
    return " (a preloaded library such as libeatmydata, or --debug-no-sync)"
