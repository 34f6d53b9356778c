"""DDL workload: DDL that runs beside the load, and what is left of its tables. Sits in `crashed`.

Statements run one after the other on a connection of their own. Each that was acknowledged is noted as the
acknowledged commits are, with the position of the disk's record read after the answer. Each statement is one
step: tables are made, changed in ways that take different paths through a server, and dropped. After a crash
they must be as they were after the last acknowledged step, or after the next, which was under way. After an
earlier one: statements are lost. Any other state is a table that is half made.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from flushlab.crashed.acks import Note, packed
from flushlab.crashed.side_workload import Stop
from flushlab.errors import MeasurementError, ServerError
from flushlab.server import Sandbox
from flushlab.server.control import ConnectionGone, Control, StatementFailed
from flushlab.server.sandbox.activity import Activity, of_process

PREFIX = "side_"
_ROWS = 64
_PAD = "'" + "s" * 60 + "'"


class Shape(NamedTuple):
    """A table.

    Attributes:
        columns, indexes: their names, in their order and sorted.
        rows: how many it has; -1 if it cannot be read.
    """

    columns: tuple[str, ...]
    indexes: tuple[str, ...]
    rows: int

    def __str__(self) -> str:
        rows = "unreadable" if self.rows < 0 else f"{self.rows} rows"
        return f"{rows}, columns {' '.join(self.columns)}, indexes {' '.join(self.indexes)}"


Tables = Mapping[str, Shape]
"""Side tables by their names."""

_MADE = Shape(("id", "pad"), ("PRIMARY",), 0)
_FILLED = _MADE._replace(rows=_ROWS)
_WIDENED = _FILLED._replace(columns=("id", "pad", "added"))
_INDEXED = _WIDENED._replace(indexes=("PRIMARY", "by_pad"))
_COPIED = _INDEXED._replace(columns=("id", "pad", "added", "copied"))
_EMPTIED = _COPIED._replace(rows=0)
_STEPS: tuple[tuple[str, str, Shape | None], ...] = (
    (
        "CREATE TABLE {table} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, pad CHAR(60) NOT NULL)"
        " ENGINE=InnoDB",
        "",
        _MADE,
    ),
    (f"INSERT INTO {{table}} (pad) VALUES {', '.join([f'({_PAD})'] * _ROWS)}", "", _FILLED),
    ("ALTER TABLE {table} ADD COLUMN added INT NOT NULL DEFAULT 7", "", _WIDENED),
    ("CREATE INDEX by_pad ON {table} (pad)", "", _INDEXED),
    ("ALTER TABLE {table} ADD COLUMN copied INT NOT NULL DEFAULT 8, ALGORITHM=COPY", "", _COPIED),
    ("RENAME TABLE {table} TO {renamed}", "_renamed", _COPIED),
    ("TRUNCATE TABLE {renamed}", "_renamed", _EMPTIED),
    ("DROP TABLE {renamed}", "", None),
)
"""Statement; what the table's name ends with after it, and the table: None if it is gone."""


def statement(step: int, database: str) -> str:
    """The SQL of a step, from 1."""
    generation, which = divmod(step - 1, len(_STEPS))
    table = f"{database}.{PREFIX}{generation}"
    return _STEPS[which][0].format(table=table, renamed=f"{table}_renamed")


def after(step: int) -> Tables:
    """The tables after a step; none after step 0."""
    if step == 0:
        return {}
    generation, which = divmod(step - 1, len(_STEPS))
    _, ending, shape = _STEPS[which]
    return {} if shape is None else {f"{PREFIX}{generation}{ending}": shape}


def reached(found: Tables, acknowledged: int) -> int | None:
    """The step that tables are as after; None if there is none.

    Args:
        found: the tables after a crash.
        acknowledged: the last step whose statement was answered before it; the next may have been under way.
    """
    return next((step for step in range(acknowledged + 1, -1, -1) if after(step) == found), None)


NOTES = "ddl"
"""File beside the notes of acknowledged commits."""
_TIDY_S = 60.0
"""How long a server may take after its start to remove the rest of dropped tables."""
_IDLE_S = 5.0
"""The wait ends after this time without progress."""
_POLL_S = 0.05
_LIKE = PREFIX.replace("_", r"\_") + "%"


class DdlWorkload:
    """DDL as a side workload, in the acknowledgement table's database."""

    name = "ddl"

    def __init__(self, database: str) -> None:
        self._database = database

    def prepare(self, server: Sandbox) -> None:
        """Drops what an earlier one has left."""
        server.query(f"CREATE DATABASE IF NOT EXISTS {self._database}")
        for (name,) in server.query(_tables(self._database)):
            server.query(f"DROP TABLE {self._database}.{name}")

    def run(self, server: Sandbox, folder: Path, position: Path | None, stop: Stop) -> None:
        """Runs one statement after the other; a refused one is a MeasurementError."""
        step = 1
        with closing(Control(server.endpoint)) as control, (folder / NOTES).open("wb", buffering=0) as notes:
            while not stop.is_set():
                sql = statement(step, self._database)
                try:
                    control.query(sql)
                except ConnectionGone:
                    return  # it was killed; if it died by itself, the load says so
                except ServerError as error:
                    raise MeasurementError(f"DDL beside the load failed: {error.message}") from error
                at = int.from_bytes(position.read_bytes()[:8], "little") if position else 0
                notes.write(packed(Note(0, step, at, time.monotonic_ns())))
                step += 1


def look(server: Sandbox, database: str) -> tuple[Tables, list[str]]:
    """The side tables, and half-made tables in words; a ServerError if the server does not answer."""
    wrong: list[str] = []
    found: dict[str, Shape] = {}
    for (name,) in server.query(_tables(database)):
        columns = _names(server, "columns", "column_name", "ordinal_position", database, name)
        indexes = sorted({*_names(server, "statistics", "index_name", "index_name", database, name)})
        try:
            ((rows,),) = server.query(f"SELECT COUNT(*) FROM {database}.{name}")
        except StatementFailed as error:
            rows = -1
            wrong.append(f"{name} cannot be read: {error.message}")
        found[str(name)] = Shape(tuple(columns), tuple(indexes), int(rows))
    process, deadline = server.pid, time.monotonic() + _TIDY_S
    activity = Activity(lambda: of_process(process, server.log) if process else None, _IDLE_S)
    while left := left_over(server.datadir / database, found):
        if activity.idle() or time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    return found, wrong + [f"a leftover file belongs to no table: {name}" for name in left]


def left_over(folder: Path, tables: Tables) -> list[str]:
    """Files of tables that DDL has begun to make or to drop, in a database's folder."""
    return sorted(
        file.name
        for file in folder.iterdir()
        if file.name.startswith("#sql") or (file.name.startswith(PREFIX) and file.stem not in tables)
    )


def _tables(database: str) -> str:
    return (
        "SELECT table_name FROM information_schema.tables"
        f" WHERE table_schema = '{database}' AND table_name LIKE '{_LIKE}'"
    )


def _names(server: Sandbox, of: str, column: str, by: str, database: str, table: str) -> list[str]:
    return [
        str(name)
        for name, _ in server.query(
            f"SELECT DISTINCT {column}, {by} FROM information_schema.{of}"
            f" WHERE table_schema = '{database}' AND table_name = '{table}' ORDER BY {by}"
        )
    ]
