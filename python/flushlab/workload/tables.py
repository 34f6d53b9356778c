"""Workloads on tables of their own, driven by the load engine: sysbench's, and `upsert`.

`upsert` is INSERT … ON DUPLICATE KEY UPDATE, several rows per statement. A row is `(k, c, pad)`; it exists
already with the probability `hit_ratio`, and then its `c` and `pad` are overwritten. Keys of existing rows
are drawn from the prepared ones; new keys ascend behind them, so a table grows by the rows that it lacked.
Tables are dealt out: connections share one only where there are more connections than tables, so `tables =
1` makes all of them meet in one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from flushlab.errors import UsageError
from flushlab.record import Endpoint, LoadSpec, OltpSpec, RandSpec, UpsertSpec, Warning
from flushlab.server.protocol import Server
from flushlab.spec.option import Option
from flushlab.workload import engine
from flushlab.workload.options import RandType, Spelling, Switch, TableOptions
from flushlab.workload.protocol import COMMITS, MOST_SLICE_S, Driving, Measured, Timing, Window

WRITES = {
    "oltp_update_non_index": ("UPDATE",),
    "oltp_update_index": ("UPDATE",),
    "oltp_insert": ("INSERT",),
    "oltp_delete": ("DELETE",),
    "oltp_write_only": ("UPDATE", "DELETE", "INSERT"),
    "oltp_read_write": ("UPDATE", "DELETE", "INSERT"),
    "oltp_read_only": (),
    "oltp_point_select": (),
}
"""Statements that change rows, by workload."""
OLTP_NAMES = tuple(WRITES)
READ_ONLY = tuple(name for name, writes in WRITES.items() if not writes)
SBTEST = "sbtest"
"""Database of sysbench's tables, and beginning of their names."""
UPSERT = "upsert"
"""The workload, and its database."""

_COMMIT = re.compile(r"autocommit|(?P<rows>\d{1,9}) ?rows?|(?P<seconds>\d{1,4}(?:\.\d{1,6})?) ?s")
_COMMIT_HELP = "When each connection of upsert commits: autocommit, '1000 rows' or '1 s'."
_MAX_COMMIT_ROWS = 10_000_000
_MIN_COMMIT_S, _MAX_COMMIT_S = 0.001, 3600.0
_FEW_COMMITS = 3


class OwnTables(TableOptions, frozen=True, kw_only=True):
    database: ClassVar[str]

    @property
    def prefix(self) -> str:
        return self.database

    @property
    def table_names(self) -> list[str]:
        return [f"{self.prefix}{number}" for number in range(1, self.tables + 1)]


class OltpWorkload(OwnTables, frozen=True, kw_only=True):
    database: ClassVar[str] = SBTEST

    point_selects: Annotated[int, Meta(ge=0, le=10_000), Option("SELECTs by id of an event.")] = 10
    simple_ranges: Annotated[int, Meta(ge=0, le=10_000), Option("SELECTs of a range of an event.")] = 1
    sum_ranges: Annotated[int, Meta(ge=0, le=10_000), Option("SELECT SUM()s of an event.")] = 1
    order_ranges: Annotated[int, Meta(ge=0, le=10_000), Option("SELECTs with ORDER BY of an event.")] = 1
    distinct_ranges: Annotated[int, Meta(ge=0, le=10_000), Option("SELECT DISTINCTs of an event.")] = 1
    index_updates: Annotated[int, Meta(ge=0, le=10_000), Option("UPDATEs of the indexed k of an event.")] = 1
    non_index_updates: Annotated[int, Meta(ge=0, le=10_000), Option("UPDATEs of c of an event.")] = 1
    delete_inserts: Annotated[
        int, Meta(ge=0, le=10_000), Option("DELETEs with an INSERT of the same id of an event.")
    ] = 1
    range_size: Annotated[int, Meta(ge=1, le=1_000_000), Option("Rows of a range.")] = 100
    range_selects: Annotated[Switch, Option("Off: an event has no SELECT of a range at all.")] = "on"
    skip_trx: Annotated[Switch, Option("On: no BEGIN and COMMIT, every statement commits by itself.")] = "off"
    auto_inc: Annotated[
        Switch, Option("Off: the client generates the ids, and id has no AUTO_INCREMENT.")
    ] = "on"
    secondary: Annotated[Switch, Option("On: id has a secondary index, and there is no primary key.")] = "off"
    create_secondary: Annotated[Switch, Option("Off: k has no index.")] = "on"

    @property
    def statements(self) -> OltpSpec:
        values = {name: getattr(self, name) for name in OltpSpec.__struct_fields__}
        return OltpSpec(
            **{name: one == "on" if isinstance(one, str) else one for name, one in values.items()}
        )

    @property
    def data_key(self) -> Mapping[str, str]:
        plain, statements = OltpSpec(), self.statements
        key = {
            "workload": SBTEST,
            "tables": str(self.tables),
            "table_size": str(self.table_size),
            "rand_type": self.rand_type,
            "seed": str(self.seed),
        }
        if self.rand != RandSpec():
            key["rand"] = repr(self.rand)
        for name in ("auto_inc", "secondary", "create_secondary"):
            if (value := getattr(statements, name)) != getattr(plain, name):
                key[name] = str(value)
        if not self._filled:
            key["filled"] = "False"
        return key

    @property
    def _filled(self) -> bool:
        """Sysbench leaves them out where ids that the client makes could meet them."""
        return self.name != "oltp_insert" or self.auto_inc == "on"

    def prepare(self, server: Server) -> None:
        engine.prepare(self._spec(server.endpoint), server, SBTEST, filled=self._filled)

    def driving(self, server: Server) -> Driving:
        tables = (f"{SBTEST}.{table}" for table in self.table_names)
        engine.preload(
            server, SBTEST, (f"SELECT SUM(LENGTH(c)), SUM(LENGTH(pad)) FROM {table}" for table in tables)
        )
        return Driving(spec=self._spec(server.endpoint), unit="transactions/s")

    def _spec(self, endpoint: Endpoint) -> LoadSpec:
        return self.load(endpoint, workload=self.name, database=SBTEST, oltp=self.statements)


class UpsertWorkload(OwnTables, frozen=True, kw_only=True):
    database: ClassVar[str] = UPSERT

    name: str = UPSERT
    rand_type: RandType = "uniform"
    rows: Annotated[int, Meta(ge=1, le=10_000), Option("Rows per statement of upsert.")] = 1
    key: Annotated[
        Literal["unique", "primary"],
        Option(
            "Where rows of upsert conflict: in a unique index next to an auto-increment primary key, "
            "or in the primary key."
        ),
    ] = "primary"
    hit_ratio: Annotated[float, Meta(ge=0, le=1), Option("Share of upsert's rows that already exist.")] = 0.5
    commit: Annotated[str, Option(_COMMIT_HELP)] = "autocommit"

    def check(self, spelling: Spelling) -> None:
        super().check(spelling)
        parse_commit(self.commit, spelling)

    @property
    def data_key(self) -> Mapping[str, str]:
        return {
            "workload": UPSERT,
            "tables": str(self.tables),
            "table_size": str(self.table_size),
            "key": self.key,
            "seed": str(self.seed),
        }

    @property
    def slice_s(self) -> float | None:
        least_s, every_s = super().slice_s, parse_commit(self.commit)[1]
        return None if least_s is None else min(COMMITS * (every_s or 0.0), MOST_SLICE_S)

    def prepare(self, server: Server) -> None:
        engine.prepare(self._spec(server.endpoint), server, self.prefix)

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        measured = super().run(server, timing, window)
        return msgspec.structs.replace(measured, warnings=(*measured.warnings, *self._caveats(measured)))

    def driving(self, server: Server) -> Driving:
        tables = [f"{UPSERT}.{table}" for table in self.table_names]
        reads = [f"SELECT COUNT(c), COUNT(pad) FROM {name} FORCE INDEX (PRIMARY)" for name in tables]
        if self.key == "unique":
            reads += [f"SELECT COUNT(k) FROM {name} FORCE INDEX (k)" for name in tables]
        engine.preload(server, UPSERT, reads)
        return Driving(spec=self._spec(server.endpoint), unit="rows/s", grain=self.rows)

    @property
    def prefix(self) -> str:
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
        upsert = UpsertSpec(
            rows=self.rows,
            key=self.key,
            hit_ratio=self.hit_ratio,
            commit_rows=commit_rows,
            commit_seconds=commit_seconds,
        )
        return self.load(endpoint, workload=UPSERT, database=UPSERT, upsert=upsert)


def parse_commit(text: str, spelling: Spelling = str) -> tuple[int | None, float | None]:
    """Rows and seconds between two commits, of which one is None; both in autocommit."""
    match = _COMMIT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"unknown {spelling('commit')} {text!r}", hint=_COMMIT_HELP)
    rows = int(match["rows"]) if match["rows"] else None
    seconds = float(match["seconds"]) if match["seconds"] else None
    if rows is not None and not 1 <= rows <= _MAX_COMMIT_ROWS:
        limits = f"1 to {_MAX_COMMIT_ROWS} rows"
    elif seconds is not None and not _MIN_COMMIT_S <= seconds <= _MAX_COMMIT_S:
        limits = f"{_MIN_COMMIT_S:g} to {_MAX_COMMIT_S:g} s"
    else:
        return rows, seconds
    raise UsageError(f"{spelling('commit')} {text!r} is out of range", hint=f"it takes {limits}")
