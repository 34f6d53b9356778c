"""`txn:FILE` as a workload: its setup once, its transactions through the engine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.errors import MeasurementError, UsageError
from flushlab.record import IGNORED_ERRORS, TxnSpec
from flushlab.server.protocol import Server
from flushlab.server.sql import quoted
from flushlab.workload import engine
from flushlab.workload.options import CONNECTING, THREADS, EngineOptions
from flushlab.workload.options import DRIVING as DRIVING
from flushlab.workload.protocol import Driving
from flushlab.workload.sql import count_statements, read_file
from flushlab.workload.txn.file import parse_txn

PREFIX = "txn:"
OPTIONS = (THREADS, *CONNECTING, *DRIVING)

_MAX_BYTES = 64 << 20
_SETUP_LIMIT_S = 3600.0
_MARK = "flushlab_txn_setup"
"""A table that says which setup has been run in a database, so that it is not run twice."""


class TxnWorkload(EngineOptions, frozen=True, kw_only=True):
    """The user's own transactions; the result is transactions/s over all their kinds.

    Attributes:
        name: `txn:FILE`, as the user wrote it.
        database: of the statements.
        source: the file's text.
        setup: an SQL script that makes the tables, or empty: a data set brings them.
        setup_file: the file that the setup comes from, or empty: it stands in the text, or there is none.
        spec: parameters and transactions.
        ignore_errors: errors that end a transaction but not the load, besides those of locks.
        threads, rate, …: see `EngineOptions`; the rate in transactions/s over all connections.
    """

    name: str
    database: str
    source: str
    setup: str
    setup_file: str
    spec: TxnSpec
    ignore_errors: tuple[int, ...] = ()

    @classmethod
    def read(cls, name: str, folder: Path, options: Mapping[str, object]) -> TxnWorkload:
        """Reads and checks the file, and the setup that it names.

        Raises:
            UsageError: no file, none that can be read, or a mistake in it.
        """
        spelled = name.removeprefix(PREFIX).strip()
        if not spelled:
            raise UsageError("the workload 'txn:' has no file", hint="write txn:orders.toml")
        path = folder / Path(spelled).expanduser()
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
        """What the setup makes."""
        return {"workload": "txn", "database": self.database, "setup": self._digest}

    @property
    def _digest(self) -> str:
        return hashlib.sha256(self.setup.encode()).hexdigest()

    def prepare(self, server: Server) -> None:
        """Runs the setup in its database, once.

        Raises:
            MeasurementError: the server refuses a statement of it, or another setup has been run before.
        """
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
        where = f"{self.name.removeprefix(PREFIX)}: setup"
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
        """Nothing is preloaded: what it reads is its own affair."""
        spec = self.load(
            server.endpoint,
            workload="txn",
            database=self.database,
            txn=self.spec,
            ignored_errors=(*IGNORED_ERRORS, *self.ignore_errors),
        )
        return Driving(spec=spec, unit="transactions/s")


def _text(path: Path, hint: str) -> str:
    try:
        return read_file(path, _MAX_BYTES, hint).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})", hint=hint) from error
