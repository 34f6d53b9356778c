"""Statements: scans, rollbacks and DDL of the application, its turns and its connections. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

from flushlab.diagnosis.evidence import COUNTERS, WITH_ROLLBACKS, Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.findings.locks import DDL
from flushlab.diagnosis.waits import LONG_S, PROCESSOR, ROW_LOCK, WAITS
from flushlab.telemetry.live.questions import waits_for_metadata
from flushlab.units import format_size


def find_client(evidence: Evidence) -> Finding | None:
    """The client's turns of connections that write, if they are seen."""
    waiting = evidence.time.connections.get("client", 0.0)
    if not waiting:
        return None
    rate = evidence.per_s("questions")
    seen = [
        Seen(
            f"{waiting:.1f} of {evidence.time.total:.1f} busy writers wait for the client's next statement",
            "SELECT COMMAND, COUNT(*) FROM information_schema.PROCESSLIST WHERE TIME < 1 GROUP BY COMMAND",
        )
    ]
    if rate is not None:
        seen.append(Seen(f"{rate:,.0f} statements/s", "SHOW GLOBAL STATUS LIKE 'Questions'"))
    share = evidence.time.share("client", delays=(ROW_LOCK,))
    if share is not None and evidence.time.pauses:
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


_MANY_PER_S = 10.0


def find_connections(evidence: Evidence) -> Finding | None:
    """Connection churn, or a server near its limit of connections."""
    rate, questions = evidence.per_s("connections"), evidence.per_s("questions")
    churns = bool(rate and questions and rate > _MANY_PER_S and questions / rate < 20)
    most, now = evidence.after.variable("max_connections"), evidence.after.number("threads_connected")
    is_full = bool(most and now and now > 0.8 * most)
    if not churns and not is_full:
        return None
    seen = []
    if churns and rate and questions:
        text = f"{rate:,.0f} new connections/s, {questions / rate:.1f} statements each"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Connections'"))
    if is_full and now:
        running = evidence.after.number("threads_running")
        work = "" if running is None else f", {running:,.0f} of them at work"
        text = f"{now:,.0f} of {most:,} connections are in use{work}"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Threads_%'"))
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


_LONG_S = 10


def find_ddl(evidence: Evidence) -> Finding | None:
    """DDL that takes long, or all of a short window; while it waits for a lock, it does nothing."""
    least_s = min(_LONG_S, max(LONG_S, evidence.seconds - LONG_S))
    every = [
        one
        for one in evidence.longest.values()
        if one.verb in DDL and one.seconds >= least_s and not waits_for_metadata(one.state)
    ]
    if not every:
        return None
    longest = max(every, key=lambda one: one.seconds)
    verb = longest.verb.upper()
    return Finding(
        name="ddl",
        title=f"{verb} of connection {longest.id} runs beside the writers",
        unmeasured=f"{verb} of connection {longest.id} has run for {longest.seconds:,} s",
        is_proven=False,
        seen=tuple(
            Seen(
                f"{one.verb.upper()} of connection {one.id}: {one.state or 'at work'}, for {one.seconds:,} s",
                "SELECT ID, TIME, STATE, INFO FROM information_schema.PROCESSLIST ORDER BY TIME DESC",
            )
            for one in sorted(every, key=lambda one: -one.seconds)[:3]
        ),
        advice=(
            "Watch again once it has ended: only then its share of the disk and the processors is known."
            " Move it to an hour with fewer writes, or use a tool that pauses under load."
        ),
    )


_ROWS_PER_CHANGE = 100.0
"""Below, an index would not gain much."""
_MANY_LOCKS = 1000
_SHORT = 0.5
_OWN_ROWS_PER_S = 3000.0
"""That the doctor's own questions read, at most."""
_TABLES = "SELECT * FROM performance_schema.table_io_waits_summary_by_index_usage WHERE INDEX_NAME IS NULL"
_OPEN = "SELECT trx_id, trx_rows_locked, trx_rows_modified FROM information_schema.INNODB_TRX"
_COUNTERS = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_read_rnd_next', 'Handler_update', 'Handler_delete')"
)


def find_full_scans(evidence: Evidence) -> Finding | None:
    """Changes without an index, if tables or locks tell of any."""
    changed = evidence.grew("handler_update") + evidence.grew("handler_delete")
    read = evidence.grew("handler_read_rnd_next") - _OWN_ROWS_PER_S * evidence.seconds
    if not evidence.time.total or read < _ROWS_PER_CHANGE * max(1.0, changed):
        return None
    tables, locks = _tables(evidence), _locks(evidence)
    if not tables and not locks:
        return None
    of = f" of table {tables[0][2]}" if tables else ""
    seen = [
        Seen(f"{name}: {rows:,} rows read without an index, {changes:,} changed", _TABLES)
        for rows, changes, name in tables[:3]
    ]
    seen += [
        Seen(f"a transaction held {rows:,} row locks and had changed {changes:,}", _OPEN)
        for rows, changes in locks[:1]
    ]
    seen.append(
        Seen(f"{read / max(1.0, changed):,.0f} rows read in table scans for each changed one", _COUNTERS)
    )
    waits, pressure = ("statement", ROW_LOCK), evidence.pressure
    # Clients on the same machine wait for the processors that scans take.
    is_short = pressure is not None and (pressure.cpu_pressure_share or 0.0) >= _SHORT
    clients = ("client",) if is_short else ()
    return Finding(
        name="full_scans",
        title=f"updates or deletes{of} find no index: each reads and locks the whole table",
        share=evidence.time.within(
            1 - changed / read, *waits, delays=("commit", "reading", PROCESSOR, *clients)
        ),
        waits=waits,
        shows_in=("row_locks", "cpu", "client"),
        seen=tuple(seen),
        advice=(
            "Create an index on the columns of the WHERE clause, or the primary key that the table lacks."
            " EXPLAIN of the UPDATE or DELETE shows type ALL until then."
        ),
    )


def _tables(evidence: Evidence) -> list[tuple[int, int, str]]:
    """Rows read and changed without an index, and the table; most reads first."""
    before, after = evidence.before.scans, evidence.after.scans
    if before is None or after is None:
        return []
    grown = [
        (rows - before.get(name, (0, 0))[0], changes - before.get(name, (0, 0))[1], name)
        for name, (rows, changes) in after.items()
    ]
    return sorted((one for one in grown if one[1] > 0 and one[0] >= _ROWS_PER_CHANGE * one[1]), reverse=True)


def _locks(evidence: Evidence) -> list[tuple[int, int]]:
    """Row locks and changed rows of transactions with very many for each change, most locks first.

    An ALTER that copies a table locks its rows, too.
    """
    every = itertools.chain(evidence.transactions.values(), *evidence.looks)
    ddl = {one.id for one in evidence.longest.values() if one.verb in DDL}
    found = {
        (one.rows_locked, one.rows_modified) for one in every if not one.prepared and one.thread not in ddl
    }
    return sorted(
        (one for one in found if one[0] >= max(_MANY_LOCKS, _ROWS_PER_CHANGE * one[1])), reverse=True
    )


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


def find_rollbacks(evidence: Evidence) -> Finding | None:
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
    return lost if is_most and (evidence.write_statements or 0.0) >= _LEAST_WRITES * lost else 0.0


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
