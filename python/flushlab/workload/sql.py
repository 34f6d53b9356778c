"""Workloads from files: `sql:FILE` and `txn:FILE`.

`sql:FILE` is a script's statements on one connection and an empty database, timed by kind. `txn:FILE` has the
user's own transactions (`txn/file.py` reads them): its setup runs once, the engine drives its transactions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import msgspec

from flushlab import _core
from flushlab.errors import MeasurementError, UsageError
from flushlab.record import IGNORED_ERRORS, TxnSpec, Value
from flushlab.server.protocol import Server
from flushlab.server.sql import quoted
from flushlab.workload import engine
from flushlab.workload.options import EngineOptions
from flushlab.workload.protocol import Driving, Measured, Reset, Timing, Window
from flushlab.workload.txn.file import parse_txn

SQL, TXN = "sql:", "txn:"
DATABASE = "flushlab_script"

_MAX_BYTES, _MAX_TXN_BYTES = 256 << 20, 64 << 20
_SETUP_LIMIT_S = 3600.0
_MARK = "flushlab_txn_setup"
"""A table that says which setup has been run in a database, so that it is not run twice."""


class SqlWorkload(engine.Connected, frozen=True, kw_only=True, omit_defaults=True):
    reset: ClassVar[Reset] = "each"
    slice_s: ClassVar[None] = None

    name: str
    script: bytes
    database: str = DATABASE

    @classmethod
    def read(cls, name: str, folder: Path | None, options: Mapping[str, Value]) -> Self:
        file = name.removeprefix(SQL).strip()
        if not file:
            raise UsageError("the workload 'sql:' has no file", hint="write sql:migrations.sql")
        hint = "sql: takes a file of SQL statements"
        script = read_file((folder or Path()) / Path(file).expanduser(), _MAX_BYTES, hint)
        if not count_statements(script, file):
            raise UsageError(f"{file} contains no statement", hint=hint)
        return msgspec.convert({"name": name, "script": script, **options}, cls)

    @property
    def data_key(self) -> Mapping[str, str]:
        if self.database != DATABASE:  # the user's data
            return {}
        return {"workload": "sql", "character_set": "utf8mb4"}

    def driving(self, server: Server) -> None:
        pass

    def prepare(self, server: Server) -> None:
        server.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4")

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        """Its own database is emptied first if an earlier run filled it; the user's data stay as they are."""
        tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s"
        if self.database == DATABASE and server.query(tables, (DATABASE,))[0][0]:
            server.query(f"DROP DATABASE {DATABASE}")
            self.prepare(server)
        with window:
            result = engine.run_script(
                server,
                self.script,
                self,
                database=self.database,
                limit_s=timing.max_seconds,
                where=self.name.removeprefix(SQL),
            )
        return Measured(
            result=result.seconds,
            unit="s",
            higher_is_better=False,
            warm_up_s=0.0,
            window_s=result.seconds,
            load=result,
        )


class TxnWorkload(EngineOptions, frozen=True, kw_only=True):
    database: str
    source: str
    setup: str
    setup_file: str
    spec: TxnSpec
    ignore_errors: tuple[int, ...] = ()

    @classmethod
    def read(cls, name: str, folder: Path | None, options: Mapping[str, Value]) -> Self:
        spelled = name.removeprefix(TXN).strip()
        if not spelled:
            raise UsageError("the workload 'txn:' has no file", hint="write txn:orders.toml")
        path = (folder or Path()) / Path(spelled).expanduser()
        source = _text(path, "txn: takes a file of transactions")
        file = parse_txn(source, path=spelled)
        setup, where = file.setup, spelled
        if file.setup_file is not None:
            there = path.parent / Path(file.setup_file).expanduser()
            setup, where = _text(there, "setup_file names a file of SQL statements"), file.setup_file
        count_statements(setup.encode(), f"{where}: setup")
        return msgspec.convert(
            {
                "name": name,
                "database": file.database,
                "source": source,
                "setup": setup,
                "setup_file": file.setup_file or "",
                "spec": file.spec,
                "ignore_errors": file.ignore_errors,
                **options,
            },
            cls,
        )

    @property
    def data_key(self) -> Mapping[str, str]:
        return {"workload": "txn", "database": self.database, "setup": self._digest}

    @property
    def _digest(self) -> str:
        return hashlib.sha256(self.setup.encode()).hexdigest()

    def prepare(self, server: Server) -> None:
        mark = quoted(self.database, _MARK)
        from flushlab.server.remote.server import RemoteGroup  # as in `engine`

        if not isinstance(server, RemoteGroup):  # which has it: made_tables
            server.query(f"CREATE DATABASE IF NOT EXISTS {quoted(self.database)}")
        if not self.setup.strip():
            return
        there = server.query(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
            (self.database, _MARK),
        )
        if there[0][0]:
            if server.query(f"SELECT digest FROM {mark}") == [(self._digest,)]:
                return
            raise MeasurementError(
                f"a different setup has been run in the database {self.database}",
                hint="start with an empty server (flushlab server reset), or use another database",
            )
        where = f"{self.name.removeprefix(TXN)}: setup"
        engine.run_script(
            server,
            self.setup.encode(),
            self,
            database=self.database,
            limit_s=_SETUP_LIMIT_S,
            where=where,
            hint="see the server's message",
        )
        server.query(f"CREATE TABLE {mark} (digest CHAR(64) NOT NULL PRIMARY KEY)")
        server.query(f"INSERT INTO {mark} VALUES ('{self._digest}')")

    def driving(self, server: Server) -> Driving:
        spec = self.load(
            server.endpoint,
            workload="txn",
            database=self.database,
            txn=self.spec,
            ignored_errors=(*IGNORED_ERRORS, *self.ignore_errors),
        )
        return Driving(spec=spec, unit="transactions/s")


def read_file(path: Path, most_bytes: int, hint: str) -> bytes:
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise UsageError(
                f"{path} has {size} bytes; the limit is {most_bytes}", hint="load bulk data with --dataset"
            )
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from error


def count_statements(script: bytes, where: str) -> int:
    try:
        return _core.count_statements(script)
    except _core.CoreError as error:
        raise UsageError(f"{where}, {error.message}") from error


def _text(path: Path, hint: str) -> str:
    try:
        return read_file(path, _MAX_TXN_BYTES, hint).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})", hint=hint) from error
