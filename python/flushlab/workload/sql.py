"""`sql:FILE`: a script's statements on one connection and an empty database, timed by kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

from flushlab import _core
from flushlab.errors import MeasurementError, UsageError
from flushlab.record import LoadResult, ScriptSpec, SslMode, Value
from flushlab.server.protocol import Server
from flushlab.workload.engine import native
from flushlab.workload.options import SSL_CA, SSL_MODE, TRANSPORT
from flushlab.workload.protocol import Measured, Reset, Timing, Window

PREFIX = "sql:"
OPTIONS = (TRANSPORT, SSL_MODE, SSL_CA)
DATABASE = "flushlab_script"

_MAX_BYTES = 256 << 20


class SqlWorkload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An SQL script, run once per trial; its figure is the seconds that it takes.

    Attributes:
        name: `sql:FILE`, as the user wrote it.
        script: content of the file.
        transport: `socket` or `tcp`.
        ssl_mode, ssl_ca: TLS over `tcp`, see `flushlab.record.LoadSpec`.
        database: of the script: an empty one, or that of the user's data.
    """

    reset: ClassVar[Reset] = "each"

    name: str
    script: bytes
    transport: Literal["socket", "tcp"] = "socket"
    ssl_mode: SslMode = "disabled"
    ssl_ca: str = ""
    database: str = DATABASE

    @classmethod
    def read(cls, name: str, folder: Path, options: Mapping[str, Value]) -> SqlWorkload:
        """Reads the script and looks through it.

        Args:
            name: as above.
            folder: start of a relative FILE.
            options: all of `OPTIONS`.

        Raises:
            UsageError: no file, none that can be read, or no script: something in it does not end, or it
                holds no statement.
        """
        file = name.removeprefix(PREFIX).strip()
        if not file:
            raise UsageError("the workload 'sql:' has no file", hint="write sql:migrations.sql")
        path = folder / Path(file).expanduser()
        try:
            size = path.stat().st_size
            if size > _MAX_BYTES:
                raise UsageError(
                    f"{file} has {size} bytes; the limit is {_MAX_BYTES}",
                    hint="load bulk data with --dataset",
                )
            script = path.read_bytes()
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror}", hint="sql: takes a file of SQL statements"
            ) from error
        try:
            statements = _core.count_statements(script)
        except _core.CoreError as error:
            raise UsageError(f"{file}, {error.message}") from error
        if not statements:
            raise UsageError(f"{file} contains no statement", hint="sql: takes a file of SQL statements")
        return msgspec.convert({"name": name, "script": script, **options}, cls)

    @property
    def data_key(self) -> Mapping[str, str]:
        """An empty database, the same for every script, or nothing if the user's data have theirs."""
        return {} if self._on_data else {"workload": "sql", "character_set": "utf8mb4"}

    @property
    def _on_data(self) -> bool:
        return self.database != DATABASE

    @property
    def slice_s(self) -> None:
        """It runs whole."""

    def driving(self, server: Server) -> None:
        """Nobody but itself drives it."""

    def prepare(self, server: Server) -> None:
        """Creates the empty database, in utf8mb4 whatever the server's default."""
        server.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4")

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        """Runs the script to its end. Its own database is emptied before if an earlier run filled it; the
        user's data stay as they are."""
        if not self._on_data:
            self._empty(server)
        spec = ScriptSpec(
            endpoint=server.endpoint,
            transport=self.transport,
            ssl_mode=self.ssl_mode,
            ssl_ca=self.ssl_ca,
            database=self.database,
            limit_s=timing.max_seconds,
        )
        with window:
            result = native(lambda: self._run(spec), server)
        return Measured(
            figure=result.seconds,
            unit="s",
            higher_is_better=False,
            warm_up_s=0.0,
            window_s=result.seconds,
            load=result,
        )

    def _empty(self, server: Server) -> None:
        there = server.query(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s", (DATABASE,)
        )
        if there[0][0]:
            server.query(f"DROP DATABASE {DATABASE}")
            self.prepare(server)

    def _run(self, spec: ScriptSpec) -> LoadResult:
        try:
            done = _core.run_script(msgspec.json.encode(spec), self.script)
        except _core.CoreError as error:
            if error.errno is None and error.kind == "server":
                raise  # gone, or never reached
            raise MeasurementError(f"{self.name.removeprefix(PREFIX)}, {error}") from error
        return msgspec.json.decode(done, type=LoadResult)
