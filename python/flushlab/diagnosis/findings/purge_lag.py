"""Purge lag: old row versions pile up behind an old snapshot or slow purge. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen

_LONG = 1_000_000


def find(evidence: Evidence) -> Finding | None:
    """A long history list, if the server tells its length."""
    length = evidence.after.number("innodb_history_list_length")
    if length is None or length < _LONG:
        return None
    return Finding(
        name="purge_lag",
        title="old row versions pile up: purge does not keep up",
        seen=(
            Seen(
                f"history list length {length:,.0f}{_growth(evidence)}",
                "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'",
            ),
        ),
        advice="End long transactions and snapshots (backups, reports); then innodb_purge_threads.",
    )


def _growth(evidence: Evidence) -> str:
    """Growth in the window, if there is one."""
    grew = evidence.delta("innodb_history_list_length")
    if grew is None or not evidence.seconds:
        return ""
    return f", {grew:+,.0f} in {evidence.seconds:.0f} s"
