"""Idle transactions: open with changes, while their client does something else. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen

_OLD_S = 10


def find(evidence: Evidence) -> Finding | None:
    """Old transactions that hold locks or an old view of the data, if there are any."""
    every = evidence.transactions.values()
    old = [one for one in every if one.age_s >= _OLD_S and not one.waits and not one.prepared]
    if not old:
        return None
    oldest = max(old, key=lambda one: one.age_s)
    return Finding(
        name="idle_transactions",
        title="transactions stay open: purge and other writers may wait for them",
        seen=(
            Seen(
                f"{len(old)} open for {_OLD_S} s or longer; the oldest, connection {oldest.thread}, for"
                f" {oldest.age_s:,} s with {oldest.rows_modified:,} rows changed and {oldest.rows_locked:,}"
                " locked",
                "SELECT * FROM information_schema.INNODB_TRX ORDER BY trx_started LIMIT 20",
            ),
        ),
        advice="End them in the application; timeouts for idle transactions only limit the harm.",
    )
