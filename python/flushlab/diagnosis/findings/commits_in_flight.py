"""Commits in flight: commits that take seconds, or never return. Pure.

A transaction between prepare and commit waits for the syncs of redo log and binary log, or for the commits
before it. InnoDB's monitor lists it as prepared, with the age of the transaction; without a binary log, as
`flushing log`, without an age. A list of connections has the time of the statement. Transactions that XA
PREPARE left wait for nothing: see `xa_transactions`.
"""

from __future__ import annotations

from itertools import pairwise

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen, wait
from flushlab.diagnosis.waits import ROW_LOCK, wait_of
from flushlab.telemetry.live.questions import OpenTransaction
from flushlab.units import counted

_LONG_S, _MANY = 1, 3
_STUCK_S = 5
"""No disk that works takes as long for a sync."""
_LARGE = 50_000
"""Changed rows of a transaction whose commit may take as long: it goes into the binary log as one piece."""
_MONITOR = "SHOW ENGINE INNODB STATUS  -- ACTIVE (PREPARED), LOG"
_STATES = (
    "SELECT ID, TIME, STATE FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Sleep' ORDER BY TIME DESC"
)
_PENDING = "innodb_os_log_pending_fsyncs"


def find(evidence: Evidence) -> Finding | None:
    """Several commits for a second or longer, or one for much longer."""
    prepared = max(([*filter(_commits, one.transactions)] for one in evidence.monitors), key=len, default=[])
    flushing = max((one.flushing for one in evidence.monitors), default=0)
    waiting = [
        one.seconds
        for one in evidence.longest.values()
        if wait_of(one, evidence.identity) == "commit" and one.seconds >= _STUCK_S
    ]
    longest_s = max([*(one.age_s for one in prepared), *waiting], default=0)
    stands = _log_stands_still(evidence)
    is_stuck = longest_s >= _STUCK_S or stands
    many = max(flushing, sum(one.age_s >= _LONG_S for one in prepared))
    if not is_stuck and many < _MANY:
        return None
    seen = list[Seen]()
    if waiting:
        whose = "its" if len(waiting) == 1 else "their"
        text = f"{counted(len(waiting), 'statement')} in {whose} commit, for up to {max(waiting):,} s"
        seen.append(Seen(text, _STATES))
    if prepared:
        text = f"{counted(len(prepared), 'transaction')} prepared but not committed, open for up to"
        seen.append(Seen(f"{text} {max(one.age_s for one in prepared):,} s", _MONITOR))
    if flushing:
        seen.append(Seen(f"{wait(flushing, 'transaction')} for a sync of the redo log", _MONITOR))
    syncs = sum(one.syncs_log for one in evidence.monitors)
    if syncs:
        text = f"a sync of the redo log under way in {syncs} of {counted(len(evidence.monitors), 'output')}"
        seen.append(Seen(f"{text}{'; nothing was synced in between' if stands else ''}", _MONITOR))
    if pending := evidence.after.number(_PENDING):
        seen.append(
            Seen(f"{pending:,.0f} syncs pending", f"SHOW GLOBAL STATUS LIKE '{_PENDING.capitalize()}'")
        )
    is_large = any(one.rows_modified >= _LARGE for one in prepared)
    is_device = is_stuck and (syncs or pending) and not is_large
    return Finding(
        name="commits_in_flight",
        title="a commit is stuck in its sync: the file system or the device does not answer"
        if is_device
        else "commits take seconds"
        if longest_s >= _LONG_S
        else "commits wait for a sync of the redo log",
        share=evidence.time.share("commit", ROW_LOCK) if waiting else None,
        waits=("commit",),
        unmeasured=_clause(longest_s) if is_stuck else "",
        shows_in=("commit_sync",),
        seen=tuple(seen),
        advice=(
            "Look at the device and its file system (dmesg, iostat -x 1) and for a full disk (df). No setting"
            " mends them."
            if is_device
            else "Look at the disk (iostat -x 1, df), the age of the checkpoint, large transactions and"
            " replicas at the same time: each of these can delay a commit."
        ),
    )


def _commits(one: OpenTransaction) -> bool:
    """Whether it is on its way through the logs, and not waiting for a replica."""
    return one.prepared and not one.is_left and "semi-sync" not in one.state


def _log_stands_still(evidence: Evidence) -> bool:
    """No byte of redo was synced between two outputs, and somebody waits for it."""
    return any(
        one.syncs_log and other.syncs_log and one.flushed == other.flushed and one.lsn != one.flushed
        for one, other in pairwise(evidence.monitors)
        if one != other and None not in (one.flushed, one.lsn)
    )


def _clause(longest_s: int) -> str:
    if longest_s < _STUCK_S:
        return "nothing of the redo log was synced between two outputs of InnoDB's monitor"
    return f"a commit has not returned for {longest_s:,} s"
