"""A diagnosis in the terminal: one screen of 80 columns, and all of it with --full."""

from __future__ import annotations

import re

import msgspec

from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.report.doctor import as_json, document, measured
from tests.golden.test_reports import text_of
from tests.unit.diagnosis.watched import COMMITTING, client, evidence, time_of, writer
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
