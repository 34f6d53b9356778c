"""The answer in a sentence, and the order of the findings."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.diagnosis.diagnose import circumstances, diagnose, in_order, service_of
from flushlab.diagnosis.finding import Finding
from flushlab.diagnosis.shares import Tally, TimeShare
from tests.unit.diagnosis.hosts import host
from tests.unit.diagnosis.test_findings import BUSY, transaction
from tests.unit.diagnosis.watched import COMMITTING, MYSQL97, client, evidence, time_of, writer

DOES = (COMMITTING, COMMITTING, "updating", "updating", "")
COMMITS = time_of(
    *[
        [
            writer(number, state) if (state := DOES[(number + moment) % 5]) else client(number)
            for number in range(5)
        ]
        for moment in range(5)
    ]
)
"""Five writers that do alike: two commit, two execute, one waits for its client."""


def test_the_most_binding_comes_first() -> None:
    seen = evidence({"innodb_log_waits": 3, "handler_commit": 100}, write_time=COMMITS)
    found = diagnose(seen)
    assert [one.name for one in found.findings] == ["commit_sync", "client", "log_buffer"]
    assert [one.strength for one in found.findings] == ["binds", "contributes", "hint"]
    assert found.doubts == ()


def test_commits_bind() -> None:
    found = diagnose(evidence(write_time=COMMITS))
    assert found.findings[0].name == "commit_sync"
    assert found.findings[0].at_most is not None and found.findings[0].at_most > 1 / (1 - 0.4)
    assert "commits wait for the sync of redo log and binary log. Without it, at most" in found.answer


def test_an_idle_server_is_bound_by_nothing() -> None:
    idle = time_of(*[[client(1)]] * 99, [writer(1)])
    assert diagnose(evidence(write_time=idle)).answer.startswith("Nothing bounds writes: the server is idle")
    nobody = diagnose(evidence(write_time=time_of([client(1)])))
    assert nobody.answer == "Nothing bounds writes: no connection wrote."


def test_a_server_that_does_not_answer_is_no_idle_one() -> None:
    """A stopped file system: MariaDB 10.11 answered the first question after 22 s."""
    nobody = time_of([client(1)])
    for more, says in (
        ({"silent_s": 22.0}, "the server took 22 s for its first answer"),
        (
            {"interrupted": "the server stopped answering (timed out)"},
            "the server stopped answering after 10 s",
        ),
    ):
        found = diagnose(evidence(write_time=nobody, **more))
        assert found.answer == f"The doctor saw no writer at work, but {says}."


def test_evidence_without_a_share_is_told_beside_what_binds() -> None:
    left = {-7: transaction(0, age_s=60)}
    left[-7] = msgspec.structs.replace(left[-7], prepared=True, id=7)
    found = diagnose(evidence(write_time=COMMITS, transactions=left))
    assert [one.name for one in found.findings[:2]] == ["commit_sync", "xa_transactions"]
    assert found.answer.startswith("Writes are bound: commits wait for")
    assert found.answer.endswith("Besides: an XA transaction has been prepared for 60 s, with 1 row lock.")
    turns = diagnose(evidence(write_time=time_of(*[[client(1)]] * 3, [writer(1)]), transactions=left))
    assert turns.findings[0].name == "xa_transactions"
    assert turns.answer.startswith("Writers wait for their clients 75% of their time. Besides: an XA")


def test_few_samples_of_a_server_are_no_share() -> None:
    tally = Tally(MYSQL97)
    tally.add(0.0, [writer(1, COMMITTING)])
    found = diagnose(evidence(write_time=tally.write_time(0.0)))
    assert {one.share for one in found.findings} == {None}
    assert found.answer.endswith("What bounds writes cannot be judged: only 1 sample of connections.")


def test_what_an_account_does_not_see_is_not_judged() -> None:
    found = diagnose(evidence(write_time=None, missing=("PROCESS", "SELECT on performance_schema")))
    assert found.answer.startswith("What bounds writes cannot be judged")
    assert any("lacks PROCESS" in one for one in found.not_judged)
    assert any("lacks SELECT on performance_schema" in one for one in found.not_judged)


def test_few_samples_and_an_early_end_are_doubts() -> None:
    few = diagnose(evidence(write_time=time_of([writer(1)]), interrupted="Ctrl-C", seconds=3.0))
    assert few.doubts[:2] == (
        "the window ended after 3 s: Ctrl-C",
        "only 10 samples of connections: give it more --seconds",
    )


def test_a_machine_without_time_makes_commits_doubtful() -> None:
    found = diagnose(evidence(write_time=COMMITS, host=host(pressure=BUSY)))
    assert any("short of processor time" in one for one in found.doubts)
    assert any(one.endswith("makes the bounds of other waits too low") for one in found.doubts)
    assert not any("short of processor time" in one for one in diagnose(evidence(write_time=COMMITS)).doubts)


def test_the_floor_is_that_of_the_values_in_force() -> None:
    assert diagnose(evidence()).floor.startswith("strict")
    relaxed = {"innodb_flush_log_at_trx_commit": 0, "log_bin": "OFF"}
    assert diagnose(evidence(settings=relaxed)).floor.startswith("relaxed")


def test_a_transaction_that_is_open_is_a_hint() -> None:
    found = diagnose(evidence(transactions={7: transaction(7, age_s=60, modified=1)}, write_time=COMMITS))
    assert found.findings[-1].name == "idle_transactions"
    assert found.findings[-1].strength == "hint"


def test_writes_too_short_to_be_seen_are_no_idle_server() -> None:
    found = diagnose(evidence({"com_update": 30_000, "com_delete": 2_000}, write_time=time_of([client(1)])))
    assert found.answer.startswith("Nothing in the server bounds writes: 3,200 statements/s write")


def test_all_of_the_time_has_no_bound() -> None:
    found = diagnose(evidence(write_time=time_of(*[[writer(1, COMMITTING)]] * 99)))
    assert found.findings[0].share is not None and found.findings[0].at_most is None
    assert found.answer.endswith("It may be all of the time: no bound can be computed.")


def test_time_in_statements_is_no_wait() -> None:
    found = diagnose(evidence(write_time=time_of([writer(1), writer(2), writer(3)])))
    assert found.answer == "No single wait bounds writes: writers execute statements 100% of their time."


def test_clients_are_no_bottleneck_of_the_server() -> None:
    waiting = time_of(*[[client(1)]] * 3, [writer(1)])
    assert diagnose(evidence(write_time=waiting)).answer == (
        "Nothing in the server bounds writes: writers wait for their clients 75% of their time."
    )
    both = time_of([client(1)], [client(1)], [client(1)], [writer(1, COMMITTING)], [writer(1, COMMITTING)])
    assert diagnose(evidence(write_time=both)).answer.startswith(
        "Writers wait for their clients 60% of their time. In the server: commits wait for the sync of"
    )


def test_a_cause_comes_before_what_it_shows_in() -> None:
    relaxed = {"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"}
    ages = (10_000_000, 90_000_000) * 2  # near the log's end for half of the time
    seen = evidence(
        variables=relaxed, checkpoint_ages=ages, write_time=time_of([writer(1, COMMITTING), writer(2)])
    )
    assert [one.name for one in diagnose(seen).findings] == ["redo_capacity", "commit_sync"]


def test_a_quota_comes_before_the_waits_for_a_processor_that_it_makes() -> None:
    """MariaDB 10.11 with a fifth of a processor: 83 % of the time was threads', 82 % the quota's."""
    turns = [
        [writer((one + at) % 8) if one < 3 else client((one + at) % 8) for one in range(8)] for at in range(8)
    ]
    short = host(cpus=2, pressure=BUSY, cpu_quota=0.2, cpu_throttled_share=0.95, cpu_stopped_share=0.78)
    seen = evidence(write_time=time_of(*turns), host=msgspec.structs.replace(short, cpu_waiting=6.9))
    found = diagnose(seen).findings
    assert [one.name for one in found[:3]] == ["cpu_quota", "cpu", "client"]
    assert all(one.share is not None for one in found[:2]) and found[0].strength == "binds"


def test_waits_for_rows_come_behind_the_old_snapshot_that_makes_searches_long() -> None:
    """Rows stay locked for as long as statements search."""
    counted = {
        "innodb_rows_read": 1_000,
        "innodb_history_list_length": 50_000,
        "innodb_buffer_pool_read_requests": 40_000,
        "innodb_row_lock_waits": 900,
        "innodb_row_lock_time": 80_000,
    }
    seen = evidence(
        counted,
        {"innodb_history_list_length": 20_000},
        transactions={7: transaction(7, age_s=60)},
        write_time=time_of([writer(number) for number in range(10)], row_locks=8.0),
    )
    names = [one.name for one in diagnose(seen).findings]
    assert names[:2] == ["purge_lag", "row_locks"]
    without = msgspec.structs.replace(seen, transactions={})
    assert diagnose(without).findings[0].name == "row_locks"


def test_a_cause_that_is_weaker_explains_nothing() -> None:
    weak = Finding(name="purge_lag", title="", share=TimeShare(0.0, 0.2, 1.0), shows_in=("row_locks",))
    strong = Finding(name="row_locks", title="", share=TimeShare(0.5, 0.6, 0.7))
    assert in_order([weak, strong]) == [strong, weak]
    other = Finding(name="metadata_locks", title="", share=TimeShare(0.3, 0.4, 0.5))
    as_strong = msgspec.structs.replace(weak, share=TimeShare(0.0, 0.5, 1.0))
    assert in_order([strong, other, as_strong]) == [as_strong, strong, other]


def test_a_share_that_may_be_anything_neither_binds_nor_comes_first() -> None:
    """0 % to 100 % of the executing time, beside a transaction that is known to hold somebody up."""
    reads = {"innodb_buffer_pool_reads": 5_000, "com_update": 100, "handler_commit": 100}
    executing = time_of([writer(1), writer(2)])
    alone = diagnose(evidence(reads, write_time=executing))
    assert [(one.name, one.strength) for one in alone.findings] == [("buffer_pool", "unmeasured")]
    assert alone.answer.startswith("Writes may be bound: statements wait for the buffer pool")
    assert alone.answer.endswith("How much of the time this takes is not known.")
    left = {-7: msgspec.structs.replace(transaction(0, age_s=60), prepared=True, id=7)}
    beside = diagnose(evidence(reads, write_time=executing, transactions=left))
    assert [one.name for one in beside.findings] == ["xa_transactions", "buffer_pool"]
    committing = diagnose(evidence(reads, write_time=time_of([writer(1, COMMITTING), writer(2)])))
    assert committing.findings[0].name == "commit_sync"


@pytest.mark.parametrize(
    ("variables", "version", "service"),
    [
        ({"aurora_version": "3.05.2", "rds_x": "1"}, "8.0.32", "Amazon Aurora"),
        ({"basedir": "/rdsdbbin/mysql-8.0.35.R2/"}, "8.0.35", "Amazon RDS"),
        ({"azure_server_name": "x"}, "8.0.35-azure", "Azure Database for MySQL"),
        ({}, "8.0.31-google", "Google Cloud SQL"),
        ({"basedir": "/usr/"}, "8.0.36", ""),
    ],
)
def test_a_service_is_known_by_its_variables(variables: dict[str, str], version: str, service: str) -> None:
    assert service_of(variables, version) == service


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("group_replication_group_name", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", ["Group Replication"]),
        ("group_replication_group_name", "", []),
        ("thread_handling", "pool-of-threads", ["thread pool"]),
        ("thread_handling", "one-thread-per-connection", []),
    ],
)
def test_what_no_state_tells_is_said(name: str, value: str, says: list[str]) -> None:
    said = [*circumstances(evidence(variables={name: value}))]
    assert len(said) == len(says) and all(one in text for one, text in zip(says, said, strict=True))


def test_a_service_has_another_way_to_change_settings() -> None:
    found = diagnose(evidence(variables={"aurora_version": "3.05.2"})).doubts
    assert any("change them in its parameter group" in text for text in found)
    assert any("storage of its own" in text for text in found)


@pytest.mark.parametrize("name", ["read_only", "super_read_only"])
def test_a_read_only_server_is_said_to_be_one(name: str) -> None:
    assert "the server is read-only" in next(circumstances(evidence(variables={name: "ON"})))


def test_counters_that_were_set_back_are_a_doubt() -> None:
    begin = {"uptime": 100, "uptime_since_flush_status": 100}
    assert not list(circumstances(evidence({"uptime": 110, "uptime_since_flush_status": 110}, begin)))
    (doubt,) = circumstances(evidence({"uptime": 110, "uptime_since_flush_status": 4}, begin))
    assert "FLUSH STATUS" in doubt
    assert not list(circumstances(evidence({"uptime": 110}, {"uptime": 100})))


@pytest.mark.parametrize(("uptime", "moved"), [(-3490, "-3,600"), (3710, "+3,600"), (111, ""), (104, "")])
def test_a_clock_that_jumps_is_told_from_a_restart(uptime: int, moved: str) -> None:
    seen = evidence({"uptime": uptime, "questions": 900}, {"uptime": 100, "questions": 500})
    told = list(circumstances(seen))
    assert [f"clock moved by {moved} s" in text for text in told] == ([True] if moved else [])


def test_a_mount_without_barriers_is_a_doubt() -> None:
    (place,) = host().places
    assert "nobarrier" in place.options
    assert "mounted without barriers" in next(circumstances(evidence(host=host())))
    for harmless in ({"options": ("rw",)}, {"volatile_cache": False}):
        told = host(places=(msgspec.structs.replace(place, **harmless),))
        assert not list(circumstances(evidence(host=told)))


def test_an_ordinary_server_has_no_doubt_of_this_kind() -> None:
    assert not list(circumstances(evidence({"uptime": 10})))
    assert "a proxy seems to be between" in next(circumstances(evidence(between="numbers differ")))
