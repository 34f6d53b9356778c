"""mydumper: a folder with files for databases, tables, rows, views, routines and triggers.

Sits in `dataset`. Names show the kinds of files (mydumper 0.9 to 0.19): `db-schema-create.sql`,
`db.table-schema.sql`, `db.table.sql` or `db.table.00000.sql`, `…-schema-post.sql`, `…-schema-view.sql`,
`…-schema-triggers.sql`, each of them compressed or not. Rows of several files are loaded at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from flushlab.dataset.dump import SqlData
from flushlab.dataset.filling import Filling
from flushlab.dataset.pieces import pieces
from flushlab.dataset.survey import Survey, survey
from flushlab.errors import StorageError
from flushlab.server.databases import is_system

METADATA = "metadata"

_STAGES = (
    ("-schema-create.sql",),
    ("-schema.sql", "-schema-sequence.sql"),
    (".sql",),
    ("-schema-post.sql",),
    ("-schema-view.sql",),
    ("-schema-triggers.sql",),
)
"""Endings of files in the order in which they are loaded; `.sql` is what no other ending fits."""
_VIEWS = 4
"""One after the other: a view takes the place of a table that stands in for it, and others may be of it."""
_BODIES = (3, 5)
"""Files with routines, events and triggers. mydumper and myloader do not support DELIMITER. A statement ends
at a semicolon that ends a line; within a body, mydumper writes a space after each semicolon."""
_DELIMITER = b"$$flushlab$$"
_GTID = re.compile(
    r"gtid\w*\s*[:=]\s*[\"']?(?:(\d+-\d+-\d+)(?![\w-])|[0-9a-f]{8}-[0-9a-f]{4}-)", re.IGNORECASE
)
"""MariaDB's has a domain, a server and a number; MySQL's has a UUID."""


class MydumperDump(SqlData, frozen=True, kw_only=True):
    """A folder of mydumper's."""

    KIND = "mydumper"
    TITLE = "mydumper dump"

    @property
    def files(self) -> tuple[Path, ...]:
        """Its files of SQL.

        Raises:
            StorageError: it has none, or rows in a form that is not SQL.
        """
        folder = Path(self.path)
        found = tuple(sorted(file for file in folder.iterdir() if _name(file).endswith(".sql")))
        rows = next((file.name for file in folder.iterdir() if _name(file).endswith((".dat", ".csv"))), None)
        if rows is not None:
            raise StorageError(
                f"{folder} holds rows as {rows}, not as SQL",
                hint="make the dump without --load-data or --csv",
            )
        if not found:
            raise StorageError(f"{folder} has no .sql file", hint="make the dump again")
        return found

    @property
    def databases(self) -> tuple[str, ...]:
        """Those that its files are of."""
        names = (_database(file) for file in self.files)
        return tuple(dict.fromkeys(name for name in names if not is_system(name)))

    def survey(self) -> Survey:
        """What is in it; remembered. No file names the server, but positions of replication differ."""

        def look(found: Survey) -> Survey:
            text = (Path(self.path) / METADATA).read_text(errors="replace")
            position = _GTID.search(text)
            origin = "" if position is None else "MariaDB" if position[1] else "MySQL"
            return msgspec.structs.replace(found, origin=found.origin or origin)

        return survey(Path(self.path), self.files, look)

    def load(self, filling: Filling) -> None:
        """Loads one kind of file after the other."""
        filling.be_lenient("sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
        there = set(self.databases)
        files = [file for file in self.files if _database(file) in there]
        for stage in range(len(_STAGES)):
            batch = [file for file in files if _stage(file) == stage]
            if stage == _VIEWS:
                for file in batch:
                    self._load(filling, file)
            else:
                filling.each(batch, lambda file: self._load(filling, file))

    def _load(self, filling: Filling, file: Path) -> None:
        database = None if _stage(file) == 0 else _database(file)
        sql = pieces(file, filling.read)
        filling.run(_delimited(sql) if _stage(file) in _BODIES else sql, file.name, database=database)


def _delimited(sql: Iterator[bytes]) -> Iterator[bytes]:
    """The statements of a file with bodies, in the way of the servers' own clients."""
    text = b"".join(sql)
    yield b"DELIMITER " + _DELIMITER + b"\n" + text.replace(b";\n", _DELIMITER + b"\n")


def _name(file: Path) -> str:
    """Its name without the ending of its compression."""
    return file.name.removesuffix(".gz").removesuffix(".zst")


def _database(file: Path) -> str:
    name = _name(file)
    for ending in ("-schema-create.sql", "-schema-post.sql", "-schema-triggers.sql"):  # of a whole database
        name = name.removesuffix(ending)
    return name.partition(".")[0]


def _stage(file: Path) -> int:
    name = _name(file)
    special = (at for at, endings in enumerate(_STAGES) if endings != (".sql",) and name.endswith(endings))
    return next(special, _STAGES.index((".sql",)))
