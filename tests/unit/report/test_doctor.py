"""A diagnosis in a terminal, as a page, as Markdown and as a document; changes to try."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import msgspec
import pytest

from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.diagnosis.finding import Seen, changes
from flushlab.diagnosis.shares import CommitStep, WriteTime
from flushlab.diagnosis.waits import ROW_LOCK, WAITS
from flushlab.report import doctor, doctor_plots, html, markdown, plots
from flushlab.report.doctor import as_json, document, measured, to_take
from flushlab.report.plots import COLOURS
from tests.golden.test_reports import text_of
from tests.unit.diagnosis.half_minute import half_minute
from tests.unit.diagnosis.hosts import NEIGHBOR, host
from tests.unit.diagnosis.watched import COMMITTING, MARIADB, client, evidence, time_of, writer
from tests.unit.report.test_page import HOSTILE, Reader
from tests.unit.report.test_page import text_of as page_text
from tests.unit.settings.servers import server
from tests.unit.telemetry.live.told import MYSQL57
from tests.unit.telemetry.live.told import MYSQL57 as OLD

BUSY = [
    [
        writer(one, COMMITTING) if (one + at) % 5 > 1 else (writer, client)[(one + at) % 5](one)
        for one in range(5)
    ]
    for at in range(5)
]
"""Five writers that do alike: three commit, one executes, one waits for its client."""


def bound() -> Diagnosis:
    return diagnose(
        evidence(
            {"binlog_cache_disk_use": 2, "binlog_cache_use": 100},
            variables={"innodb_log_buffer_size": "16777216"},
            write_time=time_of(*BUSY * 2),
        )
    )


def test_the_answer_comes_first() -> None:
    lines = text_of(document(bound())).splitlines()
    assert lines[:2] == ["mysql@9.7.4", "What bounds the writes of db1:3306?"]
    assert lines[2].startswith("Writes are bound: commits wait for the sync of redo log and binary log")
    assert "Time of 5 writers, from 100 samples: commit 60%, " in "\n".join(lines)


def test_a_screen_has_no_hints_and_no_statements() -> None:
    short, full = text_of(document(bound())), text_of(document(bound()), full=True)
    assert "Hints (--full): large transactions go through a temporary file" in short
    assert "SHOW GLOBAL STATUS" not in short
    assert "Large transactions go through a temporary file" in full and "A hint: " in full
    assert "    SHOW GLOBAL STATUS LIKE 'Binlog_cache%'" in full.splitlines()
    assert max(len(line) for line in short.splitlines()) <= 80


def test_a_change_has_its_cost_and_its_statement() -> None:
    short, full = text_of(document(bound())), text_of(document(bound()), full=True)
    assert "To try, untested on this server" in short
    assert re.search(
        "^innodb_flush_log_at_trx_commit=2 +floor second instead of strict$", short, re.MULTILINE
    )
    assert "   SET GLOBAL innodb_flush_log_at_trx_commit = 2;" in full.splitlines()
    assert "about 1 s of acknowledged commits may be lost" in full and "SET GLOBAL" not in short


def test_a_setting_that_takes_a_restart_is_a_line_of_the_option_file() -> None:
    found = diagnose(evidence({"innodb_log_waits": 3}, identity=OLD, write_time=time_of(*BUSY)))
    assert "   innodb_log_buffer_size = 64M" in text_of(document(found), full=True).splitlines()


def test_the_document_has_the_same() -> None:
    found = as_json(bound())
    assert found.schema == "flushlab.doctor/1"
    assert (found.server, found.address, found.writers, found.samples) == ("mysql@9.7.4", "db1:3306", 5, 100)
    assert [one.strength for one in found.findings] == ["binds", "contributes", "hint"]
    first = msgspec.to_builtins(found)["findings"][0]
    assert first["at_most"] > 1 / (1 - first["share"]["mid"])
    assert first["changes"][0]["floor"]


def test_a_bound_of_some_of_the_writers_says_how_many_they_are() -> None:
    others = [writer(7, COMMITTING) if at == 0 else client(7) for at in range(5)]
    time = time_of(*[[*states, other] for states, other in zip(BUSY, others, strict=True)] * 2)
    found = diagnose(evidence(write_time=time))
    assert "the 5 writers of 6 that it delays are at most 3.4× as fast" in " ".join(
        text_of(document(found)).split()
    )
    share = found.findings[0].share
    assert share is not None and share.affected == 5
    assert "the 5 writers of 6 that it delays are at most 3.4× as fast" in measured(found.findings[0], 6)


def diagnosed(**variables: str) -> Diagnosis:
    """Commits wait for both logs, statements for the log buffer."""
    return diagnose(
        evidence(
            {"innodb_log_waits": 900, "handler_commit": 1000},
            write_time=time_of([writer(1, COMMITTING), writer(2)]),
            variables=variables,
        )
    )


def test_a_change_that_may_take_a_restart_is_no_statement() -> None:
    seen = evidence(identity=MARIADB, settings={"innodb_buffer_pool_size": 128 << 20})
    (change,) = changes(seen, {"innodb_buffer_pool_size": 1 << 30})
    of_11_8 = msgspec.structs.replace(
        seen, after=msgspec.structs.replace(seen.after, identity=server("mariadb", 11, 8, 9))
    )
    for told, statement in ((seen, True), (of_11_8, False)):
        assert ("SET GLOBAL" in to_take(change, diagnose(told))) is statement


SERVICES = [
    ({"rds_human_readable": "1"}, "parameter group"),
    ({"aurora_version": "3.05.2"}, "parameter group"),
    ({"azure_server_name": "x"}, "server parameters"),
    ({"cloudsql_iam_authentication": "OFF"}, "database flags"),
]


@pytest.mark.parametrize(("variables", "place"), SERVICES)
def test_a_service_gets_values_and_no_statement_that_it_refuses(
    variables: dict[str, str], place: str
) -> None:
    found = diagnosed(**variables)
    texts = (
        text_of(doctor.document(found), full=True),
        markdown.render(doctor.document(found)),
        page_text(html.render(doctor.document(found))),
    )
    for text in texts:
        assert "SET GLOBAL innodb" not in text and "SET GLOBAL sync" not in text and "[mysqld]" not in text
        assert place in text
        assert "innodb_flush_log_at_trx_commit = 2" in text and "innodb_log_buffer_size = 67108864" in text


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({}, "innodb_log_buffer_size = 64M"),
        ({"rds_x": "1"}, "innodb_log_buffer_size = 67108864  # takes a restart"),
    ],
)
def test_a_setting_that_takes_a_restart_says_so(variables: dict[str, str], line: str) -> None:
    found = diagnose(evidence({"innodb_log_waits": 900}, identity=MYSQL57, variables=variables))
    (change,) = next(one for one in found.findings if one.name == "log_buffer").changes
    text = to_take(change, found)
    assert line in text.splitlines() and "akes a restart" in text


DIAGNOSIS = half_minute()


def page_of(diagnosis: Diagnosis) -> str:
    return html.render(doctor.document(diagnosis))


def ticket(diagnosis: Diagnosis) -> str:
    return markdown.render(doctor.document(diagnosis))


@pytest.fixture(scope="module")
def page() -> str:
    return page_of(DIAGNOSIS)


def hostile() -> Diagnosis:
    """Whatever a server can have written."""
    first = msgspec.structs.replace(DIAGNOSIS.findings[0], seen=(Seen(HOSTILE, HOSTILE),), title=HOSTILE)
    own = msgspec.structs.replace(
        DIAGNOSIS.evidence, after=msgspec.structs.replace(DIAGNOSIS.evidence.after, key=HOSTILE)
    )
    return msgspec.structs.replace(
        DIAGNOSIS, answer=HOSTILE, findings=(first,), doubts=(HOSTILE,), not_judged=(HOSTILE,), evidence=own
    )


def test_the_page_has_the_answer_the_half_minute_and_each_finding(page: str) -> None:
    read = Reader(page)
    assert read.sections == [
        *("time", "commit-sync", "row-locks", "client", "log-buffer", "settings", "guarantees", "not-judged"),
    ]
    for words in (
        "What bounds the writes of db1:3306?",
        "Writes are bound: commits wait for the sync of redo log and binary log. Without it, at most",
        "watched for 30 s",
        "commits/s, reads too 1,000",
        "2025-11-21 10:02 UTC",
        "10.6 of 16.0 busy writers wait for their commit, on average SELECT STATE, COUNT(*)",
        "innodb_flush_log_at_trx_commit=2 floor second instead of strict",
        "-- Untested on this server. Until its next restart: SET GLOBAL innodb_flush_log_at_trx_commit = 2;",
        "[mysqld] innodb_log_buffer_size = 64M",
        "Floor now: strict",
    ):
        assert words in page_text(page), words


def test_commits_are_counted_without_reads_where_the_server_does() -> None:
    for counter, label in (("binlog_commits", "commits/s 100"), ("innodb_max_trx_id", "commits/s 50")):
        found = diagnose(evidence({counter: 1000, "handler_commit": 9000}, write_time=WriteTime()))
        assert label in page_text(page_of(found))
        assert f"- {label.replace(' ', ': ')}" in ticket(found)


def test_it_loads_nothing_and_names_each_place_once(page: str) -> None:
    read = Reader(page)
    assert [one for one in read.addresses if not one.startswith("#")] == []
    assert len(read.ids) == len(set(read.ids))
    assert "script" not in read.tags


def test_the_same_diagnosis_gives_the_same_bytes(page: str) -> None:
    assert page_of(half_minute()) == page


def test_what_servers_wrote_is_text() -> None:
    read = Reader(page_of(hostile()))
    assert "script" not in read.tags and "img" not in read.tags
    assert [one for one in read.addresses if not one.startswith("#")] == []


def test_an_idle_server_has_a_page_without_a_plot() -> None:
    read = Reader(page_of(diagnose(evidence(write_time=time_of([client(1)])))))
    assert "Nothing bounds writes: no connection wrote" in read.text
    assert "time" not in read.sections and "svg" not in read.tags


def test_those_that_bind_are_the_lowest_areas_and_the_clients_turn_is_the_highest() -> None:
    own = DIAGNOSIS.evidence.time
    stack = doctor_plots.stacking(own, doctor.binding_waits(DIAGNOSIS))
    assert stack == ["commit", "row lock", "statement", "reading", "client"]
    assert doctor_plots.stacking(own, ("reading",))[0] == "reading"


def areas(time: WriteTime) -> int:
    """Filled areas of a plot with nothing that binds."""
    drawn = plots.svg(doctor_plots.waits(time, (), 10.0, name="x", title="t"))
    assert ElementTree.fromstring(drawn).get("role") == "img"
    return len(re.findall(r'style="fill: var\(--class-data\)', drawn))


def test_nothing_is_drawn_where_nobody_looked() -> None:
    whole = time_of([writer(1)])
    assert areas(whole) == 1
    gap = msgspec.structs.replace(whole, steps=(*whole.steps[:3], *whole.steps[6:]))
    assert areas(gap) == 2
    alone = msgspec.structs.replace(whole, steps=(CommitStep(at_s=2.0, connections={"statement": 1.0}),))
    assert areas(alone) == 1


def test_every_wait_has_a_colour_of_the_page() -> None:

    assert {*doctor_plots.INKS} == {*WAITS, ROW_LOCK}
    assert {*doctor_plots.INKS.values()} <= {*COLOURS}


def test_the_ticket_marks_nothing_that_a_server_wrote() -> None:
    text = ticket(hostile())
    outside = re.sub(r"```.*?```|`+[^`]*`+", "", text, flags=re.S)
    assert not re.search(r"(?<!\\)<", outside)


def test_a_machine_in_sight_is_shown_and_names_of_its_processes_are_text() -> None:
    neighbor = msgspec.structs.replace(NEIGHBOR, name=HOSTILE)
    seen = msgspec.structs.replace(DIAGNOSIS.evidence, host=host(writers=(neighbor,)))
    found = msgspec.structs.replace(DIAGNOSIS, evidence=seen)
    read = Reader(page_of(found))
    assert "machine" in read.sections and "script" not in read.tags
    assert "written by others, beside the data" in ticket(found)
