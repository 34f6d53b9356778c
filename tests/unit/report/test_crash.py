"""What is told of crashes."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.crashed.measured import at_most
from flushlab.record import CrashArm
from flushlab.report.crash import as_json, document, said, verdict, worst_first
from tests.golden.test_reports import text_of
from tests.unit.crashes import BASE, CONTROL, LOSING, facts, judged


def test_a_verdict_is_the_worst_that_happened_to_what_was_asked_for() -> None:
    assert verdict(facts(BASE, CONTROL)) == "kept"
    assert verdict(facts(BASE, LOSING)) == "not_started"


def test_without_a_control_that_loses_nothing_is_known() -> None:
    honest = CrashArm(name="positive control: x", settings={}, positive_control=True, crashes=(judged(0),))
    assert verdict(facts(BASE)) == "unknown"
    assert verdict(facts(BASE, honest)) == "unknown"
    assert verdict(facts(CrashArm(name="base", settings={}), CONTROL)) == "unknown"


def test_points_that_were_chosen_count_apart_from_random_ones() -> None:
    found = as_json(facts(BASE, CONTROL)).arms[0]
    assert (found.random.crashes, found.random.kept, found.chosen.crashes) == (9, 9, 3)
    assert round(found.random.bound_95 or 0, 3) == 0.283  # 1 - 0.05^(1/9)


def test_a_failing_image_has_a_line_where_its_record_was_kept() -> None:
    failing = as_json(facts(BASE, LOSING)).failing
    assert len(failing) == 12
    assert failing[0].line == "/records/r1:at=1000:seed=0"


def test_what_replay_needs_beside_the_line_is_told() -> None:
    lying = msgspec.structs.replace(facts(BASE, LOSING), failure="lying-disk", dropped_flushes=20, tear=4096)
    assert as_json(facts(BASE, LOSING)).failing[0].options == ()
    options = ("--failure", "lying-disk", "--tear", "4096", "--dropped-flushes", "20")
    assert as_json(lying).failing[0].options == options
    told = " ".join(text_of(document(lying)).split())
    line = "/records/r1:at=1011:seed=11:after_ack"
    assert f"flushlab crash --replay {line} --failure lying-disk --tear 4096 --dropped-flushes 20" in told
    elsewhere = msgspec.structs.replace(LOSING, folder="/my records")
    assert "--replay '/my records:at=1011:seed=11:after_ack'" in text_of(document(facts(elsewhere)))


def test_the_binary_log_is_counted_beside_the_tables() -> None:
    found = as_json(facts(BASE, CONTROL)).arms[0].random
    assert found.binlog is not None
    assert (found.lost, found.binlog.behind, found.binlog.ahead) == (0, 9, 0)


def test_a_binary_log_that_could_not_be_read_is_counted_apart() -> None:
    unread = msgspec.structs.replace(judged(0), binlog=None, binlog_unread="it is encrypted")
    some = msgspec.structs.replace(BASE, crashes=(unread, judged(1)))
    found = as_json(facts(some, CONTROL)).arms[0].random.binlog
    assert found is not None
    assert (found.crashes, found.unread) == (1, 1)
    assert said(facts(some, CONTROL)).endswith("; the binary log could not be read")
    none = msgspec.structs.replace(BASE, crashes=(unread,))
    assert "of 1 crash: not read in 1" in text_of(document(facts(none, CONTROL)))


def test_it_is_said_why_nothing_is_known() -> None:
    kept, unknown = (
        CrashArm(
            name="positive control: x", settings={}, positive_control=True, crashes=(judged(0, outcome),)
        )
        for outcome in ("kept", "unknown")
    )
    assert said(facts(BASE, kept)).startswith("unknown: no positive control lost anything, so")
    assert said(facts(BASE, unknown)).startswith(
        "unknown: no crash of the positive control could be judged, so"
    )
    assert said(facts(BASE)).startswith("unknown: no positive control was run, so")
    some = CrashArm(name="base", settings={}, crashes=(judged(0), judged(1, "unknown")))
    assert said(facts(some, CONTROL)) == "unknown: 1 of 2 crashes could not be judged"


def test_a_rate_is_told_only_of_a_load_that_ran() -> None:
    assert "1,290 commits/s" in text_of(document(facts(BASE)))
    assert "commits/s" not in text_of(document(facts(CONTROL)))


def test_the_worst_images_are_shown_first_and_the_others_counted() -> None:
    many = (*(judged(number, "lost", 10 + number) for number in range(30)), judged(30, "not_started"))
    arm = msgspec.structs.replace(LOSING, crashes=(judged(31, "inconsistent"), *many))
    assert [one.outcome for one in worst_first(arm)[:3]] == ["not_started", "inconsistent", "lost"]
    assert worst_first(arm)[2].lost == 39
    assert "[ERROR] InnoDB: page 7 is torn" in " ".join(text_of(document(facts(arm))).split())
    assert "and 22 more" in text_of(document(facts(arm)))


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0, "1 ms"), (0.0042, "5 ms"), (0.99999, "1.00 s"), (2.501, "2.51 s")]
)
def test_ages_are_rounded_up(seconds: float, words: str) -> None:
    assert at_most(seconds) == words


def test_an_interrupted_campaign_says_how_it_goes_on() -> None:
    found = msgspec.structs.replace(facts(BASE), ending="interrupted", campaign="crash-1")
    assert "resume it with: flushlab crash --resume crash-1" in text_of(document(found))
    assert "resume" not in text_of(document(msgspec.structs.replace(found, ending="done")))


def on(arm: CrashArm, *machines: str) -> CrashArm:
    """The arm, crashed on machines in turn."""
    crashes = tuple(
        msgspec.structs.replace(crash, machine=machines[number % len(machines)])
        for number, crash in enumerate(arm.crashes)
    )
    return msgspec.structs.replace(arm, crashes=crashes)


def test_machines_of_a_fleet_are_named_with_the_crashes_that_they_did_not_keep_if_only_some_failed() -> None:
    some = msgspec.structs.replace(
        LOSING, crashes=tuple(judged(n, "lost" if n % 2 else "kept", n) for n in range(6))
    )
    told = " ".join(text_of(document(facts(on(BASE, "one", "two"), on(some, "one", "two")))).split())
    assert "the power failed on ext4, on 2 machines (one, two)" in told
    assert told.count("By machine: one: 0 of 3 not kept, two: 3 of 3 not kept.") == 1
    assert "record 1,005, on two" in told
    alike = " ".join(text_of(document(facts(on(LOSING, "one", "two")))).split())
    assert "not kept" not in alike


def test_without_a_fleet_no_machine_is_named() -> None:
    assert "machine" not in text_of(document(facts(BASE, LOSING)))
    assert {crash.machine for arm in as_json(facts(LOSING)).arms for crash in arm.crashes} == {""}
