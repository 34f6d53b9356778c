"""Questions: the statements that a running server is asked, how often, and what the answers mean. Pure.

The one list for `watch`, `doctor` and the load that is there. None of them is among those that froze servers
in production: no SHOW PROCESSLIST where performance_schema has the threads, no data_locks, no SHOW BINARY
LOGS, no table sizes. A question that the account may not ask has a smaller form, or is left out and named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from flushlab.record import ServerIdentity, ServerSample, WrittenStatements
from flushlab.telemetry.status import parse_monitor

STATUS, VARIABLES, THREADS, METRICS = (
    "global_status",
    "global_variables",
    "info_schema.processlist",
    "info_schema.innodb_metrics",
)
FILES, MONITOR = "perf_schema.file_events", "engine_innodb_status"
"""As mysqld_exporter calls its collectors."""
MOST_WAITS = 50
"""500 connections that wait for one row made MariaDB 10.11 take 107 ms for INNODB_TRX, with its lock system
latched."""
STATES, TRANSACTIONS, HISTORY = "states", "info_schema.innodb_trx", "history"
SCANS = "perf_schema.index_io_waits"
ASLEEP, METADATA_LOCKS = "asleep", "metadata_locks"
ERRORS, XA = "perf_schema.events_errors", "xa_recover"
ORIGINS, PERSISTED = "variable_origins", "perf_schema.persisted_variables"
STATEMENTS, HISTOGRAM = "perf_schema.events_statements", "perf_schema.events_statements_histogram"

PROCESS, PERFORMANCE_SCHEMA = "PROCESS", "SELECT on performance_schema"
ACCOUNT = "SELECT CURRENT_USER()"
COMMENT, NUMBER = "SELECT @@version_comment LIMIT 1", "SELECT CONNECTION_ID() + 0"
"""Asked once, to tell a server from a proxy. ProxySQL itself answers the first, and passes on the second."""
NO_LSN_BEFORE = (8, 0, 30)
"""Older servers of MySQL have no status variable with the checkpoint's LSN."""
_PICOSECOND = 1e-12

Rows = Sequence[Sequence[Any]]


class Question(msgspec.Struct, frozen=True):
    """A question.

    Attributes:
        every_s: seconds between two of them, at least.
        forms: statements; a later one takes fewer privileges, or another version.
        most_waits: connections that wait for row locks, above which the first form is not asked: what the
            server does for its answer grows with them.
        only: while a connection waits for a metadata lock, or while a transaction is left prepared.
    """

    name: str
    every_s: float
    forms: tuple[str, ...]
    field: str
    parse: Callable[[Rows], Any]
    needs: str = ""
    latches: bool = False
    most_waits: float = math.inf
    only: Literal["always", "waits for metadata", "left prepared"] = "always"


class Threads(msgspec.Struct, frozen=True):
    """`seconds` are those of all these connections together; `in_transaction` is None where it cannot be
    seen."""

    user: str
    host: str
    command: str
    state: str
    count: int
    seconds: int
    oldest_s: int
    in_transaction: int | None = None


class Metric(msgspec.Struct, frozen=True):
    name: str
    subsystem: str
    kind: str
    comment: str
    count: float


class FileEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Since the server's start; `syncs` has other rare calls too, such as opens. Seconds are over all
    threads, None for writes that are not told."""

    syncs: int
    bytes_written: int
    sync_s: float = 0.0
    reads: int = 0
    read_s: float = 0.0
    write_s: float | None = None


class ThreadState(msgspec.Struct, frozen=True, gc=False):
    id: int
    command: str
    seconds: int
    state: str
    verb: str


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction of INNODB_TRX.

    Attributes:
        id: of the transaction; 0 if it is not told.
        thread: of the connection; 0 for none.
        prepared: between prepare and commit; INNODB_TRX tells only of transactions without a connection.
        state: host, user and state of the connection, as InnoDB's monitor prints them.
    """

    id: int = 0
    thread: int
    waits: bool
    idle: bool = False
    prepared: bool = False
    state: str = ""
    age_s: int
    rows_locked: int
    rows_modified: int

    @property
    def key(self) -> int:
        return self.thread or -self.id

    @property
    def is_left(self) -> bool:
        """Prepared by XA PREPARE, and nobody ends it now: a commit has its statement until it returns."""
        return self.prepared and (not self.thread or self.idle)


class MetadataLock(msgspec.Struct, frozen=True):
    thread: int
    kind: str
    granted: bool
    of: str


OriginKind = Literal["option file", "command line", "persisted", "SET", "computed", "environment", "default"]
_ORIGINS: Mapping[str, OriginKind] = {
    **dict.fromkeys(("GLOBAL", "SERVER", "EXPLICIT", "EXTRA", "USER", "LOGIN", "CONFIG"), "option file"),
    **dict.fromkeys(("COMMAND_LINE", "COMMAND-LINE"), "command line"),
    **dict.fromkeys(("DYNAMIC", "SQL"), "SET"),
    **dict.fromkeys(("COMPILED", "COMPILE-TIME"), "default"),
    "PERSISTED": "persisted",
    "AUTO": "computed",
    "ENV": "environment",
}
"""What MySQL and MariaDB call the sources of a value."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    kind: OriginKind
    path: str = ""
    account: str = ""
    at: str = ""


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _is_on(variables: Mapping[str, str], name: str) -> bool:
    return variables.get(name, "").upper() in ("ON", "1")


def parse_pairs(rows: Rows) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in rows}


# ---- who is connected, and what each connection does

_COLUMNS = ("USER", "HOST", "COMMAND", "STATE", "TIME")
_JOINED = "LEFT JOIN information_schema.INNODB_TRX x ON x.trx_mysql_thread_id ="


def _grouped(table: str, columns: Sequence[str], trx: str = "NULL", *, where: str) -> str:
    user, host, command, state = (f"COALESCE({name}, '')" for name in columns[:4])
    kinds = ", ".join((user, f"SUBSTRING_INDEX({host}, ':', 1)", command, state))
    counts = f"COUNT(*), COALESCE(SUM({columns[4]}), 0), COALESCE(MAX({columns[4]}), 0), {trx}"
    return f"SELECT {kinds}, {counts} FROM {table} WHERE {where} <> CONNECTION_ID() GROUP BY {kinds}"


def _threads(identity: ServerIdentity, *, instrumented: bool) -> tuple[str, ...]:
    listed = "information_schema.PROCESSLIST p"
    columns = [f"p.{name}" for name in _COLUMNS]
    plain = _grouped(listed, columns, where="p.ID")
    if identity.flavor != "mysql" or not instrumented:
        return (_grouped(f"{listed} {_JOINED} p.ID", columns, "COUNT(x.trx_id)", where="p.ID"), plain)
    columns = [f"t.PROCESSLIST_{name}" for name in _COLUMNS]
    of_users = "t.TYPE = 'FOREGROUND' AND t.PROCESSLIST_USER IS NOT NULL AND t.PROCESSLIST_ID"
    table = "performance_schema.threads t"
    joined = _grouped(f"{table} {_JOINED} t.PROCESSLIST_ID", columns, "COUNT(x.trx_id)", where=of_users)
    return (joined, _grouped(table, columns, where=of_users), plain)


def parse_threads(rows: Rows) -> tuple[Threads, ...]:
    return tuple(
        Threads(
            _text(user),
            _text(host),
            _text(command),
            _text(state),
            int(count),
            int(seconds),
            int(oldest),
            None if transactions is None else int(transactions),
        )
        for user, host, command, state, count, seconds, oldest, transactions in rows
    )


_VERB_LENGTH = 8
"""Characters of a statement that leave the server, at most: those of `rollback`."""
_AT_WORK = "({0}COMMAND <> 'Sleep' OR {0}TIME < 2)"
"""Or in the middle of it: a pool's others tell nothing."""
_ASLEEP = "{0}COMMAND = 'Sleep' ORDER BY {0}TIME DESC LIMIT 20"
LIVE_STATES_S = 0.25
"""Between two samples of connections of `watch`: half a minute has 120 of them."""


def _states(which: str, *, instrumented: bool) -> tuple[str, ...]:

    def connections(table: str, prefix: str, users: str) -> str:
        info = f"{prefix}INFO"
        start = f"LTRIM(LEFT({info}, 40))"
        # Many tools put a comment before each statement; one with ! is a statement.
        is_comment = f"LEFT({start}, 2) = '/*' AND SUBSTRING({start}, 3, 1) <> '!'"
        text = f"IF({is_comment}, SUBSTRING({info}, LOCATE('*/', {info}) + 2, 40), LEFT({info}, 40))"
        for space in "\n\r\t":
            text = f"REPLACE({text}, '{space}', ' ')"
        return (
            f"SELECT {prefix}ID, {prefix}COMMAND, {prefix}TIME, {prefix}STATE,"
            f" LEFT(LOWER(SUBSTRING_INDEX(LTRIM({text}), ' ', 1)), {_VERB_LENGTH}) FROM {table}"
            f" WHERE {users}{prefix}ID <> CONNECTION_ID() AND {which.format(prefix)}"
        )

    listed = connections("information_schema.PROCESSLIST", "", "")
    if not instrumented:
        return (listed,)
    return (connections("performance_schema.threads", "PROCESSLIST_", "TYPE = 'FOREGROUND' AND "), listed)


def parse_states(rows: Rows) -> tuple[ThreadState, ...]:
    return tuple(
        ThreadState(
            int(number), _text(command), int(seconds or 0), _text(state or ""), _text(verb or "").rstrip(";")
        )
        for number, command, seconds, state, verb in rows
    )


_METADATA = (
    *("metadata lock", "table level lock", "table flush"),
    *("global read lock", "commit lock", "backup lock", "binlog lock", "acl cache lock"),
)
"""Ends of these states (`MDL_key::m_namespace_to_wait_state_name` in mdl.cc, and the older table locks)."""


def waits_for_metadata(state: str) -> bool:
    return state.startswith("Waiting for ") and state.endswith(_METADATA)


# ---- locks and transactions

_OPEN_TRANSACTIONS = (
    "SELECT trx_mysql_thread_id, trx_state, TIMESTAMPDIFF(SECOND, trx_started, NOW()), trx_rows_locked,"
    " trx_rows_modified, trx_query IS NULL, trx_id FROM information_schema.INNODB_TRX"
    " ORDER BY trx_started LIMIT 20"
)
_LOCKS = (
    "SELECT t.PROCESSLIST_ID, m.LOCK_TYPE, m.LOCK_STATUS, m.OBJECT_TYPE, m.OBJECT_SCHEMA, m.OBJECT_NAME"
    " FROM (SELECT DISTINCT OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME FROM performance_schema.metadata_locks"
    " WHERE LOCK_STATUS = 'PENDING') p JOIN performance_schema.metadata_locks m"
    " ON m.OBJECT_TYPE = p.OBJECT_TYPE AND m.OBJECT_SCHEMA <=> p.OBJECT_SCHEMA"
    " AND m.OBJECT_NAME <=> p.OBJECT_NAME JOIN performance_schema.threads t"
    " ON t.THREAD_ID = m.OWNER_THREAD_ID WHERE t.PROCESSLIST_ID IS NOT NULL ORDER BY m.LOCK_STATUS LIMIT 100"
)
"""In MySQL 5.7 and MariaDB, the instrument of performance_schema.metadata_locks is off by default."""
_LOCK_INFO = (
    "SELECT THREAD_ID, LOCK_MODE, 'GRANTED', LOCK_TYPE, TABLE_SCHEMA, TABLE_NAME"
    " FROM information_schema.METADATA_LOCK_INFO"
    " WHERE LOCK_MODE NOT LIKE '%INTENTION%' AND LOCK_MODE NOT LIKE '%DML' LIMIT 100"
)
"""MariaDB's plugin, if it is loaded: granted locks only
(https://github.com/MariaDB/server/blob/10.11/plugin/metadata_lock_info/metadata_lock_info.cc)."""


def parse_transactions(rows: Rows) -> tuple[OpenTransaction, ...]:
    return tuple(
        OpenTransaction(
            id=int(number),
            thread=int(thread),
            waits=_text(state) == "LOCK WAIT",
            age_s=int(age or 0),
            rows_locked=int(locked),
            rows_modified=int(modified),
            idle=bool(idle),
            # InnoDB's own transactions, such as those of statistics, end at once.
            prepared=not int(thread) and _text(state) == "RUNNING",
        )
        for thread, state, age, locked, modified, idle, number in rows
    )


def parse_locks(rows: Rows) -> tuple[MetadataLock, ...]:
    """Metadata locks; MariaDB's plugin writes `MDL_SHARED_READ` and `Table metadata lock`."""
    locks = []
    for thread, kind, status, what, *names in rows:
        table = ".".join(_text(name) for name in names if name)
        of = f"{_text(what).lower().removesuffix(' metadata lock')} {table}".rstrip()
        is_granted = _text(status) == "GRANTED"
        locks.append(MetadataLock(int(thread), _text(kind).removeprefix("MDL_"), is_granted, of))
    return tuple(locks)


def parse_xids(rows: Rows) -> tuple[str, ...]:
    xids = []
    for form, first, second, data in rows:
        raw = data if isinstance(data, bytes) else str(data).encode()
        parts = [raw[: int(first)], raw[int(first) : int(first) + int(second)]]
        texts = [
            f"'{part.decode()}'" if re.fullmatch(rb"[\w.:/ @-]*", part) else f"X'{part.hex()}'"
            for part in parts
        ]
        xids.append(f"{','.join(texts)},{form}" if parts[1] or int(form) != 1 else texts[0])
    return tuple(xids)


# ---- what InnoDB and performance_schema count

FILE_CLASSES = {
    "wait/io/file/innodb/innodb_log_file": "redo",
    "wait/io/file/innodb/innodb_data_file": "data",
    "wait/io/file/sql/binlog": "binlog",
}
_FILES = (
    "SELECT EVENT_NAME, COUNT_MISC, SUM_NUMBER_OF_BYTES_WRITE, SUM_TIMER_MISC, COUNT_READ,"
    " SUM_TIMER_READ, SUM_TIMER_WRITE FROM performance_schema.file_summary_by_event_name"
    f" WHERE EVENT_NAME IN ({', '.join(map(repr, FILE_CLASSES))})"
)
_SCANS = (
    "SELECT OBJECT_SCHEMA, OBJECT_NAME, COUNT_FETCH, COUNT_UPDATE + COUNT_DELETE"
    " FROM performance_schema.table_io_waits_summary_by_index_usage"
    " WHERE INDEX_NAME IS NULL AND COUNT_UPDATE + COUNT_DELETE > 0 ORDER BY COUNT_FETCH DESC LIMIT 20"
)
_HISTORY = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'"
_ERRORS = (
    "SELECT ERROR_NAME, SUM_ERROR_RAISED FROM performance_schema.events_errors_summary_global_by_error"
    " WHERE SUM_ERROR_RAISED > 0 AND ERROR_NAME IS NOT NULL"
)


def _metrics(identity: ServerIdentity) -> tuple[str, ...]:
    select = "SELECT NAME, SUBSYSTEM, TYPE, COMMENT, COUNT FROM information_schema.INNODB_METRICS WHERE"
    forms = f"{select} STATUS = 'enabled'", f"{select} ENABLED = 1"
    return forms if identity.flavor == "mysql" else forms[::-1]


def parse_metrics(rows: Rows) -> tuple[Metric, ...]:
    return tuple(
        Metric(_text(name), _text(subsystem), _text(kind), _text(comment), float(count))
        for name, subsystem, kind, comment, count in rows
    )


def parse_files(rows: Rows) -> dict[str, FileEvents]:
    return {
        FILE_CLASSES[_text(name)]: FileEvents(
            syncs=int(syncs),
            bytes_written=int(written),
            sync_s=float(syncs_ps) * _PICOSECOND,
            reads=int(reads),
            read_s=float(reads_ps) * _PICOSECOND,
            write_s=float(writes_ps) * _PICOSECOND,
        )
        for name, syncs, written, syncs_ps, reads, reads_ps, writes_ps in rows
        if _text(name) in FILE_CLASSES
    }


def parse_scans(rows: Rows) -> dict[str, tuple[int, int]]:
    return {
        f"{_text(schema)}.{_text(name)}": (int(read), int(changed)) for schema, name, read, changed in rows
    }


def parse_errors(rows: Rows) -> dict[str, int]:
    return {_text(name): int(count) for name, count in rows}


def _parse_history(rows: Rows) -> int:
    return int(rows[0][0])


def _parse_innodb(rows: Rows) -> ServerSample:
    return parse_monitor(_text(rows[0][2]))


# ---- where values of variables came from

_ONCE_S = 86_400.0
_VARIABLES_INFO = (
    "SELECT VARIABLE_NAME, VARIABLE_SOURCE, VARIABLE_PATH, SET_USER, SET_HOST, SET_TIME"
    " FROM performance_schema.variables_info WHERE VARIABLE_SOURCE <> 'COMPILED'"
)
_PERSISTED = "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.persisted_variables"
_SYSTEM_VARIABLES = (
    "SELECT VARIABLE_NAME, GLOBAL_VALUE_ORIGIN, {path}, NULL, NULL, NULL"
    " FROM information_schema.SYSTEM_VARIABLES WHERE GLOBAL_VALUE_ORIGIN <> 'COMPILE-TIME'"
)


def _origins(identity: ServerIdentity) -> tuple[Question, ...]:
    if identity.flavor == "mariadb":
        forms = tuple(_SYSTEM_VARIABLES.format(path=path) for path in ("GLOBAL_VALUE_PATH", "NULL"))
        return (Question(ORIGINS, _ONCE_S, forms, "origins", parse_origins),)
    if identity.version < (8, 0):
        return ()
    return (
        Question(ORIGINS, _ONCE_S, (_VARIABLES_INFO,), "origins", parse_origins, PERFORMANCE_SCHEMA),
        Question(PERSISTED, _ONCE_S, (_PERSISTED,), "persisted", parse_pairs, PERFORMANCE_SCHEMA),
    )


def parse_origins(rows: Rows) -> dict[str, Origin]:
    origins = dict[str, Origin]()
    for name, source, path, user, host, at in rows:
        kind = _ORIGINS.get(_text(source), "computed")
        account = f"{_text(user)}@{_text(host)}" if user and host else ""
        if kind == "SET" and not account and at is not None:
            kind = "computed"  # MySQL itself, while it started
        origins[_text(name).lower()] = Origin(
            kind=kind,
            path=_text(path) if kind == "option file" and path is not None else "",
            account=account,
            at=str(at)[:19] if at is not None and kind == "SET" else "",
        )
    return origins


# ---- write statements: the server sums since its start, so only differences of two answers mean anything

EXECUTE = "com/Execute"
"""Prepared statements of the binary protocol, reads among them: servers do not count these by kind (seen on
MySQL 5.7.22, 8.0.15 and 9.7.4)."""
UNTOLD = frozenset((EXECUTE, "sql/execute_sql", "sql/call_procedure"))
"""Statements of any kind: prepared ones, and those of procedures."""
_KINDS = (
    *("sql/insert", "sql/insert_select", "sql/update", "sql/update_multi", "sql/delete", "sql/delete_multi"),
    *("sql/replace", "sql/replace_select", "sql/load", "sql/commit", "sql/xa_prepare", "sql/xa_commit"),
    *sorted(UNTOLD),
)
_STATEMENTS = (
    "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT, SUM_ERRORS"
    " FROM performance_schema.events_statements_summary_global_by_event_name"
    f" WHERE EVENT_NAME IN ({', '.join(repr(f'statement/{kind}') for kind in _KINDS)})"
)
HISTOGRAMS_SINCE = (8, 0, 3)
"""MySQL with performance_schema.events_statements_histogram_by_digest."""
_HISTOGRAM = (  # of the 50 write statements that are executed most: each has some hundred buckets
    "SELECT h.bucket_timer_high, SUM(h.count_bucket) FROM"
    " (SELECT schema_name, digest FROM performance_schema.events_statements_summary_by_digest"
    " WHERE digest_text REGEXP '^(INSERT|UPDATE|DELETE|REPLACE|COMMIT)( |$)'"
    " AND last_seen > NOW() - INTERVAL 1 HOUR ORDER BY count_star DESC LIMIT 50) AS s"
    " STRAIGHT_JOIN performance_schema.events_statements_histogram_by_digest AS h"
    " ON h.digest = s.digest AND h.schema_name <=> s.schema_name"
    " WHERE h.count_bucket > 0 GROUP BY h.bucket_timer_high"
)


def parse_statements(rows: Rows) -> tuple[dict[str, WrittenStatements], int]:
    sums, errors = dict[str, WrittenStatements](), 0
    for name, count, picoseconds, failed in rows:
        kind = _text(name).removeprefix("statement/")
        sums[kind] = WrittenStatements(count=int(count), seconds=float(picoseconds) * _PICOSECOND)
        errors += int(failed) if kind not in UNTOLD else 0
    return sums, errors


def parse_histogram(rows: Rows) -> dict[float, int]:
    """Statements so far by upper bound of their latency in microseconds."""
    return {round(float(high) * 1e-6, 3): int(count) for high, count in rows}


# ---- who asks what

FIRST_QUESTIONS = (Question(VARIABLES, 10.0, ("SHOW GLOBAL VARIABLES",), "variables", parse_pairs),)
"""Asked of a server of which nothing is known yet."""


def questions(identity: ServerIdentity, variables: Mapping[str, str]) -> tuple[Question, ...]:
    sees_threads = _is_on(variables, "performance_schema")
    threads = _threads(identity, instrumented=sees_threads)
    asked = [
        Question(STATUS, 1.0, ("SHOW GLOBAL STATUS",), "status", parse_pairs),
        *FIRST_QUESTIONS,
        Question(THREADS, 1.0, threads, "threads", parse_threads, PROCESS, most_waits=MOST_WAITS),
        Question(METRICS, 5.0, _metrics(identity), "metrics", parse_metrics, PROCESS),
    ]
    if sees_threads:
        asked.append(Question(FILES, 1.0, (_FILES,), "files", parse_files, PERFORMANCE_SCHEMA))
    if identity.flavor == "mysql" and identity.version < NO_LSN_BEFORE:
        forms = ("SHOW ENGINE INNODB STATUS",)
        asked.append(
            Question(
                MONITOR, 2.0, forms, "monitor", _parse_innodb, PROCESS, latches=True, most_waits=MOST_WAITS
            )
        )
    return tuple(asked)


def doctor_questions(identity: ServerIdentity, variables: Mapping[str, str]) -> tuple[Question, ...]:
    asked = [one for one in questions(identity, variables) if one.name not in (THREADS, METRICS)]
    states, *others = _of_connections(identity, variables, every_s=0.1)
    if _is_on(variables, "performance_schema"):
        others.append(Question(SCANS, 5.0, (_SCANS,), "scans", parse_scans, PERFORMANCE_SCHEMA))
    return (states, *asked, *others, *_origins(identity))


def live_questions(identity: ServerIdentity, variables: Mapping[str, str]) -> tuple[Question, ...]:
    connections = _of_connections(identity, variables, every_s=LIVE_STATES_S)
    return (*questions(identity, variables), *connections)


def load_questions(identity: ServerIdentity, variables: Mapping[str, str]) -> tuple[Question, ...]:
    names = (STATES, STATUS, VARIABLES, FILES)
    asked = [one for one in doctor_questions(identity, variables) if one.name in names]
    if _is_on(variables, "performance_schema"):
        needs = PERFORMANCE_SCHEMA
        asked.append(Question(STATEMENTS, 1.0, (_STATEMENTS,), "statements", parse_statements, needs))
        if identity.flavor == "mysql" and identity.version >= HISTOGRAMS_SINCE:
            asked.append(Question(HISTOGRAM, 1.0, (_HISTOGRAM,), "histogram", parse_histogram, needs))
    return tuple(asked)


def _of_connections(
    identity: ServerIdentity, variables: Mapping[str, str], *, every_s: float
) -> list[Question]:
    is_mysql, needs = identity.flavor == "mysql", PERFORMANCE_SCHEMA
    instrumented = is_mysql and _is_on(variables, "performance_schema")
    states, asleep = (_states(which, instrumented=instrumented) for which in (_AT_WORK, _ASLEEP))
    locks = (_LOCKS,) if is_mysql else (_LOCK_INFO, _LOCKS)
    asked = [
        Question(STATES, every_s, states, "states", parse_states, needs if instrumented else PROCESS),
        Question(
            TRANSACTIONS,
            5.0,
            (_OPEN_TRANSACTIONS,),
            "transactions",
            parse_transactions,
            PROCESS,
            latches=True,
            most_waits=MOST_WAITS,
        ),
        Question(XA, 5.0, ("XA RECOVER",), "xids", parse_xids, "XA_RECOVER_ADMIN", only="left prepared"),
        Question(ASLEEP, 0.5, asleep, "asleep", parse_states, only="waits for metadata"),
        Question(METADATA_LOCKS, 5.0, locks, "locks", parse_locks, only="waits for metadata"),
    ]
    if is_mysql:  # the others have a status variable
        asked.append(Question(HISTORY, 5.0, (_HISTORY,), "history", _parse_history, PROCESS))
    if instrumented and identity.version >= (8, 0):
        asked.append(Question(ERRORS, 10.0, (_ERRORS,), "errors", parse_errors, needs))
    return asked
