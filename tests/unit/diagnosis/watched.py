"""Evidence for tests of the doctor: what a server could have told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.shares import STRETCHES, Tally, WriteTime
from flushlab.record import ServerIdentity
from flushlab.telemetry.live.questions import ThreadState
from flushlab.telemetry.live.status import ServerStatus
from tests.unit.telemetry.live.told import MARIADB, MYSQL97

SETTINGS = {
    "innodb_flush_log_at_trx_commit": 1,
    "sync_binlog": 1,
    "log_bin": "ON",
    "innodb_doublewrite": "ON",
}
VARIABLES = {
    "innodb_flush_log_at_trx_commit": "1",
    "sync_binlog": "1",
    "log_bin": "ON",
    "innodb_log_buffer_size": "16777216",
    "innodb_redo_log_capacity": "104857600",
    "innodb_buffer_pool_size": "134217728",
    "binlog_cache_size": "32768",
    "max_connections": "100",
}
COMMITTING = "waiting for handler commit"


def writer(one: int, state: str = "updating", verb: str = "update") -> ThreadState:
    return ThreadState(one, "Execute", 0, state, verb)


def client(one: int, seconds: int = 0) -> ThreadState:
    return ThreadState(one, "Sleep", seconds, "", "")


def time_of(
    *moments: Iterable[ThreadState], identity: ServerIdentity = MYSQL97, row_locks: float = 0.0
) -> WriteTime:
    """The same moments in every stretch of the window."""
    tally = Tally(identity)
    for stretch in range(STRETCHES):
        for moment in moments:
            tally.add(stretch, moment)
    return tally.write_time(row_locks)


def evidence(
    after: Mapping[str, object] | None = None,
    before: Mapping[str, object] | None = None,
    *,
    identity: ServerIdentity = MYSQL97,
    variables: Mapping[str, str] | None = None,
    **more: Any,
) -> Evidence:
    """Ten seconds; counters that `before` leaves out began at 0, and variables of "" are absent."""
    ends = {name: str(value) for name, value in (after or {}).items()}
    begins = dict.fromkeys(ends, "0") | {name: str(value) for name, value in (before or {}).items()}
    told = {name: value for name, value in (VARIABLES | dict(variables or {})).items() if value}
    both: dict[str, Any] = {"identity": identity, "key": "db1:3306", "variables": told}
    return Evidence(
        **{
            "seconds": 10.0,
            "before": ServerStatus(**both, status=begins, at_s=0.0),
            "after": ServerStatus(**both, status=ends, at_s=10.0),
            "settings": SETTINGS,
            **more,
        }
    )


__all__ = ["COMMITTING", "MARIADB", "MYSQL97", "client", "evidence", "time_of", "writer"]
