"""What is told of crashes: terminal, page and document."""

from __future__ import annotations

import re

import msgspec
import pytest

from flushlab.crashed.measured import at_most
from flushlab.record import CrashArm, SourceText, Warning
from flushlab.report import campaign, crash, html
from flushlab.report.crash import as_json, document, said, sections, verdict, worst_first
from flushlab.report.stored import command, crash_of, facts_of
from flushlab.spec.kinds import CrashSpec
from flushlab.spec.parts import CrashWorkloadSpec, ServerSpec
from tests.golden.test_reports import text_of
from tests.unit.crashes import BASE, CLUSTER, CONTROL, LOSING, REPLICATED, facts, judged
from tests.unit.report import campaigns as made
from tests.unit.report.test_page import HOSTILE, Reader
from tests.unit.report.test_page import text_of as page_text


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


def shown(*arms: CrashArm, spec: CrashSpec = made.CRASH_SPEC) -> str:
    row = made.crashed(*arms, spec=spec)
    return html.render(crash.document(crash_of(row, made.crash_rows(*arms)), row))


def test_the_answer_comes_first_then_what_was_measured_beside_the_model() -> None:
    html = shown()
    assert Reader(html).sections == ["crashes", "failing", "settings", "repeat"]
    text = page_text(html)
    assert "What is left of mariadb@10.11.19 after the power failed?" in text
    assert "Not started: the server does not start on what was left" in text
    assert "acknowledged commits that are missing from the binary log are rolled back" in text
    assert "12 of 12" in text
    assert "28.3%" in text, "the bound is of the random crashes"
    assert (
        "Binary log: of 12 crashes: lacks acknowledged commits in 12, at most 2,011; behind the tables in 12"
        in text
    )


def test_each_failing_crash_says_what_is_wrong_and_how_to_judge_it_again() -> None:
    text = page_text(shown())
    assert text.count("--replay /records/r1:at=") == 10
    assert "110 of 4,000 commits lost, at most 110 ms old" in text
    assert "[ERROR] InnoDB: page 7 is torn" in text


def test_a_page_shows_the_worst_crashes_and_counts_the_others() -> None:
    many = tuple(judged(number, "lost", 100) for number in range(250))
    arm = msgspec.structs.replace(LOSING, crashes=(*many, judged(250, "not_started")))
    text = page_text(shown(arm))
    assert text.count("--replay /records/r1:at=") == 10
    assert "page 7 is torn" in text
    assert "and 241 more" in text


def test_a_bound_that_says_nothing_is_left_out_with_the_number_of_crashes() -> None:
    lost = tuple(judged(number, "lost", 100) for number in range(3))
    lost = tuple(one for one in lost if one.point.kind == "random")
    assert lost
    assert f"of {len(lost)} random" not in page_text(shown(msgspec.structs.replace(LOSING, crashes=lost)))


def test_a_control_is_told_apart_and_its_losses_are_no_failures() -> None:
    html = shown(BASE, CONTROL)
    assert "failing" not in Reader(html).sections
    assert "it must lose" in page_text(html)
    said = "It must lose: 1 of 1 crash cut between an acknowledgement and the next flush did not keep"
    assert said in page_text(html)
    alone = page_text(shown(BASE))
    assert "no positive control was run, so nothing proves that losses are detected" in alone


def test_the_command_repeats_the_campaign() -> None:
    found = command(made.crash_request()).replace(" \\\n ", "")
    assert found == (
        "flushlab crash base innodb_flush_log_at_trx_commit=2 --server mariadb@10.11.19 --crashes 12"
        " --set log_bin=ON --no-positive-control"
    )


def test_a_page_loads_nothing_and_shows_text_as_text() -> None:
    bad = msgspec.structs.replace(judged(3, "not_started"), reasons=(HOSTILE,))
    arm = CrashArm(
        name=HOSTILE, settings={HOSTILE: HOSTILE}, guarantee=HOSTILE, folder=HOSTILE, crashes=(bad,)
    )
    html = shown(arm, spec=CrashSpec(configurations=(HOSTILE,), server=ServerSpec(server=HOSTILE)))
    read = Reader(html)
    assert all(re.fullmatch(r"#[\w-]+", address) for address in read.addresses)
    assert not read.tags["script"] and not read.tags["img"]
    assert "evil.example" in page_text(html)


def test_caveats_and_an_interruption_are_told() -> None:
    scaled = Warning("scaled", "the buffer pool is smaller")
    request = msgspec.structs.replace(made.crash_request(), warnings=(scaled,))
    row = msgspec.structs.replace(
        made.crashed(), state="interrupted", plan=msgspec.json.encode(request), result=None
    )
    unknown = msgspec.structs.replace(judged(1, "unknown"), reasons=("no space",))
    arm = msgspec.structs.replace(BASE, crashes=(judged(0), unknown))
    text = page_text(html.render(crash.document(crash_of(row, made.crash_rows(arm)), row)))
    assert "It was interrupted" in text
    assert "the buffer pool is smaller" in text
    assert "base: 1 crash not judged: no space" in text


@pytest.mark.parametrize("arm", [LOSING, BASE])
def test_a_tuning_shows_what_its_winners_crashes_left(arm: CrashArm) -> None:
    own = msgspec.structs.replace(arm, name=made.FAST_ARM)
    row, trials = made.row("tune", made.tune_facts(crash=facts(own))), made.tuned()[1]
    sections = Reader(html.render(campaign.document(facts_of(row), row, trials))).sections
    assert sections.index("crashes") == sections.index("guarantees") + 1
    assert ("failing" in sections) == (arm is LOSING)


def test_crashes_of_a_cluster_are_told_with_their_nodes_and_their_times() -> None:
    found = msgspec.structs.replace(facts(CLUSTER), nodes=3, crashed="all")
    crashes, failing = sections(found)
    assert "on all nodes at once the power failed" in crashes.texts[0]
    cells = [cell.text for table in failing.tables for row in table.rows for cell in row]
    assert "0.250 s after the first commit" in cells
    assert not [text for text in cells if text.startswith("record ")]


def test_replicas_are_told_below_what_they_followed() -> None:
    text = page_text(shown(REPLICATED))
    assert "Replica: diverges silently in 1 of 6, stops in 5 (error 1236 in 5); before that it had" in text
    assert "New replica: diverges silently in 6 of 6; in the end it lacks up to 900 commits" in text
    assert "; the replica does not follow in 6 of 6" in text


def test_the_command_of_a_replica_has_it() -> None:
    spec = CrashSpec(server=ServerSpec(server="mysql@8.0"), replica=True)
    found = command(made.crash_request(spec)).replace(" \\\n ", "")
    assert found == "flushlab crash --server mysql@8.0 --replica"


def test_the_page_carries_the_texts_that_it_ran_and_no_word_that_no_flag_gives() -> None:
    text = "COPY the orders\n"
    script = SourceText(kind="script", name="import.sh", size_bytes=16, sha256="ab", text=text)
    large = SourceText(kind="script", name="large.sql", size_bytes=3 << 20, sha256="cd", text=None)
    spec = CrashSpec(
        workload=CrashWorkloadSpec(name="command: ./import.sh --password=secret"), failure="process"
    )
    request = msgspec.structs.replace(
        made.crash_request(spec),
        folder="/somewhere",
        workload_digest="a-digest",
        planned={"base": {"sync_binlog": 1}},
        sources=(script, large),
        warnings=(Warning("scaled", "it was scaled"),),
    )
    row = msgspec.structs.replace(made.crashed(), plan=msgspec.json.encode(request))
    found = crash_of(row, made.crash_rows(BASE))
    shown = page_text(html.render(crash.document(found, row)))
    assert "The script: import.sh COPY the orders" in shown
    assert "Elsewhere, save each text as a file first and name that file in the command." in shown
    assert "large.sql is not shown: it has 3 MiB or is no text. SHA-256: cd" in shown
    assert "The plan as stored" in shown and '"workload_digest": "a-digest"' in shown
    assert "secret" not in shown
    assert crash.as_json(found).sources == (script, large)
