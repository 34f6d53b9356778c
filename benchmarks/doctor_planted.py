"""Bottlenecks planted on real servers: does the doctor find each first, and is its bound kept? And does it
find any on healthy servers?

    python benchmarks/doctor_planted.py [--server mariadb@10.11]… [--kind NAME]… [--runs 3] [--seconds 30]
                                        [--rounds 2] [--budget MINUTES] [--json FILE] [--read FILE]
                                        [--healthy] [--calibrate] [--markdown FILE]

Each kind starts a server with one bottleneck and a closed loop of connections. The doctor watches it for
--seconds. Then the bottleneck is mended and planted again, --rounds times, and the throughput of both says
what mending brings: more than the doctor's bound is a violation. A row for each run as it ends, then a table
with the sums of each server, and the runs that missed; --read prints these from a file of --json. All kinds
run on MariaDB 10.11 and MySQL 9.7, then on the others, then for a second time.

With --healthy, servers that nothing is wrong with are watched instead. The clients' turn is no false finding:
it is said of servers that wait for them. Needs root for the emulated disks.

With --calibrate, nothing is mended: `compare --own-load` tries all changes that the first finding names,
under the same load, for --compare seconds. Is the gain of the commits/s below the finding's bound? The table
has each run. A change that needs a restart, or new connections, is not tried.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pymysql

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.control_groups import limited, writes_limited

import flushlab
from flushlab.build import find_build
from flushlab.datadir import DataRoot, slow_disk_in
from flushlab.diagnosis import sampling
from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.diagnosis.finding import Finding
from flushlab.errors import FlushlabError, HarnessError, UsageError
from flushlab.machine import file_system_of
from flushlab.record import Value
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.galera.cluster import Cluster
from flushlab.server.remote.server import watched
from flushlab.workload.parse import parse_workload
from flushlab.workload.protocol import Timing
from flushlab.workload.sliced import SlicedLoad

FIRST = ("mariadb@10.11", "mysql@9.7")
FLAVORS = (*FIRST, "mysql@8.0", "mariadb@11.8", "mysql@5.7")
PLANTED = 1.3
"""Gain of mending below which a kind did not bind: the run says little about the doctor."""
MOST_S = 300.0
"""For a run, its server's start included."""
TIMING = Timing(warm_up_s=1.0, max_warm_up_s=3.0)
MIB = 1 << 20
RELAXED: Mapping[str, Value] = {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0}
STRICT: Mapping[str, Value] = {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1}
BINLOG: Mapping[str, Value] = {"log_bin": "binlog", "server_id": "7", "binlog_format": "ROW"}
Step = str | tuple[str, float]
"""A statement, or one with a pause in ms before it."""
Beside = Callable[[Sandbox], contextlib.AbstractContextManager[Any]]


def nothing(_: Sandbox) -> contextlib.AbstractContextManager[Any]:
    """No side effect."""
    return contextlib.nullcontext()


@dataclass(frozen=True)
class Kind:
    """A bottleneck.

    Attributes:
        finds: findings of which one has to be the first.
        says: in the first one's title.
        load, mended_load: TOML of the transactions, without their setup.
        settings: of the server from the start; `mend` changes them.
        beside: what plants the bottleneck beside the load; left out when mended, if `mends_beside`.
        rows, row_bytes: of the table.
        warm_s: of load, until the bottleneck has grown.
        settle_s: of load, until the mended server has forgotten it: its pages are written, old rows purged.
        apart: the load runs on processors of its own.
    """

    finds: tuple[str, ...]
    load: str
    mended_load: str = ""
    settings: Mapping[str, Value] = field(default_factory=dict)
    mend: Mapping[str, Value] = field(default_factory=dict)
    threads: int = 8
    disk: str | None = None
    binlog: bool = True
    rows: int = 10_000
    row_bytes: int = 100
    beside: Beside = nothing
    mends_beside: bool = False
    not_on: tuple[str, ...] = ()
    by_flavor: Callable[[str], Mapping[str, Value]] = lambda _: {}
    mend_by_flavor: Callable[[str], Mapping[str, Value]] = lambda _: {}
    cluster: bool = False
    warm_s: float = 0.0
    settle_s: float = 0.0
    apart: bool = False
    says: str = ""


def one(sql: Sequence[Step], *, autocommit: bool = True, rows: int = 10_000) -> str:
    """TOML of one kind of transaction."""
    texts = [
        f'{{ sql = "{each}" }}'
        if isinstance(each, str)
        else f'{{ sql = "{each[0]}", think_ms = {each[1]:g} }}'
        for each in sql
    ]
    text = ", ".join(texts)
    parameters = {":id": f'[parameter.id]\ntype = "integer"\nlow = 1\nhigh = {rows}\n'}
    parameters[":own"] = "[parameter.own]\ntype = 'connection'\n"
    return (
        "".join(declared for name, declared in parameters.items() if name in text)
        + f"[transaction.write]\nautocommit = {str(autocommit).lower()}\nstatements = [{text}]\n"
    )


UPDATE = "UPDATE t SET n = n + 1 WHERE id = :id"
OWN = "BETWEEN CONNECTION_ID() % 16 * 100 + 1 AND CONNECTION_ID() % 16 * 100 + 100"
READ = one([("SELECT n FROM t WHERE id = :own", 100.0)])
BIG = "UPDATE t SET n = n + 1, c = REPEAT(CHAR(97 + n % 26), LENGTH(c)) WHERE id = :id"


@contextlib.contextmanager
def connection(server: Sandbox) -> Iterator[Any]:
    """A cursor of its own."""
    own = server.endpoint
    made = pymysql.connect(
        unix_socket=own.socket, user=own.user, password=own.password, database="flushlab_txn"
    )
    try:
        with made.cursor() as cursor:
            yield cursor
    finally:
        with contextlib.suppress(pymysql.MySQLError):
            made.close()


@contextlib.contextmanager
def repeatedly(server: Sandbox, step: Callable[[Any], None], count: int = 1) -> Iterator[None]:
    """Connections that do something again and again."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            with contextlib.suppress(pymysql.MySQLError), connection(server) as cursor:
                while not over.is_set():
                    step(cursor)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def idle_holder(server: Sandbox) -> contextlib.AbstractContextManager[Any]:
    """A transaction that changes all rows the load wants, then does something else."""

    def hold(cursor: Any) -> None:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE t SET n = n + 1 WHERE id <= 20")
        time.sleep(1.5)
        cursor.execute("COMMIT")
        time.sleep(0.01)

    return repeatedly(server, hold)


def huge(server: Sandbox) -> contextlib.AbstractContextManager[Any]:
    """A transaction that changes the whole table, again and again."""

    def change(cursor: Any) -> None:
        cursor.execute("UPDATE big SET n = n + 1, c = REPEAT(CHAR(97 + n % 26), LENGTH(c))")
        cursor.execute("COMMIT")

    with connection(server) as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS big LIKE t")
        cursor.execute("INSERT IGNORE INTO big SELECT * FROM t")
        cursor.execute("COMMIT")
    return repeatedly(server, change)


def ddl(server: Sandbox) -> contextlib.AbstractContextManager[Any]:
    """Somebody who locks the table most of the time."""

    def lock(cursor: Any) -> None:
        cursor.execute("LOCK TABLES t WRITE")
        time.sleep(0.4)
        cursor.execute("UNLOCK TABLES")
        time.sleep(0.05)

    return repeatedly(server, lock)


def gap_holder(server: Sandbox) -> contextlib.AbstractContextManager[Any]:
    """Somebody who locks the gap that new rows go into."""

    def hold(cursor: Any) -> None:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("BEGIN")
        cursor.execute("SELECT COUNT(*) FROM s WHERE id > 1000000000 FOR UPDATE")
        time.sleep(0.2)
        cursor.execute("COMMIT")
        time.sleep(0.02)

    return repeatedly(server, hold)


def failing(server: Sandbox, sql: str, *, autocommit: bool = False) -> contextlib.AbstractContextManager[Any]:
    """Connections whose writes fail or are rolled back: those without autocommit end each by ROLLBACK."""
    server.query("SET GLOBAL max_binlog_cache_size = 262144")

    def write(cursor: Any) -> None:
        cursor.execute(f"SET autocommit = {int(autocommit)}")
        for _ in range(100):
            with contextlib.suppress(pymysql.MySQLError):
                cursor.execute(sql)
            if not autocommit:
                cursor.execute("ROLLBACK")

    return repeatedly(server, write, 8)


def readers(server: Sandbox) -> contextlib.AbstractContextManager[Any]:
    """Connections that read all the time."""
    return repeatedly(server, lambda cursor: cursor.execute("SELECT n FROM t WHERE id = 7"), 8)


@contextlib.contextmanager
def snapshot(server: Sandbox) -> Iterator[None]:
    """An old snapshot."""
    with connection(server) as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT COUNT(*) FROM t")
        yield


@contextlib.contextmanager
def hogs(_: Sandbox) -> Iterator[None]:
    """Eight programs that compute, on the server's processor."""
    busy = "import os\nos.sched_setaffinity(0, {0})\nwhile True: pass"
    running = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(8)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextlib.contextmanager
def neighbor(server: Sandbox) -> Iterator[None]:
    """A program that writes and syncs 4 MiB after 4 MiB on the server's file system."""
    file = server.datadir.parent / "neighbor"
    program = (
        "import os, sys; f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); b = bytes(1 << 22)\n"
        "while os.getppid() == int(sys.argv[2]):\n"
        " for at in range(64): os.pwrite(f, b, at << 22); os.fdatasync(f)"
    )
    running = subprocess.Popen([sys.executable, "-c", program, str(file), str(os.getpid())])
    try:
        yield
    finally:
        running.kill()
        running.wait()
        file.unlink(missing_ok=True)


@contextlib.contextmanager
def disk_limit(server: Sandbox) -> Iterator[None]:
    """A control group with 60 writes/s."""
    device = file_system_of(server.datadir).device
    assert server.pid is not None and device is not None
    with writes_limited(server.pid, device.disk_number, 60):
        yield


@contextlib.contextmanager
def cpu_limit(server: Sandbox) -> Iterator[None]:
    """A control group with a fifth of a processor."""
    assert server.pid is not None
    with limited(server.pid, "cpu", ("cpu.cfs_quota_us", "20000"), ("cpu.max", "20000 100000")):
        yield


@contextlib.contextmanager
def slow_replica(server: Sandbox) -> Iterator[None]:
    """A semi-synchronous replica on a disk that takes 15 ms to flush; gone at the end."""
    is_mariadb = server.identity.flavor == "mariadb"
    renamed = not is_mariadb and server.identity.version >= (8, 0, 26)
    source, replica = ("source", "replica") if renamed else ("master", "slave")
    server.query("SET sql_log_bin=0")
    with contextlib.suppress(FlushlabError):
        server.query("CREATE USER replica@'127.0.0.1' IDENTIFIED BY 'replica'")
        server.query("GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'")
    server.query("SET sql_log_bin=1")
    settings = {"server_id": "8", "log_bin": "binlog", **RELAXED}
    disk = slow_disk_in(DataRoot.open(), "flush=15ms,write=0.1ms")
    with Sandbox.start(SandboxSpec(server.build, settings=settings, slow_disk=disk, connects=True)) as second:
        if not is_mariadb:
            for box, what in ((server, source), (second, replica)):
                with contextlib.suppress(FlushlabError):
                    box.query(f"INSTALL PLUGIN rpl_semi_sync_{what} SONAME 'semisync_{what}.so'")
        second.query(f"SET GLOBAL rpl_semi_sync_{replica}_enabled = ON")
        second.query("SET GLOBAL sync_relay_log = 1")
        file, position = server.query(
            "SHOW BINARY LOG STATUS"
            if not is_mariadb and server.identity.version >= (8, 2)
            else "SHOW MASTER STATUS"
        )[0][:2]
        to = "SOURCE" if renamed else "MASTER"
        where = f"{to}_HOST='127.0.0.1', {to}_PORT={server.endpoint.port}, {to}_USER='replica',"
        where += f" {to}_PASSWORD='replica', {to}_LOG_FILE='{file}', {to}_LOG_POS={position}"
        if renamed or (not is_mariadb and server.identity.version >= (8, 0)):
            where += f", GET_{to}_PUBLIC_KEY=1" if renamed else ", GET_MASTER_PUBLIC_KEY=1"
        second.query(f"CHANGE {'REPLICATION SOURCE' if renamed else 'MASTER'} TO {where}")
        second.query("START REPLICA" if renamed else "START SLAVE")
        server.query(f"SET GLOBAL rpl_semi_sync_{source}_timeout = 10000")
        server.query(f"SET GLOBAL rpl_semi_sync_{source}_enabled = ON")
        deadline = time.monotonic() + 60
        while server.query(f"SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_{source}_clients'")[0][1] == "0":
            if time.monotonic() > deadline:
                raise FlushlabError("no semi-synchronous replica came", hint=second.log_tail(10))
            time.sleep(0.1)
        try:
            yield
        finally:
            server.query(f"SET GLOBAL rpl_semi_sync_{source}_enabled = OFF")


@contextlib.contextmanager
def slow_node(server: Sandbox) -> Iterator[None]:
    """A node that syncs at each commit, which the others do not. Locking its tables would plant nothing: that
    takes a node out of flow control."""
    other = _NODES[server.name]
    other.query("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    try:
        yield
    finally:
        other.query("SET GLOBAL innodb_flush_log_at_trx_commit = 2")


_NODES: dict[str, Sandbox] = {}


@contextlib.contextmanager
def ddl_behind_a_reader(server: Sandbox) -> Iterator[None]:
    """DDL that waits for a transaction that has read the table; whoever comes later waits for DDL."""

    def read(cursor: Any) -> None:
        cursor.execute("BEGIN")
        cursor.execute("SELECT n FROM t WHERE id = 1")
        time.sleep(3.0)
        cursor.execute("COMMIT")
        time.sleep(0.1)

    def alter(cursor: Any) -> None:
        cursor.execute("ALTER TABLE t COMMENT = 'altered'")
        time.sleep(0.05)

    with repeatedly(server, read), repeatedly(server, alter):
        yield


def read_lock(server: Sandbox) -> contextlib.AbstractContextManager[Any]:
    """A backup that holds the global read lock most of the time."""

    def lock(cursor: Any) -> None:
        cursor.execute("FLUSH TABLES WITH READ LOCK")
        time.sleep(3.0)
        cursor.execute("UNLOCK TABLES")
        time.sleep(0.1)

    return repeatedly(server, lock)


def long_ddl(server: Sandbox) -> contextlib.AbstractContextManager[Any]:
    """DDL that takes half a minute, and costs the writers nothing: it is to be told, and no more."""

    def create(cursor: Any) -> None:
        cursor.execute("DROP TABLE IF EXISTS slow")
        cursor.execute("CREATE TABLE slow AS SELECT SLEEP(0.3) AS n FROM rows100")

    with connection(server) as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS rows100 AS SELECT id FROM t LIMIT 100")
    return repeatedly(server, create)


def alter(server: Sandbox) -> contextlib.AbstractContextManager[Any]:
    """An ALTER of another table that computes a column for half a minute, again and again."""

    def rebuild(cursor: Any) -> None:
        cursor.execute("ALTER TABLE other ADD x CHAR(128) AS (SHA2(REPEAT(c, 5000), 512)) STORED")
        cursor.execute("ALTER TABLE other DROP COLUMN x")

    with connection(server) as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS other AS SELECT * FROM t")
    return repeatedly(server, rebuild)


@contextlib.contextmanager
def without_key(server: Sandbox) -> Iterator[None]:
    """The table without its primary key."""
    server.query("ALTER TABLE flushlab_txn.t DROP PRIMARY KEY")
    try:
        yield
    finally:
        server.query("ALTER TABLE flushlab_txn.t ADD PRIMARY KEY (id)")


@contextlib.contextmanager
def prepared_by_xa(server: Sandbox) -> Iterator[None]:
    """A transaction that XA PREPARE leaves without a connection, with the rows that the load wants."""
    over = threading.Event()

    def leave() -> None:
        while not over.is_set():
            with connection(server) as cursor:
                for sql in ("XA START 'x'", "UPDATE t SET n = n + 1 WHERE id <= 20", "XA END 'x'"):
                    cursor.execute(sql)
                cursor.execute("XA PREPARE 'x'")
            over.wait(12.0)  # an event of the load may take 15 s
            while True:
                with contextlib.suppress(FlushlabError):  # its connection may not have ended yet
                    server.query("XA ROLLBACK 'x'")
                    break
                time.sleep(0.05)

    thread = threading.Thread(target=leave)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _small_redo(build: str) -> Mapping[str, Value]:
    if build == "mysql@9.7":
        return {"innodb_redo_log_capacity": 8 * MIB}
    return {"innodb_log_file_size": (8 if build.startswith("mariadb") else 4) * MIB}


def _large_redo(build: str) -> Mapping[str, Value]:
    if build == "mysql@9.7":
        return {"innodb_redo_log_capacity": 2048 * MIB}
    return {"innodb_log_file_size": (2048 if build.startswith("mariadb") else 1024) * MIB}


def _medium_redo(build: str) -> Mapping[str, Value]:
    if build == "mysql@9.7":
        return {"innodb_redo_log_capacity": 32 * MIB}
    return {"innodb_log_file_size": (32 if build.startswith("mariadb") else 16) * MIB}


def _small_log_buffer(build: str) -> Mapping[str, Value]:
    return {"innodb_log_buffer_size": 2 * MIB if build.startswith("mariadb") else MIB // 4}


def _delay(us: int) -> Callable[[str], Mapping[str, Value]]:
    """A delay of commit groups."""

    def settings(build: str) -> Mapping[str, Value]:
        if build.startswith("mysql"):
            return {"binlog_group_commit_sync_delay": us}
        return {"binlog_commit_wait_count": 100 if us else 0, "binlog_commit_wait_usec": us}

    return settings


LOCKING: Sequence[str] = [
    "SELECT n FROM t WHERE id = 1 FOR UPDATE",
    "SELECT COUNT(*) FROM t WHERE id < 3000",
    "UPDATE t SET n = n + 1 WHERE id = 1",
]
HOT: Sequence[Step] = ["UPDATE t SET n = n + 1 WHERE id = 1", ("SELECT 1", 3.0)]
SPREAD: Sequence[Step] = ["UPDATE t SET n = n + 1 WHERE id = :own", ("SELECT 1", 3.0)]
POOL: Mapping[str, Value] = {"innodb_buffer_pool_size": 16 * MIB, "innodb_flush_method": "O_DIRECT"}
ROOM: Mapping[str, Value] = {"innodb_buffer_pool_size": 1024 * MIB}
SLOW = "flush=4ms,write=0.1ms"

KINDS: Mapping[str, Kind] = {
    "sync-at-commit": Kind(("commit_sync",), one([UPDATE]), settings=STRICT, mend=RELAXED, disk=SLOW),
    "sync-of-the-binlog": Kind(
        ("commit_sync",),
        one([UPDATE]),
        settings={"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 1},
        mend={"sync_binlog": 1000},
        disk=SLOW,
    ),
    "sync-without-a-binlog": Kind(
        ("commit_sync",), one([UPDATE]), settings=STRICT, mend=RELAXED, disk=SLOW, binlog=False
    ),
    "explicit-commit-without-a-binlog": Kind(
        ("commit_sync",),
        one([UPDATE], autocommit=False),
        settings=STRICT,
        mend=RELAXED,
        disk=SLOW,
        binlog=False,
    ),
    "sync-beside-readers": Kind(
        ("commit_sync",), one([UPDATE]), settings=STRICT, mend=RELAXED, disk=SLOW, beside=readers, threads=4
    ),
    "delay-of-groups": Kind(
        ("commit_sync",),
        one([UPDATE]),
        settings=RELAXED,
        by_flavor=_delay(20_000),
        mend_by_flavor=_delay(0),
    ),
    "delay-before-the-sync": Kind(
        ("commit_sync",),
        one([UPDATE]),
        settings=STRICT,
        by_flavor=_delay(100_000),
        mend_by_flavor=_delay(0),
        disk="flush=3ms,write=0.1ms",
        says="commits wait for binlog_",
    ),
    "redo-of-8-MB": Kind(
        ("redo_capacity",),
        one([BIG], rows=20_000),
        settings=RELAXED,
        by_flavor=_small_redo,
        mend_by_flavor=_large_redo,
        rows=20_000,
        row_bytes=4000,
        disk="flush=4ms,write=0.3ms",
        binlog=False,
    ),
    "log-buffer": Kind(
        ("log_buffer",),
        one([(BIG.replace("= :id", "BETWEEN :own * 64 + 1 AND :own * 64 + 64"), 100.0)]),
        # Without O_DSYNC a full buffer goes into the page cache, which takes no time worth a wait. On MySQL
        # since 8.0 no buffer brought more than 1.1× then, and with it one statement took longer than 15 s.
        settings={"innodb_flush_log_at_trx_commit": 0, "innodb_flush_method": "O_DSYNC"},
        by_flavor=lambda build: {**_large_redo(build), **_small_log_buffer(build)},
        mend={"innodb_log_buffer_size": 64 * MIB},
        threads=2,
        rows=192,
        row_bytes=60_000,
        binlog=False,
        disk="flush=20ms",
        not_on=("mysql@8.0", "mysql@9.7"),
    ),
    "pool-of-16-MB": Kind(
        ("buffer_pool",),
        one([UPDATE], rows=40_000),
        settings={**RELAXED, **POOL},
        mend=ROOM,
        rows=40_000,
        row_bytes=4000,
        disk="read=1ms,write=0.1ms,flush=0.2ms",
        binlog=False,
    ),
    "thread-concurrency": Kind(
        ("thread_concurrency",),
        one(["UPDATE t SET n = n + SLEEP(0.005) WHERE id = :id"]),  # a statement keeps its place inside
        settings={**RELAXED, "innodb_thread_concurrency": 1},
        mend={"innodb_thread_concurrency": 0},
        not_on=("mariadb@10.11", "mariadb@11.8"),
    ),
    "dirty-pages": Kind(
        ("page_flushing", "buffer_pool", "disk"),
        one(["INSERT INTO s (c) VALUES (REPEAT('x', 15000))"]),
        settings={
            **POOL,
            "innodb_flush_log_at_trx_commit": 0,
            "innodb_buffer_pool_size": 32 * MIB,
            "innodb_io_capacity": 200,
            "innodb_io_capacity_max": 400,
        },
        mend={**ROOM, "innodb_io_capacity": 4000, "innodb_io_capacity_max": 8000},
        by_flavor=_large_redo,
        disk="iops=500",
        binlog=False,
    ),
    "held-flushing": Kind(
        ("page_flushing",),
        one([BIG], rows=5_000),
        settings={
            **RELAXED,
            "innodb_flush_method": "O_DIRECT",
            "innodb_buffer_pool_size": 64 * MIB,
            "innodb_io_capacity": 100,
            "innodb_io_capacity_max": 100,
            "innodb_max_dirty_pages_pct": 5,
            "innodb_max_dirty_pages_pct_lwm": 0,
        },
        mend={"innodb_io_capacity": 4000, "innodb_io_capacity_max": 8000},
        by_flavor=_medium_redo,
        rows=5_000,
        row_bytes=4000,
        disk="write=0.3ms,flush=4ms",
        binlog=False,
        warm_s=10.0,
    ),
    "hot-row": Kind(
        ("row_locks",),
        one(HOT, autocommit=False),
        one(SPREAD, autocommit=False),
        settings=RELAXED,
        threads=12,
    ),
    "hot-row-of-commits": Kind(
        ("row_locks",),
        one(["UPDATE t SET n = n + 1 WHERE id = 1"]),
        one(["UPDATE t SET n = n + 1 WHERE id = :own"]),
        settings=STRICT,
        threads=12,
        disk=SLOW,
        says="one writer after the other",
    ),
    "no-primary-key": Kind(
        ("full_scans",),
        one([UPDATE]),
        settings=RELAXED,
        beside=without_key,
        mends_beside=True,
        says="find no index",
    ),
    "locking-reads": Kind(
        ("row_locks",),
        one(LOCKING, autocommit=False),
        one([each.replace("id = 1", "id = :own") for each in LOCKING], autocommit=False),
        settings=RELAXED,
        threads=12,
        disk="flush=2ms",
    ),
    "gap-locks": Kind(
        ("row_locks",),
        one(["INSERT INTO s (c) VALUES ('x')"]),
        settings=RELAXED,
        beside=gap_holder,
        mends_beside=True,
    ),
    "semi-sync": Kind(
        ("semi_sync",),
        one([UPDATE]),
        settings=RELAXED,
        beside=slow_replica,
        mends_beside=True,
        not_on=("mysql@5.7", "mysql@8.0"),  # these builds lack the plugin
    ),
    "galera-slow-node": Kind(
        ("galera",),
        one([UPDATE]),
        settings={"innodb_flush_log_at_trx_commit": 2},
        beside=slow_node,
        mends_beside=True,
        disk="flush=15ms",
        cluster=True,
        binlog=False,
        not_on=("mysql@5.7", "mysql@8.0", "mysql@9.7"),
    ),
    "idle-in-transaction": Kind(
        ("idle_transactions", "row_locks"),
        one(["UPDATE t SET n = n + 1 WHERE id = :own"]),
        settings=RELAXED,
        beside=idle_holder,
        mends_beside=True,
    ),
    "round-trips": Kind(("client",), one([(UPDATE, 5.0)]), one([UPDATE]), settings=RELAXED, threads=4),
    "cpu": Kind(
        ("cpu",),
        one(["UPDATE t SET n = n + 1 WHERE id BETWEEN :own * 200 AND :own * 200 + 199"]),
        settings=RELAXED,
        apart=True,
        beside=hogs,
        mends_beside=True,
        binlog=False,
    ),
    "throttled-disk": Kind(
        ("disk", "commit_sync"),
        one([UPDATE]),
        settings=STRICT,
        mend=RELAXED,
        disk="iops=100",
    ),
    "disk-limit": Kind(("disk",), one([UPDATE]), settings=STRICT, beside=disk_limit, mends_beside=True),
    "cpu-quota": Kind(
        ("cpu_quota",),
        one(["UPDATE t SET n = n + 1 WHERE id BETWEEN :own * 200 AND :own * 200 + 199"]),
        settings=RELAXED,
        beside=cpu_limit,
        mends_beside=True,
        binlog=False,
    ),
    "neighbor": Kind(
        ("other_io", "commit_sync"), one([UPDATE]), settings=STRICT, beside=neighbor, mends_beside=True
    ),
    "huge-transaction": Kind(
        ("large_transactions", "binlog_cache"),
        one([UPDATE]),
        settings=RELAXED,
        rows=150_000,
        row_bytes=200,
        by_flavor=_large_redo,
        beside=huge,
        mends_beside=True,
        settle_s=25.0,
        disk="bandwidth=40M",
    ),
    "beyond-the-binlog-cache": Kind(
        ("rollbacks",),
        READ,
        settings=RELAXED,
        beside=lambda server: failing(server, BIG.replace("= :id", OWN)),
        mends_beside=True,
        rows=1600,
        row_bytes=4000,
    ),
    "duplicate-keys": Kind(
        ("rollbacks",),
        READ,
        settings=RELAXED,
        beside=lambda server: failing(server, "INSERT INTO t VALUES (7, 0, '')"),
        mends_beside=True,
    ),
    "duplicate-keys-without-a-binlog": Kind(
        ("rollbacks",),
        READ,
        settings=RELAXED,
        beside=lambda server: failing(server, "INSERT INTO t VALUES (7, 0, '')", autocommit=True),
        mends_beside=True,
        binlog=False,
    ),
    "rolled-back": Kind(
        ("rollbacks",),
        READ,
        settings=RELAXED,
        beside=lambda server: failing(server, UPDATE.replace(":id", "CONNECTION_ID()")),
        mends_beside=True,
    ),
    "rolled-back-without-a-binlog": Kind(
        ("rollbacks",),
        READ,
        settings=RELAXED,
        beside=lambda server: failing(server, UPDATE.replace(":id", "CONNECTION_ID()")),
        mends_beside=True,
        binlog=False,
        not_on=("mysql@5.7", "mysql@8.0", "mysql@9.7"),  # whose only counter of commits has reads
    ),
    "old-snapshot": Kind(
        ("purge_lag",),
        one(
            [
                "INSERT INTO q (own) VALUES (:own)",
                "DELETE FROM q WHERE own = :own ORDER BY id LIMIT 1",
            ],
            autocommit=False,
        ),
        settings=RELAXED,
        beside=snapshot,
        mends_beside=True,
        binlog=False,
        warm_s=30.0,
        settle_s=10.0,
    ),
    "table-lock": Kind(("metadata_locks",), one([UPDATE]), settings=RELAXED, beside=ddl, mends_beside=True),
    "ddl-behind-a-reader": Kind(
        ("metadata_locks",), one([UPDATE]), settings=RELAXED, beside=ddl_behind_a_reader, mends_beside=True
    ),
    "global-read-lock": Kind(
        ("metadata_locks",), one([UPDATE]), settings=RELAXED, beside=read_lock, mends_beside=True
    ),
    "ddl-of-another-table": Kind(
        ("ddl",),
        one([(UPDATE, 5.0)]),
        settings=RELAXED,
        beside=long_ddl,
        mends_beside=True,
        binlog=False,
    ),
    "alter-of-another-table": Kind(
        ("ddl",),
        one([(UPDATE, 5.0)]),
        settings=RELAXED,
        beside=alter,
        mends_beside=True,
        binlog=False,
        says="ALTER",
    ),
    "left-by-xa": Kind(
        ("xa_transactions",),
        one(["UPDATE t SET n = n + 1 WHERE id = :own"]),
        settings=RELAXED,
        beside=prepared_by_xa,
        mends_beside=True,
    ),
}


def calm(think_ms: float, *, sql: str = UPDATE, threads: int = 8) -> Kind:
    """A server at the demand of clients that mostly do something else."""
    return Kind((), one([(sql, think_ms)]), settings=STRICT, threads=threads)


HEALTHY: Mapping[str, Kind] = {
    "idle": Kind((), ""),
    "read-only": calm(5.0, sql="SELECT n FROM t WHERE id = :id"),
    "light": calm(200.0),
    "usual": calm(50.0, threads=16),
}


@contextlib.contextmanager
def started(kind: Kind, build: str) -> Iterator[Sandbox]:
    """The server, with its tables."""
    settings = {**kind.settings, **kind.by_flavor(build), **(BINLOG if kind.binlog else {})}
    if build == "mysql@5.7":
        settings.setdefault("innodb_buffer_pool_size", 256 * MIB)
    if not kind.binlog and not kind.cluster and build in ("mysql@8.0", "mysql@9.7"):
        settings["log_bin"] = "OFF"
    settings.setdefault("innodb_buffer_pool_size", 512 * MIB)
    slow_disk = slow_disk_in(DataRoot.open(), kind.disk)
    spec = SandboxSpec(find_build(build), settings=settings, slow_disk=slow_disk)
    if kind.cluster:
        with Cluster.start(replace(spec, nodes=3)) as cluster:
            server, other = cluster.nodes[0], cluster.nodes[2]
            _NODES[server.name] = other
            _fill(server, kind)
            yield server
        return
    with (
        Sandbox.start(spec) as server,
        _apart(server, kind),
    ):
        _fill(server, kind)
        yield server


@contextlib.contextmanager
def _apart(server: Sandbox, kind: Kind) -> Iterator[None]:
    """The server on the first processor alone, the load on the others, if the kind is so."""
    every = os.sched_getaffinity(0)
    if kind.apart and server.pid is not None:
        for thread in Path(f"/proc/{server.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {0})
        os.sched_setaffinity(0, every - {0})
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def _fill(server: Sandbox, kind: Kind) -> None:
    server.query("CREATE DATABASE flushlab_txn")
    server.query(
        "CREATE TABLE flushlab_txn.t (id INT NOT NULL PRIMARY KEY, n INT NOT NULL, c LONGTEXT NOT NULL)"
    )
    server.query(
        "CREATE TABLE flushlab_txn.s (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, c TEXT NOT NULL)"
    )
    server.query(
        "CREATE TABLE flushlab_txn.q (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, own INT NOT NULL,"
        " KEY (own, id))"
    )
    step = max(1, min(1000, 4 * MIB // kind.row_bytes))
    for first in range(1, kind.rows + 1, step):
        some = range(first, min(first + step, kind.rows + 1))
        rows = ", ".join(f"({number}, 0, REPEAT('x', {kind.row_bytes}))" for number in some)
        server.query(f"INSERT INTO flushlab_txn.t VALUES {rows}")


@contextlib.contextmanager
def under(server: Sandbox, text: str, threads: int, folder: Path) -> Iterator[SlicedLoad]:
    """The load, warmed up."""
    file = folder / "load.toml"
    file.write_text('database = "flushlab_txn"\nsetup = "SELECT 1"\nignore_errors = []\n' + text)
    workload = parse_workload(f"txn:{file}", {"threads": threads})
    driving = workload.driving(server)
    assert driving is not None
    load = SlicedLoad(driving, server, TIMING)
    try:
        yield load
    finally:
        load.stop()


def watched_meanwhile(server: Sandbox, load: SlicedLoad, seconds: float) -> tuple[Diagnosis, float]:
    """The diagnosis of the loaded server, and its transactions/s meanwhile."""
    rates: list[float] = []
    thread = threading.Thread(target=lambda: rates.append(load.slice(seconds + 1.0).throughput))
    thread.start()
    time.sleep(0.3)
    try:
        found = diagnose(sampling.watch(watched(server, "planted"), seconds, lambda _: None))
    finally:
        thread.join()
    return found, rates[0]


def check(kind: Kind, build: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run of a healthy server: the findings."""
    with started(kind, build) as server:
        if kind.load:
            with under(server, kind.load, kind.threads, folder) as load:
                found, _ = watched_meanwhile(server, load, given.seconds)
        else:
            found = diagnose(sampling.watch(watched(server, "healthy"), given.seconds, lambda _: None))
    false = [one.name for one in found.findings if one.strength != "hint" and one.name != "client"]
    return {**_told(found), "false": false}


def run(kind: Kind, build: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run of a kind: the findings, and what mending brings."""
    before: list[float] = []
    after: list[float] = []
    found: Diagnosis | None = None
    with started(kind, build) as server:
        planted = {**kind.settings, **kind.by_flavor(build)}
        mend = {**planted, **kind.mend, **kind.mend_by_flavor(build)}
        for number in range(given.rounds):
            if number:
                server.apply(planted)
            with kind.beside(server), under(server, kind.load, kind.threads, folder) as load:
                if kind.warm_s:
                    load.slice(kind.warm_s)
                if found is None:
                    found, _ = watched_meanwhile(server, load, given.seconds)
                before.append(load.slice(given.slice).throughput)
            if mend != planted:
                server.apply(mend)
            with (
                contextlib.nullcontext() if kind.mends_beside else kind.beside(server),
                under(server, kind.mended_load or kind.load, kind.threads, folder) as load,
            ):
                if kind.settle_s:
                    load.slice(kind.settle_s)
                after.append(load.slice(given.slice).throughput)
    assert found is not None
    gain = _mean(after, given.slice) / _mean(before, given.slice)
    first = found.findings[0] if found.findings else None
    planted_one = next((one for one in found.findings if one.name in kind.finds), None)
    bound = planted_one.at_most if planted_one is not None else None
    return {
        **_told(found),
        "first": first.name if first else None,
        "is_first": _is_first(kind, first),
        "bound": bound,
        "gain": gain,
        "violated": bound is not None and gain > bound,
        "before": before,
        "after": after,
    }


def calibrate(kind: Kind, build: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run of a kind: the first finding, its bound, and what its changes bring on the running server."""
    with (
        started(kind, build) as server,
        kind.beside(server),
        under(server, kind.load, kind.threads, folder) as load,
    ):
        if kind.warm_s:
            load.slice(kind.warm_s)
        found, _ = watched_meanwhile(server, load, given.seconds)
        first = found.findings[0] if found.findings else None
        share = first.share if first is not None else None
        settings = dict(one for change in (first.changes if first else ()) for one in change.settings.items())
        return {
            **_told(found),
            "first": first.name if first else None,
            "is_first": _is_first(kind, first),
            "share": share and [share.low, share.mid, share.high],
            "bound": first.at_most if first else None,
            "change": " ".join(f"{name}={value}" for name, value in settings.items()),
            **(_tried(server, load, settings, given) if settings else {}),
        }


def _tried(
    server: Sandbox, load: SlicedLoad, settings: Mapping[str, Value], given: argparse.Namespace
) -> dict[str, Any]:
    """The gain of changes under the load that goes on; why not, if they cannot be tried."""
    over = threading.Event()

    def drive() -> None:
        while not over.is_set():
            load.slice(5.0, lead_s=0.0)

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        facts = flushlab.compare(
            ["base", " ".join(f"{name}={value}" for name, value in settings.items())],
            own_load=True,
            allow_set_global=True,
            defaults_file=server.endpoint.option_file,
            duration=given.compare,
            floor="throwaway",
        )
    except UsageError as error:
        return {"not_tried": str(error)}
    finally:
        over.set()
        thread.join()
    arm = facts.arms[0]
    if arm.throughput is None:
        return {"not_tried": "no commits were counted"}
    gain = arm.throughput.ratio
    latency = arm.comparison.ratio.estimate if arm.comparison is not None else None
    return {"gain": gain.estimate, "gain_low": gain.low, "gain_high": gain.high, "latency_gain": latency}


def _is_first(kind: Kind, first: Finding | None) -> bool:
    """Whether the finding is the one that was planted, and no hint."""
    if first is None or first.strength == "hint":
        return False
    return first.name in kind.finds and kind.says in first.title


def _calibration(rows: Sequence[Mapping[str, Any]]) -> str:
    """The runs as a table of Markdown, with the sums below."""
    lines = [
        "| server | planted | first bound right | its share of the time | at most | measured gain | inside |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        start = f"| {row['server']} | {row['kind']} |"
        if "error" in row:
            lines.append(f"{start} failed: {row['error']} | | | | |")
            continue
        low, mid, high = row["share"] or (math.nan,) * 3
        share = f"{mid:.0%} [{low:.0%}, {high:.0%}]" if row["share"] else "not measured"
        bound = f"{row['bound']:.2f}×" if row["bound"] else "no bound"
        gain = row.get("not_tried", "no change to try")
        if "gain" in row:
            gain = f"{row['gain']:.2f}× [{row['gain_low']:.2f}, {row['gain_high']:.2f}]"
        fits = {True: "yes", False: "NO", None: ""}[_is_inside(row)]
        right = "yes" if row["is_first"] else f"NO: {row['first']}"
        lines.append(f"{start} {right} | {share} | {bound} | {gain} | {fits} |")
    judged = [row for row in rows if "error" not in row]
    inside = [one for row in judged if (one := _is_inside(row)) is not None]
    lines.append("")
    lines.append(
        f"First bound right: {sum(row['is_first'] for row in judged)} of {len(judged)} runs."
        f" Measured gain within the bound: {sum(inside)} of {len(inside)} runs with a bound and a change."
    )
    return "\n".join(lines) + "\n"


def _is_inside(row: Mapping[str, Any]) -> bool | None:
    """Whether the measured gain is no more than the bound; None without one of the two."""
    gain, bound = row.get("gain"), row.get("bound")
    return None if gain is None or bound is None else bool(gain <= bound)


def _sum_of_calibration(rows: Sequence[Mapping[str, Any]]) -> int:
    """Prints the table; fails below the bars."""
    sys.stdout.write(_calibration(rows))
    inside = [one for row in rows if (one := _is_inside(row)) is not None]
    right = sum(row.get("is_first", False) for row in rows)
    return int(right < 0.9 * len(rows) or sum(inside) < 0.95 * len(inside))


def _told(found: Diagnosis) -> dict[str, Any]:
    """What the doctor said, for the lines of JSON."""
    return {
        "answer": found.answer,
        "seen": [one.text for first in found.findings[:1] for one in first.seen],
        "order": [(one.name, one.strength, *_shown(one)) for one in found.findings],
        "connections": {name: round(mean, 2) for name, mean in found.evidence.time.connections.items()},
        "samples": found.evidence.time.samples,
        "cpu_waiting": found.evidence.host.cpu_waiting if found.evidence.host else None,
    }


def _shown(one: Finding) -> tuple[float | None, float | None]:
    """Share and bound of a finding."""
    share, bound = one.share, one.at_most
    return round(share.mid, 3) if share else None, bound and round(bound, 2)


def _mean(rates: Sequence[float], seconds: float) -> float:
    """The geometric mean; of a slice without a transaction, one in twice its time."""
    return math.exp(sum(math.log(max(rate, 0.5 / seconds)) for rate in rates) / len(rates))


def main() -> int:
    """Runs the kinds and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", action="append", choices=FLAVORS)
    parser.add_argument("--kind", action="append", choices=(*KINDS, *HEALTHY))
    parser.add_argument("--healthy", action="store_true", help="servers that nothing is wrong with")
    parser.add_argument("--calibrate", action="store_true", help="try the doctor's changes by --own-load")
    parser.add_argument("--compare", type=float, default=60.0, help="seconds of such a comparison")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="for the table of --calibrate")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="of planted and mended")
    parser.add_argument("--seconds", type=float, default=30.0, help="that the doctor watches")
    parser.add_argument("--slice", type=float, default=5.0, help="of load, planted and mended")
    parser.add_argument("--budget", type=float, metavar="MINUTES", help="after which no run begins")
    parser.add_argument("--read", type=Path, metavar="FILE", help="prints the table of earlier runs alone")
    parser.add_argument("--json", type=Path, help="lines of JSON, one a run, as they come")
    given = parser.parse_args()
    if given.read is not None:
        return _concluded([json.loads(line) for line in given.read.read_text().splitlines()], given)
    until_s = time.monotonic() + 60 * (given.budget or math.inf)
    rows: list[dict[str, Any]] = []
    signal.signal(signal.SIGALRM, _too_long)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        for build, name in _in_order(given):
            if time.monotonic() > until_s:
                sys.stdout.write("the budget is spent\n")
                break
            row = {"kind": name, "server": build, **_judge(name, build, given, Path(folder))}
            rows.append(row)
            sys.stdout.write(_line(row) + "\n")
            sys.stdout.flush()
            if given.json is not None:
                with given.json.open("a") as out:
                    out.write(json.dumps(row) + "\n")
    return _concluded(rows, given)


def _concluded(rows: Sequence[Mapping[str, Any]], given: argparse.Namespace) -> int:
    """Prints what the runs say together."""
    if given.calibrate and given.markdown is not None:
        given.markdown.write_text(_calibration(rows))
    if given.calibrate:
        return _sum_of_calibration(rows)
    return (_sum_of_healthy if given.healthy else _sum)(rows)


def _in_order(given: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Server and kind of each run: `FIRST` are done once before all others, and these before second runs."""
    kinds = HEALTHY if given.healthy else KINDS
    servers = given.server or FLAVORS
    parts = [one for one in servers if one in FIRST], [one for one in servers if one not in FIRST]
    for _ in range(given.runs):
        for some in parts:
            for name, kind in kinds.items():
                for build in some:
                    if build not in kind.not_on and (not given.kind or name in given.kind):
                        yield build, name


def _judge(name: str, build: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run; what failed is a row too, so that the others go on."""
    most_s = MOST_S + (3 * given.compare if given.calibrate else 0.0)
    signal.setitimer(signal.ITIMER_REAL, most_s, MOST_S / 4)
    judge = check if given.healthy else calibrate if given.calibrate else run
    kind = (HEALTHY if given.healthy else KINDS)[name]
    try:
        try:
            return judge(kind, build, given, folder)
        except HarnessError:  # a busy machine made the emulated disk slower than it was to be
            return judge(kind, build, given, folder)
    except Exception as error:  # noqa: BLE001 - it is shown
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _too_long(*_: object) -> None:
    raise TimeoutError("the run took too long")


def _sum(rows: Sequence[Mapping[str, Any]]) -> int:
    """Prints the sums of each server and of all as a table, then each run that missed a bar."""
    table = [("server", "runs", "first", "violated", "with a bound", "no bound", "nothing planted", "failed")]
    for server in (*dict.fromkeys(row["server"] for row in rows), "all"):
        own = [row for row in rows if server in (row["server"], "all")]
        judged = [row for row in own if "error" not in row]
        firsts = sum(row["is_first"] for row in judged)
        bounds = [row for row in judged if row["bound"] is not None]
        violated = sum(row["violated"] for row in bounds)
        none = sum(row["gain"] < PLANTED for row in judged)
        counts = (len(own), firsts, violated, len(bounds), len(judged) - len(bounds), none)
        table.append((server, *map(str, (*counts, len(own) - len(judged)))))
    for line in table:
        sys.stdout.write("| " + " | ".join(f"{cell:>{14}}" for cell in line) + " |\n")
    for row in rows:
        if "error" in row or not row["is_first"] or row["violated"] or row["gain"] < PLANTED:
            sys.stdout.write(_line(row) + "\n")
    return int(firsts < 0.9 * len(own) or violated > 0.05 * max(1, len(bounds)))


def _sum_of_healthy(rows: Sequence[Mapping[str, Any]]) -> int:
    """Prints how many findings were false."""
    judged = [row for row in rows if "error" not in row]
    false = sum(len(row["false"]) for row in judged)
    sys.stdout.write(f"false findings: {false} on {len(judged)} servers; failed: {len(rows) - len(judged)}\n")
    return int(false > len(judged) / 10 or len(judged) < len(rows))


def _line(row: Mapping[str, Any]) -> str:
    if "error" in row:
        return f"{row['kind']:20} {row['server']:14} failed: {row['error']}"
    order = ", ".join(f"{name} {share}" for name, _, share, _ in row["order"][:3])
    if "false" in row:
        false = ", ".join(row["false"]) or "none"
        return f"{row['kind']:20} {row['server']:14} false: {false}  ({order})  {row['answer']}"
    bound = "-" if row["bound"] is None else f"{row['bound']:.2f}"
    if "change" in row:
        gain = f"gain {row['gain']:.2f}" if "gain" in row else row.get("not_tried", "no change to try")
        first = "first" if row["is_first"] else "NOT  "
        return f"{row['kind']:20} {row['server']:14} {first}  at most {bound:>6}  {gain}  ({order})"
    return (
        f"{row['kind']:20} {row['server']:14} {'first' if row['is_first'] else 'NOT  '}  at most {bound:>6} "
        f" gain {row['gain']:6.2f}{'  VIOLATED' if row['violated'] else ''}  ({order})"
    )


if __name__ == "__main__":
    sys.exit(main())
