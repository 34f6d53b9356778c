"""What servers told, cut short: pasted from real ones."""

from __future__ import annotations

from typing import Any

from flushlab.record import ServerIdentity
from flushlab.telemetry.live.questions import FileEvents, parse_metrics, parse_threads
from flushlab.telemetry.live.status import ServerStatus

MARIADB = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB-0+deb12u1")
MYSQL57 = ServerIdentity(flavor="mysql", version=(5, 7, 22), version_text="5.7.22")
MYSQL97 = ServerIdentity(flavor="mysql", version=(9, 7, 4), version_text="9.7.4")

STATUS = {
    "uptime": "100",
    "questions": "1000",
    "com_commit": "400",
    "handler_write": "12",
    "connection_errors_accept": "0",
    "innodb_rows_inserted": "50",
    "innodb_buffer_pool_pages_data": "300",
    "innodb_buffer_pool_pages_dirty": "20",
    "innodb_buffer_pool_pages_free": "80",
    "innodb_buffer_pool_pages_flushed": "7",
    "innodb_buffer_pool_pages_total": "400",
    "innodb_row_lock_current_waits": "2",
    "innodb_row_lock_waits": "5",
    "ssl_server_not_after": "Nov  9 10:40:13 2036 GMT",
    "rsa_public_key": "-----BEGIN PUBLIC KEY-----",
    "innodb_redo_log_enabled": "ON",
    "performance_schema_users_lost": "0",
}
VARIABLES = {
    "version": "9.7.4",
    "version_comment": "MySQL Community Server - GPL",
    "innodb_version": "9.7.4",
    "transaction_isolation": "REPEATABLE-READ",
    "innodb_redo_log_capacity": "104857600",
    "wait_timeout": "28800",
    "max_connections": "151",
    "log_bin_basename": "/data/mysql-bin",
    "long_query_time": "10.000000",
    "sql_mode": "",
}
THREADS = [
    ("app", "10.0.0.5", "Sleep", "", 120, 9000, 300, 2),
    ("app", "10.0.0.5", "Query", "Sending to client; a.b (c)", 3, 9, 4, 1),
    ("event_scheduler", "localhost", "Daemon", "Waiting on empty queue", 1, 77, 77, 0),
]
METRICS = [
    ("buffer_pool_pages_total", "buffer", "value", "Total buffer pool pages", 400),
    ("buffer_pool_pages_dirty", "buffer", "value", "Dirty pages", 20),
    ("buffer_pool_pages_data", "buffer", "value", "Data pages", 300),
    ("buffer_pool_reads", "buffer", "status_counter", "Reads from disk", 12),
    ("buffer_page_written_undo_log", "buffer_page_io", "counter", "Undo pages written", 9),
    ("trx_rseg_history_len", "transaction", "value", "Length of the history list", 5),
]


def seen(identity: ServerIdentity = MYSQL97, **more: Any) -> ServerStatus:
    facts: dict[str, Any] = {
        "key": "one",
        "identity": identity,
        "at_s": 10.0,
        "status": STATUS,
        "variables": VARIABLES,
        "threads": parse_threads(THREADS),
        "metrics": parse_metrics(METRICS),
        "files": {"binlog": FileEvents(syncs=10, bytes_written=1000)},
    }
    return ServerStatus(**(facts | more))
