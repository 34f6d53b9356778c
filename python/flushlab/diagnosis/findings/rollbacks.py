"""Rollbacks: work that is thrown away, by deadlocks, lock timeouts, errors or the application. Pure.

Handler_rollback and Handler_commit count statements within transactions, too (ha_rollback_low in handler.cc).
"""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen

_OFTEN, _PER_S = 0.1, 1.0


def find(evidence: Evidence) -> Finding | None:
    """Many rollbacks among the ends of transactions."""
    rolled_back, commits = evidence.per_s("handler_rollback"), evidence.per_s("handler_commit")
    ends = (rolled_back or 0.0) + (commits or 0.0)
    if not rolled_back or rolled_back < _PER_S or rolled_back < _OFTEN * ends:
        return None
    beside = "" if commits is None else f" beside {commits:,.0f} commits/s"
    seen = [
        Seen(
            f"{rolled_back:,.0f} rollbacks/s{beside}, those of statements included",
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_rollback', 'Handler_commit')",
        )
    ]
    if (asked := evidence.per_s("com_rollback")) is not None:
        seen.append(Seen(f"{asked:,.1f} ROLLBACK/s of clients", "SHOW GLOBAL STATUS LIKE 'Com_rollback'"))
    if (deadlocks := evidence.per_s("innodb_deadlocks")) is not None:
        seen.append(Seen(f"{deadlocks:,.1f} deadlocks/s", "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'"))
    return Finding(
        name="rollbacks",
        title="many statements or transactions are rolled back; the lost work is not part of any bound",
        seen=tuple(seen),
        advice=(
            "Against deadlocks, touch rows in one order, and keep transactions short; SHOW ENGINE INNODB"
            " STATUS has the last one. Without deadlocks, look for errors such as duplicate keys, and for the"
            " application's own ROLLBACK."
        ),
    )
