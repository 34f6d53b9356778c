"""Sources: outputs of the client for statements that read the server's state. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from flushlab.diagnosis.files.tables import Record, are, blocks, joined, results
from flushlab.diagnosis.files.told import Source, Told, whole
from flushlab.telemetry.live.questions import OpenTransaction, ThreadState

_COLUMNS = frozenset(("trx_id", "trx_state", "trx_started"))
_TS = re.compile(r"^TS \d+(?:\.\d+)? (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", re.MULTILINE)


def parse_transactions(text: str) -> Told:
    """The transactions of each moment; their age takes the moment's time. Both are in the machine's time
    zone, whatever the server's (field_store_time_t in https://github.com/mysql/mysql-server/blob/8.0/storage/innobase/handler/i_s.cc)."""
    return Told(
        transactions=tuple(
            tuple(_transactions(rows, now))
            for now, part in _moments(text)
            for rows in results(part, _COLUMNS)
        )
    )


def _moments(text: str) -> Iterator[tuple[datetime | None, str]]:
    """The text between two times, with the time above it; all of it where there is none."""
    times = list(_TS.finditer(text))
    if not times:
        yield None, text
    for match, following in itertools.zip_longest(times, times[1:]):
        yield _time(match[1]), text[match.end() : following.start() if following else None]


def _transactions(rows: list[Record], now: datetime | None) -> Iterator[OpenTransaction]:
    """Without a time, it is the newest that the rows have, or later."""
    texts = (row.get(name, "") for row in rows for name in ("trx_started", "trx_wait_started"))
    now = now or max(filter(None, map(_time, texts)), default=None)
    for row in rows:
        began, thread = _time(row["trx_started"]), whole(row.get("trx_mysql_thread_id", ""))
        age_s = (now - began).total_seconds() if now is not None and began is not None else 0.0
        yield OpenTransaction(
            id=whole(row["trx_id"]),
            thread=thread,
            waits=row["trx_state"] == "LOCK WAIT",
            idle=row.get("trx_query") == "NULL",
            prepared=not thread and row["trx_state"] == "RUNNING",
            age_s=max(0, int(age_s)),
            rows_locked=whole(row.get("trx_rows_locked", "")),
            rows_modified=whole(row.get("trx_rows_modified", "")),
        )


def _time(text: str) -> datetime | None:
    try:
        return datetime.strptime(text[:19], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None


TRANSACTIONS = Source(name="INNODB_TRX", marks=("trx_state",), parse=parse_transactions)


_PROCESSLIST_COLUMNS = frozenset(("id", "user", "command", "time", "state"))
_FIRST = re.compile(r"(?:\s+|/\*.{0,1000}?\*/|(?:--|#)[^\n]*\n)*+\(*(\w{1,20})", re.DOTALL)
"""Behind comments."""


def parse_processlist(text: str) -> Told:
    """The connections of each moment."""
    lists = [*results(text, _PROCESSLIST_COLUMNS)]
    return Told(
        moments=tuple(tuple(map(_state, rows)) for rows in lists),
        is_mariadb=any("progress" in rows[0] for rows in lists),
    )


def _state(row: Record) -> ThreadState:
    return ThreadState(
        id=whole(row["id"]),
        command=row.get("command", ""),
        seconds=whole(row.get("time", "")),
        state="" if row.get("state") == "NULL" else row.get("state", ""),
        verb=_verb(row.get("info", "")),
    )


def _verb(statement: str) -> str:
    """First word of a statement in small letters; empty for none."""
    found = _FIRST.match(statement)
    return found[1].lower() if found is not None and statement != "NULL" else ""


PROCESSLIST = Source(
    name="SHOW PROCESSLIST", marks=("Command:", "Command\t", "Command ", "COMMAND"), parse=parse_processlist
)


_ALWAYS = "uptime"
_USUAL = frozenset(
    (
        *("aborted_clients", "bytes_sent", "com_select", "com_insert", "connections", "handler_commit"),
        *("innodb_data_fsyncs", "innodb_buffer_pool_reads", "innodb_log_waits", "innodb_row_lock_waits"),
        *("questions", "threads_connected", "threads_running", "uptime"),
    )
)
_CONSTANT = "innodb_page_size"


def parse_status(text: str) -> Told:
    """The statuses of a text."""
    found = [block for block in blocks(text) if are(block, _USUAL)]
    if not found and (both := joined(text)) is not None:
        found = [block for block in both if are(block, _USUAL)]
    return Told(statuses=tuple(_absolute(found)), timeless=sum(_ALWAYS not in block for block in found))


def _absolute(blocks: Sequence[Mapping[str, str]]) -> Iterator[Mapping[str, str]]:
    """`mysqladmin --relative` prints differences after the first status: even the size of a page is 0."""
    sums: dict[str, str] = {}
    for block in blocks:
        is_relative = bool(sums) and sums.get(_CONSTANT, "0") != "0" and block.get(_CONSTANT) == "0"
        sums = (
            {name: _added(sums.get(name), text) for name, text in block.items()} if is_relative else {**block}
        )
        yield sums


def _added(before: str | None, difference: str) -> str:
    try:
        return str(int(before or "0") + int(difference))
    except ValueError:
        return before or difference


STATUS = Source(
    name="SHOW GLOBAL STATUS",
    marks=("Aborted_", "Com_", "Innodb_", "INNODB_", "Threads_"),
    parse=parse_status,
)


_VARIABLES_USUAL = frozenset(
    (
        *("datadir", "hostname", "innodb_buffer_pool_size", "innodb_flush_log_at_trx_commit"),
        *("max_connections", "server_uuid", "sync_binlog", "version"),
    )
)


def parse_variables(text: str) -> Told:
    """The lists of variables of a text."""
    return Told(variables=tuple(one for one in blocks(text) if are(one, _VARIABLES_USUAL)))


VARIABLES = Source(
    name="SHOW GLOBAL VARIABLES",
    marks=("innodb_", "max_connections", "version", "sync_binlog"),
    parse=parse_variables,
)


_NUMBER = r"(\d{1,2}\.\d{1,2}\.\d{1,3}[\w.:+~-]{0,80})"
_FORMS = (
    re.compile(rf"(?:^|/)(?:mysqld|mariadbd)\s+Ver {_NUMBER} for ", re.MULTILINE),
    re.compile(rf"^Server version:?\s+{_NUMBER}", re.MULTILINE),
    re.compile(rf"\A\W*(?:VERSION\(\)|@@version)?\W*{_NUMBER}\W*\Z"),
)
_MOST = 4096
"""Characters of a text that has not much else."""


def parse_version(text: str) -> Told:
    """The version, if the text is about it."""
    found = (form.search(text) for form in _FORMS) if len(text) <= _MOST else ()
    return Told(version=next((match[1] for match in found if match is not None), ""))


VERSION = Source(name="version", marks=(".",), parse=parse_version)
