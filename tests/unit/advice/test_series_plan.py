"""A diagnosis as a plan that `flushlab series` takes."""

from __future__ import annotations

from flushlab.advice.series_plan import MOST_THREADS, series_plan
from flushlab.diagnosis.diagnose import diagnose
from flushlab.plan.parse import parse_plan
from tests.unit.diagnosis.watched import COMMITTING, evidence, time_of, writer

MANY = [writer(one, COMMITTING) for one in range(100)]


def test_every_change_to_try_is_an_arm() -> None:
    seen = evidence(
        {"innodb_log_waits": 3, "handler_commit": 100},
        write_time=time_of([writer(1, COMMITTING), writer(2)]),
        settings={"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1, "innodb_log_buffer_size": 262144},
    )
    text = series_plan(diagnose(seen))
    assert text is not None
    plan = parse_plan(text, path="doctor.toml")
    assert [dict(arm.settings) for arm in plan.arms] == [
        {"sync_binlog": 1000},
        {"innodb_flush_log_at_trx_commit": 2},
        {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 1000},
        {"innodb_log_buffer_size": 67108864},
    ]
    assert [arm.name for arm in plan.arms] == [
        "sync_binlog=1000",
        "flush_log_at_trx_commit=2",
        "flush_log_at_trx_commit, sync_binlog",
        "log_buffer_size=64M",
    ]
    assert "floor second, at most" in plan.arms[1].text
    assert plan.server == "mysql@9.7"
    assert dict(plan.base) == {"innodb_log_buffer_size": 262144}  # the others are defaults
    assert plan.workload.options["threads"] == 2


def test_the_stand_in_has_as_many_connections_as_there_were_writers() -> None:
    text = series_plan(diagnose(evidence(write_time=time_of(MANY))))
    assert text is not None
    assert parse_plan(text, path="doctor.toml").workload.options["threads"] == MOST_THREADS


def test_without_a_setting_to_try_there_is_no_plan() -> None:
    assert series_plan(diagnose(evidence(write_time=time_of([writer(1)])))) is None
