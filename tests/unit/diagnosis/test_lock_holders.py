"""Who holds a metadata lock: as the server tells, or whoever was there before the wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flushlab.diagnosis.diagnose import diagnose
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.findings.locks import holders, known
from flushlab.record import ServerIdentity
from flushlab.telemetry.live.questions import MetadataLock, ThreadState
from tests.unit.diagnosis.test_findings import transaction
from tests.unit.diagnosis.watched import MARIADB, MYSQL97, evidence, time_of

TABLE, GLOBAL = "Waiting for table metadata lock", "Waiting for global read lock"
LOCKS = {
    "a reader in a transaction, and DDL": [
        ("SHARED_READ", 12, True),
        ("SHARED_UPGRADABLE", 13, True),
        ("EXCLUSIVE", 13, False),
        ("SHARED_READ", 14, False),
    ],
    "LOCK TABLES t READ, and a reader": [
        ("SHARED_READ", 11, True),
        ("SHARED_READ_ONLY", 12, True),
        ("SHARED_WRITE", 14, False),
    ],
    "DDL that MySQL 8.0.15 tells as it began": [("SHARED_UPGRADABLE", 12, True), ("SHARED_WRITE", 14, False)],
}
"""As MySQL told them: kind, connection, whether it has the lock."""


def asked(seen: Sequence[ThreadState], identity: ServerIdentity = MYSQL97, **more: Any) -> Evidence:
    asleep = {one.id: one for one in seen if one.command == "Sleep"}
    longest = {one.id: one for one in seen if one.command != "Sleep"}
    return evidence(identity=identity, longest=longest, asleep=asleep, write_time=time_of([]), **more)


@pytest.mark.parametrize("name", LOCKS)
def test_the_holder_is_whose_lock_excludes_those_who_wait(name: str) -> None:
    told = [
        MetadataLock(kind=kind, thread=one, granted=has, of="table app.t") for kind, one, has in LOCKS[name]
    ]
    other = MetadataLock(kind="INTENTION_EXCLUSIVE", thread=50, granted=True, of="global")
    found = known(holders(asked([ThreadState(14, "Query", 9, TABLE, "update")], locks=(other, *told))))
    assert found is not None and (found.kill, found.doubt) == (12, 0)


def test_a_holder_that_waits_itself_heads_the_queue() -> None:
    """FLUSH TABLES WITH READ LOCK behind a long query: MySQL tells the lock of FLUSH."""
    locks = (
        MetadataLock(kind="SHARED", thread=23, granted=True, of="global"),
        MetadataLock(kind="INTENTION_EXCLUSIVE", thread=24, granted=False, of="global"),
    )
    seen = [
        ThreadState(22, "Query", 31, "User sleep", "select"),
        ThreadState(23, "Query", 30, "Waiting for table flush", "flush"),
        ThreadState(24, "Query", 29, GLOBAL, "update"),
    ]
    found = known(holders(asked(seen, locks=locks)))
    assert found is not None and (found.kill, found.does) == (22, "SELECT for 31 s")


def test_those_who_came_later_than_the_wait_do_not_hold_the_lock() -> None:
    seen = [
        ThreadState(8, "Query", 770, TABLE, "alter"),
        ThreadState(9, "Sleep", 771, "", ""),
        ThreadState(10, "Sleep", 700, "", ""),
        ThreadState(11, "Query", 60, "Sending data", "select"),
    ]
    found = holders(asked(seen, transactions={10: transaction(10, age_s=705)}))
    assert [one.kill for one in found] == [9]


def test_a_prepared_transaction_may_hold_it_and_cannot_be_killed() -> None:
    seen = [ThreadState(8, "Query", 770, TABLE, "alter")]
    found = asked(seen, identity=MARIADB, transactions={-7: transaction(0, age_s=86_400)})
    assert "a prepared XA transaction probably holds" in diagnose(found).answer
    assert "KILL" not in diagnose(found).findings[0].advice
