"""The load engine against real servers: its tables, its statements, its counts, its ends."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pymysql
import pytest

from flushlab import _core
from flushlab.record import Endpoint, LoadProgress, LoadResult, LoadSpec
from flushlab.server import Sandbox
from flushlab.workload.engine import LoadInterrupted, Losses, drive
from flushlab.workload.protocol import Driving, Timing
from tests.conftest import StartSandbox
from tests.sysbench_log import sysbench
from tests.waiting import PATIENCE_S, wait_until

MARIADB = "mariadb@10.11"
MYSQL_8 = "mysql@8.0"
SIZE = 1000

# src/lua/oltp_common.lua of sysbench 1.0.20, create_table.
SYSBENCH_TABLE = """
CREATE TABLE sbtest1(
  id INTEGER NOT NULL AUTO_INCREMENT,
  k INTEGER DEFAULT '0' NOT NULL,
  c CHAR(120) DEFAULT '' NOT NULL,
  pad CHAR(60) DEFAULT '' NOT NULL,
  PRIMARY KEY (id)
) /*! ENGINE = innodb */"""

NO_SYNCS = {"innodb_flush_log_at_trx_commit": 0}
"""Commits wait for no disk: what is tested here is the client."""


@pytest.fixture(scope="module")
def mariadb(shared_sandbox: StartSandbox) -> Sandbox:
    return shared_sandbox(MARIADB, settings=NO_SYNCS)


@pytest.fixture(scope="module")
def mysql_8(shared_sandbox: StartSandbox) -> Sandbox:
    found = shared_sandbox(MYSQL_8, settings=NO_SYNCS)
    _core.prepare_tables(load_spec(found.endpoint))
    return found


@pytest.fixture
def server(mariadb: Sandbox) -> Iterator[Sandbox]:
    """A server without databases, whose settings a test may change."""
    before = mariadb.read_back(("innodb_lock_wait_timeout", "max_allowed_packet", "max_connections"))
    yield mariadb
    for name, value in before.items():
        mariadb.query(f"SET GLOBAL {name} = {value}")
    for database in ("sbtest", "ours", "theirs", "one", "same", "other"):
        mariadb.query(f"DROP DATABASE IF EXISTS {database}")


def load_spec(endpoint: Endpoint, **changes: Any) -> bytes:
    spec = LoadSpec(workload="oltp_update_non_index", endpoint=endpoint, table_size=SIZE)
    return msgspec.json.encode(msgspec.to_builtins(spec) | changes)


def progress_of(run: _core.LoadRun) -> LoadProgress:
    return msgspec.json.decode(run.progress(), type=LoadProgress)


def wait_for(run: _core.LoadRun, condition: Callable[[LoadProgress], bool]) -> LoadProgress:
    deadline = time.monotonic() + PATIENCE_S
    while not condition(progress := progress_of(run)):
        assert time.monotonic() < deadline, f"waited in vain: {progress}"
        time.sleep(0.005)
    return progress


def begun(run: _core.LoadRun) -> LoadProgress:
    """Starts a load and opens its window; what was before it, or as it was opened."""
    run.start()
    run.open_window()
    return progress_of(run)


def measure(spec: bytes, events: int) -> LoadResult:
    """A window in which so many events end, or some more."""
    run = _core.LoadRun(spec)
    opened = begun(run).events
    wait_for(run, lambda progress: progress.failed is not None or progress.events >= opened + events)
    result = msgspec.json.decode(run.close_window(), type=LoadResult)
    run.stop()
    return result


def statements(server: Sandbox) -> dict[str, int]:
    rows = server.query("SHOW GLOBAL STATUS LIKE 'Com\\_%'")
    return {name: int(count) for name, count in rows}


def test_prepared_tables_are_sysbenchs(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint, tables=3, database="ours"))
    server.query("CREATE DATABASE theirs")
    server.query(SYSBENCH_TABLE.replace("sbtest1", "theirs.sbtest1"))
    server.query("CREATE INDEX k_1 ON theirs.sbtest1(k)")
    definition = server.query("SHOW CREATE TABLE theirs.sbtest1")[0][1]
    for number in (1, 2, 3):
        made = server.query(f"SHOW CREATE TABLE ours.sbtest{number}")[0][1]
        made = made.replace(f" AUTO_INCREMENT={SIZE + 1}", "").replace(f"k_{number}", "k_1")
        assert made.replace(f"sbtest{number}", "sbtest1") == definition
        shape = server.query(
            "SELECT COUNT(*), MIN(id), MAX(id), SUM(c REGEXP '^([0-9]{11}-){9}[0-9]{11}$'),"
            f" SUM(pad REGEXP '^([0-9]{{11}}-){{4}}[0-9]{{11}}$'), SUM(k BETWEEN 1 AND {SIZE}),"
            f" COUNT(DISTINCT c) FROM ours.sbtest{number}"
        )
        assert [int(value) for value in shape[0]] == [SIZE, 1, SIZE, SIZE, SIZE, SIZE, SIZE]


def test_the_same_spec_gives_the_same_rows_and_another_seed_others(server: Sandbox) -> None:
    for database, seed in (("one", 7), ("same", 7), ("other", 8)):
        _core.prepare_tables(load_spec(server.endpoint, database=database, seed=seed))
    sums = server.query("CHECKSUM TABLE one.sbtest1, same.sbtest1, other.sbtest1")
    one, same, other = (checksum for _, checksum in sums)
    assert one == same != other


def test_an_event_is_one_prepared_autocommitted_update_of_one_row(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    server.query("CREATE TABLE sbtest.drawn (id INT NOT NULL) ENGINE=InnoDB")
    server.query(
        "CREATE TRIGGER sbtest.note AFTER UPDATE ON sbtest.sbtest1"
        " FOR EACH ROW INSERT INTO sbtest.drawn VALUES (NEW.id)"
    )
    before = statements(server)
    run = _core.LoadRun(load_spec(server.endpoint, threads=3))
    run.start()
    wait_for(run, lambda progress: progress.events >= 12_000)
    run.stop()
    events = progress_of(run).events
    after = statements(server)

    drawn = server.query("SELECT COUNT(*), SUM(id BETWEEN 498 AND 505) FROM sbtest.drawn")[0]
    assert int(drawn[0]) == events, "what was acknowledged was committed, each event once"
    assert after["Com_stmt_execute"] - before["Com_stmt_execute"] == events
    assert after["Com_update"] - before["Com_update"] == events
    assert after["Com_begin"] == before["Com_begin"]
    assert after["Com_commit"] == before["Com_commit"]
    # `special` on 1..1000: offsets floor(r x 10.99 + 494.505) for r in [.25, 1) are 497..505, of which
    # ids 498..506 get 75 %; id 506 only what is left over: r >= (505 - 494.505) / 10.99 = .9550.
    # So 498..505 hold .705 of the draws, and 8 ids of the bell's middle .25 x 8 / 999 x 4.787.
    assert abs(int(drawn[1]) / events - (0.7050 + 0.0096)) < 0.02


def test_a_window_counts_what_ended_in_it_over_socket_and_tcp(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint, tables=2))
    for transport in ("socket", "tcp"):
        before, start = statements(server)["Com_stmt_execute"], time.monotonic()
        result = measure(load_spec(server.endpoint, tables=2, threads=4, transport=transport), 5000)
        elapsed = time.monotonic() - start
        executed = statements(server)["Com_stmt_execute"] - before
        assert 0 < result.events <= executed
        assert result.throughput == pytest.approx(result.events / result.seconds)
        assert len(result.per_second) == int(result.seconds)
        assert result.errors == ()
        assert result.latency_us is not None
        assert result.latency_us.p50 <= result.latency_us.p99 <= result.latency_us.max
        # In a closed loop the connections are busy all the time, one event after the other, but for what the
        # client does in between. The histogram has three digits.
        busy = result.events * result.latency_us.mean / 1e6
        assert 2 * result.seconds <= busy <= 4 * elapsed * 1.001
        assert result.client_cpu_us_per_event is not None
        assert 0 < result.client_cpu_us_per_event * result.events / 1e6 <= elapsed
        client = result.client
        assert client is not None and client.waits > 0 and client.answers_per_wait is not None
        # Before the window, an answer of each connection may have been ready but not taken.
        assert client.waits * client.answers_per_wait >= result.events - 4


def test_a_rate_is_kept(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    start = time.monotonic()
    result, outside = measure_rate(load_spec(server.endpoint, threads=4, rate=400.0), 400)
    elapsed = time.monotonic() - start
    assert result.events + outside <= 400 * elapsed + 1 + 4, "none is begun before it is due"
    assert_all_that_was_due_was_begun(result, outside, 400 * result.seconds, 1)


def measure_rate(spec: bytes, events: int) -> tuple[LoadResult, int]:
    """A window of 4 connections, and how many events there were before and after it at most."""
    run = _core.LoadRun(spec)
    opened = begun(run).events
    wait_for(run, lambda progress: progress.events >= opened + events)
    result = msgspec.json.decode(run.close_window(), type=LoadResult)
    run.stop()
    return result, progress_of(run).events + 4 - result.events


def assert_all_that_was_due_was_begun(result: LoadResult, outside: int, due: float, off_by: float) -> None:
    """So many events were due in the window, but for those that begin before it is told that it is over.

    What was due has ended in it, is under way, or is behind; what was behind when it began is extra.
    """
    loop = result.open_loop
    assert loop is not None
    intended = loop.intended * result.seconds
    assert due - off_by - 0.5 <= intended <= due + off_by + outside + 0.5
    found = result.events + loop.backlog_end
    assert intended - 4.5 - outside <= found <= intended + 4.5 + loop.backlog_max


def test_what_a_rate_intends_is_told_with_the_generators_lag(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    start = time.monotonic()
    spec = load_spec(server.endpoint, threads=4, rate=1000.0, rate_kind="poisson")
    result, outside = measure_rate(spec, 1000)
    elapsed_us = 1e6 * (time.monotonic() - start)
    due = 1000 * result.seconds
    assert_all_that_was_due_was_begun(result, outside, due, 6 * due**0.5)
    assert result.open_loop is not None and result.open_loop.lag_us is not None
    lag = result.open_loop.lag_us
    assert 0 <= lag.p50 <= lag.p99 <= lag.max <= elapsed_us * 1.001


def test_a_rate_that_no_machine_reaches_is_reported_with_its_backlog(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    result = measure(load_spec(server.endpoint, threads=4, rate=1_000_000.0), 2000)
    loop = result.open_loop
    assert loop is not None
    assert loop.intended == pytest.approx(1_000_000, rel=0.01)
    assert result.throughput < 0.5 * loop.intended
    assert loop.backlog_max >= loop.backlog_end > 0
    assert result.latency_us is not None
    assert result.latency_us.max > 1000


@pytest.mark.parametrize("threads", [1, 4])
def test_lost_connections_come_back_where_that_is_asked_for(server: Sandbox, threads: int) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    run = _core.LoadRun(load_spec(server.endpoint, threads=threads, reconnect=True))
    opened = begun(run).events
    wait_for(run, lambda progress: progress.events > opened + 100)
    ids = server.query("SELECT id FROM information_schema.processlist WHERE db = 'sbtest'")
    assert len(ids) == threads
    for (number,) in ids:
        server.query(f"KILL CONNECTION {int(number)}")
    lost = wait_for(run, lambda progress: progress.errors >= threads)
    wait_for(run, lambda progress: progress.events > lost.events + 1000)
    result = msgspec.json.decode(run.close_window(), type=LoadResult)
    run.stop()
    assert result.lost_connections == threads
    (error,) = result.errors
    assert (error.errno, error.count) == (2013, threads)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_server_killed_and_started_again_is_gone_on_with_where_that_is_asked_for(
    server: Sandbox, threads: int
) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    run = _core.LoadRun(load_spec(server.endpoint, threads=threads, reconnect=True))
    opened = begun(run).events
    wait_for(run, lambda progress: progress.events > opened + 100)
    server.kill()
    lost = wait_for(run, lambda progress: progress.errors >= threads)
    server.start_again()
    wait_for(run, lambda progress: progress.events > lost.events + 100)
    result = msgspec.json.decode(run.close_window(), type=LoadResult)
    run.stop()
    assert result.lost_connections == threads
    assert {error.errno for error in result.errors} == {2013}
    assert result.events > 200


def test_each_second_of_a_window_is_written_as_it_ends(server: Sandbox, tmp_path: Path) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    log, seconds = tmp_path / "log", tmp_path / "seconds.csv"
    run = _core.LoadRun(load_spec(server.endpoint, threads=2, hdr_log=str(log), per_second=str(seconds)))
    run.start()
    run.open_window()
    wait_until(lambda: len(seconds.read_text().splitlines()) >= 2, "a second is over")
    assert "\n0.000,1.000," in log.read_text(), "the window is still open"
    result = msgspec.json.decode(run.close_window(), type=LoadResult)
    run.stop()
    assert result.unwritten is None
    head, *lines = seconds.read_text().splitlines()
    told = [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]
    assert [int(one["second"]) for one in told] == [*range(math.ceil(result.seconds))]
    assert sum(int(one["events"]) for one in told) == result.events
    assert sum(int(one["figure"]) for one in told) == result.events
    (update,) = result.statements
    assert (update.statement, update.count) == ("UPDATE of c", result.events)
    assert result.commits == result.events


def test_a_full_disk_costs_the_files_of_the_seconds_and_not_the_result(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    result = measure(load_spec(server.endpoint, hdr_log="/dev/full"), 500)
    assert result.throughput > 0
    assert result.unwritten == "/dev/full is incomplete: No space left on device"


def test_an_event_that_waited_for_a_lock_in_vain_counts_from_its_intended_start(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    server.query("SET GLOBAL innodb_lock_wait_timeout = 1")
    endpoint = server.endpoint
    with pymysql.connect(
        unix_socket=endpoint.socket, user=endpoint.user, password=endpoint.password, database="sbtest"
    ) as holder:
        holder.begin()
        holder.cursor().execute("SELECT id FROM sbtest1 FOR UPDATE")
        run = _core.LoadRun(load_spec(endpoint, threads=2, rate=0.1))
        errors = begun(run).errors
        wait_for(run, lambda progress: progress.errors > errors)
        holder.rollback()
        wait_for(run, lambda progress: progress.events >= 1)
        result = msgspec.json.decode(run.close_window(), type=LoadResult)
        run.stop()
    assert {error.errno for error in result.errors} == {1205}
    assert result.latency_us is not None
    assert result.latency_us.max > 0.99e6, "it was due before it waited for a second"


def test_the_clients_thread_is_batch_unless_normal_is_asked_for(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    for sched, policy in (("batch", os.SCHED_BATCH), ("normal", os.SCHED_OTHER)):
        run = _core.LoadRun(load_spec(server.endpoint, threads=2, client_sched=sched))
        run.start()
        wait_for(run, lambda progress: progress.events > 10)
        policies = {}
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError):  # other threads may end
                policies[(task / "comm").read_text().strip()] = os.sched_getscheduler(int(task.name))
        run.stop()
        assert policies["load"] == policy


def test_ctrl_c_in_the_window_keeps_what_was_measured(
    server: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    spec = msgspec.json.decode(load_spec(server.endpoint, threads=2), type=LoadSpec)

    events: list[int] = []

    def glance(_: Losses, seconds: float, now: int) -> None:
        """What the window's loop does in every turn."""
        if seconds:
            events.append(now)
        if events and now > events[0]:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Losses, "glance", glance)
    timing = Timing(warm_up_s=0.0, max_warm_up_s=0.1, seconds=PATIENCE_S)
    with pytest.raises(LoadInterrupted) as caught:
        drive(Driving(spec=spec, unit="transactions/s"), server, timing, nullcontext())
    assert 0 < caught.value.result.seconds < PATIENCE_S
    assert caught.value.result.events > 0


def test_a_lock_wait_timeout_is_counted_and_the_load_goes_on(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    server.query("SET GLOBAL innodb_lock_wait_timeout = 1")
    run = _core.LoadRun(load_spec(server.endpoint, threads=2))
    endpoint = server.endpoint
    holder = pymysql.connect(
        unix_socket=endpoint.socket, user=endpoint.user, password=endpoint.password, database="sbtest"
    )
    with holder, holder.cursor() as cursor:
        cursor.execute("SELECT * FROM sbtest1 FOR UPDATE")
        errors = begun(run).errors
        blocked = wait_for(run, lambda progress: progress.errors >= errors + 2)
        assert (blocked.events, blocked.failed) == (0, None)
        holder.rollback()
    wait_for(run, lambda progress: progress.events > 100)
    result = msgspec.json.decode(run.close_window(), type=LoadResult)
    run.stop()
    (error,) = result.errors
    assert (error.errno, error.sqlstate) == (1205, "HY000")
    assert "Lock wait timeout" in error.message
    assert error.count >= 2


def test_an_error_that_is_not_ignored_ends_the_load(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    run = _core.LoadRun(load_spec(server.endpoint, threads=2))
    run.start()
    run.open_window()
    server.query("DROP TABLE sbtest.sbtest1")
    failed = wait_for(run, lambda progress: progress.failed is not None).failed
    assert failed is not None
    assert "error 1146" in failed
    with pytest.raises(_core.CoreError) as caught:
        run.close_window()
    assert (caught.value.kind, caught.value.errno, caught.value.sqlstate) == ("server", 1146, "42S02")
    run.stop()


def test_a_server_killed_in_mid_run_ends_the_load_with_its_reason(sandbox: StartSandbox) -> None:
    server = sandbox(MARIADB, settings=NO_SYNCS)
    _core.prepare_tables(load_spec(server.endpoint))
    run = _core.LoadRun(load_spec(server.endpoint, threads=8))
    run.start()
    run.open_window()
    wait_for(run, lambda progress: progress.events > 100)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    progress = wait_for(run, lambda progress: progress.failed is not None)
    assert progress.failed is not None
    assert "the server at" in progress.failed
    with pytest.raises(_core.CoreError) as caught:
        run.close_window()
    assert (caught.value.kind, caught.value.errno) == ("server", None)
    run.stop()
    wait_until(lambda: not server.alive(), "the server has closed its socket")
    with pytest.raises(_core.CoreError, match="cannot connect"):
        _core.LoadRun(load_spec(server.endpoint))


def test_what_is_missing_is_named(server: Sandbox) -> None:
    def refusal(**changes: Any) -> _core.CoreError:
        with pytest.raises(_core.CoreError) as caught:
            _core.LoadRun(load_spec(server.endpoint, **changes))
        assert server.endpoint.password not in repr(caught.value)
        return caught.value

    assert refusal(database="nowhere").errno == 1049
    server.query("CREATE DATABASE sbtest")
    absent = refusal()
    assert (absent.kind, absent.errno) == ("measurement", 1146)
    assert "table sbtest.sbtest1 does not exist" in absent.message

    server.query("CREATE TABLE sbtest.sbtest1 (id INT PRIMARY KEY, k INT, c TEXT, pad CHAR(60))")
    assert "column c is text, char(120) was due" in refusal().message
    server.query("DROP TABLE sbtest.sbtest1")

    _core.prepare_tables(load_spec(server.endpoint))
    assert "has ids up to 1000" in refusal(table_size=1001).message
    with pytest.raises(_core.CoreError, match="already exists") as caught:
        _core.prepare_tables(load_spec(server.endpoint))
    assert caught.value.errno == 1050

    wrong = msgspec.structs.replace(server.endpoint, password="wrong-password")
    for transport in ("socket", "tcp"):
        with pytest.raises(_core.CoreError) as caught:
            _core.LoadRun(load_spec(wrong, transport=transport))
        assert caught.value.errno == 1045
        assert "wrong-password" not in repr(caught.value)


def test_too_many_connections_is_the_servers_own_error(server: Sandbox) -> None:
    _core.prepare_tables(load_spec(server.endpoint))
    server.query("SET GLOBAL max_connections = 10")
    with pytest.raises(_core.CoreError) as caught:
        _core.LoadRun(load_spec(server.endpoint, threads=50))
    assert caught.value.errno == 1040
    assert "of 50: " in caught.value.message


def test_batches_fit_a_small_max_allowed_packet(server: Sandbox) -> None:
    server.query("SET GLOBAL max_allowed_packet = 16384")
    _core.prepare_tables(load_spec(server.endpoint))
    assert server.query("SELECT COUNT(*) FROM sbtest.sbtest1") == [(SIZE,)]


@pytest.mark.parametrize("plugin", ["mysql_native_password", "caching_sha2_password"])
def test_mysql_8_lets_in_by_either_plugin_over_either_transport(mysql_8: Sandbox, plugin: str) -> None:
    server = mysql_8
    password = "a password of more than twenty characters"
    for host in ("localhost", "127.0.0.1"):
        server.query(f"DROP USER IF EXISTS 'me'@'{host}'")
        server.query(f"CREATE USER 'me'@'{host}' IDENTIFIED WITH {plugin} BY '{password}'")
        server.query(f"GRANT ALL ON sbtest.* TO 'me'@'{host}'")
    endpoint = msgspec.structs.replace(server.endpoint, user="me", password=password)
    wrong = msgspec.structs.replace(endpoint, password=password.upper())
    for transport in ("socket", "tcp"):
        # Emptying the server's cache makes the next login a full exchange; the second of the two
        # connections is then let in by the cache.
        server.query("FLUSH PRIVILEGES")
        result = measure(load_spec(endpoint, threads=2, transport=transport), 100)
        assert result.events > 0
        with pytest.raises(_core.CoreError) as caught:
            _core.LoadRun(load_spec(wrong, transport=transport))
        assert caught.value.errno == 1045


def test_sysbench_and_the_engine_use_each_others_tables(server: Sandbox, tmp_path: Path) -> None:
    endpoint = server.endpoint
    theirs = partial(sysbench, endpoint, tmp_path, "oltp_update_non_index", f"--table-size={SIZE}")
    _core.prepare_tables(load_spec(endpoint, database="ours"))
    assert "transactions:                        500 " in theirs("--events=500", "run", database="ours")
    server.query("CREATE DATABASE theirs")
    theirs("prepare", database="theirs")
    assert measure(load_spec(endpoint, database="theirs"), 500).events >= 500
