"""Dump: the user's data as SQL. `SqlData` is all kinds of dumps; `Dump` is one file of statements.

Sits in `dataset`. Such a file, plain or compressed, is of mysqldump, mariadb-dump or a graphical client. A
client's `source` in it is followed within its folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import msgspec

from flushlab.build.choice import Sign, of_release, of_word
from flushlab.dataset.filling import Filling
from flushlab.dataset.survey import Survey, pieces, survey
from flushlab.errors import DumpRefused, StorageError
from flushlab.record import Value
from flushlab.server.sql import is_system
from flushlab.settings.words import load_words

COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
_ENDINGS = {".sql", ".dump", *COMPRESSED}
_NO_NAME = re.compile(r"[^A-Za-z0-9_$]+")


class SqlData(msgspec.Struct, frozen=True, kw_only=True):
    KIND: ClassVar[str]
    TITLE: ClassVar[str]

    path: str

    @property
    def files(self) -> tuple[Path, ...]:
        raise NotImplementedError

    @property
    def databases(self) -> tuple[str, ...]:
        """Databases in the dump, without the server's own; the one that it is for, if it names none
        itself."""
        raise NotImplementedError

    @property
    def takes_any(self) -> bool:
        return False

    @property
    def key(self) -> Mapping[str, str]:
        return {"dataset": f"{self.KIND} {self.survey().digest}"}

    def survey(self) -> Survey:
        return survey(Path(self.path), self.files)

    def signs(self) -> list[Sign]:
        found, name = self.survey(), Path(self.path).name
        words = [of_word(name, word) for word in load_words() if word.says in found.words]
        return [of_release(name, found.origin), *words] if found.origin else words

    def settings(self) -> dict[str, Value]:
        return {}

    def load(self, filling: Filling) -> None:
        raise NotImplementedError


class Dump(SqlData, frozen=True, kw_only=True):
    KIND = "dump"
    TITLE = "SQL dump"

    @property
    def file(self) -> Path:
        return Path(self.path)

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.file,)

    @property
    def takes_any(self) -> bool:
        return not self.survey().databases

    @property
    def databases(self) -> tuple[str, ...]:
        found = self.survey()
        return found.all_databases or (found.named or stem(self.file),)

    def survey(self) -> Survey:
        return survey(self.file, [self.file], within=self.file.resolve().parent)

    def load(self, filling: Filling) -> None:
        found = self.survey()
        database = found.begins_in if found.databases else filling.database
        self.run(filling, database=database, created=found.created)

    def run(self, filling: Filling, *, database: str | None, created: Iterable[str]) -> None:
        found = self.survey()
        for name in found.databases:
            if name not in created:
                filling.create(name)
        follow = {Path(one.path) for one in found.followed}
        sql = pieces(self.file, filling.read)
        filling.run(sql, self.file.name, database=database, alone=True, script=self.file, followed=follow)


def stem(path: Path) -> str:
    while path.suffix in _ENDINGS:
        path = path.with_suffix("")
    return _NO_NAME.sub("_", path.name).strip("_") or "dump"


_FOLDER_ENDINGS = (".sql", *(f".sql{one}" for one in COMPRESSED))
_SCHEMAS, _TABLES, _OTHER, _ROUTINES, _VIEWS, _TRIGGERS = range(6)
"""In the order of loading. A view may call a function; neither is looked into when a routine is made."""

_STAGES = (
    ({"CREATE TABLE", "CREATE SEQUENCE"}, _TABLES),
    ({"INSERT", "REPLACE", "LOAD DATA", "UPDATE", "DELETE"}, _OTHER),
    ({"CREATE VIEW"}, _VIEWS),
    ({"CREATE FUNCTION", "CREATE PROCEDURE", "CREATE PACKAGE"}, _ROUTINES),
    ({"CREATE TRIGGER", "CREATE EVENT"}, _TRIGGERS),
    ({"CREATE DATABASE", "CREATE SCHEMA"}, _SCHEMAS),
)
"""Statements of a file and its stage; the first that fits."""

_NUMBER = re.compile(r"(\d+)")
_NUMBERED = re.compile(r"[vV]?\d")
_ABSENT = (1146, 1305, 1356)
"""A view is of a table, a function or a view that is not there yet."""


class SqlFolder(SqlData, frozen=True, kw_only=True):
    KIND = "folder"
    TITLE = "folder of SQL files"

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(sql_files(Path(self.path)))

    @property
    def takes_any(self) -> bool:
        found = [script.survey() for script in self._scripts()]
        return len({one.named for one in found}) <= 1 and not any(one.databases for one in found)

    @property
    def databases(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for script in self._scripts():
            own = script.survey().all_databases or (self._named(script),)
            found.update(dict.fromkeys(name for name in own if name))
        return tuple(found) or (stem(Path(self.path)),)

    def survey(self) -> Survey:
        whole, found = hashlib.sha256(), []
        for script in self._scripts():
            found.append(script.survey())
            name = script.file.relative_to(self.path)
            whole.update(f"{name} {found[-1].digest}\n".encode())
        return Survey(
            digest=whole.hexdigest(),
            bytes=sum(one.bytes for one in found),
            sql_bytes=sum(one.sql_bytes for one in found),
            databases=tuple(dict.fromkeys(name for one in found for name in one.databases)),
            definers=tuple(dict.fromkeys(account for one in found for account in one.definers)),
            origin=next((one.origin for one in found if one.origin), ""),
            cut_off=tuple(name for one in found for name in one.cut_off),
            words=tuple(dict.fromkeys(word for one in found for word in one.words)),
        )

    def load(self, filling: Filling) -> None:
        filling.be_lenient()
        for name in sorted({name for name in map(self._named, self._all) if is_system(name)}):
            filling.left_out[f"database {name}"] = 1
        scripts = self._scripts()
        created = {name for script in scripts for name in script.survey().created}
        into_one = self.takes_any and filling.database not in self.databases

        def run(script: Dump) -> None:
            found = script.survey()
            database = found.begins_in if found.databases else self._named(script)
            if into_one or (not found.databases and not database):
                database = filling.database
            script.run(filling, database=database, created=created)

        views = [script for script in scripts if not self._numbered and _stage(script) == _VIEWS]
        for script in scripts:
            if script not in views:
                run(script)
            elif script is views[0]:
                _each_after_others(views, run)

    @property
    def _all(self) -> list[Dump]:
        return [Dump(path=str(file)) for file in self.files]

    @property
    def _numbered(self) -> bool:
        return all(_NUMBERED.match(file.name) for file in self.files)

    def _named(self, script: Dump) -> str:
        folder = script.file.parent
        return script.survey().named or (folder.name if folder != Path(self.path) else "")

    def _scripts(self) -> list[Dump]:
        all_ = [script for script in self._all if not is_system(self._named(script))]
        read = {Path(one.path) for script in all_ for one in script.survey().followed}
        first = [script for script in all_ if script.file.resolve() not in read]
        if read and len(first) > 1:
            that = next((script for script in first if script.survey().followed), first[0])
            raise StorageError(
                f"{self.path} holds {len(first)} scripts, of which {that.file.name} reads other files",
                hint=f"give the one to load: --dataset {that.file}",
            )
        numbered = self._numbered

        def order(script: Dump) -> tuple[object, ...]:
            stage = (0, 0) if numbered else (_stage(script), 0 if script.survey().created else 1)
            return (*stage, _natural(script.file))

        return sorted(first, key=order)


def sql_files(folder: Path) -> list[Path]:
    folders = (one for one in sorted(folder.iterdir()) if one.is_dir())
    found = _sql_in(folder) or [file for one in folders for file in _sql_in(one)]
    for file in found:
        rows = file.with_name(f"{file.name.partition('.sql')[0]}.txt")
        if rows.is_file():
            raise StorageError(
                f"{folder} holds rows as {rows.name}, not as SQL", hint="make the dump without --tab"
            )
        if not file.resolve().is_relative_to(folder.resolve()):
            raise StorageError(f"{file} leads out of its folder", hint="copy the file into the folder")
    return found


def _sql_in(folder: Path) -> list[Path]:
    files = (
        file for file in folder.iterdir() if file.name.lower().endswith(_FOLDER_ENDINGS) and file.is_file()
    )
    return sorted((file for file in files if not file.name.startswith(".")), key=_natural)


def _natural(file: Path) -> tuple[object, ...]:
    """Numbers in names count as numbers: 2 stands before 10."""
    parts = _NUMBER.split(file.name)
    return (*(int(part) if at % 2 else part for at, part in enumerate(parts)), str(file))


def _each_after_others(views: list[Dump], run: Callable[[Dump], None]) -> None:
    while views:
        waiting: list[tuple[Dump, DumpRefused]] = []
        for view in views:
            try:
                run(view)
            except DumpRefused as error:
                if getattr(error.__cause__, "errno", None) not in _ABSENT:
                    raise
                waiting.append((view, error))
        if len(waiting) == len(views):
            raise waiting[0][1]
        views = [view for view, _ in waiting]


def _stage(script: Dump) -> int:
    kinds = set(script.survey().kinds)
    return next((stage for made, stage in _STAGES if kinds & made), _OTHER)
