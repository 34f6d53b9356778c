"""Side tables: what DDL that runs beside the ledger's load makes of them, statement by statement. Pure.

Each statement is one step: tables are made, changed in ways that take different paths through a server, and
dropped. After a crash they must be as they were after the last acknowledged step, or after the next, which
was under way. After an earlier one: statements are lost. Any other state is a table that is half made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PREFIX = "side_"
_ROWS = 64
_PAD = "'" + "s" * 60 + "'"


class Shape(NamedTuple):
    """A table.

    Attributes:
        columns, indexes: their names, in their order and sorted.
        rows: how many it has; -1 if it cannot be read.
    """

    columns: tuple[str, ...]
    indexes: tuple[str, ...]
    rows: int

    def __str__(self) -> str:
        rows = "unreadable" if self.rows < 0 else f"{self.rows} rows"
        return f"{rows}, columns {' '.join(self.columns)}, indexes {' '.join(self.indexes)}"


Tables = Mapping[str, Shape]
"""Side tables by their names."""

_MADE = Shape(("id", "pad"), ("PRIMARY",), 0)
_FILLED = _MADE._replace(rows=_ROWS)
_WIDENED = _FILLED._replace(columns=("id", "pad", "added"))
_INDEXED = _WIDENED._replace(indexes=("PRIMARY", "by_pad"))
_COPIED = _INDEXED._replace(columns=("id", "pad", "added", "copied"))
_EMPTIED = _COPIED._replace(rows=0)
_STEPS: tuple[tuple[str, str, Shape | None], ...] = (
    (
        "CREATE TABLE {table} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, pad CHAR(60) NOT NULL)"
        " ENGINE=InnoDB",
        "",
        _MADE,
    ),
    (f"INSERT INTO {{table}} (pad) VALUES {', '.join([f'({_PAD})'] * _ROWS)}", "", _FILLED),
    ("ALTER TABLE {table} ADD COLUMN added INT NOT NULL DEFAULT 7", "", _WIDENED),
    ("CREATE INDEX by_pad ON {table} (pad)", "", _INDEXED),
    ("ALTER TABLE {table} ADD COLUMN copied INT NOT NULL DEFAULT 8, ALGORITHM=COPY", "", _COPIED),
    ("RENAME TABLE {table} TO {renamed}", "_renamed", _COPIED),
    ("TRUNCATE TABLE {renamed}", "_renamed", _EMPTIED),
    ("DROP TABLE {renamed}", "", None),
)
"""Statement; what the table's name ends with after it, and the table: None if it is gone."""


def statement(step: int, database: str) -> str:
    """The SQL of a step, from 1."""
    generation, which = divmod(step - 1, len(_STEPS))
    table = f"{database}.{PREFIX}{generation}"
    return _STEPS[which][0].format(table=table, renamed=f"{table}_renamed")


def after(step: int) -> Tables:
    """The tables after a step; none after step 0."""
    if step == 0:
        return {}
    generation, which = divmod(step - 1, len(_STEPS))
    _, ending, shape = _STEPS[which]
    return {} if shape is None else {f"{PREFIX}{generation}{ending}": shape}


def reached(found: Tables, acknowledged: int) -> int | None:
    """The step that tables are as after; None if there is none.

    Args:
        found: the tables after a crash.
        acknowledged: the last step whose statement was answered before it; the next may have been under way.
    """
    return next((step for step in range(acknowledged + 1, -1, -1) if after(step) == found), None)
