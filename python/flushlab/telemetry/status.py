"""Status counters that tell where writes went, and the state of InnoDB at one moment."""

from __future__ import annotations

import re
from collections.abc import Mapping

from flushlab.record import ServerSample
from flushlab.server.protocol import Server

COUNTERS = (
    "Binlog_bytes_written",
    "Binlog_commits",
    "Binlog_group_commits",
    "Bytes_received",
    "Com_commit",
    "Com_delete",
    "Com_insert",
    "Com_update",
    "Handler_commit",
    "Handler_update",
    "Innodb_buffer_pool_pages_flushed",
    "Innodb_buffer_pool_read_requests",
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_wait_free",
    "Innodb_data_fsyncs",
    "Innodb_data_writes",
    "Innodb_data_written",
    "Innodb_dblwr_pages_written",
    "Innodb_dblwr_writes",
    "Innodb_log_waits",
    "Innodb_log_write_requests",
    "Innodb_log_writes",
    "Innodb_os_log_fsyncs",
    "Innodb_os_log_written",
    "Innodb_pages_written",
    "Innodb_row_lock_waits",
    "Innodb_rows_inserted",
    "Innodb_rows_updated",
)
"""Cumulative counters, under their server's names; a server that lacks one leaves it out."""


def counters(server: Server) -> dict[str, int]:
    wanted = {name.lower(): name for name in COUNTERS}
    return {
        wanted[name.lower()]: int(value)
        for name, value in server.query("SHOW GLOBAL STATUS")
        if name.lower() in wanted and str(value).isdigit()
    }


def deltas(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in after if name in before}


_FIELDS = {
    "lsn": re.compile(r"^Log sequence number\s+(\d+)", re.MULTILINE),
    "checkpoint": re.compile(r"^Last checkpoint at\s+(\d+)", re.MULTILINE),
    "history": re.compile(r"^History list length (\d+)", re.MULTILINE),
    "dirty": re.compile(r"^Modified db pages\s+(\d+)", re.MULTILINE),
}


def innodb(server: Server) -> ServerSample:
    """Fields that this server does not tell are None; only differences of `redo_written_bytes` mean bytes."""
    reads = server.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_reads'")
    return parse_monitor(str(server.query("SHOW ENGINE INNODB STATUS")[0][2]), pool_reads=int(reads[0][1]))


def parse_monitor(text: str, *, pool_reads: int | None = None) -> ServerSample:
    found = {name: int(match[1]) for name, field in _FIELDS.items() if (match := field.search(text))}
    age = found["lsn"] - found["checkpoint"] if {"lsn", "checkpoint"} <= found.keys() else None
    return ServerSample(
        checkpoint_age_bytes=age,
        dirty_pages=found.get("dirty"),
        history_length=found.get("history"),
        pool_reads=pool_reads,
        redo_written_bytes=found.get("lsn"),
    )
