"""Outputs of real servers that hang, as they printed them; parts that tell nothing here are left out.

The commits are stuck because their file system was stopped.
"""

from __future__ import annotations

from tests.unit.diagnosis.files.outputs import connection

_FRAME = """\
*************************** 1. row ***************************
  Type: InnoDB
  Name: 
Status: 
=====================================
2026-11-29 06:38:33 0x7efcb40876c0 INNODB MONITOR OUTPUT
=====================================
Per second averages calculated from the last 5 seconds
----------
SEMAPHORES
----------
OS WAIT ARRAY INFO: reservation count 6
------------
TRANSACTIONS
------------
Trx id counter 1295
Purge done for trx's n:o < 1292 undo n:o < 0 state: running but idle
History list length 2
LIST OF TRANSACTIONS FOR EACH SESSION:
---TRANSACTION 421099198953296, not started
0 lock struct(s), heap size 1136, 0 row lock(s)
{transactions}--------
FILE I/O
--------
Pending normal aio reads: [0, 0, 0, 0] , aio writes: [0, 0, 0, 0] ,
 ibuf aio reads:, log i/o's:, sync i/o's:
{pending}
---
LOG
---
{log}
----------------------
BUFFER POOL AND MEMORY
----------------------
Buffer pool size   8192
Free buffers       7873
Modified db pages  65
Pending reads      0
Pending writes: LRU 0, flush list 2, single page 0
--------------
ROW OPERATIONS
--------------
0 read views open inside InnoDB
{main}
----------------------------
END OF INNODB MONITOR OUTPUT
============================

"""  # noqa: W291 - as it is printed
_IDLE = {
    "pending": "Pending flushes (fsync) log: 0; buffer pool: 0",
    "log": "Log sequence number 2599463\nLog flushed up to   2599463\nLast checkpoint at  2589156",
    "main": "Process ID=19421, Main thread ID=139623855122112, state: sleeping\n"
    "0.00 inserts/s, 0.00 updates/s, 0.00 deletes/s, 2.20 reads/s",
}

STUCK_MYSQL57 = _FRAME.format(
    transactions="""\
---TRANSACTION 1294, ACTIVE (PREPARED) 4 sec
mysql tables in use 1, locked 1
2 lock struct(s), heap size 1136, 1 row lock(s), undo log entries 1
MySQL thread id 8, OS thread handle 139623817582272, query id 34 localhost flushlab query end
UPDATE t SET n=n+1 WHERE id=3
---TRANSACTION 1293, ACTIVE (PREPARED) 264 sec
2 lock struct(s), heap size 1136, 1 row lock(s), undo log entries 1
MySQL thread id 7, OS thread handle 139623817852608, query id 33 localhost flushlab starting
COMMIT
""",
    pending="Pending flushes (fsync) log: 1; buffer pool: 0",
    log="Log sequence number 2599463\nLog flushed up to   2596311\nLast checkpoint at  2589156\n"
    "1 pending log flushes, 0 pending chkp writes",
    main="0 queries inside InnoDB, 0 queries in queue\n"
    "Process ID=19421, Main thread ID=139623855122112, state: flushing log\n"
    "0.00 inserts/s, 0.00 updates/s, 0.00 deletes/s, 2.20 reads/s",
)
STUCK_MARIADB = _FRAME.format(
    transactions="""\
---TRANSACTION 24, ACTIVE (PREPARED) 264 sec preparing
2 lock struct(s), heap size 1128, 1 row lock(s), undo log entries 1
MariaDB thread id 9, OS thread handle 140550096754368, query id 29 localhost flushlab Commit
COMMIT
""",
    pending="Pending flushes (fsync): 0",
    log="Log sequence number 49221\nLog flushed up to   47970\nPages flushed up to 44404\n"
    "Last checkpoint at  44388",
    main="state: flushing log",
)
STUCK_WITHOUT_BINLOG = _FRAME.format(
    transactions="""\
---TRANSACTION 421542443405824, not started flushing log
mysql tables in use 1, locked 1
0 lock struct(s), heap size 1136, 0 row lock(s)
---TRANSACTION 421542443404912, not started flushing log
0 lock struct(s), heap size 1136, 0 row lock(s)
""",
    pending="Pending flushes (fsync) log: 1; buffer pool: 0",
    log="Log sequence number          18991663\nLog flushed up to            18989063\n"
    "Last checkpoint at           18989063",
    main="Process ID=18886, Main thread ID=140066958489280 , state=sleeping",
)
XA_RECOVERED = _FRAME.format(
    transactions="""\
---TRANSACTION 1614, ACTIVE (PREPARED) 86400 sec recovered trx
37 lock struct(s), heap size 3488, 5023 row lock(s), undo log entries 5022
---TRANSACTION 1615, ACTIVE (PREPARED) 90 sec recovered trx
3 lock struct(s), heap size 1136, 1 row lock(s), undo log entries 2
""",
    **_IDLE,
)
"""MySQL 5.7.22 and 8.0.15, MariaDB 10.11.19; MySQL 9.7.4 prints no `recovered trx` until it starts anew."""
XA_CONNECTED = _FRAME.format(
    transactions="""\
---TRANSACTION 1614, ACTIVE (PREPARED) 30 sec
3 lock struct(s), heap size 1136, 1 row lock(s), undo log entries 2
MySQL thread id 30, OS thread handle 139723920701120, query id 128 localhost flushlab
""",
    **_IDLE,
)
WAITS_FOR_XA = _FRAME.format(
    transactions="""\
---TRANSACTION 2066, ACTIVE 45 sec starting index read
mysql tables in use 1, locked 1
LOCK WAIT 2 lock struct(s), heap size 1136, 1 row lock(s)
MySQL thread id 9, OS thread handle 140515145475776, query id 20 localhost flushlab updating
UPDATE t SET n=n+1 WHERE id=1
------- TRX HAS BEEN WAITING 2 SEC FOR THIS LOCK TO BE GRANTED:
RECORD LOCKS space id 2 page no 4 n bits 72 index PRIMARY of table `app`.`t` trx id 2066 lock_mode X
------------------
---TRANSACTION 1614, ACTIVE (PREPARED) 90 sec recovered trx
3 lock struct(s), heap size 1136, 1 row lock(s), undo log entries 2
""",
    **_IDLE,
)

BEHIND_DDL = [
    connection(8, "Sleep", 5, ""),
    connection(9, "Sleep", 771, ""),
    connection(10, "Query", 770, "Waiting for table metadata lock", "ALTER TABLE t ADD COLUMN x INT"),
    *(
        connection(number, "Query", 769, "Waiting for table metadata lock", "SELECT * FROM t WHERE id=1")
        for number in range(11, 31)
    ),
    connection(31, "Query", 0, "starting", "SHOW FULL PROCESSLIST"),
]
"""MySQL 8.0.15; MariaDB and the others have the same states."""
STOPPED_MYSQL = [
    connection(8, "Sleep", 110, ""),
    connection(19, "Query", 30, "Waiting for commit lock", "COMMIT"),
    connection(20, "Sleep", 31, ""),
    connection(21, "Query", 30, "Waiting for global read lock", "UPDATE t SET n=n+1 WHERE id=1"),
    connection(22, "Query", 30, "Waiting for global read lock", "CREATE TABLE zz (i INT)"),
    connection(24, "Query", 0, "starting", "SHOW FULL PROCESSLIST"),
]
STOPPED_MARIADB = [
    {**row, "Progress": "0.000"}
    for row in (
        connection(18, "Query", 30, "Waiting for backup lock", "COMMIT"),
        connection(19, "Sleep", 31, ""),
        connection(20, "Query", 30, "Waiting for backup lock", "UPDATE t SET n=n+1 WHERE id=1"),
        connection(23, "Query", 0, "starting", "SHOW FULL PROCESSLIST"),
    )
]
ALTERS = [
    connection(22, "Query", 95, "altering table", "ALTER TABLE big FORCE, ALGORITHM=INPLACE"),
    connection(23, "Sleep", 1, ""),
]
