"""shell: a folder of MySQL Shell's `util.dumpInstance`, `dumpSchemas` or `dumpTables`.

Sits in `dataset`. Files of the format, as MySQL Shell 8.0 to 9 write it:

- `@.json`: the dump's contents; `@.done.json`
- `schema.json`: tables and views, with the beginnings of their files' names; `schema.sql`
- `schema@table.json`: columns and the format of rows; `schema@table.sql`, `….triggers.sql`
- `….pre.sql`: a placeholder of a view
- `schema@table@0.tsv.zst`, `schema@table@@1.tsv.zst`: rows
- `@.users.sql`: accounts, which stay out

LOAD DATA LOCAL loads the rows, several files at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from flushlab.dataset.dump import SqlData
from flushlab.dataset.filling import Filling
from flushlab.dataset.pieces import pieces
from flushlab.dataset.survey import Survey, origin_of, survey
from flushlab.errors import StorageError
from flushlab.server.databases import is_system
from flushlab.server.identifier import quoted

HEADER, DONE = "@.json", "@.done.json"

_COMPRESSIONS = (".zst", ".gz")


class _Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table or view, and the beginning of its files' names."""

    schema: str
    name: str
    base: str
    view: bool


_ROWS = r"\.tsv(\.zst|\.gz)?"
"""Ending of files with rows."""


class ShellDump(SqlData, frozen=True, kw_only=True):
    """A folder of MySQL Shell's."""

    KIND = "shell"
    TITLE = "MySQL Shell dump"

    @property
    def files(self) -> tuple[Path, ...]:
        """Those that are loaded or say how."""
        ending = (".json", ".sql", ".tsv", *(f".tsv{one}" for one in _COMPRESSIONS))
        own = (file for file in Path(self.path).iterdir() if file.name.endswith(ending))
        return tuple(sorted(file for file in own if file.name not in (HEADER, DONE, "@.users.sql")))

    @property
    def databases(self) -> tuple[str, ...]:
        """Those that its header names."""
        names = self._header.get("schemas", [])
        return tuple(name for name in names if not is_system(name))

    def survey(self) -> Survey:
        """What is in it; remembered."""

        def look(found: Survey) -> Survey:
            origin = origin_of(str(self._header.get("serverVersion", "")))
            return msgspec.structs.replace(found, databases=self.databases, origin=origin)

        return survey(Path(self.path), self.files, look, sql=lambda file: file.suffix == ".sql")

    def load(self, filling: Filling) -> None:
        """Loads tables, rows, views, routines and triggers, in this order."""
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
        """Refuses rows that no table claims: the table would be empty.

        Raises:
            StorageError: there are some.
        """
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
