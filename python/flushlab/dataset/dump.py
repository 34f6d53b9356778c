"""Dump: the user's data as SQL. `SqlData` is all kinds of dumps; `Dump` is one file of statements.

Sits in `dataset`. Such a file, plain or compressed, is of mysqldump, mariadb-dump or a graphical client. A
client's `source` in it is followed within its folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import msgspec

from flushlab.build.choice import Sign, of_release, of_word
from flushlab.dataset.filling import Filling
from flushlab.dataset.pieces import pieces
from flushlab.dataset.survey import Survey, survey
from flushlab.record import Value
from flushlab.settings.words import load_words

COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
_ENDINGS = {".sql", ".dump", *COMPRESSED}
_NO_NAME = re.compile(r"[^A-Za-z0-9_$]+")


class SqlData(msgspec.Struct, frozen=True, kw_only=True):
    """A dump. Kinds of it have `files`, `databases` and `load` of their own.

    Attributes:
        path: absolute.
    """

    KIND: ClassVar[str]
    """In its key."""
    TITLE: ClassVar[str]
    """For people."""

    path: str

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of the dump.

        Raises:
            StorageError: it lacks files, or has rows in a form that is not SQL.
        """
        raise NotImplementedError

    @property
    def databases(self) -> tuple[str, ...]:
        """Databases in the dump, without the server's own; the one that it is for, if it names none itself.

        Raises:
            StorageError: it cannot be read.
        """
        raise NotImplementedError

    @property
    def takes_any(self) -> bool:
        """It names no database itself, so it can be loaded into any."""
        return False

    @property
    def key(self) -> Mapping[str, str]:
        """Changes with the content.

        Raises:
            StorageError: it cannot be read.
        """
        return {"dataset": f"{self.KIND} {self.survey().digest}"}

    def survey(self) -> Survey:
        """Its databases, accounts and size; remembered."""
        return survey(Path(self.path), self.files)

    def signs(self) -> list[Sign]:
        """What it says about the servers that can load it."""
        found, name = self.survey(), Path(self.path).name
        words = [of_word(name, word) for word in load_words() if word.says in found.words]
        return [of_release(name, found.origin), *words] if found.origin else words

    def settings(self) -> dict[str, Value]:
        """None: a dump's settings hold for its own statements."""
        return {}

    def load(self, filling: Filling) -> None:
        """Loads it."""
        raise NotImplementedError


class Dump(SqlData, frozen=True, kw_only=True):
    """One file of SQL."""

    KIND = "dump"
    TITLE = "SQL dump"

    @property
    def file(self) -> Path:
        """The file."""
        return Path(self.path)

    @property
    def files(self) -> tuple[Path, ...]:
        """The file itself; its survey says which ones it reads."""
        return (self.file,)

    @property
    def takes_any(self) -> bool:
        """It names no database itself, so it can be loaded into any."""
        return not self.survey().databases

    @property
    def databases(self) -> tuple[str, ...]:
        """Those that it uses; one by its header or its own name if it uses none."""
        found = self.survey()
        return found.all_databases or (found.named or stem(self.file),)

    def survey(self) -> Survey:
        """Its databases, accounts and size; remembered."""
        return survey(self.file, [self.file], within=self.file.resolve().parent)

    def load(self, filling: Filling) -> None:
        """Runs its statements in their order."""
        found = self.survey()
        database = found.begins_in if found.databases else filling.database
        self.run(filling, database=database, created=found.created)

    def run(self, filling: Filling, *, database: str | None, created: Iterable[str]) -> None:
        """Runs its statements in their order, the first of them in `database`.

        Databases that are not among `created` are made first: the others are there, or made before they are
        used."""
        found = self.survey()
        for name in found.databases:
            if name not in created:
                filling.create(name)
        follow = {Path(one.path) for one in found.followed}
        sql = pieces(self.file, filling.read)
        filling.run(sql, self.file.name, database=database, alone=True, script=self.file, followed=follow)


def stem(path: Path) -> str:
    """A database's name from a file's or a folder's."""
    while path.suffix in _ENDINGS:
        path = path.with_suffix("")
    return _NO_NAME.sub("_", path.name).strip("_") or "dump"
