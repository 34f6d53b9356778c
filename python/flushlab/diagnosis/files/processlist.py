"""Source: SHOW FULL PROCESSLIST, as often as a file has it (pt-stalk: once a second). Pure."""

from __future__ import annotations

import re

from flushlab.diagnosis.files.records import Record, results
from flushlab.diagnosis.files.told import Source, Told, whole
from flushlab.telemetry.live.questions import ThreadState

_COLUMNS = frozenset(("id", "user", "command", "time", "state"))
_COMMENTS = re.compile(r"(?:\s+|/\*.{0,1000}?\*/|(?:--|#)[^\n]*\n)*", re.DOTALL)
_WORD = re.compile(r"\(*(\w{1,20})")
_ASLEEP_S = 2
"""Connections that have slept for so long have nothing to do; see `questions.doctor_questions`."""


def parse(text: str) -> Told:
    """The connections of each moment."""
    return Told(
        moments=tuple(tuple(_states(rows)) for rows in results(text, _COLUMNS)),
    )


def _states(rows: list[Record]) -> list[ThreadState]:
    states = [_state(row) for row in rows]
    return [one for one in states if one.command != "Sleep" or one.seconds < _ASLEEP_S]


def _state(row: Record) -> ThreadState:
    info = row.get("info", "")
    word = _WORD.match(info, _COMMENTS.match(info).end()) if info != "NULL" else None  # type: ignore[union-attr]
    return ThreadState(
        id=whole(row["id"]),
        command=row.get("command", ""),
        seconds=whole(row.get("time", "")),
        state="" if row.get("state") == "NULL" else row.get("state", ""),
        verb=word[1].lower() if word else "",
    )


SOURCE = Source(name="SHOW PROCESSLIST", marks=("Command:", "Command\t", "Command ", "COMMAND"), parse=parse)
