"""Survey: what a dump is, found by reading it through before any server is started, and remembered.

Sits in `dataset`. It yields the digest by which its snapshot is found again, its databases, and the accounts
that its views, routines and triggers name. A script (not the files of mydumper and MySQL Shell) is split into
statements: those that name databases, and the client's `source`, are found wherever they stand. A script may
read files of its own folder only.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
import zstandard

from flushlab import _core, atomic
from flushlab.errors import DumpRefused, StorageError
from flushlab.machine import home_path
from flushlab.server.sql import is_system
from flushlab.settings.words import find_words

PIECE_BYTES = 1 << 20
_COMPRESSED_BYTES = 64 << 10
"""Read at once of what may become a thousand times as large."""


class _Told:
    def __init__(self, raw: IO[bytes], told: Callable[[bytes], None]) -> None:
        self._raw = raw
        self._told = told

    def read(self, size: int = -1) -> bytes:
        piece = self._raw.read(size)
        self._told(piece)
        return piece


def pieces(path: Path, read: Callable[[bytes], None] = lambda _: None) -> Iterator[bytes]:
    """The file's content in pieces; `read` gets the file's own bytes, compressed as they are, all by the
    end."""
    try:
        with path.open("rb") as raw:
            head = raw.read(8)
            raw.seek(0)
            way = next((way for magic, way in _WAYS if head.startswith(magic)), _plain)
            yield from way(_Told(raw, read))
    except (EOFError, zlib.error, zstandard.ZstdError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise StorageError(
            f"{path} is cut off or damaged: {error}", hint="make the dump again, or copy the whole file"
        ) from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error


def _plain(raw: _Told) -> Iterator[bytes]:
    while piece := raw.read(PIECE_BYTES):
        yield piece


def _zstd(raw: _Told) -> Iterator[bytes]:
    """Frame by frame: the library's own reader takes a file that ends within one for whole."""
    frame = zstandard.ZstdDecompressor().decompressobj()
    rest = b""
    while piece := rest or raw.read(_COMPRESSED_BYTES):
        if frame.eof:
            frame = zstandard.ZstdDecompressor().decompressobj()
        if found := frame.decompress(piece):
            yield found
        rest = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise EOFError("the file ends within a frame")


def _by(module: Any) -> Callable[[_Told], Iterator[bytes]]:
    def read(raw: _Told) -> Iterator[bytes]:
        with module.open(raw, "rb") as stream:
            yield from _plain(stream)

    return read


_WAYS: tuple[tuple[bytes, Callable[[_Told], Iterator[bytes]]], ...] = (
    (b"\x1f\x8b", _by(gzip)),
    (b"\x28\xb5\x2f\xfd", _zstd),
    (b"\xfd7zXZ\x00", _by(lzma)),
    (b"BZh", _by(bz2)),
)


FORMAT = "4"
"""Raise this when a survey finds more."""

MOST_FILES, DEEPEST = 1000, 16
"""Files that a script may read, and how deep one may lie in others."""

_OVERLAP_BYTES = 512
_HEAD_BYTES = 8 << 10
_DEFINER = re.compile(rb"DEFINER\s*=\s*`((?:[^`\n]|``)*)`@`((?:[^`\n]|``)*)`")
_OUTSIDE = re.compile(
    rb"(?:DATA|INDEX)\s+DIRECTORY\s*=?\s*'(?!')[^'\n]*'|ADD\s+DATAFILE\s+'/[^'\n]*'", re.IGNORECASE
)
"""In a value of a row the quotes would be escaped."""

_OUTSIDE_WORDS = (b"DIRECTORY", b"directory", b"DATAFILE", b"datafile")
_SAMPLE_BYTES = 1 << 20
_SAMPLE_OF_FILE_BYTES = 64 << 10
"""Of its SQL, in which words are looked for that only some servers have."""
_TOOL = re.compile(r"^-- (MySQL|MariaDB) dump [\d.]+[- ]+(?:Distrib )?([\d.]+)([^\n,]*)", re.MULTILINE)
_SERVER = re.compile(
    r"^(?:--|#) Server version:?\s+(\S+)"  # mysqldump
    r"|^-- Adminer \S+ (?:MySQL|MariaDB) (\S+) dump"
    r"|^\s*Source Server Version\s*: \d+ \(([^)\s]+)"  # Navicat 16
    r"|^(?:MySQL|MariaDB) - (\S+) : Database",  # SQLyog
    re.MULTILINE,
)
_NAVICAT = re.compile(r"^\s*Source Server Version\s*: (\d{5,6})\s*$", re.MULTILINE)
_HEADER_DATABASE = re.compile(
    r"^-- Host: .*?Database: (\S+)\s*$"  # mysqldump
    r"|^-- Database: ([^`\s]+|`(?:[^`\n]|``)+`)\s*$"  # TablePlus, phpMyAdmin
    r"|^\s*Source (?:Schema|Database)\s*: (\S+)\s*$|^(?:MySQL|MariaDB) - \S+ : Database - (\S+)",
    re.MULTILINE,
)
_LABELLED = re.compile(r"^(?:--|#)\s+([^:：`\n]+?)\s*[:：]\s*(.*?)\s*$", re.MULTILINE)
"""A line of a client's header, whose label is in the user's language."""
_OWN_VERSION = re.compile(r"PHP|HeidiSQL")
"""In the label of phpMyAdmin's and HeidiSQL's own versions, in every language, behind the server's."""
_VERSION = re.compile(r"\d+\.\d+\.\d+(?!\.\d)\S*")
_QUOTED_NAME = re.compile(r"`(?:[^`]|``)+`")
_SEQUEL = re.compile(r"^# [^\n]*\((?:MySQL|MariaDB) (\S+)\)\s*\n# [^\n:：]*[:：]\s*(\S+)\s*$", re.MULTILINE)
"""Sequel Ace and Sequel Pro, in the user's language: the server, then the database."""

_COMPLETE = b"-- Dump completed"


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a script reads, as it was: size, time and inode."""

    path: str
    state: tuple[int, int, int]

    @property
    def stands(self) -> bool:
        try:
            return _state(Path(self.path)) == self.state
        except OSError:
            return False


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a dump.

    Attributes:
        digest: SHA-256 of its content; what its snapshot depends on.
        bytes: of its files, compressed as they are.
        sql_bytes: of what is in them.
        databases: those that its statements use or create, in their order, without the server's own.
        created: of these, those that it creates.
        begins_in: the database of the statements before the first USE, if there are any, by its header.
        named: the database that its header gives.
        definers: accounts that its views, routines, triggers and events run as: user and host.
        origin: the server that it comes from, as `MySQL 8.0.36`; empty if it does not say.
        cut_off: the file, if it says that a dump tool began it, and not that it was completed.
        kinds: of its statements, as CREATE TABLE.
        followed: files that it reads.
        words: in it that only some servers take, by their `says`.
    """

    digest: str
    bytes: int
    sql_bytes: int
    databases: tuple[str, ...]
    created: tuple[str, ...] = ()
    begins_in: str | None = None
    named: str = ""
    definers: tuple[tuple[str, str], ...] = ()
    origin: str = ""
    cut_off: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    followed: tuple[Followed, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def all_databases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*([self.begins_in] if self.begins_in else ()), *self.databases)))


class _Reader:
    def __init__(self) -> None:
        self.definers: dict[tuple[str, str], None] = {}
        self.outside = ""
        self.sql_bytes = 0
        self.head = b""
        self.sample = b""
        self._tail = b"\n"

    def begin(self, piece: bytes) -> None:
        if len(self.sample) < _SAMPLE_BYTES:
            self.sample += piece[:_SAMPLE_OF_FILE_BYTES] + b"\n"

    def read(self, piece: bytes) -> None:
        self.sql_bytes += len(piece)
        if len(self.head) < _HEAD_BYTES:
            self.head += piece[:_HEAD_BYTES]
        text = self._tail + piece
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
        return _COMPLETE in self._tail or not _TOOL.search(self.head.decode(errors="replace"))


def survey(
    path: Path,
    files: Iterable[Path],
    look: Callable[[Survey], Survey] = lambda found: found,
    *,
    sql: Callable[[Path], bool] = lambda _: True,
    within: Path | None = None,
) -> Survey:
    files = sorted(files)
    stats = [(str(file), *_state(file)) for file in files]
    name = f"{hashlib.sha256(repr((FORMAT, stats)).encode()).hexdigest()[:32]}.json"
    memory = home_path() / "surveys" / name
    try:
        known = msgspec.json.decode(memory.read_bytes(), type=Survey)
        if all(one.stands for one in known.followed):
            return known
    except (OSError, msgspec.DecodeError):
        pass  # never read, or by another version of flushlab
    found = look(_read(path, files, sql, within))
    if not home_path().is_dir():
        return found  # a dry run makes none
    memory.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(memory, msgspec.json.encode(found), mode=0o600)
    return found


def _read(path: Path, files: list[Path], sql: Callable[[Path], bool], within: Path | None) -> Survey:
    whole, reader, size = hashlib.sha256(), _Reader(), 0
    found = _Statements(within)
    reading = list(files)
    cut_off: tuple[str, ...] = ()
    for file in reading:  # which grows by those that it reads
        digest = hashlib.sha256()
        for number, piece in enumerate(pieces(file, digest.update)):
            if sql(file):
                reader.read(piece)
                if not number:
                    reader.begin(piece)
            found.read(file, piece)
        reader.read(b"\n")
        found.read(file, b"", last=True)
        reading += [one for one in found.sources.get(file.resolve(), ()) if one not in reading]
        size += file.stat().st_size
        alone = file in files and file == path
        name = "" if alone else str(file.relative_to(path if within is None else within))
        whole.update(f"{name} {digest.hexdigest()}\n".encode())
        if len(files) == 1 and file in files and not reader.completed:
            cut_off = (file.name,)
        if reader.outside:
            raise StorageError(
                f"{file} has the server write outside its data directory: {reader.outside}",
                hint="a sandbox keeps to its own files: remove that from the dump",
            )
    if within is not None:
        _require_end(files[0].resolve(), found.sources)
    named, origin = header(reader.head.decode(errors="replace"))
    begins_here = named and not is_system(named)
    databases = tuple(found.databases)
    return Survey(
        digest=whole.hexdigest(),
        bytes=size,
        sql_bytes=reader.sql_bytes,
        databases=databases,
        created=tuple(name for name, created in found.databases.items() if created),
        begins_in=named if databases and found.begins_within and begins_here else None,
        named=named,
        definers=tuple(reader.definers),
        origin=origin,
        cut_off=cut_off,
        kinds=tuple(sorted(found.kinds)),
        followed=tuple(Followed(path=str(one), state=_state(one)) for one in reading[len(files) :]),
        words=tuple(word.says for word in find_words(reader.sample.decode(errors="replace"))),
    )


class _Statements:
    def __init__(self, within: Path | None) -> None:
        self._within = within
        self._script: _core.ScriptSurvey | None = None
        self.sources: dict[Path, list[Path]] = {}
        self.databases: dict[str, bool] = {}
        self.kinds: set[str] = set()
        self.begins_within = False

    def read(self, file: Path, piece: bytes, *, last: bool = False) -> None:
        if self._within is None:
            return
        self._script = self._script or _core.ScriptSurvey()
        try:
            for line, name in self._script.feed(piece, last):
                inner = sourced(self._within, file.resolve(), line, name)
                self.sources.setdefault(file.resolve(), []).append(inner)
        except _core.CoreError as error:
            raise unreadable(file.name, error) from error
        if last:
            found = msgspec.json.decode(self._script.findings())
            self.begins_within |= found["begins_within"] and not self.databases
            for one in found["databases"]:
                if not is_system(one["database"]):
                    self.databases[one["database"]] = one["created"] or self.databases.get(
                        one["database"], False
                    )
            self.kinds.update(found["kinds"])
            self._script = None


def header(head: str) -> tuple[str, str]:
    if sequel := _SEQUEL.search(head):
        return sequel[2], origin_of(sequel[1])
    tool, server, number = _TOOL.search(head), _SERVER.search(head), _NAVICAT.search(head)
    found = _HEADER_DATABASE.search(head)
    named, version = _unquoted(found[found.lastindex or 0]) if found else "", ""
    fields = [(match[1], match[2]) for match in _LABELLED.finditer(head)]
    own = next((at for at, (label, _) in enumerate(fields) if _OWN_VERSION.search(label)), 0)
    versions = [match[0] for _, value in fields[:own] if (match := _VERSION.match(value))]
    if versions:
        quoted = (value for _, value in fields[own:] if _QUOTED_NAME.fullmatch(value))
        named, version = named or _unquoted(next(quoted, "")), versions[-1]
    elif server:
        version = server[server.lastindex or 0]
    elif number:
        version = f"{number[1][:-4]}.{int(number[1][-4:-2])}.{int(number[1][-2:])}"
        version += "-MariaDB" if len(number[1]) > 5 else ""
    elif tool:
        version = f"{tool[2]}{tool[3]}{tool[1]}"
    return named, origin_of(version)


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def origin_of(version: str) -> str:
    flavor = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    bare = version.removeprefix("5.5.5-") if flavor == "MariaDB" else version
    return f"{flavor} {bare.partition('-')[0]}" if version else ""


def sourced(folder: Path, by: Path, line: int, name: str) -> Path:
    """The file that `source NAME` is for: beside the script, or beside the file `by` with the command; a
    StorageError if it is not in the script's folder."""
    where = f"{by}, line {line}: source {name}"
    if Path(name).is_absolute():
        raise StorageError(
            f"{where} has an absolute path", hint=f"copy the file into {folder}, and write its name alone"
        )
    for candidate in (folder / name, by.parent / name):
        file = candidate.resolve()
        if not file.is_relative_to(folder):
            raise StorageError(
                f"{where} leads out of the dump's folder",
                hint=f"copy the file into {folder}: no other is read",
            )
        if file.is_file():
            return file
    raise StorageError(f"{where}: there is no {folder / name}", hint="copy it to where the dump is")


def unreadable(name: str, error: _core.CoreError) -> DumpRefused:
    hint = error.hint or "the dump is cut off or damaged: make it again"
    return DumpRefused(f"{name}, {error.message}", hint=hint)


def _require_end(file: Path, sources: Mapping[Path, Sequence[Path]]) -> None:
    files: dict[Path, tuple[int, int]] = {}

    def look(at: Path, chain: tuple[Path, ...]) -> tuple[int, int]:
        if at in chain:
            raise StorageError(
                f"{chain[-1]} reads {at}, which is being read", hint="remove that source command"
            )
        if at not in files:
            inner = [look(one, (*chain, at)) for one in sources.get(at, ())]
            count = 1 + sum(count for count, _ in inner)
            files[at] = count, 1 + max((height for _, height in inner), default=0)
        count, height = files[at]
        if count > MOST_FILES or height > DEEPEST:
            raise StorageError(
                f"{file} reads more than {MOST_FILES} files, or one within {DEEPEST} others",
                hint="give a script that reads fewer",
            )
        return count, height

    look(file, ())


def _found(text: bytes, wanted: bytes) -> Iterable[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + len(wanted))


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace").replace("``", "`")


def _state(file: Path) -> tuple[int, int, int]:
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ino
