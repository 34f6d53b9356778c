"""What crashes have left, against what a floor allows."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.campaign.crash.check import broken, unproven
from flushlab.record import BinlogState, Crash, CrashArm, CrashKind, CrashOutcome, CrashPoint
from flushlab.settings.floor import Floor


def crashed(
    outcome: CrashOutcome = "kept", lost_s: float = 0.0, binlog: int = 0, reason: str = ""
) -> CrashArm:
    """Two crashes: one that kept all, and this one."""
    point = CrashPoint(at=7, kind="random", seed=1)
    other = Crash(
        point=point,
        outcome=outcome,
        acknowledged=5000,
        lost=int(1000 * lost_s),
        lost_s=lost_s,
        binlog=BinlogState(lost=binlog),
        reasons=(reason,) if reason else (),
    )
    kept = Crash(point=point, outcome="kept", acknowledged=5000)
    return CrashArm(name="a", settings={}, crashes=(kept, other))


@pytest.mark.parametrize("kind", ["process", "power"])
@pytest.mark.parametrize("floor", list(Floor))
def test_what_kept_all_breaks_no_floor(kind: CrashKind, floor: Floor) -> None:
    assert broken(crashed(), kind, floor) is None


@pytest.mark.parametrize(
    ("lost_s", "kind", "allowed"),
    [
        (0.9, "power", {Floor.SECOND, Floor.RELAXED}),
        (1.4, "os", {Floor.SECOND, Floor.RELAXED}),
        (2.5, "power", set()),
        (0.9, "process", {Floor.RELAXED}),
        (0.003, "power", {Floor.SECOND, Floor.RELAXED}),
    ],
)
def test_about_a_second_of_commits_may_be_lost_where_the_floor_says_so(
    lost_s: float, kind: CrashKind, allowed: set[Floor]
) -> None:
    found = {floor for floor in Floor if broken(crashed("lost", lost_s), kind, floor) is None}
    assert found == allowed | {Floor.THROWAWAY}


@pytest.mark.parametrize("outcome", ["not_started", "inconsistent"])
def test_only_throwaway_allows_what_is_beyond_repair(outcome: CrashOutcome) -> None:
    found = [broken(crashed(outcome, reason="page 7 is torn"), "power", floor) for floor in Floor]
    assert found[-1] is None
    assert all(one is not None and one.endswith("in 1 of 2 crashes (page 7 is torn)") for one in found[:-1])


def test_only_strict_asks_for_the_end_of_the_binary_log() -> None:
    found = [broken(crashed(binlog=12), "power", floor) for floor in Floor]
    assert found == ["the binary log lacked acknowledged commits after 1 of 2 crashes, up to 12", *[None] * 3]


def test_what_was_lost_is_told_in_numbers() -> None:
    assert broken(crashed("lost", 2.5), "power", Floor.RELAXED) == (
        "acknowledged commits were lost in 1 of 2 crashes, up to 2,500, at most 2.50 s old"
    )


def test_what_could_not_be_judged_proves_nothing() -> None:
    arm = crashed("unknown", reason="no space")
    assert all(unproven(arm, floor) is None for floor in Floor), "one of the two could be judged"
    none = msgspec.structs.replace(arm, crashes=arm.crashes[1:])
    assert unproven(none, Floor.RELAXED) == "none of 1 crashes could be judged (no space)"
    assert unproven(msgspec.structs.replace(arm, crashes=()), Floor.RELAXED) is not None


def test_only_strict_asks_for_a_binary_log_that_can_be_read() -> None:
    arm = crashed()
    crashes = (arm.crashes[0], msgspec.structs.replace(arm.crashes[1], binlog_unread="it is encrypted"))
    unread = msgspec.structs.replace(arm, crashes=crashes)
    found = [unproven(unread, floor) for floor in Floor]
    assert found == ["the binary log could not be read after 1 of 2 crashes: it is encrypted", *[None] * 3]
