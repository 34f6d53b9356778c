"""Filled: the result of a load, also its JSON (`flushlab.fill/1`). Frozen values, pure.

docs/reference/fill-json.md is made from the docstrings by `scripts/json_reference.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.record import ServerIdentity, Warning


class LoadMethod(msgspec.Struct, frozen=True, kw_only=True):
    """How rows reach the server.

    Attributes:
        kind: `load-data`, `insert` or `single`: one row a statement, committed by itself.
        connections: that rows are sent over.
        batch_rows: rows of one INSERT, at most.
        packet_bytes: of one statement of INSERT, or one packet of LOAD DATA.
        indexes: when secondary indexes that can wait are built: `before` or `after` the rows.
        prepared: rows are parameters of a prepared INSERT, a hundred at a time; `batch_rows` is of statements
            that the server does not prepare, and of the last one.
    """

    kind: Literal["load-data", "insert", "single"]
    connections: int
    batch_rows: int
    packet_bytes: int
    indexes: Literal["before", "after"] = "before"
    prepared: bool = False

    @property
    def words(self) -> str:
        how = {
            "load-data": "LOAD DATA LOCAL",
            "insert": "prepared INSERT" if self.prepared else f"INSERT with up to {self.batch_rows:,} rows",
            "single": "INSERT with one row",
        }[self.kind]
        over = "1 connection" if self.connections == 1 else f"{self.connections} connections"
        more = ", secondary indexes afterwards" if self.indexes == "after" else ""
        return f"{how}, {over}{more}"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A load method, tried on slices of the rows.

    Attributes:
        method: how rows were sent.
        rows: of its slices.
        rows_per_s: without indexes that wait.
    """

    method: LoadMethod
    rows: int
    rows_per_s: float


class FilledTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table after the load.

    Attributes:
        name: of the table.
        rows: loaded now.
        total: in the table.
        sampled: rows read back and compared with the generator; None if the table has no unique key.
    """

    name: str
    rows: int
    total: int
    sampled: int | None


class FillStep(msgspec.Struct, frozen=True, kw_only=True):
    """One method of the method comparison.

    Attributes:
        name: of the method.
        rows: committed.
        seconds: of loading.
        rows_per_s: committed rows a second.
        ratio: to the rate of the method before; 1 for the first, None if the method before loaded nothing.
        bound_by: limit of the load.
        why: the measurements behind `bound_by`.
    """

    name: str
    rows: int
    seconds: float
    rows_per_s: float
    ratio: float | None
    bound_by: str
    why: str

    @property
    def times(self) -> str:
        return "" if self.ratio is None else f"{self.ratio:.1f}×"


class Filled(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="flushlab.fill/1"):
    """A load that is whole. A load that fails verification is an error.

    Attributes:
        rows: loaded by this command.
        rows_per_s: of `rows` in `seconds`.
        seconds: from the first connection of the load until the last index is built; includes the trials of
            methods, but not verification.
        index_seconds: building indexes, a part of `seconds`.
        verify_seconds: verification.
        resumed_rows: rows that an interrupted load had committed before.
        bytes: of rows, as sent.
        method: how rows were sent.
        tried: by `--method auto`, in the order in which they were tried.
        waited: seconds that the load waited, by reason: `replica lag`, `flow control`.
        bound_by: the limit of the load: `replica lag`, `flow control`, `client CPU`, `server CPU`, `CPU`,
            `log syncs`, `round trips`, `buffer pool`, `disk`, `other programs`, `server` or `nothing`.
        why: the measurements behind `bound_by`.
        verified: true: counts, checks and sampled rows were as they must be.
        tables: after the load.
        warnings: caveats; `retried`: transactions sent again after a deadlock or a lock wait;
            `load-data-refused`: rows went as INSERT.
        steps: of `--compare-methods`; empty without it.
        plan: its name.
        server: target of the rows.
        sandbox: name of the sandbox or cluster; empty for your own server.
        database: of the tables.
        client: the command that opens the sandbox's database; empty for your own server.
        peak_bytes: the most memory that flushlab has had.
    """

    rows: int
    rows_per_s: float
    seconds: float
    index_seconds: float
    verify_seconds: float
    resumed_rows: int
    bytes: int
    method: LoadMethod
    tried: tuple[Tried, ...]
    waited: Mapping[str, float] = {}
    bound_by: str
    why: str
    verified: bool = True
    tables: tuple[FilledTable, ...]
    warnings: tuple[Warning, ...] = ()
    steps: tuple[FillStep, ...] = ()
    plan: str
    server: ServerIdentity
    sandbox: str = ""
    database: str
    client: str = ""
    peak_bytes: int
