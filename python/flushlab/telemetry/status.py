"""Counters of SHOW GLOBAL STATUS that tell where writes went."""

from __future__ import annotations

from collections.abc import Mapping

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
    """The counters as they stand now."""
    wanted = {name.lower(): name for name in COUNTERS}
    return {
        wanted[name.lower()]: int(value)
        for name, value in server.query("SHOW GLOBAL STATUS")
        if name.lower() in wanted and str(value).isdigit()
    }


def deltas(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """What was counted in between, under the same names."""
    return {name: after[name] - before[name] for name in after if name in before}
