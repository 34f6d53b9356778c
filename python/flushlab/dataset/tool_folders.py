"""Folders of dump tools: mydumper's, and MySQL Shell's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from flushlab.dataset.dump import SqlData
from flushlab.dataset.filling import Filling
from flushlab.dataset.survey import Survey, origin_of, pieces, survey
from flushlab.errors import StorageError
from flushlab.server.sql import is_system, quoted

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
    KIND = "mydumper"
    TITLE = "mydumper dump"

    @property
    def files(self) -> tuple[Path, ...]:
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
        names = (_database(file) for file in self.files)
        return tuple(dict.fromkeys(name for name in names if not is_system(name)))

    def survey(self) -> Survey:
        def look(found: Survey) -> Survey:
            text = (Path(self.path) / METADATA).read_text(errors="replace")
            position = _GTID.search(text)
            origin = "" if position is None else "MariaDB" if position[1] else "MySQL"
            return msgspec.structs.replace(found, origin=found.origin or origin)

        return survey(Path(self.path), self.files, look)

    def load(self, filling: Filling) -> None:
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
    text = b"".join(sql)
    yield b"DELIMITER " + _DELIMITER + b"\n" + text.replace(b";\n", _DELIMITER + b"\n")


def _name(file: Path) -> str:
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


HEADER, DONE = "@.json", "@.done.json"

_COMPRESSIONS = (".zst", ".gz")


class _Table(msgspec.Struct, frozen=True, kw_only=True):
    schema: str
    name: str
    base: str
    view: bool


_ROWS = r"\.tsv(\.zst|\.gz)?"
"""Ending of files with rows."""


class ShellDump(SqlData, frozen=True, kw_only=True):
    KIND = "shell"
    TITLE = "MySQL Shell dump"

    @property
    def files(self) -> tuple[Path, ...]:
        ending = (".json", ".sql", ".tsv", *(f".tsv{one}" for one in _COMPRESSIONS))
        own = (file for file in Path(self.path).iterdir() if file.name.endswith(ending))
        return tuple(sorted(file for file in own if file.name not in (HEADER, DONE, "@.users.sql")))

    @property
    def databases(self) -> tuple[str, ...]:
        names = self._header.get("schemas", [])
        return tuple(name for name in names if not is_system(name))

    def survey(self) -> Survey:
        def look(found: Survey) -> Survey:
            origin = origin_of(str(self._header.get("serverVersion", "")))
            return msgspec.structs.replace(found, databases=self.databases, origin=origin)

        return survey(Path(self.path), self.files, look, sql=lambda file: file.suffix == ".sql")

    def load(self, filling: Filling) -> None:
        filling.be_lenient("sql_mode = 'NO_AUTO_VALUE_ON_ZERO'", "local_infile = 1", "time_zone = '+00:00'")
        tables = [table for schema in self.databases for table in self._tables(schema)]
        for schema in self.databases:  # with its routines and events
            file = Path(self.path) / f"{self._header.get('basenames', {}).get(schema, schema)}.sql"
            if file.is_file():
                filling.run(pieces(file, filling.read), file.name, database=None)
        for ending, views in ((".sql", False), (".pre.sql", True)):
            self._run(filling, [one for one in tables if one.view is views], ending)
        chunks = [(table, chunk) for table in tables if not table.view for chunk in self._chunks(table)]
        self._require_all({chunk for _, chunk in chunks})
        filling.each(chunks, lambda pair: self._rows(filling, *pair))
        self._run(filling, [one for one in tables if one.view], ".sql")
        self._run(filling, [one for one in tables if not one.view], ".triggers.sql")

    @property
    def _header(self) -> dict[str, Any]:
        return self._json(HEADER)

    def _json(self, name: str) -> dict[str, Any]:
        file = Path(self.path) / name
        try:
            return dict(msgspec.json.decode(file.read_bytes()))
        except (OSError, msgspec.DecodeError, TypeError) as error:
            raise StorageError(f"{file} cannot be read: {error}", hint="make the dump again") from error

    def _tables(self, schema: str) -> list[_Table]:
        about = self._json(f"{self._header.get('basenames', {}).get(schema, schema)}.json")
        bases = about.get("basenames", {})
        return [
            _Table(schema=schema, name=name, base=bases.get(name, f"{schema}@{name}"), view=kind == "views")
            for kind in ("tables", "views")
            for name in about.get(kind, [])
        ]

    def _chunks(self, table: _Table) -> Iterator[Path]:
        """Its files of rows, or those of each partition: one without a number, or `@0`, `@1` … to the last
        one, `@@2`. The table's own file names the partitions' (`get_partitions` in
        https://github.com/mysql/mysql-shell/blob/master/modules/util/dump/dumper.cc)."""
        about = Path(self.path) / f"{table.base}.json"
        partitions = self._json(about.name).get("basenames", {}) if about.is_file() else {}
        bases = "|".join(map(re.escape, (table.base, *partitions.values())))
        name = re.compile(rf"({bases})(@@?\d+)?{_ROWS}")
        return (file for file in self.files if name.fullmatch(file.name))

    def _require_all(self, read: Collection[Path]) -> None:
        schemas = tuple(f"{self._header.get('basenames', {}).get(one, one)}@" for one in self.databases)
        rows = re.compile(rf".*{_ROWS}")
        for file in self.files:
            if file not in read and file.name.startswith(schemas) and rows.fullmatch(file.name):
                raise StorageError(
                    f"{file} has rows of no table that the dump names", hint="make the dump again"
                )

    def _run(self, filling: Filling, tables: list[_Table], ending: str) -> None:
        for table in tables:
            file = Path(self.path) / f"{table.base}{ending}"
            if file.is_file():
                filling.run(pieces(file, filling.read), file.name, database=table.schema)

    def _rows(self, filling: Filling, table: _Table, chunk: Path) -> None:
        about = self._json(f"{table.base}.json")
        options = about.get("options", {})
        decoded = {**about.get("decodeColumns", {}), **options.get("decodeColumns", {})}
        names = list(options.get("columns", []))
        columns = [f"@v{at}" if name in decoded else quoted(name) for at, name in enumerate(names)]
        sets = [
            f"{quoted(name)} = {decoded[name]}(@v{at})" for at, name in enumerate(names) if name in decoded
        ]

        def text(option: str, default: str) -> str:
            value = str(options.get(option, default)).replace("\\", "\\\\").replace("'", "\\'")
            return f"'{value}'"

        enclosed = "OPTIONALLY ENCLOSED" if options.get("fieldsOptionallyEnclosed") else "ENCLOSED"
        filling.load_rows(
            pieces(chunk, filling.read),
            chunk.name,
            f"INTO TABLE {quoted(table.schema, table.name)}"
            f" CHARACTER SET {options.get('defaultCharacterSet', 'utf8mb4')}"
            f" FIELDS TERMINATED BY {text('fieldsTerminatedBy', chr(9))}"
            f" {enclosed} BY {text('fieldsEnclosedBy', '')} ESCAPED BY {text('fieldsEscapedBy', chr(92))}"
            f" LINES TERMINATED BY {text('linesTerminatedBy', chr(10))}"
            + (f" ({', '.join(columns)})" if columns else "")
            + (f" SET {', '.join(sets)}" if sets else ""),
        )
