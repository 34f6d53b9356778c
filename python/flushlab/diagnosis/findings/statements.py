"""Statements: scans, rollbacks and DDL of the application, its turns and its connections. Pure."""

from __future__ import annotations

import itertools

import msgspec

from flushlab.diagnosis.evidence import COUNTERS, WITH_ROLLBACKS, Evidence
from flushlab.diagnosis.finding import Finding, Seen, counter
from flushlab.diagnosis.findings.locks import DDL
from flushlab.diagnosis.waits import LONG_S, PROCESSOR, ROW_LOCK, WAITS
from flushlab.telemetry.live.questions import waits_for_metadata
from flushlab.units import format_size


def find_client(evidence: Evidence) -> Finding | None:
    time = evidence.time
    waiting = time.connections.get("client", 0.0)
    if not waiting:
        return None
    text = f"{waiting:.1f} of {time.total:.1f} busy writers wait for the client's next statement"
    listed = "information_schema.PROCESSLIST WHERE TIME < 1 GROUP BY COMMAND"
    seen = [Seen(text, f"SELECT COMMAND, COUNT(*) FROM {listed}")]
    if (rate := evidence.per_s("questions")) is not None:
        seen.append(counter(f"{rate:,.0f} statements/s", "Questions"))
    share = time.share("client", delays=(ROW_LOCK,))
    if share is not None and time.pauses:
        seen.append(Seen("pauses of a second or longer are not among them, so no bound can be computed"))
        share = msgspec.structs.replace(share, proportional=False)
    return Finding(
        name="client",
        title="writers wait for their clients: round trips and the application's own work",
        share=share,
        waits=("client",),
        seen=tuple(seen),
        advice=(
            "Send fewer and larger statements (rows per INSERT, procedures, pipelining), or run more clients."
            " No setting of the server shortens this time."
        ),
    )


def find_connections(evidence: Evidence) -> Finding | None:
    rate, questions = evidence.per_s("connections") or 0.0, evidence.per_s("questions")
    churns = bool(rate > 10 and questions and questions / rate < 20)
    most, now = evidence.after.variable("max_connections"), evidence.after.number("threads_connected")
    seen = []
    if churns:
        text = f"{rate:,.0f} new connections/s, {(questions or 0.0) / rate:.1f} statements each"
        seen.append(counter(text, "Connections"))
    if most and now and now > 0.8 * most:
        running = evidence.after.number("threads_running")
        work = "" if running is None else f", {running:,.0f} of them at work"
        seen.append(counter(f"{now:,.0f} of {most:,} connections are in use{work}", "Threads_%"))
    if not seen:
        return None
    return Finding(
        name="connections",
        title="connections come and go" if churns else "nearly all connections are in use",
        seen=tuple(seen),
        advice=(
            "Keep connections in a pool: a new one costs round trips and a login."
            if churns
            else "Use smaller pools. Few connections work at the same time, so throughput stays the same."
        ),
    )


_LONG_DDL_S = 10


def find_ddl(evidence: Evidence) -> Finding | None:
    """A statement that alters, builds or rewrites a table runs for long beside the writers, or all of a short
    window; while it waits for a lock, it does nothing.

    It reads and writes the table beside the writers, and may hold locks of its own. No sample weighs it.
    """
    least_s = min(_LONG_DDL_S, max(LONG_S, evidence.seconds - LONG_S))
    every = [
        one
        for one in evidence.longest.values()
        if one.verb in DDL and one.seconds >= least_s and not waits_for_metadata(one.state)
    ]
    if not every:
        return None
    every.sort(key=lambda one: -one.seconds)
    verb = f"{every[0].verb.upper()} of connection {every[0].id}"
    return Finding(
        name="ddl",
        title=f"{verb} runs beside the writers",
        unmeasured=f"{verb} has run for {every[0].seconds:,} s",
        is_proven=False,
        seen=tuple(
            Seen(
                f"{one.verb.upper()} of connection {one.id}: {one.state or 'at work'}, for {one.seconds:,} s",
                "SELECT ID, TIME, STATE, INFO FROM information_schema.PROCESSLIST ORDER BY TIME DESC",
            )
            for one in every[:3]
        ),
        advice=(
            "Watch again once it has ended: only then its share of the disk and the processors is known."
            " Move it to an hour with fewer writes, or use a tool that pauses under load."
        ),
    )


_ROWS_PER_CHANGE = 100.0
"""Below, an index would not gain much."""
_MANY_LOCKS = 1000
_OWN_ROWS_PER_S = 3000.0
"""That the doctor's own questions read, at most."""


def find_full_scans(evidence: Evidence) -> Finding | None:
    """Updates and deletes read a whole table for a few rows, and lock each row that they read.

    InnoDB locks every row that a statement searches. performance_schema counts reads and changes
    without an index by table. Elsewhere, the counters of all statements and the locks of transactions tell.
    """
    changed = evidence.grew("handler_update") + evidence.grew("handler_delete")
    read = evidence.grew("handler_read_rnd_next") - _OWN_ROWS_PER_S * evidence.seconds
    if not evidence.time.total or read < _ROWS_PER_CHANGE * max(1.0, changed):
        return None
    tables, locks = _scanned_tables(evidence), _many_locks(evidence)
    if not tables and not locks:
        return None
    of_tables = "performance_schema.table_io_waits_summary_by_index_usage WHERE INDEX_NAME IS NULL"
    columns = "trx_id, trx_rows_locked, trx_rows_modified"
    names = "'Handler_read_rnd_next', 'Handler_update', 'Handler_delete'"
    seen = [
        Seen(f"{name}: {rows:,} rows read without an index, {count:,} changed", f"SELECT * FROM {of_tables}")
        for rows, count, name in tables[:3]
    ]
    for rows, count in locks[:1]:
        text = f"a transaction held {rows:,} row locks and had changed {count:,}"
        seen.append(Seen(text, f"SELECT {columns} FROM information_schema.INNODB_TRX"))
    text = f"{read / max(1.0, changed):,.0f} rows read in table scans for each changed one"
    seen.append(Seen(text, f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})"))
    waits, pressure = ("statement", ROW_LOCK), evidence.pressure
    # Clients on the same machine wait for the processors that scans take.
    is_short = pressure is not None and (pressure.cpu_pressure_share or 0.0) >= 0.5
    delays = ("commit", "reading", PROCESSOR, *(("client",) if is_short else ()))
    of = f" of table {tables[0][2]}" if tables else ""
    return Finding(
        name="full_scans",
        title=f"updates or deletes{of} find no index: each reads and locks the whole table",
        share=evidence.time.within(1 - changed / read, *waits, delays=delays),
        waits=waits,
        shows_in=("row_locks", "cpu", "client"),
        seen=tuple(seen),
        advice=(
            "Create an index on the columns of the WHERE clause, or the primary key that the table lacks."
            " EXPLAIN of the UPDATE or DELETE shows type ALL until then."
        ),
    )


def _scanned_tables(evidence: Evidence) -> list[tuple[int, int, str]]:
    before, after = evidence.before.scans, evidence.after.scans
    if before is None or after is None:
        return []
    grown = [
        (rows - before.get(name, (0, 0))[0], changes - before.get(name, (0, 0))[1], name)
        for name, (rows, changes) in after.items()
    ]
    return sorted((one for one in grown if one[1] > 0 and one[0] >= _ROWS_PER_CHANGE * one[1]), reverse=True)


def _many_locks(evidence: Evidence) -> list[tuple[int, int]]:
    ddl = {one.id for one in evidence.longest.values() if one.verb in DDL}
    every = {
        (one.rows_locked, one.rows_modified)
        for one in itertools.chain(evidence.transactions.values(), *evidence.looks)
        if not one.prepared and one.thread not in ddl
    }
    many = (one for one in every if one[0] >= max(_MANY_LOCKS, _ROWS_PER_CHANGE * one[1]))
    return sorted(many, reverse=True)


_OFTEN, _PER_S = 0.1, 1.0
_HARDLY, _MOSTLY = 0.01, 3.0
"""Commits by failures of writes, and failures by commits."""
_LEAST_WRITES = 0.25
"""Statements that write, by failures: fewer are those of a server that reads."""
_LIMITED = 1 << 62
"""Bytes of max_binlog_cache_size, from which it is no limit."""
_ALL = (*WAITS, ROW_LOCK)
_SMALLER = (
    "Commit fewer rows at once, or raise max_binlog_cache_size, which has no limit by default: new"
    " connections take the new value."
)
_RETRIED = (
    "Against deadlocks, touch rows in one order, and keep transactions short; SHOW ENGINE INNODB STATUS has"
    " the last one. Without deadlocks, look for errors such as duplicate keys, and for the application's own"
    " ROLLBACK."
)


def find_rollbacks(evidence: Evidence) -> Finding | None:
    """Work is thrown away by deadlocks, lock timeouts, errors or the application: many rollbacks among the
    ends of transactions, or hardly any commit.

    Handler_rollback and Handler_commit count statements within transactions, too (ha_rollback_low in
    handler.cc), and a transaction once more for the binary log; see `evidence`. A ROLLBACK after reads is no
    lost work.
    """
    rolled_back, ended = evidence.per_s("handler_rollback"), evidence.per_s("handler_commit")
    if not rolled_back or rolled_back < _PER_S:
        return None
    lost, commits = _lost(evidence, rolled_back), evidence.commits
    if not lost and rolled_back < _OFTEN * (rolled_back + (ended or 0.0)):
        return None
    beside = "" if ended is None else f" beside {ended:,.0f} commits/s"
    text = f"{rolled_back:,.0f} rollbacks/s{beside}, those of statements included"
    names, errors = "'Handler_rollback', 'Handler_commit'", _errors(evidence)
    seen = [Seen(text, f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})")]
    if (asked := evidence.per_s("com_rollback")) is not None:
        seen.append(counter(f"{asked:,.1f} ROLLBACK/s of clients", "Com_rollback"))
    if (deadlocks := evidence.per_s("innodb_deadlocks")) is not None:
        seen.append(counter(f"{deadlocks:,.1f} deadlocks/s", "Innodb_deadlocks"))
    if errors:
        words = ", ".join(f"{name} {rate:,.1f}/s" for name, rate in errors[:3])
        sql = "SELECT * FROM performance_schema.events_errors_summary_global_by_error"
        seen.append(Seen(f"errors: {words}", sql))
    finding = Finding(
        name="rollbacks",
        title="many statements or transactions are rolled back; the lost work is not part of any bound",
        seen=tuple(seen),
        advice=_RETRIED,
    )
    if not lost or commits is None:
        return finding
    why, advice = _why(evidence, lost, errors[0][0] if errors else "")
    what = "nothing commits" if commits <= _HARDLY * lost else f"only {commits:,.1f} transactions/s commit"
    share = evidence.time.within(lost / (lost + commits), *_ALL)
    return msgspec.structs.replace(
        finding,
        title=f"{what}, because {why}",
        share=share and msgspec.structs.replace(share, proportional=False),
        waits=_ALL,
        unmeasured=f"{what}, beside {lost:,.0f} rollbacks/s of writes",
        shows_in=("cpu", "client", "commit_sync", "row_locks"),
        advice=advice,
    )


def _lost(evidence: Evidence, rolled_back: float) -> float:
    asked, commits = evidence.per_s("com_rollback") or 0.0, evidence.commits or 0.0
    lost = rolled_back - asked
    if (reads := evidence.per_s("com_select")) is not None:
        # A ROLLBACK of reads has a SELECT before it: what is more are failures, or transactions that wrote.
        lost = max(lost, min(asked, rolled_back - reads))
    if evidence.commits_by == WITH_ROLLBACKS:
        ends = COUNTERS[WITH_ROLLBACKS] * (evidence.per_s(WITH_ROLLBACKS) or 0.0)
        lost = max(lost, min(asked, ends - commits))
    is_most = lost >= max(_PER_S, _MOSTLY * commits)
    return lost if is_most and (evidence.write_statements or 0.0) >= _LEAST_WRITES * lost else 0.0


def _errors(evidence: Evidence) -> list[tuple[str, float]]:
    before, after = evidence.before.errors, evidence.after.errors
    rates = {name: (count - before.get(name, 0)) / evidence.seconds for name, count in after.items()}
    return sorted(((name, rate) for name, rate in rates.items() if rate > 0), key=lambda one: -one[1])


def _why(evidence: Evidence, lost: float, error: str) -> tuple[str, str]:
    limit = evidence.after.variable("max_binlog_cache_size")
    is_spilt = (evidence.per_s("binlog_cache_disk_use") or 0.0) >= _OFTEN * lost
    size = f" ({format_size(limit)})" if limit is not None else ""
    is_limited = limit is not None and limit < _LIMITED
    if error == "ER_TRANS_CACHE_FULL" or (not error and is_limited and is_spilt):
        return f"transactions are larger than max_binlog_cache_size{size}: error 1197", _SMALLER
    if error:
        return f"statements fail: {error}", _RETRIED
    if (evidence.per_s("innodb_deadlocks") or 0.0) >= _OFTEN * lost:
        return "transactions end in deadlocks", _RETRIED
    asked = evidence.per_s("com_rollback") or 0.0
    done = (evidence.per_s("handler_commit") or 0.0) - (evidence.per_s("com_select") or 0.0)
    if asked >= _OFTEN * lost and done >= asked / 2:
        return "clients roll their transactions back", _RETRIED
    if is_limited:  # MariaDB counts no use of the cache if the first statement is too large for it
        return f"statements fail, perhaps by error 1197: max_binlog_cache_size is limited{size}", _SMALLER
    return "statements fail", f"The application's log has the errors. {_RETRIED}"
