"""OLTP workloads of the load engine: sysbench's tables and statements, driven from Rust."""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.record import Endpoint, LoadSpec, OltpSpec, RandSpec
from flushlab.server.protocol import Server
from flushlab.workload import engine
from flushlab.workload.options import ON_TABLES, TableOptions, integer_option, switch_option
from flushlab.workload.protocol import Driving

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
NAMES = tuple(WRITES)
READ_ONLY = tuple(name for name, writes in WRITES.items() if not writes)
DATABASE = PREFIX = "sbtest"
"""Of the tables, and beginning of their names."""


STATEMENTS = (
    integer_option("point_selects", 10, 0, 10_000, "SELECTs by id of an event."),
    integer_option("simple_ranges", 1, 0, 10_000, "SELECTs of a range of an event."),
    integer_option("sum_ranges", 1, 0, 10_000, "SELECT SUM()s of an event."),
    integer_option("order_ranges", 1, 0, 10_000, "SELECTs with ORDER BY of an event."),
    integer_option("distinct_ranges", 1, 0, 10_000, "SELECT DISTINCTs of an event."),
    integer_option("index_updates", 1, 0, 10_000, "UPDATEs of the indexed k of an event."),
    integer_option("non_index_updates", 1, 0, 10_000, "UPDATEs of c of an event."),
    integer_option("delete_inserts", 1, 0, 10_000, "DELETEs with an INSERT of the same id of an event."),
    integer_option("range_size", 100, 1, 1_000_000, "Rows of a range."),
    switch_option("range_selects", "on", "Off: an event has no SELECT of a range at all."),
    switch_option("skip_trx", "off", "On: no BEGIN and COMMIT, every statement commits by itself."),
    switch_option("auto_inc", "on", "Off: the client generates the ids, and id has no AUTO_INCREMENT."),
    switch_option("secondary", "off", "On: id has a secondary index, and there is no primary key."),
    switch_option("create_secondary", "on", "Off: k has no index."),
)
"""sysbench's options of its OLTP scripts, under its names; see `flushlab.record.OltpSpec`."""

OPTIONS = (*ON_TABLES, *STATEMENTS)


class OltpWorkload(TableOptions, frozen=True, kw_only=True):
    """A sysbench OLTP workload.

    Attributes:
        name: one of `NAMES`.
        tables, rand_type, threads, …: see `TableOptions` and `EngineOptions`; the tables are sbtest1..N, the
            rate is in transactions/s over all connections.
        statements: of one event.
    """

    name: str
    statements: OltpSpec = OltpSpec()

    @property
    def data_key(self) -> Mapping[str, str]:
        """Tables, their size and their shape; the rows depend on the seed, k on the distribution."""
        plain, statements = OltpSpec(), self.statements
        key = {
            "workload": "sbtest",
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
        """Whether tables have rows before the load: sysbench leaves them out where ids that the client makes
        could meet them."""
        return self.name != "oltp_insert" or self.statements.auto_inc

    def prepare(self, server: Server) -> None:
        """Creates the database and fills sbtest1..N, unless a data set brought them."""
        engine.prepare(self._spec(server.endpoint), server, PREFIX, filled=self._filled)

    def driving(self, server: Server) -> Driving:
        """Preloads the tables."""
        tables = (f"{DATABASE}.{PREFIX}{table}" for table in range(1, self.tables + 1))
        engine.preload(
            server, DATABASE, (f"SELECT SUM(LENGTH(c)), SUM(LENGTH(pad)) FROM {one}" for one in tables)
        )
        return Driving(spec=self._spec(server.endpoint), unit="transactions/s")

    def _spec(self, endpoint: Endpoint) -> LoadSpec:
        return self.load(endpoint, workload=self.name, database=DATABASE, oltp=self.statements)
