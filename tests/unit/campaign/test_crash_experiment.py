"""Which crash is next, from its plan and the rows it was told."""

from __future__ import annotations

import msgspec

from flushlab.campaign.crash.experiment import CrashExperiment, arms_of
from flushlab.experiment.protocol import Request
from flushlab.record import CrashArm, CrashOutcome, CrashRow
from tests.unit.crashes import judged

BASE = CrashArm(name="base", settings={"sync_binlog": 1})
NEW = CrashArm(name="new", settings={"sync_binlog": 0})
CONTROL = CrashArm(name="positive control: it must lose", settings={"sync_binlog": 7}, positive_control=True)


def experiment(*arms: CrashArm, crashes: int = 4) -> CrashExperiment:
    return CrashExperiment(arms, crashes, CONTROL)


def row(arm: CrashArm, number: int, outcome: CrashOutcome = "kept", **of_run: object) -> CrashRow:
    return CrashRow(
        arm=msgspec.structs.replace(arm, **of_run),
        number=number,
        crash=judged(number, outcome, 9 * (outcome == "lost")),
    )


def carried_out(asked: CrashExperiment, outcome: CrashOutcome = "kept") -> list[tuple[str, int]]:
    """What is asked for until it is done, if all of it comes to this."""
    seen = []
    while (request := asked.ask()) is not None:
        seen.append((request.arm.name, request.block))
        arm = asked.arm(request.arm.name)
        assert arm is not None
        asked.tell(row(arm, request.block, "lost" if arm.positive_control else outcome))
    return seen


def test_arms_crash_one_after_the_other_then_the_control() -> None:
    seen = carried_out(experiment(BASE, NEW, crashes=2))
    assert seen == [("base", 0), ("base", 1), ("new", 0), ("new", 1), (CONTROL.name, 0), (CONTROL.name, 1)]


def test_no_control_crashes_where_something_was_lost() -> None:
    assert carried_out(experiment(BASE, crashes=2), "lost") == [("base", 0), ("base", 1)]


def test_a_row_of_another_number_is_taken_for_its_own() -> None:
    asked = experiment(BASE, crashes=3)
    assert isinstance(asked.ask(), Request)
    asked.tell(row(BASE, 2))
    asked.tell(row(BASE, 0))
    assert asked.missing("base") == [1]
    (arm,) = arms_of(asked.rows)
    assert [one.point.at for one in arm.crashes] == [1000, 1002], "in the order of the points"


def test_a_resumed_campaign_asks_for_what_is_missing() -> None:
    asked = experiment(BASE, NEW, crashes=2)
    asked.tell(row(BASE, 1))
    asked.tell(row(NEW, 0))
    assert carried_out(asked)[:2] == [("base", 0), ("new", 1)]


def test_stored_crashes_that_could_not_be_judged_are_asked_for_once_more() -> None:
    asked = CrashExperiment([BASE], 2, None)
    asked.tell(row(BASE, 0))
    asked.tell(row(BASE, 1, "unknown"))
    request = asked.ask()
    assert request is not None
    assert request.block == 1
    asked.tell(row(BASE, 1, "unknown"))
    assert asked.ask() is None, "once in a session"


def test_rows_of_other_settings_are_left_out() -> None:
    asked = experiment(BASE, crashes=1)
    asked.tell(row(CrashArm(name="base", settings={"sync_binlog": 9}), 0, "lost"))
    asked.tell(row(CrashArm(name="the winner before", settings={}), 0, "lost"))
    assert asked.rows == []
    assert carried_out(asked) == [("base", 0), (CONTROL.name, 0)]


def test_progress_is_of_the_arm_that_is_due_with_the_others_behind_it() -> None:
    asked = experiment(BASE, NEW, crashes=8)
    asked.tell(row(BASE, 0))
    progress = asked.standing
    assert (progress.stage, progress.done, progress.total, progress.after) == ("crash", 1, 8, 16.0)
    asked.tell(row(BASE, 1, "lost"))
    assert asked.standing.after == 8.0, "no positive control is needed any more"


def test_arms_of_several_runs_have_the_mean_rate_and_no_record_that_could_be_replayed_wrongly() -> None:
    once = [row(BASE, 0, commits_per_s=100.0, folder="/r1"), row(BASE, 1, commits_per_s=300.0, folder="/r1")]
    (arm,) = arms_of(once)
    assert (arm.commits_per_s, arm.folder) == (200.0, "/r1")
    (arm,) = arms_of([*once, row(BASE, 2, folder="/r2")])
    assert (arm.folder, len(arm.crashes)) == ("", 3)


def test_the_control_is_the_last_arm_and_a_later_row_replaces_an_earlier_one() -> None:
    control, base = row(CONTROL, 0, "lost"), row(BASE, 0, "unknown")
    arms = arms_of([control, base, row(BASE, 0)])
    assert [(arm.name, [one.outcome for one in arm.crashes]) for arm in arms] == [
        ("base", ["kept"]),
        (CONTROL.name, ["lost"]),
    ]


def test_crashes_of_all_arms_are_known_ahead_but_for_the_control() -> None:
    asked = CrashExperiment([BASE, NEW], 3, CONTROL)
    asked.tell(row(BASE, 1))
    assert [(one.block, [arm.name for arm in one.arms]) for one in asked.ahead(9)] == [
        (0, ["base"]),
        (2, ["base"]),
        *((number, ["new"]) for number in range(3)),
    ]
    assert [one.block for one in asked.ahead(1)] == [0]
    for number in range(3):
        asked.tell(row(NEW, number))
        asked.tell(row(BASE, number))
    assert {arm.name for one in asked.ahead(9) for arm in one.arms} == {CONTROL.name}
    carried_out(asked)
    assert asked.ahead(9) == ()
