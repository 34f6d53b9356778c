"""Each finding, from the evidence that it takes, and silence without it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flushlab.diagnosis.diagnose import diagnose
from flushlab.diagnosis.evidence import Evidence, Latch, Monitor
from flushlab.diagnosis.finding import Finding, changes
from flushlab.diagnosis.findings import FINDINGS, commits, innodb, statements
from flushlab.diagnosis.shares import TimeShare
from flushlab.machine import Pressure
from flushlab.record import ServerIdentity
from flushlab.telemetry.live.questions import FileEvents, OpenTransaction, ThreadState
from tests.unit.diagnosis.hosts import NEIGHBOR, disk, host
from tests.unit.diagnosis.watched import COMMITTING, MARIADB, MYSQL97, client, evidence, time_of, writer
from tests.unit.telemetry.live.told import MYSQL57

BUSY = Pressure(steal_share=0.1, cpu_pressure_share=0.9, io_pressure_share=0.0, memory_pressure_share=0.0)


def blocked(state: str, verb: str = "insert") -> ThreadState:
    return ThreadState(1, "Query", 5, state, verb)


def transaction(thread: int, *, waits: bool = False, age_s: int = 0, modified: int = 0) -> OpenTransaction:
    return OpenTransaction(
        thread=thread, waits=waits, age_s=age_s, rows_locked=1 + modified, rows_modified=modified
    )


def prepared(age_s: int, **more: Any) -> OpenTransaction:
    return OpenTransaction(
        **{"thread": 9, "waits": False, "prepared": True, "rows_locked": 1, "rows_modified": 1, **more},
        age_s=age_s,
    )


def found_in(seen: Evidence) -> dict[str, Finding]:
    every = [found for find in FINDINGS if (found := find(seen)) is not None]
    return {one.name: one for one in every}


def committing(counted: dict[str, int] | None = None, **more: Any) -> Finding:
    """The finding of a connection in its commit."""
    return found_in(evidence(counted, **{"write_time": time_of([writer(1, COMMITTING)]), **more}))[
        "commit_sync"
    ]


def with_ends(seen: Evidence, before: dict[str, Any], after: dict[str, Any]) -> Evidence:
    replace = msgspec.structs.replace
    return replace(seen, before=replace(seen.before, **before), after=replace(seen.after, **after))


def texts(finding: Finding) -> list[str]:
    return [one.text for one in finding.seen]


def mid(finding: Finding) -> float | None:
    return finding.share.mid if finding.share is not None else None


PLANTED: dict[str, dict[str, Any]] = {
    "commit_sync": {"write_time": time_of([writer(1, COMMITTING)])},
    "row_locks": {
        "after": {"innodb_row_lock_waits": 50, "innodb_row_lock_time": 9000},
        "write_time": time_of([writer(1), writer(2)], row_locks=0.9),
    },
    "full_scans": {
        "after": {"handler_read_rnd_next": 10_000_000, "handler_update": 500},
        "transactions": {7: msgspec.structs.replace(transaction(7, modified=1), rows_locked=20_178)},
        "write_time": time_of([writer(1), writer(2)], row_locks=0.9),
    },
    "metadata_locks": {"write_time": time_of([writer(1)], [blocked("Waiting for table metadata lock")])},
    "semi_sync": {"write_time": time_of([writer(1)], [blocked("Waiting for semi-sync ACK from replica")])},
    "galera": {
        "identity": MARIADB,
        "write_time": time_of([writer(1)], [blocked("Waiting for certification")], identity=MARIADB),
    },
    "redo_capacity": {"checkpoint_ages": (90_000_000,) * 5},
    "log_buffer": {"after": {"innodb_log_waits": 3}},
    "buffer_pool": {"after": {"innodb_buffer_pool_wait_free": 1}},
    "cpu": {"host": host(pressure=BUSY)},
    "steal": {"host": host(pressure=BUSY)},
    "cpu_quota": {"host": host(cpu_quota=1.5, cpu_throttled_share=0.4, cpu_stopped_share=0.1)},
    "disk": {"host": host(disks=(disk(utilisation=1.0, queue=12.0),))},
    "other_io": {
        "host": host(disks=(disk(utilisation=0.9),), writers=(NEIGHBOR,), bytes_per_s=1e6),
        "write_time": time_of([writer(1, COMMITTING)]),
    },
    "client": {"write_time": time_of([writer(1)], [client(1)])},
    "binlog_cache": {"after": {"binlog_cache_disk_use": 2, "binlog_cache_use": 100}},
    "idle_transactions": {"transactions": {7: transaction(7, age_s=60, modified=1)}},
    "purge_lag": {"after": {"innodb_history_list_length": 2_000_000}},
    "page_flushing": {
        "after": {"innodb_buffer_pool_pages_dirty": 890, "innodb_buffer_pool_pages_total": 1000},
        "before": {"innodb_buffer_pool_pages_dirty": 895, "innodb_buffer_pool_pages_total": 1000},
        "variables": {"innodb_max_dirty_pages_pct": "90.000000"},
    },
    "large_transactions": {"transactions": {7: transaction(7, modified=200_000)}},
    "thread_concurrency": {
        "variables": {"innodb_thread_concurrency": "2"},
        "write_time": time_of([writer(one) for one in range(8)]),
    },
    "auto_increment": {
        "after": {"innodb_row_lock_current_waits": 0},
        "transactions": {7: transaction(7, waits=True)},
    },
    "rollbacks": {"after": {"handler_rollback": 300, "handler_commit": 700, "innodb_deadlocks": 9}},
    "connections": {"after": {"connections": 500, "questions": 1000}},
    "commits_in_flight": {"monitors": (Monitor(transactions=(*map(prepared, (4, 4, 1, 0)),)),)},
    "xa_transactions": {"transactions": {-7: prepared(60, thread=0, id=7)}},
    "ddl": {"longest": {7: ThreadState(7, "Query", 95, "altering table", "alter")}},
    "latches": {"monitors": (Monitor(latches=(Latch(name="btr_search_latch", waiting=7, longest_s=0.0),)),)},
    "pending_io": {"monitors": (Monitor(pending={"reads": 48}),)},
}


def test_every_finding_is_planted() -> None:
    assert len(PLANTED) == len(FINDINGS)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bottleneck_is_found(name: str) -> None:
    given = dict(PLANTED[name])
    found = found_in(evidence(given.pop("after", None), **given))
    assert name in found
    assert found[name].title and found[name].advice and found[name].seen


def test_a_healthy_server_has_no_finding() -> None:
    seen = evidence(
        {
            "innodb_row_lock_waits": 50,
            "innodb_row_lock_time": 9000,
            "innodb_log_waits": 3,
            "innodb_buffer_pool_wait_free": 1,
            "innodb_buffer_pool_reads": 10,
            "binlog_cache_disk_use": 2,
            "binlog_cache_use": 100,
            "innodb_history_list_length": 900,
            "connections": 500,
            "questions": 900_000,
            "threads_connected": 50,
        },
        {
            "innodb_row_lock_waits": 50,
            "innodb_row_lock_time": 9000,
            "innodb_log_waits": 3,
            "innodb_buffer_pool_wait_free": 1,
            "innodb_buffer_pool_reads": 8,
            "binlog_cache_disk_use": 2,
            "connections": 495,
            "questions": 9_000,
        },
        host=host(writers=(NEIGHBOR,), bytes_per_s=9e9),
        checkpoint_ages=(10_000_000,) * 10,
        transactions={7: transaction(7, age_s=1, modified=5)},
        write_time=time_of([writer(1)]),
        monitors=(
            Monitor(
                transactions=(*map(prepared, (0, 0, 0, 0, 1)),),
                latches=(Latch(name="btr_search_latch", waiting=3, longest_s=0.5),),
                pending={"reads": 4, "syncs of the redo log": 1},
            ),
        ),
    )
    assert found_in(seen) == {}


def test_counters_that_were_set_back_are_no_growth() -> None:
    assert found_in(evidence({"innodb_log_waits": 3}, {"innodb_log_waits": 900})) == {}


def test_locks_last_as_long_as_commits_do() -> None:
    moment = [writer(1), writer(2), writer(3, COMMITTING), client(4)]
    found = committing(write_time=time_of(moment, row_locks=1.0))
    assert mid(found) == pytest.approx(2 / 3)  # commit and row lock of commit, row lock, statement


REDO_EVENTS = (
    FileEvents(syncs=100, bytes_written=0, sync_s=1.0),
    FileEvents(syncs=600, bytes_written=0, sync_s=3.5),
)


@pytest.mark.parametrize(
    ("counted", "ends", "says"),
    [
        (
            {},
            [{"files": {"redo": events}} for events in REDO_EVENTS],
            "redo log: 50 syncs/s, 5.00 ms each",
        ),
        (
            {"innodb_os_log_fsyncs": 500, "binlog_commits": 2000},
            [{}, {}],
            "redo log: 50 syncs/s, 0.25 per commit",
        ),
        (  # MariaDB tells none of its redo log.
            {},
            [{"syncs": {"redo": 100, "data": 7}}, {"syncs": {"redo": 1100, "data": 7}}],
            "redo log: 100 syncs/s, as the kernel counts them",
        ),
        (  # SHOW GLOBAL STATUS raises Handler_write on MySQL: rows are InnoDB's own where it counts them.
            {"binlog_cache_use": 100, "innodb_rows_inserted": 100, "handler_write": 40_000},
            [{}, {}],
            "1.0 rows changed per commit",
        ),
    ],
)
def test_syncs_and_rows_have_a_rate(counted: dict[str, int], ends: list[dict[str, Any]], says: str) -> None:
    seen = with_ends(evidence(counted, write_time=time_of([writer(1, COMMITTING)])), ends[0], ends[1])
    told = texts(found_in(seen)["commit_sync"])
    assert says in told and not any("binary log:" in text for text in told)


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (0, "3.0 rows changed per commit, 100% of the commits by autocommit"),
        (30, "3.0 rows changed per commit, 70% of the commits by autocommit"),
        (90, "3.0 rows changed per commit"),
        (None, "3.0 rows changed per commit"),
    ],
)
def test_small_transactions_are_told(ended: int | None, says: str) -> None:
    counted = {"binlog_commits": 100, "handler_write": 150, "handler_update": 140, "handler_delete": 10}
    time = time_of([writer(1, "Commit")], identity=MARIADB)
    ends = counted if ended is None else counted | {"com_commit": ended}
    assert says in texts(committing(ends, identity=MARIADB, write_time=time))


@pytest.mark.parametrize("counter", ["handler_commit", "com_insert"])
def test_commits_that_are_not_counted_apart_from_reads_have_no_size(counter: str) -> None:
    found = committing({counter: 100, "innodb_rows_inserted": 100, "innodb_os_log_fsyncs": 100})
    assert not any("per commit" in text for text in texts(found))


@pytest.mark.parametrize(
    ("identity", "limit", "executing", "share"),
    [(MYSQL97, 2, 8, 0.75), (MYSQL97, 0, 8, None), (MYSQL97, 8, 8, None), (MARIADB, 2, 8, None)],
)
def test_statements_beyond_the_limit_wait_to_enter_innodb(
    identity: ServerIdentity, limit: int, executing: int, share: float | None
) -> None:
    seen = evidence(
        identity=identity,
        variables={"innodb_thread_concurrency": str(limit)},
        write_time=time_of([writer(one) for one in range(executing)], identity=identity),
    )
    found = found_in(seen).get("thread_concurrency")
    assert (found.share.mid if found is not None and found.share is not None else None) == share


def test_statements_that_wait_for_rows_are_not_counted_into_the_queue() -> None:
    """InnoDB lets another in while one waits for a row."""
    time = time_of([writer(one) for one in range(4)], row_locks=3.0)
    assert "thread_concurrency" not in found_in(
        evidence(variables={"innodb_thread_concurrency": "2"}, write_time=time)
    )


@pytest.mark.parametrize(
    ("identity", "variables", "says", "change"),
    [
        (
            MYSQL97,
            {"binlog_group_commit_sync_delay": "20000"},
            "binlog_group_commit_sync_delay (20.0 ms), and for the sync of redo log and binary log",
            {"binlog_group_commit_sync_delay": 0},
        ),
        (
            MARIADB,
            {"binlog_commit_wait_count": "20", "binlog_commit_wait_usec": "100000"},
            "binlog_commit_wait_usec (100.0 ms), and for the sync of redo log and binary log",
            {"binlog_commit_wait_count": 0},
        ),
        (
            MARIADB,
            {"binlog_commit_wait_count": "0", "binlog_commit_wait_usec": "100000"},
            "binary log",
            {"sync_binlog": 1000},
        ),
        (MYSQL97, {"binlog_group_commit_sync_delay": "20000", "log_bin": "OFF"}, "redo log", None),
    ],
)
def test_a_configured_delay_is_no_sync(
    identity: ServerIdentity, variables: dict[str, str], says: str, change: dict[str, int] | None
) -> None:
    settings = {name: int(value) for name, value in variables.items() if value.isdecimal()}
    known = {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1, "log_bin": "ON", **settings}
    found = committing(identity=identity, variables=variables, settings=known)
    assert found.title.endswith(says)
    if change is not None:
        assert found.changes[0].settings == change
        assert bool(found.changes[0].costs) == ("sync_binlog" in change)


def test_a_delay_alone_is_waited_for() -> None:
    relaxed = {"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"}
    found = committing(variables=relaxed | {"binlog_group_commit_sync_delay": "20000"})
    assert found.names_cause
    assert found.title == "commits wait for binlog_group_commit_sync_delay (20.0 ms)"


def test_a_binary_log_in_innodb_has_no_sync_of_its_own() -> None:
    """MariaDB 12.3 and later ignore sync_binlog then."""
    found = committing(variables={"binlog_storage_engine": "innodb"})
    assert found.title == "commits wait for the sync of redo log"
    assert not any("sync_binlog" in one.settings for one in found.changes)


def test_a_change_says_what_it_costs() -> None:
    by_setting = {tuple(one.settings): one for one in committing().changes}
    flush = by_setting["innodb_flush_log_at_trx_commit",]
    assert flush.settings == {"innodb_flush_log_at_trx_commit": 2}
    assert flush.floor == "second"
    assert any("about 1 s of acknowledged commits" in text for text in flush.costs)
    assert by_setting["sync_binlog",].floor == "throwaway"  # no bound in seconds


@pytest.mark.parametrize(
    ("flush", "sync", "changed"),
    [
        (2, 1, [{"sync_binlog": 1000}]),
        (1, 100, [{"innodb_flush_log_at_trx_commit": 2}]),
        (2, 1000, []),
    ],
)
def test_only_a_log_that_is_synced_at_commit_has_a_change_to_try(
    flush: int, sync: int, changed: list[dict[str, int]]
) -> None:
    settings = {"innodb_flush_log_at_trx_commit": flush, "sync_binlog": sync, "log_bin": "ON"}
    variables = {name: str(value) for name, value in settings.items()}
    found = committing(variables=variables, settings=settings)
    assert [one.settings for one in found.changes] == changed


MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("pool", "memory", "larger"),
    [
        (GIB, 64 * GIB, [4 * GIB]),
        (8 * GIB, 16 * GIB, [11 * GIB + 128 * MIB]),
        (12 * GIB, 16 * GIB, []),
        (GIB, None, []),
    ],
)
def test_a_larger_pool_fits_the_memory_of_the_machine(
    pool: int, memory: int | None, larger: list[int]
) -> None:
    """It is 0.7 of it at most, in chunks of 128 MiB; without a machine in sight there is none to try."""
    seen = evidence(
        {"innodb_buffer_pool_wait_free": 1},
        variables={"innodb_buffer_pool_size": str(pool)},
        host=None if memory is None else host(memory_bytes=memory),
    )
    found = found_in(seen)["buffer_pool"]
    assert [one.settings["innodb_buffer_pool_size"] for one in found.changes] == larger


def test_row_locks_last_as_long_as_commits_that_do_not_sync() -> None:
    def bound(row_locks: float) -> float | None:
        moment = [writer(1, COMMITTING), writer(2, COMMITTING), *(writer(one) for one in range(3, 8))]
        relaxed = {"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "1000"}
        return committing(variables=relaxed, write_time=time_of(moment, row_locks=row_locks)).at_most

    alone, with_locks = bound(0.0), bound(4.0)
    assert alone is not None and with_locks is not None and with_locks > 2 * alone


@pytest.mark.parametrize(
    ("identity", "variables", "size", "change"),
    [
        (MARIADB, {}, 1 << 30, {"innodb_log_buffer_size": 2147479552}),
        (MARIADB, {}, 2147479552, None),
        (MYSQL97, {}, 16 << 20, {"innodb_log_buffer_size": 64 << 20}),
    ],
)
def test_a_change_is_no_larger_than_the_server_takes(
    identity: ServerIdentity, variables: dict[str, str], size: int, change: dict[str, int] | None
) -> None:
    seen = evidence(identity=identity, settings={"innodb_log_buffer_size": size})
    found = changes(seen, {"innodb_log_buffer_size": 4 * size})
    assert [one.settings for one in found] == ([] if change is None else [change])


def test_log_files_stay_below_what_a_server_starts_with() -> None:
    seen = evidence(
        {"innodb_checkpoint_max_age": 130 << 30},
        identity=MYSQL57,
        variables={
            "innodb_log_file_size": str(80 << 30),
            "innodb_log_files_in_group": "2",
            "innodb_redo_log_capacity": "",
        },
        settings={"innodb_log_file_size": 80 << 30},
        checkpoint_ages=(120 << 30,) * 5,
    )
    found = found_in(seen)["redo_capacity"]
    assert found.changes[0].settings == {"innodb_log_file_size": (256 << 30) - (1 << 20)}


def test_a_pause_of_the_client_that_is_not_counted_leaves_no_bound() -> None:
    def share(seconds: int) -> TimeShare | None:
        moments = ([writer(1)], [client(1)], [client(1, seconds)])
        found = found_in(evidence(write_time=time_of(*moments)))["client"]
        return found.share

    short, long = share(0), share(1)
    assert short is not None and short.at_most is not None
    assert long is not None and long.at_most is None


def test_the_redo_log_grows_by_the_setting_of_its_version() -> None:
    ages = (90_000_000,) * 5
    new = found_in(evidence(checkpoint_ages=ages))["redo_capacity"]
    assert new.changes[0].settings == {"innodb_redo_log_capacity": 8 * 104857600}
    assert new.changes[0].costs == ()
    old = evidence(
        {"innodb_checkpoint_max_age": 80_000_000},
        identity=MARIADB,
        variables={"innodb_log_file_size": "100663296", "innodb_redo_log_capacity": ""},
        checkpoint_ages=(70_000_000,) * 5,
    )
    found = found_in(old)["redo_capacity"]
    assert found.changes[0].settings == {"innodb_log_file_size": 8 * 100663296}
    assert innodb.find_redo_capacity(msgspec.structs.replace(old, checkpoint_ages=(30_000_000,) * 5)) is None


def test_a_few_waits_in_many_commits_weigh_little() -> None:
    """No state tells a wait for the log buffer: its share is none of the statements' time to all of it."""
    seen = evidence({"innodb_log_waits": 10, "handler_commit": 1000}, write_time=time_of([writer(1)]))
    found = found_in(seen)["log_buffer"]
    assert mid(found) == pytest.approx(0.01)
    assert found.share is not None and (found.share.low, found.share.high) == (0.0, 1.0)
    assert found.strength == "hint"


def wrote_redo(writes: int, each: int, seconds: float, identity: ServerIdentity = MYSQL57) -> Evidence:
    """One writer, 20 transactions, and so many writes of the redo log."""
    counted = {"innodb_log_writes": writes, "innodb_os_log_written": writes * each, "handler_commit": 20}
    seen = evidence(
        counted,
        identity=identity,
        variables={"innodb_log_buffer_size": "1048576"},
        write_time=time_of([writer(1)], identity=identity),
    )
    begin, end = (
        {"files": {"redo": FileEvents(syncs=1, bytes_written=0, write_s=passed)}}
        for passed in (1.0, 1.0 + seconds)
    )
    return with_ends(seen, begin, end)


def test_a_buffer_that_is_written_whenever_half_of_it_is_full_is_too_small() -> None:
    """MySQL 5.7 counts no wait then."""
    found = found_in(wrote_redo(160, 480_000, seconds=9.0))["log_buffer"]
    assert mid(found) == pytest.approx(0.9)
    assert [one.text for one in found.seen] == [
        "16.0 writes/s of 469 KiB: the buffer was full",
        "the redo log was written or synced in 90% of the time",
        "innodb_log_buffer_size is 1 MiB",
    ]


@pytest.mark.parametrize(
    ("each", "identity"),
    [(300_000, MYSQL57), (480_000, MYSQL97)],
    ids=["small writes", "a writer thread"],
)
def test_writes_of_the_redo_log_are_no_waits_by_themselves(each: int, identity: ServerIdentity) -> None:
    assert "log_buffer" not in found_in(wrote_redo(160, each, seconds=9.0, identity=identity))


def test_waits_for_the_log_buffer_last_no_longer_than_its_writes() -> None:
    """A full buffer that goes into the page cache costs nobody time."""
    found = found_in(wrote_redo(160, 480_000, seconds=0.2))["log_buffer"]
    assert mid(found) == pytest.approx(0.02)
    assert found.strength == "hint"


def test_reads_from_disk_are_in_nobodys_way_where_nothing_writes() -> None:
    seen = {"innodb_buffer_pool_reads": 900, "com_insert": 0}
    assert innodb.find_buffer_pool(evidence(seen)) is None
    assert innodb.find_buffer_pool(evidence({**seen, "com_insert": 5})) is not None


def test_a_single_age_of_the_checkpoint_has_no_share_of_samples() -> None:
    one = found_in(evidence(checkpoint_ages=(90_000_000,), write_time=time_of([writer(1)])))["redo_capacity"]
    assert one.share is None
    assert one.seen[0].text == "checkpoint age up to 85.8 MiB, 97% of the 88.3 MiB at which writers wait"
    assert one.title.endswith("pages are flushed in a hurry")


def test_an_old_snapshot_costs_as_much_as_searches_read_pages() -> None:
    counted = {
        "innodb_rows_read": 1_000,
        "innodb_rows_deleted": 1_000,
        "innodb_history_list_length": 50_000,
        "innodb_buffer_pool_read_requests": 200_000,
    }
    opened: dict[str, Any] = {
        "transactions": {7: transaction(7, age_s=60)},
        "write_time": time_of([writer(1)], [client(1)]),
    }
    before = {"innodb_history_list_length": 20_000}
    found = found_in(evidence(counted, before, **opened))["purge_lag"]
    assert mid(found) == pytest.approx(0.5 * 0.8)
    assert "100 pages are read per row" in found.seen[1].text
    cheap = counted | {"innodb_buffer_pool_read_requests": 10_000}
    found = found_in(evidence(cheap, before, **opened))["purge_lag"]
    assert found.strength == "hint"
    shrinks = {"innodb_history_list_length": 60_000}
    assert "purge_lag" not in found_in(evidence(counted, shrinks, **opened))


def test_rows_that_are_deleted_and_not_purged_are_locked() -> None:
    """MySQL 9.7: searches that stay within a page read few pages, and lock thousands of rows."""
    counted = {
        "innodb_rows_read": 2_775,
        "innodb_rows_inserted": 2_824,
        "innodb_rows_deleted": 2_775,
        "innodb_buffer_pool_read_requests": 159_937,
        "innodb_history_list_length": 14_725,
    }
    searching = [
        msgspec.structs.replace(transaction(number, modified=1), rows_locked=locked)
        for number, locked in ((18, 11_102), (13, 13_686), (17, 6_221))
    ]
    old, waiting = transaction(11, age_s=43), transaction(14, waits=True, modified=1)
    seen = evidence(
        counted,
        {"innodb_history_list_length": 12_560},
        transactions={11: old},
        looks=tuple((old, waiting, one) for one in searching),
        write_time=time_of([writer(1), writer(2)], [client(1), writer(2)]),
    )
    found = found_in(seen)["purge_lag"]
    rows, locked = 2_775 + 2_824 + 2_775, 31_009
    assert mid(found) == pytest.approx(0.75 * (1 - rows / locked))
    assert "31,009 row locks in 3 samples of transactions, but only 8,374 rows read" in found.seen[1].text
    holders = msgspec.structs.replace(searching[0], age_s=43)  # from before the window
    none = msgspec.structs.replace(seen, looks=((old, holders),) * 9)
    assert found_in(none)["purge_lag"].strength == "hint"


def test_mariadb_counts_rows_by_its_handlers() -> None:
    """It has no counter of InnoDB's rows since 10.6."""
    seen = evidence(
        {
            "handler_write": 6_000,
            "handler_delete": 6_000,
            "handler_read_key": 6_000,
            "innodb_buffer_pool_read_requests": 1_800_000,
            "innodb_history_list_length": 33_413,
        },
        {"innodb_history_list_length": 27_391},
        identity=MARIADB,
        transactions={7: transaction(7, age_s=43)},
        write_time=time_of([writer(1)], identity=MARIADB),
    )
    assert "100 pages are read per row" in found_in(seen)["purge_lag"].seen[1].text


def test_a_large_transaction_weighs_as_often_as_it_is_seen() -> None:
    small, large = transaction(1, modified=3), transaction(7, modified=200_000)
    seen = evidence(
        transactions={1: small, 7: large},
        looks=((small,), (small, large)),
        write_time=time_of([writer(1), writer(2, COMMITTING)]),
        variables={"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"},
    )
    found = found_in(seen)["large_transactions"]
    assert mid(found) == pytest.approx(0.5)
    synced = msgspec.structs.replace(seen, before=evidence().before, after=evidence().after)
    found = found_in(synced)["large_transactions"]
    assert mid(found) == pytest.approx(0.25)  # commits wait for the disk


def test_the_begin_of_a_large_transaction_does_not_hide_those_before() -> None:
    large, next_one = transaction(7, modified=200_000), transaction(7, modified=10)
    looks = ((), (large,), (next_one,), (transaction(7), transaction(1, modified=3)))
    seen = evidence(
        transactions={7: next_one},
        looks=looks,
        write_time=time_of([writer(1), writer(2)]),
        variables={"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"},
    )
    found = found_in(seen)["large_transactions"]
    assert mid(found) == pytest.approx(0.5)
    assert "200,000 rows" in found.seen[0].text


def test_an_idle_holder_of_locks_is_named() -> None:
    holder = msgspec.structs.replace(transaction(7, age_s=30, modified=1), idle=True)
    seen = evidence({"innodb_row_lock_waits": 5}, transactions={7: holder})
    assert any("its client does something else" in one.text for one in found_in(seen)["row_locks"].seen)


def test_waits_for_a_counter_are_none_for_rows() -> None:
    waits = {7: transaction(7, waits=True)}
    counters = {"innodb_row_lock_waits": 5, "innodb_row_lock_current_waits": 0}
    assert "auto_increment" not in found_in(evidence(counters, transactions=waits))
    for counters, before in (
        ({"innodb_row_lock_time": 9000, "innodb_row_lock_current_waits": 0}, None),
        ({"innodb_row_lock_current_waits": 0}, {"innodb_row_lock_current_waits": 8}),
    ):
        found_names = found_in(evidence(counters, before, transactions=waits))
        assert "auto_increment" not in found_names and "row_locks" in found_names
    found = found_in(
        evidence(
            {"innodb_row_lock_current_waits": 0},
            transactions=waits,
            variables={"innodb_autoinc_lock_mode": "1", "binlog_format": "ROW"},
            settings={"innodb_autoinc_lock_mode": 1},
        )
    )["auto_increment"]
    assert [one.settings for one in found.changes] == [{"innodb_autoinc_lock_mode": 2}]


def test_flushing_at_its_limit_is_raised_but_neither_a_slower_disk_nor_what_goes_beyond() -> None:
    dirty = {"innodb_buffer_pool_pages_dirty": 900, "innodb_buffer_pool_pages_total": 1000}
    variables = {"innodb_max_dirty_pages_pct": "90", "innodb_io_capacity": "200"}
    for flushed, most, raised in (
        (2000, "400", [(800, 1600)]),
        (2000, "9000", [(800, None)]),
        (500, "400", []),
        (9000, "400", []),
    ):
        seen = evidence(
            dirty | {"innodb_buffer_pool_pages_flushed": flushed},
            dirty,
            variables=variables | {"innodb_io_capacity_max": most},
            settings={"innodb_io_capacity": 200, "innodb_io_capacity_max": int(most)},
        )
        found = found_in(seen)["page_flushing"]
        made = [one.settings for one in found.changes]
        assert [(one["innodb_io_capacity"], one.get("innodb_io_capacity_max")) for one in made] == raised


def test_threads_that_wait_for_a_processor_weigh_as_many_as_they_are() -> None:
    """Those that have not read their next statement yet are in the client's turn."""
    loaded = host(pressure=BUSY, cpu_waiting=1.5)
    seen = evidence(
        host=loaded, write_time=time_of([writer(1), client(2), client(3)], [writer(2), writer(3)])
    )
    found = found_in(seen)["cpu"]
    assert mid(found) == pytest.approx(1.5 / 2.5)
    assert "client" in found.waits
    assert any("1.5 server threads waited" in one.text for one in found.seen)


def test_threads_of_readers_that_wait_for_a_processor_are_not_the_writers() -> None:
    """Writers that wait for syncs beside busy readers: the processors are not what binds them."""
    readers = [writer(number, "statistics", "select") for number in range(2, 10)]
    seen = evidence(
        host=host(pressure=BUSY, cpu_waiting=3.8),
        write_time=time_of([writer(0, COMMITTING), writer(1, COMMITTING), *readers]),
    )
    assert seen.time.others == 8.0
    found = found_in(seen)
    assert found["cpu"].share is not None and found["cpu"].share.mid == pytest.approx(0.38)
    assert diagnose(seen).findings[0].name == "commit_sync"


def test_the_bound_of_processors_has_no_more_of_the_clients_turn_than_threads_waited() -> None:
    moments = [
        [writer(number) if (number + moment) % 4 else client(number) for number in range(8)]
        for moment in range(8)
    ]
    loaded = evidence(host=host(pressure=BUSY, cpu_waiting=0.8), write_time=time_of(*moments))
    found = found_in(loaded)["cpu"]
    assert mid(found) == pytest.approx(0.1)
    statements = loaded.time.share("statement")
    assert statements is not None and found.share is not None
    assert found.share.bounding == pytest.approx(statements.high + 0.1)


def test_a_full_redo_log_may_cost_processor_time_too() -> None:
    """MariaDB 10.11 with 8 MB: without it the bound was 5.9×, and mending brought 9.1×."""
    turns = [
        [client(number) if (number + moment) % 4 == 0 else writer(number) for number in range(8)]
        for moment in range(20)
    ]
    given: dict[str, Any] = {"checkpoint_ages": (90_000_000,) * 5, "write_time": time_of(*turns)}
    alone = found_in(evidence(**given))["redo_capacity"]
    short = found_in(evidence(host=host(cpu_waiting=1.2), **given))["redo_capacity"]
    assert alone.at_most is not None and alone.at_most < 9
    assert short.at_most is None or short.at_most > 9


def test_a_queue_that_is_long_whenever_the_disk_is_busy_is_full() -> None:
    """Pages that are flushed in batches: 77 requests at once, with pauses in between."""
    seen = evidence(host=host(disks=(disk(utilisation=0.93, queue=77.0),)), write_time=time_of([writer(1)]))
    found = found_in(seen)["disk"]
    assert mid(found) == pytest.approx(0.93 * 76 / 77)
    assert "disk" not in found_in(evidence(host=host(disks=(disk(utilisation=0.5, queue=77.0),))))


@pytest.mark.parametrize(
    ("version", "limit"), [((9, 7, 4), 0.95 * (93_750_000 - 194_560) - 655_360), ((5, 7, 22), 80_292_480)]
)
def test_writers_wait_before_the_redo_log_is_full(version: tuple[int, ...], limit: float) -> None:
    capacity = {"innodb_redo_log_capacity": "100000000"}
    if version < (8,):
        capacity = {"innodb_log_file_size": "50000000", "innodb_log_files_in_group": "2"}
        capacity["innodb_redo_log_capacity"] = ""
    server = msgspec.structs.replace(MYSQL97, version=version)
    for age, is_near in ((int(0.7 * limit) - 1000, False), (int(0.7 * limit) + 1000, True)):
        seen = evidence(identity=server, variables=capacity, checkpoint_ages=(age,) * 5)
        assert ("redo_capacity" in found_in(seen)) == is_near


def test_pages_from_disk_may_delay_commits_too() -> None:
    """The bound is that of both; the share is within the statements."""
    seen = evidence(
        {"innodb_buffer_pool_reads": 5000, "com_update": 1000, "handler_commit": 1000},
        write_time=time_of(*[[writer(1), writer(2, COMMITTING), client(3), writer(3)]] * 9, [client(3)]),
    )
    found = found_in(seen)["buffer_pool"]
    statements = seen.time.share("statement")
    assert found.share is not None and statements is not None
    assert found.share.mid == pytest.approx(statements.mid)
    assert found.share.bounding is not None and found.share.bounding > statements.high


FAILING = {
    "com_insert_select": 300,
    "binlog_cache_use": 300,
    "binlog_cache_disk_use": 300,
    "handler_commit": 0,
    "handler_rollback": 700,
    "com_rollback": 0,
}
LIMITED = {"max_binlog_cache_size": "262144"}


def failing(identity: ServerIdentity, counters: dict[str, int], **more: Any) -> Evidence:
    """Writers whose transactions fail, on a machine short of processor time."""
    busy = host(pressure=BUSY, cpu_waiting=6.0)
    time = time_of([writer(1, "Sending data", "insert")], [client(1)], identity=identity)
    return evidence(counters, identity=identity, write_time=time, host=busy, **more)


@pytest.mark.parametrize(
    ("identity", "counters"), [(MARIADB, {**FAILING, "binlog_commits": 0}), (MYSQL97, FAILING)]
)
def test_that_nothing_commits_comes_before_what_slows_the_failures(
    identity: ServerIdentity, counters: dict[str, int]
) -> None:
    found = diagnose(failing(identity, counters, variables=LIMITED))
    first = found.findings[0]
    assert (first.name, first.strength, first.at_most) == ("rollbacks", "binds", None)
    assert found.answer.startswith(
        "Writes are bound: nothing commits, because transactions are larger than max_binlog_cache_size (256 "
    )
    assert "raise max_binlog_cache_size" in first.advice
    assert any("70 rollbacks/s" in one.text for one in first.seen)


def test_a_limit_of_the_cache_is_told_where_mariadb_counts_no_use_of_it() -> None:
    """MariaDB 10.11.19, for ten updates that were too large, each with its ROLLBACK, beside reads."""
    counters = {"com_update": 10, "handler_rollback": 40, "com_rollback": 10, "binlog_commits": 0}
    reads = {"handler_commit": 500, "com_select": 500, "binlog_cache_disk_use": 0}
    found = found_in(failing(MARIADB, {**counters, **reads}, variables=LIMITED))["rollbacks"]
    words = "perhaps by error 1197: max_binlog_cache_size is limited (256 KiB)"
    assert found.title == f"nothing commits, because statements fail, {words}"


def test_the_cause_of_failures_is_the_error_that_the_server_counts() -> None:
    seen = failing(MYSQL97, FAILING, variables=LIMITED)
    errors = {"ER_DUP_ENTRY": 900, "ER_LOCK_DEADLOCK": 4}
    ends = with_ends(seen, {"errors": {"ER_DUP_ENTRY": 600}}, {"errors": errors})
    first = diagnose(ends).findings[0]
    assert first.title == "nothing commits, because statements fail: ER_DUP_ENTRY"
    assert any(one.text == "errors: ER_DUP_ENTRY 30.0/s, ER_LOCK_DEADLOCK 0.4/s" for one in first.seen)


@pytest.mark.parametrize(
    ("counters", "title"),
    [
        (
            {
                "com_update": 100,
                "handler_rollback": 200,
                "com_rollback": 100,
                "handler_commit": 200,
                "binlog_commits": 0,
            },
            "nothing commits, because clients roll their transactions back",
        ),
        (  # No statement succeeds before the ROLLBACK.
            {
                "com_insert": 100,
                "handler_rollback": 200,
                "com_rollback": 100,
                "handler_commit": 0,
                "binlog_commits": 0,
            },
            "nothing commits, because statements fail",
        ),
        (
            {"com_update": 100, "handler_rollback": 200, "innodb_deadlocks": 90, "binlog_commits": 20},
            "only 2.0 transactions/s commit, because transactions end in deadlocks",
        ),
        (
            {
                "com_update": 900,
                "handler_rollback": 900,
                "com_rollback": 900,
                "handler_commit": 900,
                "innodb_max_trx_id": 1800,
                "innodb_log_writes": 10,
                "threads_connected": 9,
            },
            "only 9.0 transactions/s commit, because clients roll their transactions back",
        ),
    ],
)
def test_most_writes_may_fail_for_other_reasons(counters: dict[str, int], title: str) -> None:
    logs = "ON" if "binlog_commits" in counters else "OFF"
    seen = failing(MARIADB, counters, variables={"log_bin": logs})
    assert found_in(seen)["rollbacks"].title == title


@pytest.mark.parametrize(
    "counters",
    [
        # A pool of connections that ends reads by ROLLBACK, beside few writes.
        {"com_update": 100, "handler_rollback": 9000, "com_rollback": 9000, "binlog_commits": 100},
        # An application that tries an insert first, and updates if the key is there.
        {"com_insert": 100, "com_update": 100, "handler_rollback": 100, "binlog_commits": 100},
    ],
)
def test_rollbacks_of_reads_and_of_single_statements_are_no_failure(counters: dict[str, int]) -> None:
    found = found_in(failing(MARIADB, {**counters, "handler_commit": 400}))["rollbacks"]
    assert (found.strength, found.share) == ("hint", None)


def test_a_transaction_left_by_xa_is_named_by_its_xid() -> None:
    seen = evidence(transactions={-7: prepared(60, thread=0, id=7)})
    ends = with_ends(seen, {}, {"xids": ("'app-1'", "'app-2'", "'app-3'", "'app-4'")})
    assert "XID: 'app-1'; 'app-2'; 'app-3' and others" in texts(found_in(ends)["xa_transactions"])


SCANNING = {"handler_read_rnd_next": 10_000_000, "handler_update": 490, "handler_delete": 10}
LOCKED = msgspec.structs.replace(transaction(7, modified=1), rows_locked=20_178)


def test_a_scan_that_locks_the_table_comes_before_the_waits_for_its_rows() -> None:
    """MariaDB 10.11: 20,178 rows locked for one that was changed."""
    turns = time_of(*[[writer((one + at) % 8) for one in range(8)] for at in range(8)], row_locks=7.0)
    waits = {"innodb_row_lock_waits": 700, "innodb_row_lock_time": 70_000}
    seen = evidence(SCANNING | waits, transactions={7: LOCKED}, write_time=turns)
    found = diagnose(seen).findings
    assert [one.name for one in found[:2]] == ["full_scans", "row_locks"]
    assert found[0].strength == "binds"
    texts = [one.text for one in found[0].seen]
    assert "a transaction held 20,178 row locks and had changed 1" in texts


def test_the_table_that_is_scanned_is_named() -> None:
    seen = evidence(SCANNING, write_time=time_of([writer(1)]))
    scans = {"scans": {"shop.stock": (9_000_000, 455), "shop.log": (50_000, 900)}}
    found = found_in(with_ends(seen, {"scans": {"shop.stock": (5_000, 5)}}, scans))["full_scans"]
    assert "of table shop.stock find no index" in found.title
    assert found.seen[0].text == "shop.stock: 8,995,000 rows read without an index, 450 changed"
    unknown = with_ends(seen, {}, scans)
    assert statements.find_full_scans(unknown) is None, "totals since the server's start are no rate"


def test_reports_that_scan_beside_writers_with_an_index_are_no_missing_index() -> None:
    seen = evidence(SCANNING, transactions={7: transaction(7, modified=1)}, write_time=time_of([writer(1)]))
    assert statements.find_full_scans(seen) is None
    scans = {"handler_read_rnd_next": 10_000_000, "handler_update": 5_000_000}
    assert (
        statements.find_full_scans(evidence(scans, transactions={7: LOCKED}, write_time=time_of([writer(1)])))
        is None
    )


def test_a_redo_log_below_the_mark_holds_nobody_up() -> None:
    """MariaDB 10.11 at 81 % of the mark: how far it was, and no share."""
    below = found_in(evidence(checkpoint_ages=(75_000_000,) * 5, write_time=time_of([writer(1)])))[
        "redo_capacity"
    ]
    assert below.share is None and below.strength == "hint"
    assert below.title.startswith("the redo log was filled to 81% of the mark at which writers wait")
    at_it = found_in(evidence(checkpoint_ages=(92_000_000,) * 5, write_time=time_of([writer(1)])))[
        "redo_capacity"
    ]
    assert mid(at_it) == 1.0
    assert at_it.title.endswith("they wait for page flushing")


def test_flushing_that_is_held_back_comes_before_the_redo_log_that_fills() -> None:
    pages = {"innodb_buffer_pool_pages_dirty": 895, "innodb_buffer_pool_pages_total": 1000}
    for age in (75_000_000, 92_000_000):
        seen = evidence(
            pages | {"innodb_buffer_pool_pages_flushed": 1000},
            pages,
            variables={"innodb_max_dirty_pages_pct": "90", "innodb_io_capacity": "100"},
            checkpoint_ages=(age,) * 5,
            write_time=time_of([writer(1)]),
        )
        found = diagnose(seen).findings
        assert [one.name for one in found] == ["page_flushing", "redo_capacity"]
        assert found[0].title.endswith("and innodb_io_capacity=100 holds flushing back")


def test_one_row_that_all_write_to_lets_one_commit_at_a_time() -> None:
    """Of eight writers, seven wait for the row, and the eighth for the sync of its commit."""
    turns = [
        [writer((at + one) % 8, COMMITTING if one == 0 else "updating") for one in range(8)]
        for at in range(8)
    ]
    waits = {"innodb_row_lock_waits": 700, "innodb_row_lock_time": 70_000}
    found = diagnose(evidence(waits, write_time=time_of(*turns, row_locks=7.0))).findings
    assert [one.name for one in found[:2]] == ["row_locks", "commit_sync"]
    assert found[0].title.endswith("they change the same rows, one writer after the other")
    assert found[0].seen[-1].text == "1.0 writers get on at a time, on average; their time: commit 100%"
    assert found[1].title.startswith("each commit holds row locks while it waits for the sync of")
    assert (
        "More connections gain nothing" in found[0].advice
        and "More connections gain nothing" in found[1].advice
    )


def test_an_idle_holder_is_no_turn_of_writers() -> None:
    held = [[writer(one) for one in range(1, 8)] + [client(0)]] * 7 + [[writer(0)] + [client(9)] * 1]
    found = diagnose(
        evidence({"innodb_row_lock_waits": 7}, write_time=time_of(*held, row_locks=6.0))
    ).findings
    rows = next(one for one in found if one.name == "row_locks")
    assert rows.title == "writers wait for row locks" and rows.shows_in == ()


def test_a_delay_longer_than_the_sync_comes_first() -> None:
    delay = {"binlog_group_commit_sync_delay": "100000"}
    seen = evidence(variables=delay, write_time=time_of([writer(1, COMMITTING)]))
    for sync_s, says in ((0.006, "commits wait for binlog_group_commit"), (0.2, "commits wait for the sync")):
        begin, end = (
            {"files": {"binlog": FileEvents(syncs=count, bytes_written=0, sync_s=count * sync_s)}}
            for count in (0, 100)
        )
        assert found_in(with_ends(seen, begin, end))["commit_sync"].title.startswith(says)


def test_duplicates_that_clients_roll_back_are_failures() -> None:
    """MySQL 8.0.15 and MariaDB 10.11.19: an insert that fails, and a driver that sends ROLLBACK after it."""
    counters = {"com_insert": 2000, "handler_rollback": 2000, "com_rollback": 2000, "handler_commit": 0}
    for identity, logged in ((MARIADB, {"binlog_commits": 0}), (MYSQL97, {"binlog_cache_use": 0})):
        found = diagnose(failing(identity, {**counters, "com_select": 100, **logged})).findings[0]
        assert (found.name, found.title) == ("rollbacks", "nothing commits, because statements fail")
    reads = {**counters, "com_select": 2000, "binlog_commits": 0}
    assert found_in(failing(MARIADB, reads))["rollbacks"].strength == "hint"


def test_an_alter_that_copies_a_table_is_no_missing_index() -> None:
    alter = msgspec.structs.replace(transaction(7, modified=0), rows_locked=1_216_180)
    copying = ThreadState(7, "Query", 6, "copy to tmp table", "alter")
    seen = evidence(SCANNING, transactions={7: alter}, write_time=time_of([writer(1)]))
    assert statements.find_full_scans(seen) is not None
    assert statements.find_full_scans(msgspec.structs.replace(seen, longest={7: copying})) is None


@pytest.mark.parametrize(
    ("state", "share", "words"),
    [
        ("updating", 0.1, "as long as a writer holds them, and 10% of that is the commit"),
        (COMMITTING, 0.9, "as long as"),
    ],
)
def test_a_commit_has_no_larger_part_of_the_waits_than_of_the_turns(
    state: str, share: float, words: str
) -> None:
    """MySQL 8.0.15: six updates without an index; the one that holds the rows mostly executes."""
    other = COMMITTING if state == "updating" else "updating"
    turns = [
        [writer(at % 6, other if at % 10 == 9 else state), *(writer((at + one) % 6) for one in range(1, 6))]
        for at in range(30)
    ]
    found = commits.find_commit_sync(evidence(write_time=time_of(*turns, row_locks=5.0)))
    assert found is not None and found.share is not None and words in found.advice
    assert found.share.mid == pytest.approx(share, abs=0.02)
