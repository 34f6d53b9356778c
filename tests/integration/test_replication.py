"""A real source serves files written here, and a real replica applies them to the rows that were meant."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flushlab.server import Sandbox
from tests.integration.binlog_files import binlogs, check, counted, write_sample
from tests.integration.commit_path import Row, images, run
from tests.integration.replication import MariadbPair, MysqlPair, Pair

MARIADB = "10.11.19-MariaDB-log"
SAMPLE_UUID = "666c7573-686c-6162-2d73-616d706c6521"

StartSandbox = Callable[..., Sandbox]


@pytest.fixture(scope="module")
def mysql(shared_sandbox: StartSandbox) -> MysqlPair:
    return MysqlPair(shared_sandbox)


@pytest.fixture(scope="module")
def mariadb(shared_sandbox: StartSandbox) -> MariadbPair:
    return MariadbPair(shared_sandbox)


USUAL = (
    "11,-1,255,-2,65535,-3,16777215,-4,4294967295,-5,18446744073709551615,1.5,-2.25,-12345.67,"
    "-12345678901234567890.123456789,99999,0.123456789,2026,'2026-11-21','-12:34:56','12:34:56.789',"
    "'-838:59:58.999999','2026-11-21 01:02:03','2026-11-21 01:02:03.4','2026-11-21 01:02:03.456789',"
    "FROM_UNIXTIME(1795222923),FROM_UNIXTIME(1795222923.45),FROM_UNIXTIME(1795222923.456789),"
    "'abc','a long char','lat','ab','vär','v300','vb','tb','tt','bl','te','mb','mt','lb','lt',"
    "%s,'b','x,z',1,b'101010101',b'1111000011110000'"
)
ZERO = (
    "12,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,'0000-00-00',0,0,'-00:00:00.000001',0,0,0,FROM_UNIXTIME(1),NULL,"
    "FROM_UNIXTIME(1),'','','','','','','','','','','','','','','','[]','a','',0,0,0"
)
EXTREME = (
    "13,-128,1,-32768,1,-8388608,1,-2147483648,1,-9223372036854775808,1,-1e30,1e300,99999999.99,"
    "12345678901234567890123456789012345.123456789012345678901234567890,1,-0.000000001,1901,'9999-12-31',"
    "'838:59:59','-00:00:00.500','00:00:00.5','9999-12-31 23:59:59',"
    "'1000-01-01 01:02:03','1000-01-01 01:02:03',"
    "FROM_UNIXTIME(2147483647),FROM_UNIXTIME(2147483647.99),FROM_UNIXTIME(2147483647.999999),"
    + ",".join(
        f"REPEAT('l',{n})"
        for n in (10, 120, 20, 8, 20, 300, 300, 255, 255, 60000, 300, 70000, 66000, 300, 300)
    )
    + ",CONCAT('[\"',REPEAT('r',70000),'\"]'),'c','x,y,z',1,511,18446744073709551615"
)
DOCUMENTS = {
    "mysql": '\'{"a": 1, "bb": [-2, 3.5, null, true], "c": {"d": 70000, "e": 5000000000,'
    ' "f": 18446744073709551615, "g": "x"}}\'',
    "mariadb": '\'{"a": 1, "bb": [-2, 3.5, null, true]}\'',
}


def make_tables(pair: Pair, sample: dict[str, Any], flavor: str) -> None:
    statements = []
    for schema in ("meant", "t"):
        statements += [f"CREATE DATABASE {schema}"]
        statements += [table.replace("TABLE ", f"TABLE {schema}.", 1) for table in sample["tables"]]
    statements += ["SET sql_mode=''", "SET NAMES utf8mb4"]
    for row in (USUAL.replace("%s", DOCUMENTS[flavor]), ZERO, EXTREME):
        statements.append(f"INSERT INTO meant.types VALUES ({row})")
    pair.begin_anew(statements)
    for number in range(1, 101):
        # Of 500 updates each row had five; the last of row n had the number 400 + n.
        c = f"{400 + number:011d}" + "-12345678901" * 9
        pair.replica.query(
            "INSERT INTO meant.sbtest1 VALUES (%s, %s, %s, %s)",
            (number, number * 7, c, "12345678901-" * 4),
        )


def assert_rows_are_those_that_were_meant(replica: Sandbox) -> None:
    for table in ("types", "sbtest1"):
        rows, meant = (
            replica.query(f"SELECT * FROM {schema}.{table} ORDER BY id") for schema in ("t", "meant")
        )
        assert len(rows) == len(meant) > 2
        for row, other in zip(rows, meant, strict=True):
            assert row == other


@pytest.mark.server("mysql@9.7")
def test_a_mysql_replica_takes_a_sample_of_every_type_from_a_real_source(mysql: MysqlPair) -> None:
    sample = mysql.serve(lambda folder: write_sample(folder, "9.7.4", updates=500))
    gtids = f"{SAMPLE_UUID}:1-{sample['transactions']}"
    assert mysql.logged(mysql.source) == gtids
    make_tables(mysql, sample, "mysql")
    mysql.follow()
    assert mysql.logged(mysql.replica) == gtids
    assert_rows_are_those_that_were_meant(mysql.replica)
    # What the replica wrote of it, with its own events' places, is whole too.
    mysql.replica.query("FLUSH BINARY LOGS")
    assert counted(binlogs(mysql.replica.datadir)[:1])["transactions"] == sample["transactions"]


@pytest.mark.server("mariadb@10.11")
def test_a_mariadb_replica_takes_a_sample_of_every_type_from_a_real_source(mariadb: MariadbPair) -> None:
    sample = mariadb.serve(lambda folder: write_sample(folder, MARIADB, updates=500))
    last = f"0-7-{sample['transactions']}"
    assert mariadb.logged(mariadb.source) == last
    make_tables(mariadb, sample, "mariadb")
    mariadb.follow()
    assert mariadb.logged(mariadb.replica) == last
    assert_rows_are_those_that_were_meant(mariadb.replica)


TABLE = (
    "CREATE TABLE sbtest.{} (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL,"
    " pad CHAR(60) NOT NULL, KEY (k)) DEFAULT CHARSET=utf8mb4"
)


def load(pair: Pair, rows: dict[tuple[str, int], Row]) -> None:
    tables = sorted({table for table, _ in rows})
    pair.begin_anew(["CREATE DATABASE sbtest", *(TABLE.format(table) for table in tables)])
    for table in tables:
        values = [row for (name, _), row in rows.items() if name == table]
        marks = ",".join(["(%s, %s, %s, %s)"] * len(values))
        pair.replica.query(f"INSERT INTO sbtest.{table} VALUES {marks}", [v for row in values for v in row])


def rows_of(replica: Sandbox, tables: set[str]) -> dict[tuple[str, int], Row]:
    return {
        (table, row[0]): row for table in tables for row in replica.query(f"SELECT * FROM sbtest.{table}")
    }


def serve_files(pair: Pair, made: Path) -> None:
    pair.serve(lambda folder: [shutil.copy(file, folder) for file in made.glob("binlog.*")])


def assert_replica_has(pair: Pair, rows: dict[tuple[str, int], Row]) -> None:
    pair.follow()
    assert pair.logged(pair.replica) == pair.logged(pair.source)
    assert rows_of(pair.replica, {table for table, _ in rows}) == rows


def tear(file: Path, end: int) -> None:
    """As a crash leaves it: in use, and torn."""
    content = file.read_bytes()
    file.write_bytes(content[:21] + bytes([content[21] | 1]) + content[22:end])


def tears(content: bytes) -> list[int]:
    """Ends that tear a transaction: inside an event, between two events, one byte before its end."""
    events = []
    at = 4
    while at < len(content):
        kind, size = content[at + 4], int.from_bytes(content[at + 9 : at + 13], "little")
        events.append((at, kind, at + size))
        at += size
    xids = [index for index, (_, kind, _) in enumerate(events) if kind == 16]
    in_an_event, between, almost = (events[xids[len(xids) * part // 4]] for part in (1, 2, 3))
    return [in_an_event[0] - 20, between[0], almost[2] - 1]


@pytest.mark.server("mysql@9.7")
def test_a_mysql_replica_takes_what_threads_wrote_in_every_way(mysql: MysqlPair, tmp_path: Path) -> None:
    run(tmp_path, "9.7.4", threads=64)
    log = images("9.7.4", tmp_path)
    load(mysql, log.first)
    serve_files(mysql, tmp_path)
    assert_replica_has(mysql, {**log.first, **log.last})
    assert mysql.logged(mysql.source) == check(binlogs(tmp_path))[-1]["gtids"]


@pytest.mark.server("mysql@9.7")
def test_a_mysql_source_cuts_a_torn_tail_where_the_checker_says(mysql: MysqlPair, tmp_path: Path) -> None:
    run(tmp_path, "9.7.4", threads=16, transactions=600)
    log = images("9.7.4", tmp_path)
    load(mysql, log.first)
    last = binlogs(tmp_path)[-1]
    content = last.read_bytes()
    for end in tears(content):
        last.write_bytes(content)
        tear(last, end)
        report = check([last])[0]
        assert report["verdict"] == "torn"
        serve_files(mysql, tmp_path)
        assert (mysql.source.datadir / last.name).stat().st_size == report["whole_until"] < end
        assert_replica_has(mysql, {**log.first, **images("9.7.4", mysql.source.datadir).last})


@pytest.mark.server("mariadb@10.11")
def test_a_mariadb_replica_takes_what_threads_wrote_in_every_way(
    mariadb: MariadbPair, tmp_path: Path
) -> None:
    run(tmp_path, MARIADB, threads=64)
    log = images(MARIADB, tmp_path)
    load(mariadb, log.first)
    serve_files(mariadb, tmp_path)
    assert_replica_has(mariadb, {**log.first, **log.last})
    assert mariadb.logged(mariadb.source) == check(binlogs(tmp_path))[-1]["gtids"]


@pytest.mark.server("mariadb@10.11")
def test_a_mariadb_source_leaves_a_torn_tail_where_its_replica_stops(
    mariadb: MariadbPair, tmp_path: Path
) -> None:
    run(tmp_path, MARIADB, threads=16, transactions=600, changes=[], binlog_strategy="parallel")
    log = images(MARIADB, tmp_path)
    load(mariadb, log.first)
    last = binlogs(tmp_path)[-1]
    tear(last, tears(last.read_bytes())[0])
    whole_until = check([last])[0]["whole_until"]
    serve_files(mariadb, tmp_path)
    assert (mariadb.source.datadir / last.name).stat().st_size > whole_until
    mariadb.follow(stops_at=1236)  # binlog truncated in the middle of event
