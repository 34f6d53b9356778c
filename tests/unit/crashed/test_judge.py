"""The judge, with invented acknowledgements and survivors."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flushlab.campaign.crash.check import broken, unproven
from flushlab.crashed.judge import (
    AckNote,
    Commits,
    RecoveredServer,
    acknowledged_before,
    begun_after,
    commits_by_connection,
    judge,
    not_started,
    read_notes,
    unknown,
)
from flushlab.record import BinlogState, Crash, CrashArm, CrashKind, CrashOutcome, CrashPoint, GtidState
from flushlab.settings.floor import Floor

POINT = CrashPoint(at=100, kind="random", seed=1)
SECOND = 1_000_000_000


def notes(*counts: int) -> list[AckNote]:
    """Connections 1, 2, … with so many acknowledged commits, the nth at position n and second n."""
    return [
        AckNote(connection, counter, counter, counter * SECOND)
        for connection, count in enumerate(counts, 1)
        for counter in range(1, count + 1)
    ]


def rows(*counts: int) -> dict[int, Commits]:
    return {number: Commits(count, count) for number, count in enumerate(counts, 1) if count}


def judged(promised: list[AckNote], recovered: RecoveredServer) -> Crash:
    return judge(POINT, promised, 10 * SECOND, recovered)


def test_all_that_was_acknowledged_is_kept() -> None:
    crash = judged(notes(3, 5), RecoveredServer(rows(3, 5), again=rows(3, 5)))
    assert (crash.outcome, crash.acknowledged, crash.lost, crash.reasons) == ("kept", 8, 0, ())


def test_a_binary_log_that_could_not_be_read_lacks_nothing_that_is_known() -> None:
    crash = judged(notes(3), RecoveredServer(rows(3), binlog="it is encrypted"))
    assert (crash.outcome, crash.binlog, crash.binlog_unread) == ("kept", None, "it is encrypted")


def test_the_commit_that_was_under_way_may_be_there_or_not() -> None:
    assert judged(notes(3), RecoveredServer(rows(4))).outcome == "kept"
    assert judged([], RecoveredServer(rows(1))).outcome == "kept"


def test_a_missing_end_is_lost_and_its_seconds_count_from_its_first_acknowledgement() -> None:
    crash = judged(notes(6, 2), RecoveredServer(rows(4, 2)))
    assert (crash.outcome, crash.lost, crash.lost_s) == ("lost", 2, 5.0)


def test_an_answer_that_was_noted_after_the_crash_has_lost_no_time() -> None:
    crash = judge(POINT, notes(3), 2 * SECOND, RecoveredServer(rows(2)))
    assert (crash.lost, crash.lost_s) == (1, 0.0)


def test_a_connection_without_any_row_has_lost_all() -> None:
    assert judged(notes(3, 2), RecoveredServer(rows(3))).lost == 2


def test_a_gap_is_no_state_that_the_server_was_ever_in() -> None:
    crash = judged(notes(5), RecoveredServer({1: Commits(4, 5)}))
    assert crash.outcome == "inconsistent"
    assert crash.reasons == ("connection 1: 1 commit before the last, 5, not in the tables",)


def test_commits_that_nobody_asked_for_are_inconsistent() -> None:
    crash = judged(notes(5), RecoveredServer(rows(7)))
    assert crash.reasons == ("connection 1: commit 7 is in the tables, but 6 was under way",)
    crash = judged(notes(5), RecoveredServer(rows(5, 2)))
    assert crash.reasons == ("connection 2: commit 2 is in the tables, but 1 was under way",)


def test_half_a_transaction_and_a_damaged_table_are_inconsistent() -> None:
    assert judged(notes(5), RecoveredServer(rows(5), broken=[(1, 5)])).reasons == (
        "transaction 5 of connection 1 is not whole",
    )
    damaged = judged(notes(5), RecoveredServer(rows(5), damaged=["CHECK TABLE t: Corrupt"]))
    assert (damaged.outcome, damaged.reasons) == ("inconsistent", ("CHECK TABLE t: Corrupt",))


def test_rows_that_change_when_the_server_starts_once_more_are_inconsistent() -> None:
    assert judged(notes(5), RecoveredServer(rows(4), again=rows(5))).outcome == "inconsistent"
    assert judged(notes(5), RecoveredServer(rows(5), again={1: Commits(3, 4)})).outcome == "inconsistent"
    assert judged(notes(5), RecoveredServer(rows(5), again=rows(5, 1))).outcome == "inconsistent"
    assert (
        "does not start: page 4" in judged(notes(5), RecoveredServer(rows(5), not_again="page 4")).reasons[0]
    )


def test_what_is_gone_after_another_kill_is_lost() -> None:
    crash = judged(notes(5), RecoveredServer(rows(5), again=rows(3)))
    assert (crash.outcome, crash.lost, crash.lost_s) == ("lost", 2, 6.0)
    assert crash.reasons == ("killed and started once more, it has 2 commits fewer",)
    assert judged(notes(5), RecoveredServer(rows(6), again=rows(5))).outcome == "kept"
    crash = judged(notes(5, 2), RecoveredServer(rows(5, 2), again=rows(5)))
    assert (crash.lost, crash.reasons) == (2, ("killed and started once more, it has 2 commits fewer",))


def test_the_binary_log_has_a_column_of_its_own() -> None:
    crash = judged(notes(5, 5), RecoveredServer(rows(5, 5), binlog=rows(0, 3)))
    assert (crash.outcome, crash.binlog) == ("kept", BinlogState(lost=7, behind=7, ahead=0))
    crash = judged(notes(5), RecoveredServer(rows(2), binlog=rows(6)))
    assert (crash.outcome, crash.binlog) == ("lost", BinlogState(lost=0, behind=0, ahead=4))
    crash = judged(notes(5, 5), RecoveredServer(rows(2), binlog=rows(6, 3)))
    assert crash.binlog == BinlogState(lost=2, behind=0, ahead=4 + 3)


def test_a_gap_in_the_binary_log_is_inconsistent() -> None:
    crash = judged(notes(5), RecoveredServer(rows(5), binlog={1: Commits(3, 5)}))
    assert crash.reasons == ("connection 1: 2 commits before the last, 5, not in the binary log",)


def test_a_server_that_does_not_start_has_lost_everything() -> None:
    crash = not_started(POINT, notes(3, 4), "[ERROR] torn")
    assert (crash.outcome, crash.lost, crash.reasons) == ("not_started", 7, ("[ERROR] torn",))


def test_a_crash_that_nobody_could_look_at_is_unknown_and_has_lost_nothing_that_is_known() -> None:
    crash = unknown(POINT, notes(3, 4), "the disk is full")
    assert (crash.outcome, crash.acknowledged, crash.lost) == ("unknown", 7, 0)
    assert (crash.point, crash.reasons) == (POINT, ("the disk is full",))


COUNTS = st.lists(st.integers(0, 30), min_size=1, max_size=5)


@settings(deadline=None)
@given(COUNTS, st.data())
def test_any_prefix_is_kept_or_lost_and_never_inconsistent(counts: list[int], data: st.DataObject) -> None:
    found = [data.draw(st.integers(0, count + 1)) for count in counts]
    crash = judged(notes(*counts), RecoveredServer(rows(*found)))
    lost = sum(max(0, count - there) for count, there in zip(counts, found, strict=True))
    assert (crash.outcome, crash.lost) == ("lost" if lost else "kept", lost)


@settings(deadline=None)
@given(COUNTS, st.integers(0, 40))
def test_what_is_acknowledged_later_is_not_asked_for(counts: list[int], at: int) -> None:
    """A server that syncs each commit before it answers keeps those at positions up to the crash."""
    there: Mapping[int, Commits] = rows(*(min(count, at) for count in counts))
    assert judged(acknowledged_before(notes(*counts), at), RecoveredServer(there)).outcome == "kept"


def test_without_acks_sound_tables_are_all_that_is_known() -> None:
    crash = judged([], RecoveredServer(None))
    assert (crash.outcome, crash.acknowledged, crash.lost, crash.binlog) == ("sound", 0, 0, None)
    assert crash.lost_s == 0.0
    assert judged([], RecoveredServer(None, damaged=("CHECK TABLE a.b: torn",))).outcome == "inconsistent"
    assert judged([], RecoveredServer(None, not_again="[ERROR] no")).outcome == "inconsistent"


def test_without_acks_binary_log_and_gtids_have_nothing_to_be_held_against() -> None:
    crash = judged([], RecoveredServer(None, binlog=rows(2), gtids=2))
    assert (crash.outcome, crash.binlog, crash.gtid, crash.reasons) == ("sound", None, None, ())


def test_every_contradiction_is_a_reason() -> None:
    gap = {1: Commits(4, 5)}
    recovered = RecoveredServer(
        gap,
        broken=[(1, 5)],
        damaged=["CHECK TABLE t: Corrupt"],
        binlog=gap,
        again={1: Commits(3, 4)},
        not_again="page 4",
        extra=["a node differs"],
    )
    crash = judged(notes(5), recovered)
    assert [reason.split(":")[0] for reason in crash.reasons] == [
        "CHECK TABLE t",
        "a node differs",
        "killed again, it does not start",
        "connection 1",
        "transaction 5 of connection 1 is not whole",
        "connection 1",
        "connection 1",
        "killed and started once more, it has 1 commit fewer",
    ]
    places = ["the tables", "the tables after another kill", "the binary log"]
    gaps = [reason for reason in crash.reasons if reason.startswith("connection 1")]
    assert [reason.partition(", not in ")[2] for reason in gaps] == places
    assert crash.outcome == "inconsistent"


def test_of_what_is_wrong_in_the_same_way_three_are_told() -> None:
    gaps = {connection: Commits(4, 5) for connection in range(1, 6)}
    crash = judged(notes(5, 5, 5, 5, 5), RecoveredServer(gaps, damaged=["torn"] * 4, broken=[(1, 2)] * 4))
    assert len(crash.reasons) == 3 + 3 + 3


def test_gtids_are_held_against_the_tables_and_change_no_outcome() -> None:
    assert judged(notes(3, 2), RecoveredServer(rows(3, 3), gtids=6)).gtid == GtidState()
    assert judged(notes(3, 2), RecoveredServer(rows(3, 2), gtids=3)).gtid == GtidState(behind=2)
    crash = judged(notes(3, 2), RecoveredServer(rows(3, 2), gtids=9))
    assert (crash.outcome, crash.gtid) == ("kept", GtidState(ahead=4))
    assert judged(notes(3), RecoveredServer(rows(3))).gtid is None


NOTES = [AckNote(1, 1, 10, 100), AckNote(2, 1, 12, 110), AckNote(1, 2, 20, 120)]


def test_notes_are_read_up_to_the_last_whole_one(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_bytes(b"".join(struct.pack("<QQQQ", *note) for note in NOTES) + b"half a note")
    assert read_notes(file) == NOTES


def test_no_file_has_no_notes(tmp_path: Path) -> None:
    assert read_notes(tmp_path / "notes") == []


def test_what_was_acknowledged_at_a_record_or_before_is_promised() -> None:
    assert commits_by_connection(acknowledged_before(NOTES, 20)) == {1: 2, 2: 1}
    assert commits_by_connection(acknowledged_before(NOTES, 19)) == {1: 1, 2: 1}
    assert commits_by_connection(acknowledged_before(NOTES, 9)) == {}


def test_the_first_acknowledgement_of_a_connection_may_be_of_what_was_synced_before() -> None:
    assert begun_after(NOTES, 20) == 0
    assert begun_after(NOTES, 11) == 0
    assert begun_after([*NOTES, AckNote(2, 2, 21, 130), AckNote(1, 3, 22, 140)], 11) == 2


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
