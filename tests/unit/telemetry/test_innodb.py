from flushlab.telemetry.status import parse_monitor

# SHOW ENGINE INNODB STATUS, the parts that matter, as the servers print them.
MARIADB_10_11 = """
------------
TRANSACTIONS
------------
Trx id counter 60731
Purge done for trx's n:o < 60731 undo n:o < 0 state: running but idle
History list length 17
---
LOG
---
Log sequence number 52961234
Log flushed up to   52961000
Pages flushed up to 46981
Last checkpoint at  46969
----------------------
BUFFER POOL AND MEMORY
----------------------
Total large memory allocated 167772160
Free buffers       6700
Database pages     1328
Modified db pages  1017
"""
MYSQL_5_7 = """
History list length 3
---
LOG
---
Log sequence number 12219480
Log flushed up to   12219480
Pages flushed up to 12219480
Last checkpoint at  12219471
0 pending log flushes, 0 pending chkp writes
----------------------
BUFFER POOL AND MEMORY
----------------------
Database pages     2511
Modified db pages  0
"""


def test_mariadb_tells_everything() -> None:
    sample = parse_monitor(MARIADB_10_11, pool_reads=5)
    assert sample.checkpoint_age_bytes == 52961234 - 46969
    assert (sample.history_length, sample.dirty_pages, sample.pool_reads) == (17, 1017, 5)
    assert sample.redo_written_bytes == 52961234


def test_mysql_tells_everything() -> None:
    sample = parse_monitor(MYSQL_5_7)
    assert (sample.checkpoint_age_bytes, sample.history_length, sample.dirty_pages) == (9, 3, 0)


def test_what_a_server_does_not_tell_is_none_not_zero() -> None:
    sample = parse_monitor("Log sequence number 10\n")
    assert (sample.redo_written_bytes, sample.checkpoint_age_bytes, sample.dirty_pages) == (10, None, None)
