"""The page of a crash campaign, and that of a tuning whose winner was crashed."""

from __future__ import annotations

import re

import msgspec
import pytest

from flushlab.record import CrashArm, SourceText, Warning
from flushlab.report import campaign, crash, html
from flushlab.report.crash import sections
from flushlab.report.stored import command, crash_of, facts_of
from flushlab.spec.kinds import CrashSpec
from flushlab.spec.parts import CrashWorkloadSpec, ServerSpec
from tests.unit.crashes import BASE, CLUSTER, CONTROL, LOSING, REPLICATED, facts, judged
from tests.unit.report import campaigns as made
from tests.unit.report.test_page import HOSTILE, Reader, text_of


def shown(*arms: CrashArm, spec: CrashSpec = made.CRASH_SPEC) -> str:
    row = made.crashed(*arms, spec=spec)
    return html.render(crash.document(crash_of(row, made.crash_rows(*arms)), row))


def test_the_answer_comes_first_then_what_was_measured_beside_the_model() -> None:
    html = shown()
    assert Reader(html).sections == ["crashes", "failing", "settings", "repeat"]
    text = text_of(html)
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
    text = text_of(shown())
    assert text.count("--replay /records/r1:at=") == 10
    assert "110 of 4,000 commits lost, at most 110 ms old" in text
    assert "[ERROR] InnoDB: page 7 is torn" in text


def test_a_page_shows_the_worst_crashes_and_counts_the_others() -> None:
    many = tuple(judged(number, "lost", 100) for number in range(250))
    arm = msgspec.structs.replace(LOSING, crashes=(*many, judged(250, "not_started")))
    text = text_of(shown(arm))
    assert text.count("--replay /records/r1:at=") == 10
    assert "page 7 is torn" in text
    assert "and 241 more" in text


def test_a_bound_that_says_nothing_is_left_out_with_the_number_of_crashes() -> None:
    lost = tuple(judged(number, "lost", 100) for number in range(3))
    lost = tuple(one for one in lost if one.point.kind == "random")
    assert lost
    assert f"of {len(lost)} random" not in text_of(shown(msgspec.structs.replace(LOSING, crashes=lost)))


def test_a_control_is_told_apart_and_its_losses_are_no_failures() -> None:
    html = shown(BASE, CONTROL)
    assert "failing" not in Reader(html).sections
    assert "it must lose" in text_of(html)
    said = "It must lose: 1 of 1 crash cut between an acknowledgement and the next flush did not keep"
    assert said in text_of(html)
    alone = text_of(shown(BASE))
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
    assert "evil.example" in text_of(html)


def test_caveats_and_an_interruption_are_told() -> None:
    scaled = Warning("scaled", "the buffer pool is smaller")
    request = msgspec.structs.replace(made.crash_request(), warnings=(scaled,))
    row = msgspec.structs.replace(
        made.crashed(), state="interrupted", plan=msgspec.json.encode(request), result=None
    )
    unknown = msgspec.structs.replace(judged(1, "unknown"), reasons=("no space",))
    arm = msgspec.structs.replace(BASE, crashes=(judged(0), unknown))
    text = text_of(html.render(crash.document(crash_of(row, made.crash_rows(arm)), row)))
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
    text = text_of(shown(REPLICATED))
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
    shown = text_of(html.render(crash.document(found, row)))
    assert "The script: import.sh COPY the orders" in shown
    assert "Elsewhere, save each text as a file first and name that file in the command." in shown
    assert "large.sql is not shown: it has 3 MiB or is no text. SHA-256: cd" in shown
    assert "The plan as stored" in shown and '"workload_digest": "a-digest"' in shown
    assert "secret" not in shown
    assert crash.as_json(found).sources == (script, large)
