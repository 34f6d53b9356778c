"""Filling: a dump on its way into a server.

Sits in `dataset`. The native core splits and sends the statements while the next piece is read and
decompressed. Reasons against the servers' clients:

- The builds of MySQL 5.7 and 8.0 bring no client.
- A client waits for the server between reading and sending.
- A client's messages name lines, not statements.

The splitter obeys DELIMITER and leaves conditional comments to the server, as the clients do. A statement
that fails is tried once.

Statements that would reach beyond a sandbox, or change the server itself, are left out and reported:
replication, plugins, accounts, global variables, and the server's own databases.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import msgspec
import pymysql

from flushlab import _core
from flushlab.build.choice import of_release, of_word, other, spelled
from flushlab.dataset.survey import Survey, pieces, sourced, unreadable
from flushlab.errors import DumpRefused, FlushlabError, HarnessError, ProtocolError, ServerError
from flushlab.machine import cpu_count
from flushlab.progress import Progress
from flushlab.record import ServerIdentity, StreamProgress, StreamSpec
from flushlab.server import Server
from flushlab.server.control import connect, explain
from flushlab.server.sql import SYSTEM_DATABASES, quoted
from flushlab.settings.words import find_words, load_words
from flushlab.units import counted, format_seconds, format_size

LEFT_OUT = (
    *("CHANGE MASTER", "CHANGE REPLICATION", "START SLAVE", "START REPLICA", "START GROUP_REPLICATION"),
    *("RESET MASTER", "RESET SLAVE", "RESET REPLICA", "RESET BINARY", "PURGE BINARY", "PURGE MASTER"),
    *("SET GLOBAL", "SET PERSIST", "SET PERSIST_ONLY", "INSTALL", "UNINSTALL", "CREATE SERVER", "SHUTDOWN"),
    *("CREATE USER", "ALTER USER", "DROP USER", "CREATE ROLE", "SET DEFAULT", "SET PASSWORD"),
    *("GRANT", "REVOKE", "CREATE LOGFILE", "CREATE UNDO", "FLUSH PRIVILEGES"),
)
"""Beginnings of statements. `SET @@GLOBAL.GTID_PURGED = …` is a `SET GLOBAL`."""

_MODES: dict[str, list[tuple[tuple[int, ...], tuple[str, ...]]]] = {
    "mysql": [
        ((), ("IGNORE_BAD_TABLE_OPTIONS", "EMPTY_STRING_IS_NULL", "SIMULTANEOUS_ASSIGNMENT")),
        ((), ("TIME_ROUND_FRACTIONAL",)),
        ((8, 0), ("NO_AUTO_CREATE_USER", "DB2", "MAXDB", "MSSQL", "MYSQL323", "MYSQL40", "ORACLE")),
        ((8, 0), ("POSTGRESQL", "NO_FIELD_OPTIONS", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS")),
    ],
    "mariadb": [((), ("TIME_TRUNCATE_FRACTIONAL",))],
}
"""SQL modes that a flavor does not know, from that version on. Dumps of routines and triggers set them."""

LATE_INDEXES_FROM_BYTES = 2 << 20
"""Of a table's rows: below, dropping its indexes and building them by sorting takes longer than it saves."""
_QUOTED = re.compile(r"'([^']*)'")
_HINTS: dict[int, str] = {
    **dict.fromkeys(
        (1044, 1142, 1227), "the account may not do this in a sandbox: remove the statement from the dump"
    ),
    1100: "its LOCK TABLES leaves out a table or sequence that the rows need: make it with --skip-add-locks",
    1046: "the dump does not say which database: make it with mysqldump --databases NAME",
    1049: "the dump uses a database that it does not create: make it with mysqldump --databases NAME",
    1153: "a statement is larger than 1 GiB: make the dump with --max-allowed-packet=64M",
    2006: "a statement is larger than 1 GiB: make the dump with --max-allowed-packet=64M",
    1449: "an account that a view, routine or trigger runs as is missing: make the dump with --skip-definer"
    " (mysqlpump) or remove DEFINER=… from it",
    1114: "the disk is full, or a table in memory is: choose another place with --data-root",
    1021: "the disk is full: choose another place with --data-root",
    1286: "that storage engine is not in this build: change ENGINE in the dump, or choose another --server",
    1071: "its row format has shorter keys: give the dump's own server with --server",
    1118: "its row format has shorter rows: give the dump's own server with --server",
    3105: "mariadb-dump writes values of MySQL's generated columns: make the dump with MySQL's own mysqldump",
    1062: "rows are there twice: the dump was not consistent (use --single-transaction), or is two in one",
}
_SYNTAX = 1064  # ER_PARSE_ERROR
_OTHER_SERVER = {_SYNTAX, 1101, 1115, 1193, 1231, 1273, 1305, 1901, 1911, 3102, 3135, 3763, 3988, 4161}
"""Syntax, types, character sets, variables and functions that another version or flavor has."""
_SAY_EVERY_S = 10.0
_WORKERS = 4
T = TypeVar("T")


class Filling:
    def __init__(self, server: Server, survey: Survey, database: str, say: Progress, path: str) -> None:
        self._server = server
        self._survey = survey
        self._say = say
        self._path = path
        self.database = database
        self.left_out: dict[str, int] = {}
        self._read = 0
        self._began = self._said = time.monotonic()
        self._turn = threading.Lock()
        self._stopped = threading.Event()

    def read(self, piece: bytes) -> None:
        with self._turn:
            self._read += len(piece)
            now = time.monotonic()
            if now - self._said < _SAY_EVERY_S or not self._read:
                return
            self._said = now
            share = min(1.0, self._read / max(1, self._survey.bytes))
            rate = self._read / (now - self._began)
            left = (self._survey.bytes - self._read) / rate
            self._say(
                f"loading: {share:.0%} of {format_size(self._survey.bytes)}, {format_size(rate)}/s,"
                f" about {format_seconds(max(0.0, left))} left"
            )

    def create(self, database: str) -> None:
        self._server.query(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")

    def create_definers(self) -> None:
        if not self._survey.definers:
            return
        known = {
            (str(user), str(host)) for user, host in self._server.query("SELECT User, Host FROM mysql.user")
        }
        for user, host in self._survey.definers:
            if (user, host) not in known and user:
                account = f"'{_escaped(user)}'@'{_escaped(host)}'"
                self._server.query(f"CREATE USER {account} ACCOUNT LOCK")
                self._server.query(f"GRANT ALL PRIVILEGES ON *.* TO {account}")

    def be_lenient(self, *more: str) -> None:
        """Lets new connections load the files of a consistent dump in any order; `more` are assignments of
        variables that the files take for granted."""
        for setting in ("foreign_key_checks = 0", "unique_checks = 0", *more):
            self._server.query(f"SET GLOBAL {setting}")

    def run(
        self,
        sql: Iterable[bytes],
        name: str,
        *,
        database: str | None,
        alone: bool = False,
        script: Path | None = None,
        followed: Collection[Path] = (),
    ) -> None:
        if database is not None:
            self.create(database)
        identity = self._server.identity
        modes = [
            mode for since, words in _MODES[identity.flavor] if identity.version >= since for mode in words
        ]
        spec = StreamSpec(
            endpoint=self._server.endpoint,
            database=database,
            leave_out=LEFT_OUT,
            leave_out_databases=SYSTEM_DATABASES,
            leave_out_modes=tuple(modes),
            late_indexes_from_bytes=LATE_INDEXES_FROM_BYTES,
            connections=min(_WORKERS, cpu_count()) if alone else 1,
        )
        try:
            stream = _core.ScriptStream(msgspec.json.encode(spec))
            meanwhile = partial(self._tell_of_indexes, stream)
            try:
                if self._feed(stream, sql, _Reads(script, followed), meanwhile):
                    stream.finish(meanwhile)
            finally:
                stream.stop()
                self._count(msgspec.json.decode(stream.progress(), type=StreamProgress))
        except _core.CoreError as error:
            raise self._failed(error, name) from error

    def _feed(
        self, stream: _core.ScriptStream, sql: Iterable[bytes], reads: _Reads, meanwhile: Callable[[], None]
    ) -> bool:
        for piece, last in chain(((piece, False) for piece in sql), [(b"", True)]):
            source = stream.feed(piece, last, meanwhile)
            while source is not None:
                inner = reads.file(*source)
                stream.enter(inner.name)
                if not self._feed(
                    stream, pieces(inner, self.read), _Reads(inner, reads.followed, reads.folder), meanwhile
                ):
                    return False
                source = stream.feed(b"", last, meanwhile)
            if self._stopped.is_set():
                return False
        return True

    def load_rows(self, rows: Iterable[bytes], name: str, into: str) -> None:
        source, sink = os.pipe()
        failure: list[Exception] = []
        writer = threading.Thread(target=_write, args=(sink, rows, failure, self._stopped), daemon=True)
        writer.start()
        try:
            with (
                connect(self._server.endpoint, "socket", local_infile=True) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(f"LOAD DATA LOCAL INFILE '/dev/fd/{source}' REPLACE {into}")
        except pymysql.MySQLError as error:
            errno, text = explain(error)
            if errno in (0, 2006, 2013):
                self._server.query("SELECT 1")  # raises ServerDied with the log's tail
            raise self._refused(f"{name}: ERROR {errno}: {text}", errno) from error
        finally:
            os.close(source)  # a writer that nobody reads from ends
            writer.join()
        if failure:
            raise failure[0]

    def each(self, items: Sequence[T], act: Callable[[T], None]) -> None:
        if not items:
            return
        with ThreadPoolExecutor(max_workers=min(_WORKERS, cpu_count(), len(items))) as pool:
            futures = [pool.submit(act, item) for item in items]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self._stopped.set()
                pool.shutdown(cancel_futures=True)
                raise

    def notes(self) -> Iterator[str]:
        def named(kind: str) -> str:
            found = sorted(rule.removeprefix(kind) for rule in self.left_out if rule.startswith(kind))
            return ", ".join(found)

        if outside := named("database "):
            yield f"{self._path}: left out the server's own databases ({outside})"
        told = ("database ", "client ", "statements in them", "sql_mode")
        rules = sorted(rule for rule in self.left_out if not rule.startswith(told))
        if rules:
            listed = ", ".join(f"{rule} ({self.left_out[rule]})" for rule in rules)
            yield f"{self._path}: left out statements about the server itself: {listed}"
        if commands := named("client "):
            yield f"{self._path}: left out commands of the client: {commands}"
        if count := self.left_out.get("sql_mode"):
            where = counted(count, "statement")
            yield f"{self._path}: left out SQL modes that {self._server.identity.name} lacks, in {where}"
        for name in self._survey.cut_off:
            yield f"{name}: does not end with '-- Dump completed'; it may be cut off"

    def _failed(self, error: _core.CoreError, name: str) -> Exception:
        if error.kind == "usage":
            return unreadable(name, error)
        if error.errno is None:
            if error.kind == "server":
                self._server.query("SELECT 1")  # raises ServerDied with the log's tail if it is gone
            kind = {"server": ServerError, "protocol": ProtocolError}.get(error.kind, HarnessError)
            return kind(f"{name}: {error.message}", hint=error.hint)
        return self._refused(f"{name}, {error.message}", error.errno)

    def _refused(self, said: str, errno: int) -> DumpRefused:
        return refused(said, errno, self._survey, self._server.identity)

    def _tell_of_indexes(self, stream: _core.ScriptStream) -> None:
        with self._turn:
            if time.monotonic() - self._said < _SAY_EVERY_S:
                return
            progress = msgspec.json.decode(stream.progress(), type=StreamProgress)
            if progress.building:
                self._said = time.monotonic()
                self._say(f"loading: building the indexes of {', '.join(progress.building)}")

    def _count(self, progress: StreamProgress) -> None:
        with self._turn:
            for rule, count in progress.left_out.items():
                self.left_out[rule] = self.left_out.get(rule, 0) + count


class _Reads:
    def __init__(self, by: Path | None, followed: Collection[Path], folder: Path | None = None) -> None:
        self._by = by.resolve() if by is not None else None
        self.followed = followed
        self.folder = folder or (self._by.parent if self._by is not None else None)

    def file(self, line: int, name: str) -> Path:
        if self._by is None or self.folder is None:
            raise DumpRefused(
                f"line {line}: source {name}", hint="remove the command: this dump has a folder"
            )
        found = sourced(self.folder, self._by, line, name)
        if found not in self.followed:
            raise DumpRefused(f"{self._by}, line {line}: {found} has come since the dump was looked at")
        return found


def _write(sink: int, rows: Iterable[bytes], failure: list[Exception], stopped: threading.Event) -> None:
    try:
        with os.fdopen(sink, "wb") as stream:
            for piece in rows:
                if stopped.is_set():
                    return
                stream.write(piece)
    except BrokenPipeError:
        pass  # the server took no more of it, and says why
    except (FlushlabError, OSError) as error:
        failure.append(error)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")


def refused(said: str, errno: int, survey: Survey, identity: ServerIdentity) -> DumpRefused:
    hint = _HINTS.get(errno, "fix the dump, or load it on the server that it comes from")
    if errno == _SYNTAX and survey.cut_off:
        hint = "it does not end with '-- Dump completed': if it was cut off, make it again or copy all of it"
    elif errno in _OTHER_SERVER:
        hint = _other_server(said, errno, survey, identity) or "correct the statement"
    return DumpRefused(said, hint=hint)


def _other_server(said: str, errno: int, survey: Survey, identity: ServerIdentity) -> str:
    message, _, statement = said.rpartition("\n")
    words = [*find_words(message or said, "message"), *find_words(statement)]
    words += [word for word in load_words() if word.says in survey.words]
    signs = [of_word("it", word) for word in {word.says: word for word in words}.values()]
    origin = [of_release("the dump", survey.origin)] if survey.origin else []
    ways = (
        [f"try --server {name}"]
        if (name := other([*origin, *signs], identity.flavor, identity.version))
        else []
    )
    if errno in (1273, 1115) and (wanted := _QUOTED.findall(said)):
        instead = "utf8mb4_unicode_520_ci" if errno == 1273 else "utf8mb4"
        ways.append(f"replace it in the dump: sed 's/{wanted[-1]}/{instead}/g'")
    here = f"{spelled(identity.flavor)} {'.'.join(map(str, identity.version[:2]))}"
    about = f"the dump is from {survey.origin}, this is {here}; " if survey.origin else ""
    return about + ", or ".join(ways) if ways else ""
