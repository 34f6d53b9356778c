"""Made tables: those that flushlab makes on a server that is not its own, and what proves that they are.

Server layer. Each table has a mark from its first instant, a comment that nobody can guess; without it none
is dropped, whatever its name is. Before the first one is made the mark is written down (`journal`), with how
to reach the server; the next flushlab drops what a killed one has left. A database has no such mark: one that
flushlab made goes if nothing is left in it, after a kill only if a marked table was in it just now.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from flushlab.errors import FlushlabError, ServerError
from flushlab.machine import state
from flushlab.progress import Progress
from flushlab.server.control import StatementFailed
from flushlab.server.remote import journal
from flushlab.server.remote.journal import ANSWER_S, CONNECT_S, await_answer
from flushlab.server.remote.login import Address
from flushlab.server.remote.server import RemoteGroup, RemoteServer
from flushlab.server.sql import Query, quoted

FOLDER = "made-tables"
_THERE = 1007  # ER_DB_CREATE_EXISTS
_RUNNING_LIMIT_S = 60.0
_LOCK_S = 60
_POLL_S = 0.05


class _Written(journal.JournalEntry, frozen=True, kw_only=True):
    addresses: tuple[Address, ...]
    database: str
    mark: str
    database_made: bool = False

    @property
    def by_hand(self) -> str:
        return f"by hand: drop the tables in {self.database} whose comment is {self.mark!r}"


class MadeTables:
    def __init__(self, server: RemoteGroup, database: str) -> None:
        self._server = server
        self._written = _Written(
            **journal.this_author(),
            addresses=tuple(node.address for node in server.nodes),
            database=database,
            mark=f"made and dropped by flushlab run {secrets.token_hex(16)}",
        )
        self._path: Path | None = None

    @property
    def names(self) -> list[str]:
        return _marked(self._server.query, self._written)

    def begin(self) -> None:
        path = state() / FOLDER / f"{secrets.token_hex(8)}.json"
        why = "nothing was made; without that file nobody would drop what a killed flushlab has left"
        journal.write(path, self._written, new=True, without=why)
        self._path = path
        database = self._written.database
        if not _is_there(self._server.query, database):
            try:
                self._server.query(f"CREATE DATABASE {quoted(database)}")
            except StatementFailed as error:
                if error.errno != _THERE:
                    raise
            else:
                self._written = msgspec.structs.replace(self._written, database_made=True)
                journal.write(path, self._written, new=False, without=why)
        self._server.mark = self._written.mark

    def drop(self, say: Progress) -> None:
        self._server.mark = ""
        if self._path is None:
            return
        try:
            with self._server.losing_nodes():
                await_answer(self._server.query, self._server.name, say)
                _drop(self._server.query, self._written, after_a_kill=False)
        except ServerError as error:
            say(_not_yet(self._written, error))
        else:
            self._path.unlink(missing_ok=True)
            self._path = None


@contextmanager
def made_tables(server: RemoteGroup, database: str, say: Progress) -> Iterator[MadeTables]:
    made = MadeTables(server, database)
    try:
        made.begin()
        yield made
    finally:
        made.drop(say)


def drop_left(say: Progress) -> None:
    for path, written in journal.left_entries(FOLDER, _Written, say):
        try:
            with ExitStack() as stack:
                server = _first_that_answers(written.addresses, stack)
                if dropped := _drop(server.query, written, after_a_kill=True):
                    say(f"{server.address.name}: dropped what an interrupted flushlab had made: {dropped}")
        except FlushlabError as error:  # such as certificates that are gone
            say(f"{_not_yet(written, error)}. If that server is gone, remove {path}")
            continue
        path.unlink(missing_ok=True)


def _first_that_answers(addresses: Sequence[Address], stack: ExitStack) -> RemoteServer:
    for address in addresses[:-1]:
        with suppress(FlushlabError):
            return stack.enter_context(RemoteServer(address, connect_s=CONNECT_S))
    return stack.enter_context(RemoteServer(addresses[-1], connect_s=CONNECT_S))


def _drop(unbounded: Query, written: _Written, *, after_a_kill: bool) -> str:
    query, database = partial(unbounded, answer_s=ANSWER_S), written.database
    query(f"SET SESSION lock_wait_timeout = {_LOCK_S}")  # somebody may read a table, for hours
    if len(written.addresses) > 1:  # a node that has not applied the CREATE yet would show no table
        query("SET SESSION wsrep_sync_wait = 7")
    _await_statements(query, written.mark)
    names = _marked(query, written)
    for name in names:
        query(f"DROP TABLE IF EXISTS {quoted(database, name)}")
    gone = [f"{database}.{name}" for name in names]
    if written.database_made and (names or not after_a_kill) and _is_empty(query, database):
        query(f"DROP DATABASE IF EXISTS {quoted(database)}")
        gone.append(f"the database {database}")
    return ", ".join(gone)


def _await_statements(query: Query, mark: str) -> None:
    """Waits until no CREATE TABLE with the mark runs: that of a client that is gone goes on, and would make
    its table after everybody has looked."""
    ((own,),) = query("SELECT CONNECTION_ID()")
    deadline = time.monotonic() + _RUNNING_LIMIT_S
    while any(mark in str(row) for row in query("SHOW FULL PROCESSLIST") if row[0] != own):
        if time.monotonic() > deadline:
            raise ServerError("it is still making a table")
        time.sleep(_POLL_S)


def _marked(query: Query, written: _Written) -> list[str]:
    rows = query(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_comment = %s",
        (written.database, written.mark),
    )
    return sorted(str(name) for (name,) in rows)


def _is_empty(query: Query, database: str) -> bool:
    inside = ("tables WHERE table_schema", "routines WHERE routine_schema", "events WHERE event_schema")
    return _is_there(query, database) and not any(
        query(f"SELECT 1 FROM information_schema.{what} = %s LIMIT 1", (database,)) for what in inside
    )


def _is_there(query: Query, database: str) -> bool:
    return bool(query("SHOW DATABASES WHERE `Database` = %s", (database,)))


def _not_yet(written: _Written, error: FlushlabError) -> str:
    return (
        f"warning: tables in {written.database} could not be dropped: {error.message}. The next flushlab"
        f" command tries again; {written.by_hand}"
    )
