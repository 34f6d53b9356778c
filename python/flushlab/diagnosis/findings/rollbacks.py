"""Rollbacks: work that is thrown away, by deadlocks, lock timeouts, errors or the application. Pure.

Handler_rollback and Handler_commit count statements within transactions, too (ha_rollback_low in handler.cc),
and a transaction once more for the binary log; see `commits`. A ROLLBACK after reads is no lost work.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flushlab.diagnosis.commits import COUNTERS, WITH_ROLLBACKS
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import ROW_LOCK, WAITS
from flushlab.units import format_size

_OFTEN, _PER_S = 0.1, 1.0
_HARDLY, _MOSTLY = 0.01, 3.0
"""Commits by failures of writes, and failures by commits."""
_LEAST_WRITES = 0.25
"""Statements that write, by failures: fewer are those of a server that reads."""
_LIMITED = 1 << 62
"""Bytes of max_binlog_cache_size, from which it is no limit."""
_ALL = (*WAITS, ROW_LOCK)
_TOO_LARGE = "ER_TRANS_CACHE_FULL"
_ERRORS = "SELECT * FROM performance_schema.events_errors_summary_global_by_error"
_SMALLER = (
    "Commit fewer rows at once, or raise max_binlog_cache_size, which has no limit by default: new"
    " connections take the new value."
)
_RETRIED = (
    "Against deadlocks, touch rows in one order, and keep transactions short; SHOW ENGINE INNODB STATUS has"
    " the last one. Without deadlocks, look for errors such as duplicate keys, and for the application's own"
    " ROLLBACK."
)


def find(evidence: Evidence) -> Finding | None:
    """Many rollbacks among the ends of transactions, or hardly any commit."""
    rolled_back, ended = evidence.per_s("handler_rollback"), evidence.per_s("handler_commit")
    if not rolled_back or rolled_back < _PER_S:
        return None
    lost, commits = _lost(evidence, rolled_back), evidence.commits
    if not lost and rolled_back < _OFTEN * (rolled_back + (ended or 0.0)):
        return None
    beside = "" if ended is None else f" beside {ended:,.0f} commits/s"
    status = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_rollback', 'Handler_commit')"
    found = Finding(
        name="rollbacks",
        title="many statements or transactions are rolled back; the lost work is not part of any bound",
        seen=(
            Seen(f"{rolled_back:,.0f} rollbacks/s{beside}, those of statements included", status),
            *_causes(evidence),
        ),
        advice=_RETRIED,
    )
    if not lost or commits is None:
        return found
    why, advice = _why(evidence, lost)
    what = "nothing commits" if commits <= _HARDLY * lost else f"only {commits:,.1f} transactions/s commit"
    share = evidence.time.within(lost / (lost + commits), *_ALL)
    return msgspec.structs.replace(
        found,
        title=f"{what}, because {why}",
        share=share and msgspec.structs.replace(share, proportional=False),
        waits=_ALL,
        unmeasured=f"{what}, beside {lost:,.0f} rollbacks/s of writes",
        shows_in=("cpu", "client", "commit_sync", "row_locks"),
        advice=advice,
    )


def _lost(evidence: Evidence, rolled_back: float) -> float:
    """Writes per second that fail, if most do; 0 if most commit."""
    asked, commits = evidence.per_s("com_rollback") or 0.0, evidence.commits or 0.0
    lost = rolled_back - asked
    if (reads := evidence.per_s("com_select")) is not None:
        # A ROLLBACK of reads has a SELECT before it: what is more are failures, or transactions that wrote.
        lost = max(lost, min(asked, rolled_back - reads))
    if evidence.commits_by == WITH_ROLLBACKS:
        ends = COUNTERS[WITH_ROLLBACKS] * (evidence.per_s(WITH_ROLLBACKS) or 0.0)
        lost = max(lost, min(asked, ends - commits))
    is_most = lost >= max(_PER_S, _MOSTLY * commits)
    return lost if is_most and evidence.write_statements >= _LEAST_WRITES * lost else 0.0


def _causes(evidence: Evidence) -> Iterator[Seen]:
    """What the server counts."""
    if (asked := evidence.per_s("com_rollback")) is not None:
        yield Seen(f"{asked:,.1f} ROLLBACK/s of clients", "SHOW GLOBAL STATUS LIKE 'Com_rollback'")
    if (deadlocks := evidence.per_s("innodb_deadlocks")) is not None:
        yield Seen(f"{deadlocks:,.1f} deadlocks/s", "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
    if errors := _errors(evidence):
        words = ", ".join(f"{name} {rate:,.1f}/s" for name, rate in errors[:3])
        yield Seen(f"errors: {words}", _ERRORS)


def _errors(evidence: Evidence) -> list[tuple[str, float]]:
    """Errors per second by name, the most first."""
    before, after = evidence.before.errors, evidence.after.errors
    rates = {name: (count - before.get(name, 0)) / evidence.seconds for name, count in after.items()}
    return sorted(((name, rate) for name, rate in rates.items() if rate > 0), key=lambda one: -one[1])


def _why(evidence: Evidence, lost: float) -> tuple[str, str]:
    """Why most writes fail, and what to do."""
    errors = _errors(evidence)
    most = errors[0][0] if errors else ""
    limit = evidence.after.variable("max_binlog_cache_size")
    is_spilt = (evidence.per_s("binlog_cache_disk_use") or 0.0) >= _OFTEN * lost
    size = f" ({format_size(limit)})" if limit is not None else ""
    is_limited = limit is not None and limit < _LIMITED
    if most == _TOO_LARGE or (not most and is_limited and is_spilt):
        return f"transactions are larger than max_binlog_cache_size{size}: error 1197", _SMALLER
    if most:
        return f"statements fail: {most}", _RETRIED
    if (evidence.per_s("innodb_deadlocks") or 0.0) >= _OFTEN * lost:
        return "transactions end in deadlocks", _RETRIED
    asked = evidence.per_s("com_rollback") or 0.0
    done = (evidence.per_s("handler_commit") or 0.0) - (evidence.per_s("com_select") or 0.0)
    if asked >= _OFTEN * lost and done >= asked / 2:
        return "clients roll their transactions back", _RETRIED
    if is_limited:  # MariaDB counts no use of the cache if the first statement is too large for it
        return f"statements fail, perhaps by error 1197: max_binlog_cache_size is limited{size}", _SMALLER
    return "statements fail", f"The application's log has the errors. {_RETRIED}"
