"""A diagnosis as Markdown, for a ticket. Pure.

Sits in `report`. Nothing that a server wrote is read as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flushlab.diagnosis.diagnose import Diagnosis
from flushlab.diagnosis.evidence import WITH_READS
from flushlab.diagnosis.finding import Finding
from flushlab.diagnosis.waits import wait_words
from flushlab.report.doctor import began_words, cost, measured, percent, settings_text, window_words
from flushlab.report.doctor_changes import as_text
from flushlab.report.doctor_host import host_lines
from flushlab.report.doctor_state import state_lines
from flushlab.report.words import FAILURES, rounded
from flushlab.version import __version__

_MARKS = re.compile(r"([\\`*<>\[\]|#])")


def render(diagnosis: Diagnosis) -> str:
    """The diagnosis: the answer, the evidence, what to try."""
    return "\n".join(_lines(diagnosis)) + "\n"


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    evidence = diagnosis.evidence
    yield f"## {_plain(diagnosis.answer)}"
    yield ""
    reads = " (reads too)" if evidence.commits_by == WITH_READS else ""
    rate = "" if evidence.commits is None else f", {rounded(evidence.commits)} commits/s{reads}"
    began = f", {began_words(diagnosis)}" if evidence.began else ""
    yield (
        f"{evidence.server} at {_code(evidence.after.key)}{began}, {window_words(diagnosis)}{rate}."
        f" Floor now: {diagnosis.floor}."
    )
    for doubt in diagnosis.doubts:
        yield ""
        yield f"**Doubt:** {_plain(doubt)}."
    if evidence.time.writers and evidence.time.is_sample:
        yield from _waits(diagnosis)
    for one in diagnosis.findings:
        yield from _finding(one, diagnosis)
    if diagnosis.evidence.host is not None:
        lines = host_lines(diagnosis.evidence.host)
        yield from ("", "### The server's machine", "", *(f"- {_plain(one)}" for one in lines))
    if settings := tuple(state_lines(diagnosis.state, evidence.identity)):
        yield from ("", "### Settings", "", *(f"- {_plain(one)}" for one in settings))
    if diagnosis.guarantees:
        yield from ("", "### What the server guarantees now", "", "| when | what is kept |", "|---|---|")
        for failure, words in FAILURES.items():
            if failure in diagnosis.guarantees:
                yield f"| {words} | {_plain(diagnosis.guarantees[failure])} |"
    if diagnosis.not_judged:
        yield from ("", "### Not judged", "", *(f"- {_plain(one)}" for one in diagnosis.not_judged))
    if evidence.files:
        left_out = (f"left out: {one}" for one in evidence.left_out)
        yield from ("", "### Files", "", *(f"- {_plain(one)}" for one in (*evidence.files, *left_out)))
    yield from ("", f"Made by flushlab doctor {__version__}, which only reads.")


def _waits(diagnosis: Diagnosis) -> Iterator[str]:
    time = diagnosis.evidence.time
    yield ""
    yield f"Time of {time.writers} writers, from {time.samples} samples:"
    yield from ("", "| wait | writers, mean | of the time |", "|---|--:|--:|")
    for wait, mean in sorted(time.connections.items(), key=lambda one: -one[1]):
        if mean:
            yield f"| {wait_words(wait)} | {mean:.2f} | {percent(mean / time.total)} |"


def _finding(found: Finding, diagnosis: Diagnosis) -> Iterator[str]:
    yield from ("", f"### {_plain(found.title[0].upper() + found.title[1:])}", "", measured(found), "")
    for seen in found.seen:
        yield f"- {_plain(seen.text)}" + (f": {_code(seen.sql)}" if seen.sql else "")
    yield from ("", _plain(found.advice))
    for one in found.changes:
        yield from ("", f"Try (untested) {_code(settings_text(one))}; costs {cost(one, diagnosis)}.")
        yield from (f"- {_plain(text)}" for text in one.costs)
        yield from ("", "```", as_text(one, diagnosis), "```")


def _plain(text: str) -> str:
    """Text of which nothing is markup; underscores within words are none."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Code in a line, whatever marks are in it."""
    marks = "`" * (1 + text.count("`"))
    return f"{marks} {text} {marks}" if "`" in text else f"`{text}`"
