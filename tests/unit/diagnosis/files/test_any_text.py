"""Any text: readers raise nothing but the project's errors."""

from __future__ import annotations

import contextlib
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flushlab.diagnosis.diagnose import diagnose
from flushlab.diagnosis.files.folder import FoundFiles, read, tell
from flushlab.diagnosis.files.samples import evidence_of
from flushlab.errors import FlushlabError
from flushlab.report.doctor import as_json, document
from tests.golden.test_reports import text_of
from tests.unit.diagnosis.files import outputs
from tests.unit.diagnosis.files.outputs import (
    MARIADB_INNODB,
    MYSQL51_INNODB,
    MYSQL80_INNODB,
    SCRAPE,
    VARIABLES,
    box,
    connection,
    processlists,
    tabs,
    vertical_pairs,
)
from tests.unit.diagnosis.files.test_machine import DF, MEMINFO, diskstats, procstat
from tests.unit.diagnosis.files.test_recording import stretch
from tests.unit.diagnosis.files.test_recording import text as recording

GENUINE = (
    box(outputs.status()) + box(outputs.status(10, Com_insert=90)),
    vertical_pairs(outputs.status(20)),
    tabs(VARIABLES),
    MYSQL80_INNODB,
    MYSQL51_INNODB,
    MARIADB_INNODB,
    SCRAPE,
    processlists([[connection(7, "Query", 0, "updating", "UPDATE t SET a = 1")]] * 6),
    recording(stretch(), stretch()),
    diskstats(0) + diskstats(30) + DF,
    procstat(0) + procstat(30) + MEMINFO,
)
ODD = (
    *("9" * 400, " " * 400, "a " * 200, "/*" * 200, "\n" * 100, "cpu" + " 1" * 40),
    *("-1", "NaN", "inf", "1e999", "²", "٣", "\x00", "NULL", "", "\t", "|", "{", '"', "*" * 27, "\\n"),
)
"""Long ones take a pattern that tries all its ways for ever."""


def judged(*texts: str) -> None:
    """The whole way, from texts to the report."""
    files = {f"f{at}": told for at, text in enumerate(texts) if (told := tell(text))}
    with contextlib.suppress(FlushlabError):
        found = diagnose(evidence_of(FoundFiles(key="f", files=files)))
        as_json(found)
        assert text_of(document(found), full=True)


@settings(max_examples=100)
@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    judged(text)


@settings(max_examples=150)
@given(
    st.sampled_from(GENUINE),
    st.sampled_from(GENUINE),
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 30), st.sampled_from(ODD)), max_size=6),
)
def test_genuine_texts_with_parts_replaced_are_read_or_refused(
    first: str, second: str, changes: list[tuple[int, int, str]]
) -> None:
    for at, length, text in changes:
        first = first[:at] + text + first[at + length :]
    judged(first, second)
    judged(second, first)


def test_numbers_replaced_by_others_are_read_or_refused() -> None:
    seeded = random.Random(39)
    for text in GENUINE:
        for _ in range(20):
            words = re.split(r"([ :,])", text)
            for at in range(len(words)):
                if words[at][:1].isdigit() and seeded.random() < 0.2:
                    words[at] = seeded.choice(ODD)
            judged("".join(words), seeded.choice(GENUINE))


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    with contextlib.suppress(FlushlabError):
        read(path)
