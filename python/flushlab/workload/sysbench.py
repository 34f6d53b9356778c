"""What somebody who knows sysbench may ask for, and what stands in its place here. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_CONNECTION = "flushlab starts the server itself: choose it with --server"

NOT_TAKEN: Mapping[str, str] = {
    "time": "the length of the measurement is --duration; of a window, in tune, series and plans: window",
    "events": "a measurement has a length in seconds: --duration or --window",
    "warmup_time": "flushlab warms up until throughput is level",
    "percentile": "p50, p95, p99, p99.9 and the maximum are always reported",
    "histogram": "p50, p95, p99, p99.9 and the maximum are always reported; --json has them",
    "report_interval": "the throughput of each second is in --json under per_second",
    "report_checkpoints": "the throughput of each second is in --json under per_second",
    "rand_seed": "the generators have a fixed seed: the same rows and draws every time",
    "validate": "every response is checked; errors are counted by number",
    "forced_shutdown": "a load ends at the end of its window",
    "thread_init_timeout": "connections that cannot be made are reported at once",
    "thread_stack_size": "there is no stack per connection to size",
    "debug": "errors are reported with their numbers and messages",
    "verbosity": "data goes to stdout, progress to stderr",
    "luajit_cmd": "Lua is not supported; use --workload txn:FILE, or 'command: sysbench …'",
    "db_driver": "flushlab supports only MySQL and MariaDB",
    "db_ps_mode": "statements are prepared, as sysbench does by default",
    "db_debug": "errors are reported with their numbers and messages",
    "mysql_host": _CONNECTION,
    "mysql_port": _CONNECTION,
    "mysql_socket": _CONNECTION,
    "mysql_user": _CONNECTION,
    "mysql_password": _CONNECTION,
    "mysql_db": "OLTP tables are in the database sbtest",
    "mysql_ssl": _CONNECTION,
    "mysql_ssl_cipher": _CONNECTION,
    "mysql_ssl_key": _CONNECTION,
    "mysql_ssl_cert": _CONNECTION,
    "mysql_ssl_ca": _CONNECTION,
    "mysql_compression": "the protocol is not compressed",
    "mysql_debug": "errors are reported with their numbers and messages",
    "mysql_dry_run": "flushlab always asks a real server",
    "mysql_ignore_errors": "1213, 1020 and 1205 are ignored and counted; txn:FILE can name others",
    "mysql_storage_engine": "flushlab measures InnoDB tables",
    "pgsql_variant": "flushlab supports only MySQL and MariaDB",
}
"""Options of sysbench that no workload takes, as a plan would spell them, and the way out."""
