"""Event: the unit of work that a workload counts, and the rows that an event writes. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from flushlab.record import OltpSpec, TxnSpec, TxnStatement
from flushlab.workload.command import CommandWorkload
from flushlab.workload.data import DataWorkload
from flushlab.workload.oltp import WRITES, OltpWorkload
from flushlab.workload.own_load import UNIT, OwnLoad
from flushlab.workload.protocol import Workload
from flushlab.workload.sql import SqlWorkload
from flushlab.workload.txn import TxnWorkload
from flushlab.workload.upsert import UpsertWorkload

LEAST_FACTOR = 1.1
"""Events whose rows differ by less count as the same work."""

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`")
_VALUES = re.compile(r"\bVALUES?\s*(?=\(|ROW\b)", re.IGNORECASE)
_SELECTING = re.compile(r"\b(?:INSERT|REPLACE)\b.*\bSELECT\b", re.IGNORECASE | re.DOTALL)


class Event(NamedTuple):
    """The unit of work that a workload counts.

    Attributes:
        unit: `transactions/s`, `rows/s`, `commits/s` or `s`.
        rows: that one event writes on average; None where that is not known.
    """

    unit: str
    rows: float | None = None

    @property
    def words(self) -> str:
        """`transactions/s of 5 rows each`."""
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
    """The event of a workload."""
    if isinstance(workload, CommandWorkload | SqlWorkload):
        return Event("s")
    if isinstance(workload, OwnLoad):
        return Event(UNIT)
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
    """Rows of a transaction, averaged over its kinds by their weights."""
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
