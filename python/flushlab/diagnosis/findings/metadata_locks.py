"""Metadata locks: statements wait for a table that DDL, a backup, LOCK TABLES or a transaction holds. Pure.

FLUSH TABLES WITH READ LOCK holds the lock that every write takes: `global read lock` and `commit lock` on
MySQL, `backup lock` on MariaDB since 10.4. A long wait counts without a share, too: DDL and the reads behind
it are no writers, and hold up all that comes later.
"""

from __future__ import annotations

from collections.abc import Sequence

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen, wait
from flushlab.diagnosis.lock_holders import Holder, holders, known, others, stops_all_writes, waiters
from flushlab.diagnosis.waits import BACKGROUND, ROW_LOCK
from flushlab.telemetry.live.questions import ThreadState
from flushlab.units import counted

_STATES = "SELECT ID, TIME, STATE FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for%'"
_HOLDER = (
    "SELECT * FROM performance_schema.metadata_locks",
    "SELECT * FROM information_schema.INNODB_TRX ORDER BY trx_started",
    "SELECT * FROM information_schema.PROCESSLIST WHERE COMMAND = 'Sleep' ORDER BY TIME DESC",
)
"""By `Holder.doubt`."""


def find(evidence: Evidence) -> Finding | None:
    """Time in waits for metadata locks, or a long wait of anybody, if there is one."""
    time, long = evidence.time, waiters(evidence)
    is_measured = bool(time.connections.get("metadata lock"))
    if not is_measured and not long:
        return None
    seen, found = [], holders(evidence)
    holder = known(found)
    if long:
        first, more = long[0], f"; {counted(len(long) - 1, 'more statement')} behind it"
        what = "the replica's applier" if first.command in BACKGROUND else "statement"
        text = f"{first.verb.upper() or what} of connection {first.id}: {first.state} for"
        seen.append(Seen(f"{text} {first.seconds:,} s{more if len(long) > 1 else ''}", _STATES))
    if is_measured:
        seen.append(Seen(time.told("wait for a metadata or table lock", "metadata lock"), _STATES))
    if found:
        seen.append(
            Seen(f"{found[0].words}{others(found) if found[0].doubt else ''}", _HOLDER[found[0].doubt])
        )
    kill = f": look at its program and user, then KILL {holder.kill}" if holder and holder.kill else ""
    return Finding(
        name="metadata_locks",
        title=_title(evidence, holder),
        share=time.share("metadata lock", delays=(ROW_LOCK,)),
        waits=("metadata lock",),
        unmeasured=_clause(evidence, long, holder),
        seen=tuple(seen),
        advice=(
            f"End the session that holds the lock{kill}. Back up with a tool that holds it for a moment only."
            if stops_all_writes(evidence)
            else f"End the statement or idle transaction that holds the lock{kill}. Give DDL a short"
            " lock_wait_timeout: all statements on the table queue behind it."
        ),
    )


def _title(evidence: Evidence, holder: Holder | None) -> str:
    of = f" of {holder.who}" if holder is not None and not holder.doubt else ""
    if stops_all_writes(evidence):
        what = "" if evidence.identity.flavor == "mysql" or of else " or BACKUP STAGE"
        return f"FLUSH TABLES WITH READ LOCK{what}{of} stops all writes"
    if of:
        return f"statements wait for a metadata lock{of}"
    return "statements wait for a table lock: DDL, a backup, LOCK TABLES or an open transaction"


def _clause(evidence: Evidence, long: Sequence[ThreadState], holder: Holder | None) -> str:
    if not long:
        return ""
    probably = "probably " if holder is not None and holder.doubt else ""
    held = f", which {holder.who} {probably}holds" if holder is not None else ""
    what = "the global read lock" if stops_all_writes(evidence) else "a metadata lock"
    return f"{wait(len(long), 'statement')} for {what}{held}, for up to {long[0].seconds:,} s"
