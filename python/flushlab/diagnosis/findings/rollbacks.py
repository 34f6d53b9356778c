"""Rollbacks: work that is thrown away, by deadlocks, lock timeouts or the application. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen

_OFTEN, _PER_S = 0.1, 1.0


def find(evidence: Evidence) -> Finding | None:
    """Many rollbacks among the ends of transactions."""
    rolled_back, commits = evidence.per_s("handler_rollback"), evidence.per_s("handler_commit") or 0.0
    if not rolled_back or rolled_back < _PER_S or rolled_back < _OFTEN * (rolled_back + commits):
        return None
    seen = [
        Seen(
            f"{rolled_back:,.0f} rollbacks/s beside {commits:,.0f} commits/s",
            "SHOW GLOBAL STATUS LIKE 'Handler_%k'; -- and Handler_commit",
        )
    ]
    if (deadlocks := evidence.per_s("innodb_deadlocks")) is not None:
        seen.append(Seen(f"{deadlocks:,.1f} deadlocks/s", "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'"))
    return Finding(
        name="rollbacks",
        title="many transactions are rolled back: their work is lost, and no bound counts it",
        seen=tuple(seen),
        advice=(
            "Touch rows in one order, and keep transactions short. SHOW ENGINE INNODB STATUS has the last"
            " deadlock."
        ),
    )
