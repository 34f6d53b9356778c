"""`upsert`: INSERT … ON DUPLICATE KEY UPDATE, several rows per statement, driven from Rust.

A row is `(k, c, pad)`; it exists already with the probability `hit_ratio`, and then its `c` and `pad` are
overwritten. Keys of existing rows are drawn from the prepared ones; new keys ascend behind them, so a
table grows by the rows that it lacked. Tables are dealt out: connections share one only where there are
more connections than tables, so `tables = 1` makes all of them meet in one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.errors import UsageError
from flushlab.record import Endpoint, LoadSpec, UpsertSpec, Warning
from flushlab.server.protocol import Server
from flushlab.workload import engine
from flushlab.workload.options import (
    ON_TABLES,
    RAND_TYPE,
    Spelling,
    TableOptions,
    integer_option,
    number_option,
    text_option,
    word_option,
)
from flushlab.workload.protocol import COMMITS, MOST_SLICE_S, Driving, Measured, Timing, Window

NAME = "upsert"
DATABASE = "upsert"

ROWS = integer_option("rows", 1, 1, 10_000, "Rows per statement of upsert.")
KEY = word_option(
    "key",
    "primary",
    ("unique", "primary"),
    "Where rows of upsert conflict: in a unique index next to an auto-increment primary key, "
    "or in the primary key.",
)
HIT_RATIO = number_option("hit_ratio", 0.5, 0, 1, "Share of upsert's rows that already exist.")
COMMIT = text_option(
    "commit", "autocommit", "When each connection of upsert commits: autocommit, '1000 rows' or '1 s'."
)
_RAND_TYPE = msgspec.structs.replace(RAND_TYPE, default="uniform")
OPTIONS = (
    *(_RAND_TYPE if option is RAND_TYPE else option for option in ON_TABLES),
    ROWS,
    KEY,
    HIT_RATIO,
    COMMIT,
)

_COMMIT = re.compile(r"autocommit|(?P<rows>\d{1,9}) ?rows?|(?P<seconds>\d{1,4}(?:\.\d{1,6})?) ?s")
_MAX_COMMIT_ROWS = 10_000_000
_MIN_COMMIT_S, _MAX_COMMIT_S = 0.001, 3600.0
_FEW_COMMITS = 3


class UpsertWorkload(TableOptions, frozen=True, kw_only=True):
    """INSERT … ON DUPLICATE KEY UPDATE.

    Its result is in rows/s: rows acknowledged by a commit, see `flushlab.record.RowCounts`.

    Attributes:
        tables, rand_type, threads, …: see `TableOptions` and `EngineOptions`; the keys that exist already are
            drawn, the rate is in rows/s over all connections.
        rows, key, hit_ratio: see `flushlab.record.UpsertSpec`.
        commit: `autocommit`, `N rows` or `T s`: when each connection commits.
    """

    rand_type: str = "uniform"
    rows: int = 1
    key: Literal["unique", "primary"] = "primary"
    hit_ratio: float = 0.5
    commit: str = "autocommit"

    @property
    def name(self) -> str:
        """`upsert`."""
        return NAME

    @property
    def data_key(self) -> Mapping[str, str]:
        """Tables, their size and their key; the rows depend on the seed."""
        return {
            "workload": NAME,
            "tables": str(self.tables),
            "table_size": str(self.table_size),
            "key": self.key,
            "seed": str(self.seed),
        }

    @property
    def slice_s(self) -> float | None:
        """Room for its commits, where they follow the clock."""
        least_s, every_s = super().slice_s, parse_commit(self.commit)[1]
        return None if least_s is None else min(COMMITS * (every_s or 0.0), MOST_SLICE_S)

    def prepare(self, server: Server) -> None:
        """Creates the database and fills the tables of this kind of key, unless they are there."""
        engine.prepare(self._spec(server.endpoint), server, self.prefix)

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        """As every load, with a caveat about windows of few commits."""
        measured = super().run(server, timing, window)
        return msgspec.structs.replace(measured, warnings=(*measured.warnings, *self._caveats(measured)))

    def driving(self, server: Server) -> Driving:
        """Preloads the tables."""
        tables = [f"{DATABASE}.{self.prefix}{table}" for table in range(1, self.tables + 1)]
        reads = [f"SELECT COUNT(c), COUNT(pad) FROM {name} FORCE INDEX (PRIMARY)" for name in tables]
        if self.key == "unique":
            reads += [f"SELECT COUNT(k) FROM {name} FORCE INDEX (k)" for name in tables]
        engine.preload(server, DATABASE, reads)
        return Driving(spec=self._spec(server.endpoint), unit="rows/s", grain=self.rows)

    @property
    def prefix(self) -> str:
        """Beginning of its tables' names."""
        return f"upsert_{self.key}"

    def _caveats(self, measured: Measured) -> list[Warning]:
        rows = measured.load.rows if measured.load else None
        if rows is None or rows.commits >= _FEW_COMMITS * self.threads:
            return []
        return [
            Warning(
                "few-commits",
                f"the window saw {rows.commits} commits of {self.threads} connections: "
                "too few to say what a commit costs; measure longer",
            )
        ]

    def _spec(self, endpoint: Endpoint) -> LoadSpec:
        commit_rows, commit_seconds = parse_commit(self.commit)
        return self.load(
            endpoint,
            workload=NAME,
            database=DATABASE,
            upsert=UpsertSpec(
                rows=self.rows,
                key=self.key,
                hit_ratio=self.hit_ratio,
                commit_rows=commit_rows,
                commit_seconds=commit_seconds,
            ),
        )


def parse_commit(text: str, spelling: Spelling = str) -> tuple[int | None, float | None]:
    """Rows and seconds between two commits, of which one is None; both in autocommit.

    Raises:
        UsageError: neither `autocommit` nor a number of rows or seconds, or out of range.
    """
    match = _COMMIT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"unknown {spelling('commit')} {text!r}", hint=COMMIT.help)
    rows = int(match["rows"]) if match["rows"] else None
    seconds = float(match["seconds"]) if match["seconds"] else None
    if rows is not None and not 1 <= rows <= _MAX_COMMIT_ROWS:
        raise UsageError(
            f"{spelling('commit')} {text!r} is out of range", hint=f"it takes 1 to {_MAX_COMMIT_ROWS} rows"
        )
    if seconds is not None and not _MIN_COMMIT_S <= seconds <= _MAX_COMMIT_S:
        raise UsageError(
            f"{spelling('commit')} {text!r} is out of range",
            hint=f"it takes {_MIN_COMMIT_S:g} to {_MAX_COMMIT_S:g} s",
        )
    return rows, seconds
