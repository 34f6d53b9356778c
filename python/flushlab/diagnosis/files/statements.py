"""Sources: outputs of the client for statements that read the server's state. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from flushlab.diagnosis.files.tables import Record, are, blocks, joined, results
from flushlab.diagnosis.files.told import Told, whole
from flushlab.telemetry.live.questions import OpenTransaction, ThreadState

_TS = re.compile(r"^TS \d+(?:\.\d+)? (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", re.MULTILINE)


def parse_transactions(text: str) -> Told:
    """The transactions of each moment in information_schema.INNODB_TRX; their age takes the time above them.
    Both are in the machine's time zone, whatever the server's (field_store_time_t in
    https://github.com/mysql/mysql-server/blob/8.0/storage/innobase/handler/i_s.cc)."""
    times = list(_TS.finditer(text))
    ends = [*(match.start() for match in times[1:]), None]
    parts = [(_time(begin[1]), text[begin.end() : end]) for begin, end in zip(times, ends, strict=False)]
    columns = frozenset(("trx_id", "trx_state", "trx_started"))
    moments = ((rows, now) for now, part in parts or [(None, text)] for rows in results(part, columns))
    return Told(transactions=tuple(tuple(_transactions(rows, now)) for rows, now in moments))


def _transactions(rows: list[Record], now: datetime | None) -> Iterator[OpenTransaction]:
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


_VERB = re.compile(r"(?:\s+|/\*.{0,1000}?\*/|(?:--|#)[^\n]*\n)*+\(*(\w{1,20})", re.DOTALL)
"""First word of a statement, behind comments."""


def parse_processlist(text: str) -> Told:
    lists = [*results(text, frozenset(("id", "user", "command", "time", "state")))]
    return Told(
        moments=tuple(tuple(map(_state, rows)) for rows in lists),
        is_mariadb=any("progress" in rows[0] for rows in lists),
    )


def _state(row: Record) -> ThreadState:
    verb = _VERB.match(row.get("info", ""))
    return ThreadState(
        id=whole(row["id"]),
        command=row.get("command", ""),
        seconds=whole(row.get("time", "")),
        state="" if row.get("state") == "NULL" else row.get("state", ""),
        verb=verb[1].lower() if verb is not None and row.get("info") != "NULL" else "",
    )


_USUAL_STATUS = frozenset(
    (
        *("aborted_clients", "bytes_sent", "com_select", "com_insert", "connections", "handler_commit"),
        *("innodb_data_fsyncs", "innodb_buffer_pool_reads", "innodb_log_waits", "innodb_row_lock_waits"),
        *("questions", "threads_connected", "threads_running", "uptime"),
    )
)


def parse_status(text: str) -> Told:
    told = [block for block in blocks(text) if are(block, _USUAL_STATUS)]
    if not told and (both := joined(text)) is not None:
        told = [block for block in both if are(block, _USUAL_STATUS)]
    return Told(statuses=tuple(_absolute(told)), timeless=sum("uptime" not in block for block in told))


def _absolute(blocks: Sequence[Mapping[str, str]]) -> Iterator[Mapping[str, str]]:
    """`mysqladmin --relative` prints differences after the first status: even the size of a page is 0."""
    sums, page = dict[str, str](), "innodb_page_size"
    for block in blocks:
        is_relative = sums.get(page, "0") != "0" and block.get(page) == "0"
        sums = {name: _sum(sums.get(name), text) if is_relative else text for name, text in block.items()}
        yield sums


def _sum(before: str | None, difference: str) -> str:
    try:
        return str(int(before or "0") + int(difference))
    except ValueError:
        return before or difference


_USUAL_VARIABLES_STATUS = frozenset(
    (
        *("datadir", "hostname", "innodb_buffer_pool_size", "innodb_flush_log_at_trx_commit"),
        *("max_connections", "server_uuid", "sync_binlog", "version"),
    )
)


_USUAL_VARIABLES = frozenset(
    (
        *("datadir", "hostname", "innodb_buffer_pool_size", "innodb_flush_log_at_trx_commit"),
        *("max_connections", "server_uuid", "sync_binlog", "version"),
    )
)


def parse_variables(text: str) -> Told:
    return Told(variables=tuple(one for one in blocks(text) if are(one, _USUAL_VARIABLES)))


_NUMBER = r"(\d{1,2}\.\d{1,2}\.\d{1,3}[\w.:+~-]{0,80})"
_VERSIONS = (
    re.compile(rf"(?:^|/)(?:mysqld|mariadbd)\s+Ver {_NUMBER} for ", re.MULTILINE),
    re.compile(rf"^Server version:?\s+{_NUMBER}", re.MULTILINE),
    re.compile(rf"\A\W*(?:VERSION\(\)|@@version)?\W*{_NUMBER}\W*\Z"),
)


def parse_version(text: str) -> Told:
    """The server's version, in a text of not much else: `mysqld --version`, SELECT VERSION(), the client's
    status. `mysql --version` is that of a client."""
    matches = (form.search(text) for form in _VERSIONS) if len(text) <= 4096 else ()
    return Told(version=next((match[1] for match in matches if match is not None), ""))
