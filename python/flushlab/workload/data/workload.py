"""`data` as a workload: its plan made once, kept beside the data, driven as transactions of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from flushlab.errors import MeasurementError, UsageError
from flushlab.record import (
    IGNORED_ERRORS,
    ColumnParameter,
    Parameter,
    SequenceParameter,
    StandIn,
    TxnRows,
    TxnSpec,
    TxnStatement,
    TxnTransaction,
    WrittenTable,
)
from flushlab.server.protocol import Server
from flushlab.server.sql import quoted
from flushlab.spec.option import Option
from flushlab.units import counted
from flushlab.workload import engine
from flushlab.workload.data.plan import DATABASE, DOOMED, KINDS, LOADS, SAMPLED, DataPlan, TablePlan, plan_of
from flushlab.workload.options import RandType, Spelling, TableOptions
from flushlab.workload.protocol import Driving

NAME = "data"
FORMAT = "2"
"""Raise this when plans are made in another way."""

_KEPT = quoted(DATABASE, "plan")
_PART_BYTES = 1 << 20
"""Of the plan in a row, as any server takes it in a packet."""
_WEIGHTS = 1_000_000
_REFUSALS = (1062, 1451, 1452, 1644, 3819, 4025)
"""Duplicate key, foreign keys, SIGNAL of a trigger, CHECK of MySQL and MariaDB. No plan can see every rule; a
row that one refuses is counted and shown, and does not end the load."""


class DataWorkload(TableOptions, frozen=True, kw_only=True):
    name: str = NAME
    table_size: int = 10_000  # no option: the data have their own
    rand_type: RandType = "uniform"
    update: Annotated[
        int, Meta(ge=0, le=1_000_000), Option("Share of transactions of data that update a row.")
    ] = 70
    insert: Annotated[
        int, Meta(ge=0, le=1_000_000), Option("Share of transactions of data that insert a row.")
    ] = 20
    delete: Annotated[
        int,
        Meta(ge=0, le=1_000_000),
        Option("Share of transactions of data that delete a row and insert it again."),
    ] = 10
    database: str = ""

    def check(self, spelling: Spelling) -> None:
        super().check(spelling)
        if not any(self.shares.values()):
            names = ", ".join(map(spelling, KINDS))
            raise UsageError(f"{names} are all 0", hint="give one of them a share")

    @property
    def data_key(self) -> Mapping[str, str]:
        return {
            "workload": NAME,
            "format": FORMAT,
            "database": self.database,
            "tables": str(self.tables),
            "seed": str(self.seed),
        }

    @property
    def shares(self) -> dict[str, int]:
        return {"update": self.update, "insert": self.insert, "delete": self.delete}

    def prepare(self, server: Server) -> None:
        databases = (self.database,) if self.database else ()
        plan = plan_of(server.query, databases=databases, most=self.tables, seed=self.seed)
        server.query(f"CREATE DATABASE IF NOT EXISTS {quoted(DATABASE)}")
        server.query(f"DROP TABLE IF EXISTS {_KEPT}")
        server.query(f"CREATE TABLE {_KEPT} (part INT PRIMARY KEY, json LONGBLOB NOT NULL)")
        text = msgspec.json.encode(plan)
        for part, first in enumerate(range(0, len(text), _PART_BYTES)):
            piece = text[first : first + _PART_BYTES].hex()
            server.query(f"INSERT INTO {_KEPT} VALUES ({part}, UNHEX('{piece}'))")

    def driving(self, server: Server) -> Driving:
        parts = server.query(f"SELECT json FROM {_KEPT} ORDER BY part")
        plan = self._enough(msgspec.json.decode(b"".join(part for (part,) in parts), type=DataPlan))
        by_schema: dict[str, list[str]] = {}
        for table in plan.tables:
            name = quoted(table.schema, table.name)
            sql = f"SELECT COUNT(*) FROM {name} FORCE INDEX (PRIMARY)"
            by_schema.setdefault(table.schema, []).append(sql)
        for schema, reads in by_schema.items():
            engine.preload(server, schema, reads)
        spec = self.load(
            server.endpoint,
            workload="txn",
            database=plan.tables[0].schema,
            txn=self.transactions(plan),
            ignored_errors=(*IGNORED_ERRORS, *_REFUSALS),
        )
        return Driving(spec=spec, unit="transactions/s", stand_in=self.stand_in(plan))

    def _enough(self, plan: DataPlan) -> DataPlan:
        """The plan without deletes of tables that have fewer rows for them than there are connections: two
        connections that delete and insert one row would deadlock."""
        tables = []
        for table in plan.tables:
            rows = len(table.sets[DOOMED][0]) if "delete" in table.statements else self.threads
            if rows < self.threads:
                kept = {kind: some for kind, some in table.statements.items() if kind != "delete"}
                why = f"{counted(rows, 'row')} can be deleted, fewer than the {self.threads} connections"
                without = {**table.without, "delete": why}
                table = msgspec.structs.replace(table, statements=kept, without=without)
            tables.append(table)
        return msgspec.structs.replace(plan, tables=tuple(tables))

    def _weights(self, plan: DataPlan) -> dict[str, int]:
        there = {kind for table in plan.tables for kind in table.statements}
        weights = {kind: share for kind, share in self.shares.items() if share and kind in there}
        if not weights:
            why = {why for table in plan.tables for kind, why in table.without.items() if self.shares[kind]}
            asked = ", ".join(f"{kind}s" for kind, share in self.shares.items() if share)
            raise MeasurementError(
                f"no table takes {asked}: {'; '.join(sorted(why))}",
                hint=f"give {' or '.join(f'--{kind}' for kind in KINDS if kind in there)} a share",
            )
        return weights

    def transactions(self, plan: DataPlan) -> TxnSpec:
        weights = self._weights(plan)
        number = (self.seed - plan.seed) % LOADS
        parameters: list[Parameter] = []
        rows: list[TxnRows] = []
        transactions: list[TxnTransaction] = []

        def placed(part: Parameter, table: TablePlan, sets: dict[int, int]) -> int:
            if isinstance(part, ColumnParameter):
                if part.rows not in sets:
                    sets[part.rows] = len(rows)
                    row_set = TxnRows(columns=table.sets[part.rows], own=part.rows == DOOMED)
                    if part.rows == SAMPLED:
                        row_set = msgspec.structs.replace(row_set, rand_type=self.rand_type, rand=self.rand)
                    rows.append(row_set)
                part = msgspec.structs.replace(part, rows=sets[part.rows])
                if part in parameters:
                    return parameters.index(part)
            elif isinstance(part, SequenceParameter):  # new values of a load of its own
                part = msgspec.structs.replace(part, start=part.start + number * (table.room // LOADS))
            parameters.append(part)
            return len(parameters) - 1

        for table in plan.tables:
            name, sets = f"{table.schema}.{table.name}", dict[int, int]()
            for kind in (kind for kind in table.statements if kind in weights):
                share = weights[kind] / sum(weights.values())
                having = sum(other.rows for other in plan.tables if kind in other.statements)
                statements = tuple(
                    TxnStatement(
                        name=statement.verb,
                        sql="".join(part if isinstance(part, str) else "?" for part in statement.parts),
                        place=name,
                        parameters=tuple(
                            placed(part, table, sets) for part in statement.parts if not isinstance(part, str)
                        ),
                    )
                    for statement in table.statements[kind]
                )
                transactions.append(
                    TxnTransaction(
                        name=f"{kind} {name}",
                        weight=max(1, round(share * table.rows / having * _WEIGHTS)),
                        explicit=len(statements) > 1,
                        statements=statements,
                    )
                )
        return TxnSpec(parameters=tuple(parameters), transactions=tuple(transactions), rows=tuple(rows))

    def stand_in(self, plan: DataPlan) -> StandIn:
        weights = self._weights(plan)
        return StandIn(
            shares={kind: share / sum(weights.values()) for kind, share in weights.items()},
            tables=tuple(
                WrittenTable(
                    name=f"{table.schema}.{table.name}",
                    rows=table.rows,
                    keys=len(table.sets[SAMPLED][0]) if table.column else 0,
                    column=table.column,
                    without=table.without,
                )
                for table in plan.tables
            ),
            skipped=plan.skipped,
            smaller=plan.smaller,
        )
