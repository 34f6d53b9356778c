"""Source: what a load takes its rows from: a plan that is ready to run, as the native generator reads it.
Pure."""

from __future__ import annotations

import hashlib

import msgspec


class SourceTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a plan.

    Attributes:
        rows: how many it is to have.
        create: CREATE TABLE, without its database.
    """

    name: str
    rows: int
    columns: tuple[str, ...]
    create: str


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A plan.

    Attributes:
        name: for people.
        json: the plan with its seed and its rows, for `_core`.
        tables: referenced tables first.
    """

    name: str
    json: str
    tables: tuple[SourceTable, ...]

    @property
    def digest(self) -> str:
        """Equal for equal rows."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    @property
    def rows(self) -> int:
        """Of all tables."""
        return sum(table.rows for table in self.tables)
