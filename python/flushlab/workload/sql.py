"""`sql:FILE`: a script's statements on one connection and an empty database, timed by kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import msgspec

from flushlab import _core
from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.server.protocol import Server
from flushlab.workload import engine
from flushlab.workload.options import CONNECTING
from flushlab.workload.protocol import Measured, Reset, Timing, Window

PREFIX = "sql:"
OPTIONS = CONNECTING
DATABASE = "flushlab_script"

_MAX_BYTES = 256 << 20


class SqlWorkload(engine.Connected, frozen=True, kw_only=True, omit_defaults=True):
    """An SQL script, run once per trial; its result is the duration in seconds.

    Attributes:
        name: `sql:FILE`, as the user wrote it.
        script: content of the file.
        database: of the script: an empty one, or that of the user's data.
    """

    reset: ClassVar[Reset] = "each"

    name: str
    script: bytes
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
        hint = "sql: takes a file of SQL statements"
        script = read_file(folder / Path(file).expanduser(), _MAX_BYTES, hint)
        if not count_statements(script, file):
            raise UsageError(f"{file} contains no statement", hint=hint)
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
        with window:
            result = engine.run_script(
                server,
                self.script,
                self,
                database=self.database,
                limit_s=timing.max_seconds,
                where=self.name.removeprefix(PREFIX),
            )
        return Measured(
            result=result.seconds,
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


def read_file(path: Path, most_bytes: int, hint: str) -> bytes:
    """The content of a workload's file.

    Raises:
        UsageError: it cannot be read, or is too long.
    """
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
    """Statements of a script.

    Raises:
        UsageError: something in it does not end; the message begins with `where`.
    """
    try:
        return _core.count_statements(script)
    except _core.CoreError as error:
        raise UsageError(f"{where}, {error.message}") from error
