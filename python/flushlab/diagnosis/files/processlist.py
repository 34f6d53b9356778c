"""Source: SHOW FULL PROCESSLIST, as often as a file has it (pt-stalk: once a second). Pure."""

from __future__ import annotations

import re

from flushlab.diagnosis.files.records import Record, results
from flushlab.diagnosis.files.told import Source, Told, whole
from flushlab.telemetry.live.questions import ThreadState

_COLUMNS = frozenset(("id", "user", "command", "time", "state"))
_FIRST = re.compile(r"(?:\s+|/\*.{0,1000}?\*/|(?:--|#)[^\n]*\n)*+\(*(\w{1,20})", re.DOTALL)
"""Behind comments."""


def parse(text: str) -> Told:
    """The connections of each moment."""
    lists = [*results(text, _COLUMNS)]
    return Told(
        moments=tuple(tuple(map(_state, rows)) for rows in lists),
        is_mariadb=any("progress" in rows[0] for rows in lists),
    )


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
