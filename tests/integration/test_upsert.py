"""`upsert` against real servers: what it writes, what it counts, when it commits."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import msgspec
import pymysql
import pytest

from flushlab import _core
from flushlab.errors import MeasurementError
from flushlab.record import LoadProgress, LoadResult, RowCounts
from flushlab.server import Sandbox
from flushlab.workload.generators import SeveralLoads
from flushlab.workload.protocol import Measured, Timing
from flushlab.workload.tables import UPSERT, UpsertWorkload
from tests.conftest import StartSandbox, flavors
from tests.threaded_generator import Threaded
from tests.waiting import PATIENCE_S

SERVERS = flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", first=2)
SIZE = 1000
SHORT = Timing(warm_up_s=0.2, max_warm_up_s=0.5, seconds=1.0)
LOADED = msgspec.structs.replace(SHORT, seconds=0.1, redo_bytes=200_000, max_seconds=PATIENCE_S)
"""A window that goes on until hundreds of rows were written in it, however slow the machine is."""
SMALL = UpsertWorkload(threads=2, tables=2, table_size=SIZE, rows=10)
UNSYNCED = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}
"""What is asked here is what is written and when, not how fast: it must not hang on the speed of a disk."""

Servers = Callable[..., Sandbox]


@pytest.fixture(scope="module")
def server_of(shared_sandbox: StartSandbox) -> Servers:
    """A server without tables, by the name of its build; tests share it."""
    started: dict[str, Sandbox] = {}

    def server_of(name: str = "mariadb@10.11") -> Sandbox:
        if name not in started:
            started[name] = shared_sandbox(name, settings=UNSYNCED)
        started[name].query(f"DROP DATABASE IF EXISTS {UPSERT}")
        started[name].query("SET GLOBAL innodb_lock_wait_timeout = 50")
        return started[name]

    return server_of


def measure(server: Sandbox, workload: UpsertWorkload, timing: Timing = LOADED) -> Measured:
    workload.prepare(server)
    return workload.run(server, timing, contextlib.nullcontext())


def rows_of(measured: Measured) -> RowCounts:
    assert measured.load is not None
    assert measured.load.rows is not None
    return measured.load.rows


def status(server: Sandbox, name: str) -> int:
    return int(server.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])


def new_rows(server: Sandbox, workload: UpsertWorkload) -> int:
    counts = (
        server.query(f"SELECT COUNT(*) FROM {UPSERT}.upsert_{workload.key}{table} WHERE k > {SIZE}")[0][0]
        for table in range(1, workload.tables + 1)
    )
    return sum(map(int, counts))


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("key", ["unique", "primary"])
def test_rows_conflict_in_the_key_that_was_asked_for(server_of: Servers, name: str, key: str) -> None:
    server = server_of(name)
    workload = msgspec.structs.replace(SMALL, key=key, hit_ratio=0.3)
    measured = measure(server, workload)
    rows = rows_of(measured)
    assert measured.unit == "rows/s"
    assert measured.result == pytest.approx(rows.committed / measured.window_s)
    assert rows.committed >= 100
    six_sigma = 6 * (0.3 * 0.7 / rows.committed) ** 0.5
    assert rows.updated / rows.committed == pytest.approx(0.3, abs=six_sigma)
    columns = server.query(
        "SELECT index_name, column_name, non_unique FROM information_schema.statistics"
        f" WHERE table_schema = '{UPSERT}' AND table_name = 'upsert_{key}1' ORDER BY 1"
    )
    due = [("k", "k", 0), ("PRIMARY", "id", 0)] if key == "unique" else [("PRIMARY", "k", 0)]
    assert [(index, column, int(more)) for index, column, more in columns] == due
    # Every existing key is still there, once; new ones follow without a gap that was not rolled back.
    held = server.query(f"SELECT COUNT(*), MIN(k) FROM {UPSERT}.upsert_{key}1 WHERE k <= {SIZE}")
    assert tuple(map(int, held[0])) == (SIZE, 1)
    last, count = server.query(f"SELECT MAX(k), COUNT(*) FROM {UPSERT}.upsert_{key}1")[0]
    assert int(last) == int(count)


def test_a_ratio_of_one_writes_no_new_row_and_of_none_only_new_ones(server_of: Servers) -> None:
    server = server_of()
    all_there = msgspec.structs.replace(SMALL, hit_ratio=1.0)
    rows = rows_of(measure(server, all_there))
    assert rows.updated == rows.committed
    assert new_rows(server, all_there) == 0
    nothing_there = msgspec.structs.replace(SMALL, hit_ratio=0.0)
    rows = rows_of(measure(server, nothing_there))
    assert rows.updated == 0
    assert new_rows(server, nothing_there) >= rows.committed


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("commit", ["autocommit", "1000 rows", "0.2 s"])
def test_commits_come_when_they_were_asked_for(server_of: Servers, name: str, commit: str) -> None:
    server = server_of(name)
    workload = msgspec.structs.replace(SMALL, commit=commit)
    workload.prepare(server)
    before = status(server, "Com_commit")
    load = _core.LoadRun(msgspec.json.encode(workload._spec(server.endpoint)))
    opened = begun(load)
    seen = status(server, "Com_commit")
    until(
        load,
        lambda progress: (
            progress.events >= opened.events + 400
            and (commit == "autocommit" or status(server, "Com_commit") >= seen + 6)
        ),
    )
    result = msgspec.json.decode(load.close_window(), type=LoadResult)
    commits = status(server, "Com_commit") - before
    load.stop()
    rows = result.rows
    assert rows is not None
    if commit == "autocommit":
        assert (commits, rows.commits) == (0, result.events)
        assert rows.commit_latency_us is None
        return
    # Of each connection one commit that has ended on the server may not have come by the window's end.
    assert 6 - workload.threads <= rows.commits <= commits
    assert rows.commit_latency_us is not None
    if commit == "1000 rows":
        assert rows.commits == pytest.approx(rows.committed / 1000, abs=2 * workload.threads)
    else:
        # Nobody commits twice in 0.2 s, so in the window only once more than that goes into it.
        assert rows.commits <= workload.threads * (result.seconds / 0.2 + 1)


def test_what_a_window_counts_is_in_the_tables(server_of: Servers) -> None:
    server = server_of()
    workload = msgspec.structs.replace(SMALL, hit_ratio=0.0, commit="3600 s", threads=1)
    workload.prepare(server)
    load = _core.LoadRun(msgspec.json.encode(workload._spec(server.endpoint)))
    opened = begun(load).events
    until(load, lambda progress: progress.events >= opened + 100)
    result = msgspec.json.decode(load.close_window(), type=LoadResult)
    there = new_rows(server, workload)  # committed: another connection sees them
    until(load, lambda progress: progress.events * SMALL.rows > there)
    load.stop()
    assert result.rows is not None
    assert result.rows.committed == result.events * SMALL.rows >= 1000
    # The commit that settles the window is after its end: it takes along what has ended meanwhile.
    assert result.rows.committed <= there < sent(load)
    assert result.rows.commits == 0
    assert new_rows(server, workload) == there, "what was open at the stop is rolled back"


def test_rows_that_a_lock_wait_takes_back_do_not_count(server_of: Servers) -> None:
    server = server_of()
    server.query("SET GLOBAL innodb_lock_wait_timeout = 1")
    workload = msgspec.structs.replace(SMALL, threads=1, tables=1, hit_ratio=0.5, commit="1000000 rows")
    workload.prepare(server)
    endpoint = server.endpoint
    load = _core.LoadRun(msgspec.json.encode(workload._spec(endpoint)))
    holder = pymysql.connect(
        unix_socket=endpoint.socket, user=endpoint.user, password=endpoint.password, database=UPSERT
    )
    with holder, holder.cursor() as cursor:
        cursor.execute("SELECT * FROM upsert_primary1 WHERE k <= 100 FOR UPDATE")
        errors = begun(load).errors
        until(load, lambda progress: progress.errors >= errors + 2)
        events = until(load, lambda progress: True).events
        holder.rollback()
    until(load, lambda progress: progress.events >= events + 100)
    result = msgspec.json.decode(load.close_window(), type=LoadResult)
    load.stop()
    (error,) = result.errors
    assert error.errno == 1205
    assert result.rows is not None
    assert result.rows.committed + result.rows.rolled_back == result.events * SMALL.rows
    inserted = result.rows.committed - result.rows.updated
    outside = sent(load) - result.events * SMALL.rows  # before the window and after it
    assert inserted <= new_rows(server, workload) <= inserted + outside


def test_nothing_committed_is_no_measurement(server_of: Servers) -> None:
    server = server_of()
    server.query("SET GLOBAL innodb_lock_wait_timeout = 1")
    workload = msgspec.structs.replace(SMALL, threads=1, tables=1, hit_ratio=1.0, commit="1000000 rows")
    workload.prepare(server)
    endpoint = server.endpoint
    holder = pymysql.connect(
        unix_socket=endpoint.socket, user=endpoint.user, password=endpoint.password, database=UPSERT
    )
    with holder, holder.cursor() as cursor:
        cursor.execute("SELECT * FROM upsert_primary1 FOR UPDATE")
        with pytest.raises(MeasurementError, match="no rows were committed") as raised:
            workload.run(server, SHORT, contextlib.nullcontext())
        holder.rollback()
    assert "--duration" in (raised.value.hint or "")


def test_a_rate_counts_rows(server_of: Servers) -> None:
    server, workload = server_of(), msgspec.structs.replace(SMALL, rate=300.0)
    workload.prepare(server)
    load = _core.LoadRun(msgspec.json.encode(workload._spec(server.endpoint)))
    start = time.monotonic()
    opened = begun(load).events
    until(load, lambda progress: progress.events >= opened + 30)
    result = msgspec.json.decode(load.close_window(), type=LoadResult)
    load.stop()
    assert result.open_loop is not None
    # Of statements, it would be 3,000.
    assert result.open_loop.intended * result.seconds == pytest.approx(300 * result.seconds, abs=SMALL.rows)
    assert sent(load) <= 300 * (time.monotonic() - start) + SMALL.rows
    assert result.throughput == pytest.approx(result.events * SMALL.rows / result.seconds)


def begun(load: _core.LoadRun) -> LoadProgress:
    """Starts a load and opens its window; what was before it, or as it was opened."""
    load.start()
    load.open_window()
    return until(load, lambda progress: True)


def until(load: _core.LoadRun, condition: Callable[[LoadProgress], bool]) -> LoadProgress:
    deadline = time.monotonic() + PATIENCE_S
    while not condition(progress := msgspec.json.decode(load.progress(), type=LoadProgress)):
        assert progress.failed is None, progress.failed
        assert time.monotonic() < deadline, f"waited in vain: {progress}"
        time.sleep(0.005)
    return progress


def sent(load: _core.LoadRun) -> int:
    """Rows of all statements of a load that were answered."""
    return until(load, lambda progress: True).events * SMALL.rows


def test_new_rows_of_two_load_generators_never_meet(server_of: Servers) -> None:
    server = server_of()
    workload = msgspec.structs.replace(SMALL, threads=4, hit_ratio=0.0)
    workload.prepare(server)
    generators = [Threaded("one"), Threaded("two", ahead_s=1000.0)]
    load = SeveralLoads(workload.driving(server).spec, generators)
    try:
        load.start()
        load.open_window()
        deadline = time.monotonic() + PATIENCE_S
        while msgspec.json.decode(load.progress(), type=LoadProgress).events < 200:
            assert time.monotonic() < deadline
        result = msgspec.json.decode(load.close_window(), type=LoadResult)
        load.pause()
    finally:
        load.stop()
    assert result.rows is not None
    assert result.rows.committed > 0
    assert result.rows.updated == 0  # a key that both had made would be a row that is there
    assert [one.connections for one in result.clients] == [2, 2]
    assert new_rows(server, workload) >= result.rows.committed
