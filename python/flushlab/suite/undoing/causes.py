"""Causes: why a reset needs another server. Sits in `suite.undoing`."""

from __future__ import annotations

from collections.abc import Iterable

MEANWHILE = "a session that wrote meanwhile"


class CannotUndo(Exception):
    """What was done cannot be taken back row by row; the text is the cause."""


class RowsNeeded(CannotUndo):
    """What was done could be taken back by someone who knows the template's rows of some tables.

    Attributes:
        tables: those, for `Undoing.learn`.
    """

    def __init__(self, cause: str, tables: Iterable[str]) -> None:
        super().__init__(cause)
        self.tables = frozenset(tables)


class UndoneWrongly(Exception):
    """The data are not as they were, although all that changed them was taken back."""
