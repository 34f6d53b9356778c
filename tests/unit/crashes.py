"""Invented crashes, for tests of reports."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flushlab.campaign.crash.experiment import CrashRequest
from flushlab.experiment.tune_plan import FrontierPoint, TuneResult
from flushlab.record import (
    Arm,
    BinlogState,
    Crash,
    CrashArm,
    CrashFacts,
    CrashNode,
    CrashOutcome,
    CrashPoint,
    CrashRow,
    GtidState,
    NodeAlone,
    NodeWay,
    ReplicaState,
    Value,
)
from flushlab.spec.kinds import CrashSpec

REQUEST = CrashRequest(
    spec=CrashSpec(crashes=2),
    folder="/",
    build="mariadb@10.11.19",
    build_id="mariadb-x",
    server="mariadb@10.11.19",
    workload_digest="",
    planned={},
)


def judged(number: int, outcome: CrashOutcome = "kept", lost: int = 0, *, behind: int = 0) -> Crash:
    """The nth crash; every fourth was chosen."""
    return Crash(
        point=CrashPoint(at=1000 + number, kind="after_ack" if number % 4 == 3 else "random", seed=number),
        outcome=outcome,
        acknowledged=4000,
        lost=lost,
        lost_s=lost / 1000,
        binlog=BinlogState(lost=behind, behind=behind),
        gtid=GtidState(behind=behind),
        reasons=("[ERROR] InnoDB: page 7 is torn",) if outcome == "not_started" else (),
        seconds=0.8,
    )


BASE = CrashArm(
    name="base",
    settings={"log_bin": "ON"},
    commits_per_s=1290.4,
    records=18_000,
    floor="second",
    guarantee="acknowledged commits that are missing from the binary log are rolled back",
    crashes=tuple(judged(number, behind=2000 + number) for number in range(12)),
)
LOSING = CrashArm(
    name="innodb_flush_log_at_trx_commit=2",
    settings={"innodb_flush_log_at_trx_commit": 2},
    commits_per_s=5290.4,
    records=9_000,
    folder="/records/r1",
    crashes=(
        *(judged(number, "lost", 100 + number) for number in range(11)),
        judged(11, "not_started", 4000),
    ),
)
CONTROL = CrashArm(
    name="positive control: innodb_flush_log_at_trx_commit=2",
    settings={"innodb_flush_log_at_trx_commit": 2},
    positive_control=True,
    crashes=(
        msgspec.structs.replace(judged(0, "lost", 500), unflushed=3),
        msgspec.structs.replace(judged(1), unflushed=0),
    ),
)

_WAYS: tuple[NodeWay, ...] = ("bootstrap", "ist", "sst")
CLUSTER = CrashArm(
    name="innodb_flush_log_at_trx_commit=2",
    settings={"innodb_flush_log_at_trx_commit": 2},
    commits_per_s=890.4,
    records=900,
    crashes=tuple(
        Crash(
            point=CrashPoint(at=number * 250_000_000, kind="random", seed=number),
            outcome="lost",
            acknowledged=1000,
            lost=10 * number + 5,
            lost_s=0.1,
            nodes=tuple(
                CrashNode(
                    number=node,
                    crashed=True,
                    way=way,
                    outcome="lost",
                    lost=10 * number + 5,
                    position=1000 - 10 * node,
                    alone=NodeAlone(outcome="lost", lost=10 * number + 5 * node),
                )
                for node, way in enumerate(_WAYS, 1)
            ),
        )
        for number in range(3)
    ),
)
"""Three cuts of all nodes of a cluster."""


ALONE = CrashArm(
    name="base",
    settings={},
    checks_rows=False,
    crashes=tuple(
        Crash(
            point=CrashPoint(at=number, kind="random", seed=number),
            outcome="inconsistent" if number == 7 else "sound",
            acknowledged=0,
            reasons=("CHECK TABLE shop.orders: Corrupt",) if number == 7 else (),
        )
        for number in range(8)
    ),
)
"""A command's crashes: without an acknowledgement table."""


def rows(arm: CrashArm) -> list[CrashRow]:
    """The crashes of an arm as a campaign stores them."""
    alone = msgspec.structs.replace(arm, crashes=())
    return [CrashRow(arm=alone, number=number, crash=one) for number, one in enumerate(arm.crashes)]


def facts(*arms: CrashArm) -> CrashFacts:
    """Of MariaDB, when the power failed."""
    return CrashFacts(
        server="mariadb@10.11.19", workload="acked_inserts", failure="power", fs="ext4", arms=arms
    )


class Proven:
    """An experiment whose arms were proven, best first; what is rejected does not win."""

    def __init__(
        self, base: Mapping[str, Value], *points: FrontierPoint, offers: tuple[FrontierPoint, ...] = ()
    ) -> None:
        self.base, self.points, self.rejected = base, list(points), dict[str, str]()
        self.offers = offers

    def result(self) -> TuneResult:
        """With the first that is left as the winner."""
        left = [one for one in self.points if one.arm not in self.rejected]
        base = Arm(name="base", settings=self.base)
        offers = tuple(one for one in self.offers if one.arm not in self.rejected)
        return TuneResult(
            base=base, frontier=tuple(left), winner=left[0] if left else None, offers=offers, control=None
        )

    def reject(self, arm: str, reason: str) -> None:
        """It does not win."""
        self.rejected[arm] = reason


REPLICATED = CrashArm(
    name="sync_binlog=0",
    settings={"log_bin": "ON", "sync_binlog": 0},
    commits_per_s=3000.4,
    crashes=tuple(
        msgspec.structs.replace(
            judged(number, "lost", 2, behind=900),
            replica=ReplicaState(
                outcome="stopped" if number else "diverged",
                ahead=2,
                lacks=4,
                error=1236 if number else 0,
                said="impossible position" if number else "",
            ),
            new_replica=ReplicaState(outcome="diverged", lacks=900),
        )
        for number in range(6)
    ),
)
"""Replicas were attached."""
