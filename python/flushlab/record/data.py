"""Data: the user's data set, and the load that is made from it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class TableRows(msgspec.Struct, frozen=True):
    """A table and its rows.

    Attributes:
        name: with its database.
        rows: number of rows, as the server estimates it.
    """

    name: str
    rows: int


class SkippedTable(msgspec.Struct, frozen=True):
    """A table that a load does not touch.

    Attributes:
        name: with its database.
        why: reason.
    """

    name: str
    why: str


class WrittenTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that `--workload data` writes to.

    Attributes:
        name: with its database.
        rows: number of rows before the load.
        keys: number of sampled rows that updates draw from.
        column: the column that updates change; empty: none.
        without: why it has no updates, inserts or deletes, by `update`, `insert` and `delete`.
    """

    name: str
    rows: int
    keys: int
    column: str = ""
    without: Mapping[str, str] = {}


class StandIn(msgspec.Struct, frozen=True, kw_only=True):
    """The load of `--workload data`, which stands in for the application's.

    Attributes:
        shares: of transactions, by `update`, `insert` and `delete`.
        tables: that it writes to, the largest first.
        skipped: tables that it does not touch, with the reason.
        smaller: number of tables that it does not touch because they are smaller.
    """

    shares: Mapping[str, float]
    tables: tuple[WrittenTable, ...]
    skipped: tuple[SkippedTable, ...] = ()
    smaller: int = 0


class DataFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The user's data set.

    Attributes:
        path: file or folder.
        kind: `SQL dump`, `folder of SQL files`, `mydumper dump`, `MySQL Shell dump` or `data directory`.
        size_bytes: size of its files.
        untouched: workloads that run on tables of their own and do not touch the data.
    """

    path: str
    kind: str
    size_bytes: int
    untouched: tuple[str, ...] = ()
