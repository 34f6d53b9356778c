"""Describe: the unit of work that a workload counts, and the texts that it runs."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from flushlab.record import OltpSpec, SourceKind, SourceText, TxnSpec, TxnStatement
from flushlab.redact import option_file_without_passwords, without_passwords
from flushlab.workload.command import CommandWorkload, files_named
from flushlab.workload.data import DataWorkload
from flushlab.workload.protocol import OWN_LOAD_UNIT, OwnLoad, Workload
from flushlab.workload.sql import SQL, TXN, SqlWorkload, TxnWorkload
from flushlab.workload.tables import WRITES, OltpWorkload, UpsertWorkload

LEAST_FACTOR = 1.1
"""Events whose rows differ by less count as the same work."""

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`")
_VALUES = re.compile(r"\bVALUES?\s*(?=\(|ROW\b)", re.IGNORECASE)
_SELECTING = re.compile(r"\b(?:INSERT|REPLACE)\b.*\bSELECT\b", re.IGNORECASE | re.DOTALL)


class Event(NamedTuple):
    """`rows`: that one event writes on average; None where that is not known."""

    unit: str
    rows: float | None = None

    @property
    def words(self) -> str:
        if self.rows is None or self.unit == "rows/s":
            return self.unit
        return f"{self.unit} of {self.rows:.4g} row{'' if self.rows == 1 else 's'} each"

    def differs(self, other: Event) -> bool:
        """Whether the two count different work, as far as that is known."""
        if self.unit != other.unit:
            return True
        if not self.rows or not other.rows:
            return bool(self.rows) != bool(other.rows) and None not in (self.rows, other.rows)
        return max(self.rows, other.rows) >= LEAST_FACTOR * min(self.rows, other.rows)


def event_of(workload: Workload) -> Event:
    if isinstance(workload, CommandWorkload | SqlWorkload):
        return Event("s")
    if isinstance(workload, OwnLoad):
        return Event(OWN_LOAD_UNIT)
    if isinstance(workload, UpsertWorkload):
        return Event("rows/s", 1)
    if isinstance(workload, OltpWorkload):
        return Event("transactions/s", _oltp_rows(workload.name, workload.statements))
    if isinstance(workload, DataWorkload):
        shares = workload.shares
        return Event("transactions/s", 1 + shares["delete"] / sum(shares.values()))
    assert isinstance(workload, TxnWorkload), "every workload counts something"
    return Event("transactions/s", _txn_rows(workload.spec))


def _oltp_rows(name: str, statements: OltpSpec) -> float:
    if len(WRITES[name]) < 2:
        return len(WRITES[name])
    return statements.index_updates + statements.non_index_updates + 2 * statements.delete_inserts


def _txn_rows(spec: TxnSpec) -> float | None:
    total = 0.0
    for kind in spec.transactions:
        for statement in kind.statements:
            rows = rows_of(statement)
            if rows is None:
                return None
            total += kind.weight * statement.repeat * rows
    return total / sum(kind.weight for kind in spec.transactions)


def rows_of(statement: TxnStatement) -> int | None:
    """Rows that a statement writes: those of its VALUES list, else one; None for those of a SELECT.

    An UPDATE or a DELETE counts as one row, whatever its WHERE finds.
    """
    if not statement.writes:
        return 0
    code = _QUOTED.sub("''", statement.sql)
    if (values := _VALUES.search(code)) is None:
        return None if _SELECTING.search(code) else 1
    rows = depth = 0
    for character in code[values.end() :]:
        if character == "(":
            rows += depth == 0
            depth += 1
        elif character == ")":
            depth -= 1
        elif depth == 0 and not (character.isspace() or character in ",ROWrow"):
            break
    return rows


MOST_BYTES = 128 << 10
"""Longer texts are not stored: a page and a JSON document are read by people and sent around."""

_MOST_SCRIPTS = 8
_SCRIPTS = frozenset(
    f".{one}"
    for one in ("bash", "groovy", "jmx", "js", "lua", "php", "pl", "py", "rb", "sh", "sql", "tcl", "ts")
)
"""Of shells, languages and load generators: names of files that hold what runs."""


def source_text(kind: SourceKind, name: str, content: bytes) -> SourceText:
    """A text as reports show it."""
    try:
        text = content.decode() if len(content) <= MOST_BYTES and b"\0" not in content else None
    except UnicodeDecodeError:
        text = None
    hide = option_file_without_passwords if kind == "option file" else without_passwords
    shown = None if text is None else hide(text)
    # A digest of the whole would let whoever reads the rest try out passwords.
    digested = content if shown in (None, text) else (shown or "").encode()
    return SourceText(
        kind=kind, name=name, size_bytes=len(content), sha256=hashlib.sha256(digested).hexdigest(), text=shown
    )


def sources_of(workload: Workload) -> tuple[SourceText, ...]:
    """The texts that a workload runs: its transactions and their setup, its script, or the scripts that its
    command names by their paths."""
    return tuple(_sources(workload))


def _sources(workload: Workload) -> Iterator[SourceText]:
    if isinstance(workload, TxnWorkload):
        yield source_text("transactions", workload.name.removeprefix(TXN).strip(), workload.source.encode())
        if workload.setup_file:
            yield source_text("setup", workload.setup_file, workload.setup.encode())
    elif isinstance(workload, SqlWorkload):
        yield source_text("script", workload.name.removeprefix(SQL).strip(), workload.script)
    elif isinstance(workload, CommandWorkload):
        yield from _scripts(workload)


def _scripts(workload: CommandWorkload) -> Iterator[SourceText]:
    # What an option or a redirection gets is data, and may be a secret.
    whole = (one for one in files_named(workload.command, Path(workload.folder)) if one.word.is_whole)
    small = (one for one in whole if one.path.stat().st_size <= MOST_BYTES and os.access(one.path, os.R_OK))
    found = ((word.text, path.read_bytes()) for word, path in small if _is_script(path))
    for name, content in islice(found, _MOST_SCRIPTS):
        if (source := source_text("script", name, content)).text:
            yield source


def _is_script(path: Path) -> bool:
    """Whether a file is a program by its name or its mode: others are data, and may be a secret."""
    return path.suffix.lower() in _SCRIPTS or os.access(path, os.X_OK)
