"""Outputs of clients and collectors, made up: the forms are theirs, the figures are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.diagnosis.files.folder import FoundFiles, tell
from flushlab.diagnosis.files.samples import evidence_of

STATUS = {
    "Aborted_clients": 3,
    "Bytes_received": 100_000,
    "Com_insert": 500,
    "Com_select": 700,
    "Com_update": 0,
    "Connections": 40,
    "Handler_commit": 510,
    "Innodb_buffer_pool_wait_free": 0,
    "Innodb_data_read": 4096,
    "Innodb_data_written": 8_000_000,
    "Innodb_log_waits": 0,
    "Innodb_os_log_written": 700_000,
    "Innodb_page_size": 16384,
    "Innodb_row_lock_current_waits": 0,
    "Innodb_row_lock_time": 0,
    "Innodb_row_lock_waits": 0,
    "Queries": 1300,
    "Questions": 1300,
    "Threads_connected": 5,
    "Threads_running": 2,
    "Uptime": 1000,
}
VARIABLES = {
    "datadir": "/data/",
    "hostname": "db1",
    "innodb_buffer_pool_size": "134217728",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_redo_log_capacity": "104857600",
    "log_bin": "ON",
    "max_connections": "151",
    "port": "3306",
    "server_uuid": "6a1c0f44-0000-11f0-8000-000000000001",
    "sync_binlog": "1",
    "version": "8.0.40",
    "version_comment": "MySQL Community Server - GPL",
}


def status(seconds: int = 0, **more: int) -> dict[str, str]:
    """A status so many seconds after the first, with these counters grown."""
    grown = {**STATUS, "Uptime": STATUS["Uptime"] + seconds}
    return {name: str(value + more.get(name, 0)) for name, value in grown.items()}


def tabs(pairs: Mapping[str, str], head: bool = True) -> str:
    """As `mysql --batch` prints them."""
    rows = [("Variable_name", "Value")] if head else []
    return "".join(f"{name}\t{value}\n" for name, value in [*rows, *pairs.items()])


def box(pairs: Mapping[str, str]) -> str:
    """As `mysqladmin extended-status` prints them."""
    border = f"+{'-' * 45}+{'-' * 30}+\n"
    rows = [("Variable_name", "Value"), *pairs.items()]
    lines = [f"| {name:<43} | {value:<28} |\n" for name, value in rows]
    return "".join([border, lines[0], border, *lines[1:], border])


def vertical(records: Sequence[Mapping[str, str]]) -> str:
    """As \\G prints rows."""
    parts = []
    for number, row in enumerate(records, start=1):
        parts.append(f"{'*' * 27} {number}. row {'*' * 27}\n")
        parts += [f"{name:>14}: {value}\n" for name, value in row.items()]
    return "".join(parts)


def vertical_pairs(pairs: Mapping[str, str]) -> str:
    """As \\G prints variables."""
    return vertical([{"Variable_name": name, "Value": value} for name, value in pairs.items()])


def connection(one: int, command: str, seconds: int, state: str, info: str = "NULL") -> dict[str, str]:
    return {
        "Id": str(one),
        "User": "app",
        "Host": "10.0.0.5:40000",
        "db": "shop",
        "Command": command,
        "Time": str(seconds),
        "State": state,
        "Info": info,
    }


def processlists(moments: Sequence[Sequence[Mapping[str, str]]]) -> str:
    """As pt-stalk collects them."""
    return "".join(
        f"TS {1_767_225_600 + at}.001 2026-01-01 00:00:{at:02}\n{vertical(rows)}"
        for at, rows in enumerate(moments)
    )


MYSQL80_INNODB = """\
*************************** 1. row ***************************
  Type: InnoDB
  Name:
Status:
=====================================
2026-01-01 00:00:10 139999 INNODB MONITOR OUTPUT
=====================================
Per second averages calculated from the last 12 seconds
----------
SEMAPHORES
----------
OS WAIT ARRAY INFO: reservation count 9
--Thread 140001 has waited at buf0lru.cc line 1300 for 2 seconds the semaphore:
Mutex at 0x7f00, Mutex BUF_POOL_FREE_LIST created buf0buf.cc:1200, lock var 1
--Thread 140002 has waited at btr0cur.cc line 970 for 0 seconds the semaphore:
X-lock on RW-latch at 0x7f01 created in file dict0dict.cc line 2300
a writer (thread id 140003) has reserved it in mode  exclusive
------------------------
LATEST DETECTED DEADLOCK
------------------------
*** (1) TRANSACTION:
TRANSACTION 7000, ACTIVE 900 sec starting index read
LOCK WAIT 3 lock struct(s), heap size 1128, 2 row lock(s)
MySQL thread id 99, OS thread handle 1, query id 2 10.0.0.5 app updating
------------
TRANSACTIONS
------------
Trx id counter 9001
Purge done for trx's n:o < 9000 undo n:o < 0 state: running but idle
History list length 321
LIST OF TRANSACTIONS FOR EACH SESSION:
---TRANSACTION 4211, not started
0 lock struct(s), heap size 1128, 0 row lock(s)
---TRANSACTION 9000, ACTIVE 3 sec starting index read
mysql tables in use 1, locked 1
LOCK WAIT 2 lock struct(s), heap size 1128, 1 row lock(s)
MySQL thread id 8, OS thread handle 1400, query id 77 10.0.0.5 app updating
UPDATE stock SET n = n - 1 WHERE id = 1
------- TRX HAS BEEN WAITING 3 SEC FOR THIS LOCK TO BE GRANTED:
RECORD LOCKS space id 2 page no 4 n bits 72 index PRIMARY of table `shop`.`stock`
------------------
---TRANSACTION 8990, ACTIVE 45 sec
3 lock struct(s), heap size 1128, 17 row lock(s), undo log entries 12
MySQL thread id 7, OS thread handle 1401, query id 70 10.0.0.5 app
---TRANSACTION 8999, ACTIVE (PREPARED) 2 sec
2 lock struct(s), heap size 1128, 1 row lock(s), undo log entries 1
MySQL thread id 9, OS thread handle 1402, query id 78 10.0.0.5 app waiting for handler commit
COMMIT
--------
FILE I/O
--------
Pending normal aio reads: [2, 0, 1, 0] , aio writes: [30, 0, 0, 0] ,
 ibuf aio reads:, log i/o's:
Pending flushes (fsync) log: 1; buffer pool: 4
---
LOG
---
Log sequence number          96000000
Log buffer assigned up to    96000000
Log written up to            96000000
Log flushed up to            95000000
Pages flushed up to          10000000
Last checkpoint at           6000000
----------------------
BUFFER POOL AND MEMORY
----------------------
Buffer pool size   8192
Free buffers       1
Modified db pages  6000
Pending writes: LRU 0, flush list 0, single page 2
--------------
ROW OPERATIONS
--------------
1 read views open inside InnoDB
Number of rows inserted 58153, updated 16, deleted 0, read 428801
12.50 inserts/s, 1.50 updates/s, 0.00 deletes/s, 9.80 reads/s
----------------------------
END OF INNODB MONITOR OUTPUT
============================
"""

MYSQL51_INNODB = """\
=====================================
100904 10:24:51 INNODB MONITOR OUTPUT
=====================================
Per second averages calculated from the last 34 seconds
---
LOG
---
Log sequence number 1 64909
Log flushed up to   1 64909
Last checkpoint at  1 60000
--------------
ROW OPERATIONS
--------------
0 queries inside InnoDB, 0 queries in queue
0.00 inserts/s, 0.00 updates/s, 0.00 deletes/s, 0.00 reads/s
------------
TRANSACTIONS
------------
History list length 11
LIST OF TRANSACTIONS FOR EACH SESSION:
---TRANSACTION 0 907, ACTIVE 35 sec, process no 78, OS thread id 30
2 lock struct(s), heap size 320, 3 row lock(s)
MySQL thread id 1, query id 29 localhost 127.0.0.1 root
----------------------------
END OF INNODB MONITOR OUTPUT
============================
"""

MARIADB_INNODB = (
    """\
=====================================
2026-01-01  0:00:10 0x7f InnoDB MONITOR OUTPUT
""".replace("InnoDB", "INNODB")
    + """\
=====================================
Per second averages calculated from the last 5 seconds
------------
TRANSACTIONS
------------
History list length 7
LIST OF TRANSACTIONS FOR EACH SESSION:
---TRANSACTION 55, ACTIVE 1 sec inserting
1 lock struct(s), heap size 1128, 0 row lock(s), undo log entries 40
MariaDB thread id 12, OS thread handle 1, query id 4 localhost root Update
---
LOG
---
Log sequence number 52000000
Log flushed up to   52000000
Pages flushed up to 42000000
Last checkpoint at  42000000
Checkpoint age target 80000000
----------------------
BUFFER POOL AND MEMORY
----------------------
Buffer pool size   8064
--------------
ROW OPERATIONS
--------------
0 read views open inside InnoDB
----------------------------
END OF INNODB MONITOR OUTPUT
============================
"""
)

SCRAPE = """\
# HELP mysql_global_status_commands_total Total number of executed MySQL commands.
# TYPE mysql_global_status_commands_total counter
mysql_global_status_commands_total{command="insert"} 500
mysql_global_status_handlers_total{handler="commit"} 510
mysql_global_status_innodb_row_ops_total{operation="inserted"} 900
mysql_global_status_buffer_pool_pages{state="free"} 12
mysql_global_status_buffer_pool_dirty_pages 30
mysql_global_status_innodb_data_written 1.234567e+07
mysql_global_status_threads_running 2
mysql_global_status_uptime 1000
mysql_global_variables_innodb_buffer_pool_size 1.34217728e+08
mysql_global_variables_innodb_flush_log_at_trx_commit 1
mysql_global_variables_log_bin 1
mysql_global_variables_sync_binlog 1
mysql_info_schema_innodb_metrics_transaction_trx_rseg_history_len 44
mysql_perf_schema_file_events_total{event_name="wait/io/file/sql/binlog",mode="misc"} 200
mysql_perf_schema_file_events_seconds_total{event_name="wait/io/file/sql/binlog",mode="misc"} 0.4
mysql_up 1
mysql_version_info{innodb_version="8.0.40",version="8.0.40",version_comment="MySQL Community \\"GPL\\""} 1
"""


def found_files(**texts: str) -> FoundFiles:
    """A folder whose files tell these texts."""
    return FoundFiles(key="/tickets/1", files={name: tell(text) for name, text in texts.items()})


def diagnosis(**texts: str) -> Diagnosis:
    return diagnose(evidence_of(found_files(**texts)))
