"""The page and the Markdown of a diagnosis."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import msgspec
import pytest

from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.diagnosis.finding import Seen
from flushlab.diagnosis.shares import Step, WriteTime
from flushlab.diagnosis.waits import ROW_LOCK, WAITS
from flushlab.report import doctor, doctor_plots, html, markdown, plots
from flushlab.report.plots import COLOURS
from tests.unit.diagnosis.half_minute import half_minute
from tests.unit.diagnosis.hosts import NEIGHBOR, host
from tests.unit.diagnosis.watched import client, evidence, time_of, writer
from tests.unit.report.test_page import HOSTILE, Reader, text_of

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
        assert words in text_of(page), words


def test_commits_are_counted_without_reads_where_the_server_does() -> None:
    for counter, label in (("binlog_commits", "commits/s 100"), ("innodb_max_trx_id", "commits/s 50")):
        found = diagnose(evidence({counter: 1000, "handler_commit": 9000}, write_time=WriteTime()))
        assert label in text_of(page_of(found))
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
    alone = msgspec.structs.replace(whole, steps=(Step(at_s=2.0, connections={"statement": 1.0}),))
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
