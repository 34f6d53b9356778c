"""OLTP workloads of the load engine: sysbench's tables and statements, driven from Rust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.record import Endpoint, LoadSpec
from flushlab.server.protocol import Server
from flushlab.workload import engine
from flushlab.workload.options import RAND_TYPE, RATE, TABLE_SIZE, TABLES, THREADS, TRANSPORT
from flushlab.workload.protocol import Measured, Timing, Window

NAMES = ("oltp_update_non_index",)
OPTIONS = (THREADS, TABLES, TABLE_SIZE, TRANSPORT, RAND_TYPE, RATE)
DATABASE = "sbtest"


class OltpWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A sysbench OLTP workload.

    Attributes:
        name: one of `NAMES`.
        threads: connections.
        tables, table_size: sbtest1..N and their rows.
        transport: `socket` or `tcp`.
        rand_type: distribution of ids.
        rate: intended transactions/s over all connections (open loop), or 0 for as fast as possible.
        seed: of the row generators.
    """

    name: str
    threads: int = 16
    tables: int = 8
    table_size: int = 10_000
    transport: Literal["socket", "tcp"] = "socket"
    rand_type: Literal["special", "uniform"] = "special"
    rate: float = 0.0
    seed: int = 1

    @property
    def data_key(self) -> Mapping[str, str]:
        """Tables and their size; the rows depend on the seed, k on the distribution."""
        return {
            "workload": "sbtest",
            "tables": str(self.tables),
            "table_size": str(self.table_size),
            "rand_type": self.rand_type,
            "seed": str(self.seed),
        }

    def prepare(self, server: Server) -> None:
        """Creates the database and fills sbtest1..N, unless a data set brought them."""
        engine.prepare(self._spec(server.endpoint), server, "sbtest")

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        """Preloads the tables, warms up until throughput is level, measures one window."""
        if engine.fits_pool(server, DATABASE):  # else the load reads them at random
            for table in range(1, self.tables + 1):
                server.query(
                    f"SELECT COUNT(c), COUNT(pad) FROM {DATABASE}.sbtest{table} FORCE INDEX (PRIMARY)"
                )
        return engine.drive(self._spec(server.endpoint), server, timing, window, unit="transactions/s")

    def _spec(self, endpoint: Endpoint) -> LoadSpec:
        return LoadSpec(
            workload=self.name,
            endpoint=endpoint,
            transport=self.transport,
            database=DATABASE,
            threads=self.threads,
            tables=self.tables,
            table_size=self.table_size,
            rand_type=self.rand_type,
            rate=self.rate,
            seed=self.seed,
        )
