"""Source: SHOW FULL PROCESSLIST, as often as a file has it (pt-stalk: once a second). Pure."""

from __future__ import annotations

import re

from flushlab.diagnosis.files.records import Record, results
from flushlab.diagnosis.files.told import Source, Told, whole
from flushlab.telemetry.live.questions import ThreadState

_COLUMNS = frozenset(("id", "user", "command", "time", "state"))
_FIRST = re.compile(r"(?:\s+|/\*.{0,1000}?\*/|(?:--|#)[^\n]*\n)*+\(*(\w{1,20})", re.DOTALL)
"""Behind comments."""
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
    return ThreadState(
        id=whole(row["id"]),
        command=row.get("command", ""),
        seconds=whole(row.get("time", "")),
        state="" if row.get("state") == "NULL" else row.get("state", ""),
        verb=_verb(row.get("info", "")),
    )


def _verb(statement: str) -> str:
    """First word of a statement in small letters; empty for none."""
    found = _FIRST.match(statement)
    return found[1].lower() if found is not None and statement != "NULL" else ""


SOURCE = Source(name="SHOW PROCESSLIST", marks=("Command:", "Command\t", "Command ", "COMMAND"), parse=parse)
