"""Log: the binary log of a server since the last reset, turned around. Sits in `suite.undoing`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from flushlab import _core
from flushlab.machine import home_part
from flushlab.suite.undoing.causes import MEANWHILE, CannotUndo
from flushlab.suite.undoing.session import Session

MOST_BYTES = 64 << 20
"""More is not taken back row by row."""
_LONG = 16 << 20
"""A log that has grown to this is ended by the next undo."""


class TableName(msgspec.Struct, frozen=True):
    """A table."""

    schema: str
    name: str

    @property
    def key(self) -> str:
        """Schema and name in one word."""
        return f"{self.schema}.{self.name}"


class Changed(TableName, frozen=True):
    """A table whose rows were changed, with their numbers, and columns that were not logged, from 0."""

    inserted: int
    updated: int
    deleted: int
    missing: Sequence[int]

    @property
    def rows(self) -> int:
        """How many were changed."""
        return self.inserted + self.updated + self.deleted


class Inverse(msgspec.Struct, frozen=True):
    """See `_core.invert_binlog`."""

    end: int
    description: str
    statements: Sequence[str]
    tables: Sequence[Changed]
    emptied: Sequence[TableName]
    truncations: int
    transactions: int
    conditional: str | None
    barrier: str | None


class Log:
    """The log from now on.

    Args:
        session: that undoes.
        datadir: of the server.

    Raises:
        CannotUndo: the server does not log full rows.
    """

    def __init__(self, session: Session, datadir: Path) -> None:
        self._session, self._datadir = session, datadir
        ((log, form, image),) = session.ask(
            "SELECT @@GLOBAL.log_bin, @@GLOBAL.binlog_format, @@GLOBAL.binlog_row_image"
        )
        if not log or form != "ROW" or image != "FULL":
            raise CannotUndo("no binary log of full rows")
        self._earlier: Path | None = None
        self._is_gone = False
        self._file, self._position = self._now()

    def inverse(self, without: Sequence[tuple[str, str]] = ()) -> Inverse:
        """What was logged, turned around, without some tables.

        Raises:
            CannotUndo: there are other things than rows.
        """
        if self._is_gone:
            raise CannotUndo(f"more than {MOST_BYTES >> 20} MiB of binary log")
        try:
            told = _core.invert_binlog(str(self._file), self._position, MOST_BYTES, list(without))
        except FileNotFoundError:
            raise CannotUndo("a binary log that was removed") from None
        found = msgspec.json.decode(told, type=Inverse)
        if found.barrier is not None:
            raise CannotUndo(found.barrier)
        return found

    def has_grown(self, end: int | None = None) -> bool:
        """Whether there is more than up to `end`; None: than the last `go_on` left behind."""
        try:
            return self._is_gone or self._file.stat().st_size != (self._position if end is None else end)
        except OSError:
            return True

    def go_on(self, end: int) -> None:
        """Begins anew behind what was read.

        Raises:
            CannotUndo: somebody wrote meanwhile.
        """
        if self.has_grown(end):
            raise CannotUndo(MEANWHILE)
        self._position = end

    def shorten(self) -> bool:
        """Begins another file if this one is long; whether it was."""
        if self._position <= _LONG:
            return False
        self._begin()
        return True

    def trim(self) -> int:
        """Frees the memory of a log that is too long to be undone, whose content is gone then, and of earlier
        ones; how often it asked the server to purge."""
        if self._file.stat().st_size - self._position > MOST_BYTES:
            self._begin()
            self._is_gone = True
            return 1
        if self._earlier is not None:
            self._purge()
            return 1
        return 0

    def keep(self) -> Path:
        """Copies the file to a place where it stays, and names it."""
        to = home_part("faults") / f"{self._datadir.parent.name}-{self._position}.binlog"
        shutil.copyfile(self._file, to)
        return to

    def _now(self) -> tuple[Path, int]:
        session = self._session
        words = "BINARY LOG" if session.is_mysql and session.identity.version >= (8, 2) else "MASTER"
        name, position, *_ = session.ask(f"SHOW {words} STATUS")[0]
        return self._datadir / name, int(position)

    def _begin(self) -> None:
        self._earlier = self._file
        self._session.ask("FLUSH BINARY LOGS")
        self._file, self._position = self._now()
        self._purge()

    def _purge(self) -> None:
        """Removes earlier files; MariaDB keeps them until InnoDB has synced its own, which takes a second."""
        self._session.ask(f"PURGE BINARY LOGS TO '{self._file.name}'")
        if self._earlier is not None and not self._earlier.exists():
            self._earlier = None
