"""Row locks: writers wait for rows that other transactions hold. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen, wait
from flushlab.diagnosis.shares import WriteTime
from flushlab.diagnosis.waits import ROW_LOCK, wait_words
from flushlab.units import counted, format_latency

_STATUS = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock%'"
_OPEN = (
    "SELECT trx_mysql_thread_id, trx_state, trx_started, trx_rows_locked, trx_rows_modified"
    " FROM information_schema.INNODB_TRX ORDER BY trx_started LIMIT 20"
)
_WORTH_A_WORD = 0.05
_IDLE = "; it is idle, its client does something else"


def find(evidence: Evidence) -> Finding | None:
    """Time in waits for row locks, if there is any."""
    waits, waited_ms = evidence.grew("innodb_row_lock_waits"), evidence.grew("innodb_row_lock_time")
    waiting = [one for one in evidence.transactions.values() if one.waits]
    ends = [one.row_lock_waiters for one in (evidence.before, evidence.after)]
    if not waits and not waited_ms and not any(ends) and not (waiting and ends[1] is None):
        return None
    seen = []
    if waits and evidence.seconds > 0:
        each = format_latency(1000 * waited_ms / waits)
        seen.append(Seen(f"{waits / evidence.seconds:,.1f} waits/s, {each} each", _STATUS))
    if waiting:
        were = "was" if len(waiting) == 1 else "were"
        seen.append(Seen(f"{counted(len(waiting), 'transaction')} {were} seen waiting for a lock", _OPEN))
    holders = [one for one in evidence.transactions.values() if not one.waits and one.rows_locked]
    if holders:
        oldest = max(holders, key=lambda one: one.age_s)
        who = f"connection {oldest.thread}" if oldest.thread else "prepared by XA, without a connection"
        who += f", open for {oldest.age_s:,} s" if oldest.age_s else ""
        seen.append(
            Seen(
                f"oldest transaction with locks: {who},"
                f" {counted(oldest.rows_locked, 'row lock')}{_IDLE if oldest.idle and oldest.thread else ''}",
                _OPEN,
            )
        )
    is_serial = evidence.time.is_serial
    if is_serial:
        seen.append(Seen(_turns(evidence.time)))
    share, count = evidence.time.share(ROW_LOCK), max(len(waiting), int(ends[1] or 0))
    return Finding(
        name="row_locks",
        title="writers wait for one another: they change the same rows, one writer after the other"
        if is_serial
        else "writers wait for row locks",
        share=share,
        waits=(ROW_LOCK,),
        unmeasured=f"{wait(count, 'transaction')} for row locks" if share is None and count else "",
        shows_in=("commit_sync",) if is_serial else (),
        seen=tuple(seen),
        advice=(
            "More connections gain nothing here. Change the contended row last, right before COMMIT; a faster"
            " commit shortens each wait. Spread a counter over several rows, or add its changes up first."
            if is_serial
            else "Shorten transactions that change the same rows: change contended rows last, and do no"
            " client work between statements. A faster commit shortens these waits."
        ),
    )


def _turns(time: WriteTime) -> str:
    """What writers do while they hold the row."""
    held = {wait: mean for wait, mean in time.connections.items() if wait != ROW_LOCK}
    whole = sum(held.values())
    parts = [
        f"{wait_words(wait)} {mean / whole:.0%}"
        for wait, mean in sorted(held.items(), key=lambda one: -one[1])
        if mean >= _WORTH_A_WORD * whole
    ]
    return f"{whole:.1f} writers get on at a time, on average; their time: {', '.join(parts)}"
