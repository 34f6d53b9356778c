"""Survey: what a dump is, found by reading it through before any server is started, and remembered.

Sits in `dataset`. It yields the digest by which its snapshot is found again, its databases, and the accounts
that its views, routines and triggers name. Lines are looked for as the dump tools write them; what a search
at the speed of the disk cannot see (a USE in the middle of a line) shows when the dump is loaded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from flushlab import atomic
from flushlab.dataset.pieces import pieces
from flushlab.errors import StorageError
from flushlab.machine import home_path
from flushlab.record import Value
from flushlab.server.databases import is_system

FORMAT = "2"
"""Raise this when a survey finds more."""

_OVERLAP_BYTES = 512
_HEAD_BYTES = 8 << 10
_NAME = rb"(?:`((?:[^`\n]|``)+)`|([A-Za-z0-9_$]+)(?=[^A-Za-z0-9_$]))"
_DATABASE = re.compile(
    rb"(?:USE\s+|CREATE\s+(?:DATABASE|SCHEMA)\s+(?:/\*!\d+\s+)?(?:IF\s+NOT\s+EXISTS\s*)?(?:\*/\s*)?)" + _NAME,
    re.IGNORECASE,
)
_STARTS = (b"USE ", b"use ", b"CREATE DATABASE ", b"create database ", b"CREATE SCHEMA ")
_DEFINER = re.compile(rb"DEFINER\s*=\s*`((?:[^`\n]|``)*)`@`((?:[^`\n]|``)*)`")
_OUTSIDE = re.compile(
    rb"(?:DATA|INDEX)\s+DIRECTORY\s*=?\s*'(?!')[^'\n]*'|ADD\s+DATAFILE\s+'/[^'\n]*'", re.IGNORECASE
)
"""In a value of a row the quotes would be escaped."""

_OUTSIDE_WORDS = (b"DIRECTORY", b"directory", b"DATAFILE", b"datafile")
_TOOL = re.compile(rb"^-- (MySQL|MariaDB) dump [\d.]+[- ]+(?:Distrib )?([\d.]+)([^\n,]*)", re.MULTILINE)
_SERVER = re.compile(rb"^-- Server version\s+(\S+)", re.MULTILINE)
_HEADER_DATABASE = re.compile(rb"^-- Host: .*?Database: (\S+)\s*$", re.MULTILINE)
_COMPLETE = b"-- Dump completed"


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """What a dump holds.

    Attributes:
        digest: SHA-256 of its content; what its snapshot depends on.
        bytes: of its files, compressed as they are.
        sql_bytes: of what is in them.
        databases: in their order, without the server's own.
        named: the database that its header or its file's name gives, for a dump that names none itself.
        definers: accounts that its views, routines, triggers and events run as: user and host.
        origin: the server that it comes from, as `MySQL 8.0.36`; empty if it does not say.
        cut_off: it says that a dump tool began it, and not that it was completed.
    """

    digest: str
    bytes: int
    sql_bytes: int
    databases: tuple[str, ...]
    named: str = ""
    definers: tuple[tuple[str, str], ...] = ()
    origin: str = ""
    cut_off: bool = False


class Dataset(Protocol):
    """The user's data, in whatever form."""

    @property
    def path(self) -> str:
        """Absolute."""
        ...

    @property
    def files(self) -> tuple[Path, ...]:
        """What it consists of."""
        ...

    @property
    def databases(self) -> tuple[str, ...]:
        """Those that it holds, without the server's own; the one that it is for, if it names none itself.

        Raises:
            StorageError: it cannot be read.
        """
        ...

    @property
    def key(self) -> Mapping[str, str]:
        """Changes with what is in it.

        Raises:
            StorageError: it cannot be read.
        """
        ...

    @property
    def takes_any(self) -> bool:
        """It names no database itself, so it can be loaded into any."""
        ...

    def settings(self) -> dict[str, Value]:
        """Settings that it brings along.

        Raises:
            StorageError: it cannot be read.
        """
        ...


class Reader:
    """Gathers what is known of SQL as it is read."""

    def __init__(self) -> None:
        self.databases: dict[str, None] = {}
        self.definers: dict[tuple[str, str], None] = {}
        self.outside = ""
        """Where it has a server write outside its data directory; the first."""
        self.sql_bytes = 0
        self.head = b""
        self._tail = b"\n"

    def read(self, piece: bytes) -> None:
        """The next piece."""
        self.sql_bytes += len(piece)
        if len(self.head) < _HEAD_BYTES:
            self.head += piece[:_HEAD_BYTES]
        text = self._tail + piece
        for start in _STARTS:
            for at in _found(text, b"\n" + start):
                if named := _DATABASE.match(text, at + 1):
                    self.databases.setdefault(_unquoted(named))
        for at in _found(text, b"DEFINER"):
            if account := _DEFINER.match(text, at):
                user, host = (_text(part) for part in account.groups())
                self.definers.setdefault((user, host))
        for at in (at for word in _OUTSIDE_WORDS for at in _found(text, word)):
            if not self.outside and (place := _OUTSIDE.search(text, max(0, at - 16), at + _OVERLAP_BYTES)):
                self.outside = _text(place[0])
        self._tail = text[-_OVERLAP_BYTES:]

    @property
    def completed(self) -> bool:
        """Whether the tool that made it says that it came to its end."""
        return _COMPLETE in self._tail or not _TOOL.search(self.head)


def survey(
    path: Path,
    files: Iterable[Path],
    look: Callable[[Survey], Survey] = lambda found: found,
    *,
    sql: Callable[[Path], bool] = lambda _: True,
) -> Survey:
    """Reads a dump through, unless it has been read before and has not changed since.

    Args:
        path: the dump.
        files: of it.
        look: adds what the kind of dump knows by itself.
        sql: whether a file holds SQL.

    Raises:
        StorageError: it cannot be read.
    """
    files = sorted(files)
    stats = [(str(file), *_state(file)) for file in files]
    name = f"{hashlib.sha256(repr((FORMAT, stats)).encode()).hexdigest()[:32]}.json"
    memory = home_path() / "surveys" / name
    try:
        return msgspec.json.decode(memory.read_bytes(), type=Survey)
    except (OSError, msgspec.DecodeError):
        pass  # never read, or by another version of flushlab
    found = look(_read(path, files, sql))
    if not home_path().is_dir():
        return found  # a dry run makes none
    memory.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(memory, msgspec.json.encode(found), mode=0o600)
    return found


def _read(path: Path, files: list[Path], sql: Callable[[Path], bool]) -> Survey:
    whole, reader, size = hashlib.sha256(), Reader(), 0
    for file in files:
        digest = hashlib.sha256()
        for piece in pieces(file, digest.update):
            if sql(file):
                reader.read(piece)
        reader.read(b"\n")
        size += file.stat().st_size
        name = str(file.relative_to(path)) if file != path else ""
        whole.update(f"{name} {digest.hexdigest()}\n".encode())
        if reader.outside:
            raise StorageError(
                f"{file} has the server write outside its data directory: {reader.outside}",
                hint="a sandbox keeps to its own files: remove that from the dump",
            )
    tool, server = _TOOL.search(reader.head), _SERVER.search(reader.head)
    version = server[1] if server else b"".join(tool.group(2, 3, 1)) if tool else b""
    flavor = "MariaDB" if b"mariadb" in version.lower() else "MySQL"
    origin = f"{flavor} {_text(version.partition(b'-')[0])}" if version else ""
    header = _HEADER_DATABASE.search(reader.head)
    return Survey(
        digest=whole.hexdigest(),
        bytes=size,
        sql_bytes=reader.sql_bytes,
        databases=tuple(name for name in reader.databases if not is_system(name)),
        named=_text(header[1]) if header else "",
        definers=tuple(reader.definers),
        origin=origin,
        cut_off=len(files) == 1 and not reader.completed,
    )


def _found(text: bytes, wanted: bytes) -> Iterable[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + len(wanted))


def _unquoted(named: re.Match[bytes]) -> str:
    return _text(named[1]) if named[1] is not None else _text(named[2])


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace").replace("``", "`")


def _state(file: Path) -> tuple[int, int, int]:
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ino
