"""Filled: what a load did. Frozen values, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.record import ServerIdentity, Warning


class LoadMethod(msgspec.Struct, frozen=True, kw_only=True):
    """How rows reach the server.

    Attributes:
        method: `single` is one row a statement, committed by itself.
        indexes: when secondary indexes are built; `none` where there are none that could wait.
        prepared: rows are parameters of a prepared INSERT, a hundred at a time; `batch_rows` is of statements
            that the server does not prepare, and of the last one.
    """

    method: Literal["load-data", "insert", "single"]
    connections: int
    batch_rows: int
    packet_bytes: int
    indexes: Literal["before", "after"] = "before"
    prepared: bool = False

    @property
    def words(self) -> str:
        """For people."""
        how = {
            "load-data": "LOAD DATA LOCAL",
            "insert": "prepared INSERT" if self.prepared else f"INSERT with up to {self.batch_rows:,} rows",
            "single": "INSERT with one row",
        }[self.method]
        over = "1 connection" if self.connections == 1 else f"{self.connections} connections"
        more = ", secondary indexes afterwards" if self.indexes == "after" else ""
        return f"{how}, {over}{more}"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A way on slices of the rows."""

    way: LoadMethod
    rows: int
    rows_per_s: float


class FilledTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table after the load.

    Attributes:
        rows: loaded now.
        total: in the table.
        sampled: rows read back and compared with the generator; None if the table has no key to find them by.
    """

    name: str
    rows: int
    total: int
    sampled: int | None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A rung of the ladder.

    Attributes:
        ratio: to the rung before it; 1 for the first, None behind one that loaded nothing.
        bound_by: limit of the load; `why` has the figures.
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
        """The ratio in words; "" if there is none."""
        return "" if self.ratio is None else f"{self.ratio:.1f}×"


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """A load that is whole.

    Attributes:
        plan: for people.
        rows: loaded by this command.
        resumed_rows: committed by an interrupted load before.
        seconds: from the first connection of the load until the last index stood; verification is apart.
        bound_by: limit of the load; `why` has the figures.
        verified: counts, checks and sampled rows were as they must be.
        waited: seconds in which the load waited for others, by what for: `replica lag`, `flow control`.
        peak_bytes: the most memory that flushlab has had.
        client: command that opens the sandbox's database; empty without a sandbox.
        steps: the ladder's; empty without one.
    """

    plan: str
    server: ServerIdentity
    sandbox: str
    database: str
    tables: tuple[FilledTable, ...]
    rows: int
    resumed_rows: int
    bytes: int
    seconds: float
    index_seconds: float
    verify_seconds: float
    way: LoadMethod
    tried: tuple[Tried, ...]
    bound_by: str
    why: str
    verified: bool
    peak_bytes: int
    client: str = ""
    waited: Mapping[str, float] = {}
    warnings: tuple[Warning, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def rows_per_s(self) -> float:
        """Rows a second, verification not included."""
        return self.rows / max(self.seconds, 1e-6)
