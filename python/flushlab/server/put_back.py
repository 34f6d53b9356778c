"""Put back: settings of a server that is not flushlab's, changed for a while.

Server layer. A file in flushlab's state folder has what is to be put back, and how to reach the server,
before the first change; it goes once all is as it was. A file whose flushlab is gone is carried out by the
next one. What somebody else has set meanwhile stays as it is; but not while settings change in turns, each of
which overwrites it anyway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.errors import ServerError, UsageError
from flushlab.machine import state
from flushlab.record import ServerIdentity, Value
from flushlab.server import journal
from flushlab.server.attached import Address, Attached
from flushlab.server.control import NOT_ALLOWED, StatementFailed
from flushlab.server.journal import CONNECT_S, Say
from flushlab.server.variables import set_variable
from flushlab.settings.configuration import Configuration, literal

FOLDER = "put-back"
_LOCK = "flushlab_tunes_this_server"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A global variable that has other values for a while.

    Attributes:
        name: of the variable.
        before: what it is put back to.
        during: its value meanwhile, the first of them.
        later: those that it may get afterwards.
    """

    name: str
    before: Value
    during: Value
    later: tuple[Value, ...] = ()


class _Written(journal.Entry, frozen=True, kw_only=True):
    """What the file holds."""

    address: Address
    changes: tuple[Change, ...]
    undo: tuple[str, ...]


class Changes:
    """Global variables of an attached server, changed until they are put back.

    Args:
        server: whose they are.
        wanted: names and values for a while, in turns if there are several; what has its value already is
            left out.
    """

    def __init__(self, server: Attached, *wanted: Mapping[str, Value]) -> None:
        self._server = server
        names = dict.fromkeys(name for one in wanted for name in one)
        before = server.read_back(names)
        same = Configuration({}, server.identity).same
        changes = []
        for name in names:
            values = [one[name] for one in wanted if name in one]
            others = [value for value in values if name in before and not same(name, before[name], value)]
            if others:
                first, *later = others
                changes.append(Change(name=name, before=before[name], during=first, later=tuple(later)))
        self._changes = tuple(changes)
        self._turns = len(wanted) > 1
        self._in_turns = False
        self._path: Path | None = None

    @property
    def before(self) -> dict[str, Value]:
        """The variables, as they were."""
        return {one.name: one.before for one in self._changes}

    @property
    def do(self) -> tuple[str, ...]:
        """The statements that make them."""
        return tuple(_statement(self._server.identity, one.name, one.during) for one in self._changes)

    @property
    def undo(self) -> tuple[str, ...]:
        """The statements that put all back."""
        return tuple(_statement(self._server.identity, one.name, one.before) for one in self._changes)

    @property
    def meanwhile(self) -> str:
        """The values that each variable has, in words."""
        words = []
        for one in self._changes:
            others = dict.fromkeys(map(str, (one.during, *one.later)))
            how = f"is {one.before} or {' or '.join(others)}, in turns" if self._turns else f"is {one.during}"
            words.append(f"{one.name} {how}")
        return "; ".join(words)

    @property
    def where(self) -> str:
        """The server, for people."""
        return self._server.address.name

    def make(self) -> None:
        """Writes down what is to be put back, and makes the changes.

        Raises:
            UsageError: another flushlab changes that server just now, or the account may not.
            NotWritable: it cannot be written down.
        """
        self._write_down()
        for change in self._changes:
            self._set(change.name, change.during)

    def announce(self) -> None:
        """Writes down what is to be put back, for changes that others make in turns; finds out whether the
        account may make them.

        Raises:
            UsageError, NotWritable: as `make`.
        """
        self._in_turns = True
        self._write_down()
        for change in self._changes:
            self._set(change.name, change.before)

    def _write_down(self) -> None:
        if not self._changes:
            return
        ((mine,),) = self._server.query("SELECT GET_LOCK(%s, 0)", (_LOCK,))
        path = _file(self._server.address)
        if mine != 1 or path.exists():
            raise UsageError(
                f"another flushlab has changed settings of {self._server.address.name} for a while",
                hint="wait until it ends" if mine != 1 else f"wait until it ends; else see {path}",
            )
        self._write(path)  # new, or an error: only then is it ours to remove
        self._path = path

    def _set(self, name: str, value: Value) -> None:
        try:
            set_variable(self._server.query, self._server.identity, name, value)
        except StatementFailed as error:
            if error.errno in NOT_ALLOWED:
                raise UsageError(
                    f"the account may not set {name}: {error.text}",
                    hint="it needs SUPER, or SYSTEM_VARIABLES_ADMIN on MySQL 8.0 and later; or leave out"
                    " --tune-server",
                ) from error
            raise

    def put_back(self, say: Say) -> None:
        """Puts all back, once; what is in the way is told, and left to the next flushlab."""
        if self._path is None:
            return
        try:
            _restore(self._server, self._changes, say, whatever_it_is=self._in_turns)
        except ServerError as error:
            say(_not_yet(self._server.address, self.undo, error))
        else:
            self._path.unlink(missing_ok=True)
            self._path = None

    def _write(self, path: Path) -> None:
        written = _Written(
            address=self._server.address, changes=self._changes, undo=self.undo, **journal.me()
        )
        why = "nothing was changed; without that file nobody could put it back"
        journal.write(path, written, new=True, without=why)


def put_back_left(say: Say) -> None:
    """Puts back what killed flushlabs have left; servers that do not answer keep their file."""
    for path, written in journal.left(FOLDER, _Written, say):
        say(f"{written.address.name}: putting back what an interrupted flushlab had changed")
        try:
            with Attached(written.address, connect_s=CONNECT_S) as server:
                _restore(server, written.changes, say)
        except ServerError as error:
            say(f"{_not_yet(written.address, written.undo, error)} If that server is gone, remove {path}")
            continue
        path.unlink(missing_ok=True)


def _file(address: Address) -> Path:
    return state() / FOLDER / f"{hashlib.sha256(address.name.encode()).hexdigest()[:16]}.json"


def _restore(
    server: Attached, changes: tuple[Change, ...], say: Say, *, whatever_it_is: bool = False
) -> None:
    """Puts back what can be, whatever is refused meanwhile.

    Args:
        server: whose variables they are.
        changes: of them.
        say: told what is put back, and what is not.
        whatever_it_is: also what has a value that flushlab did not ask for: the server may have rounded it.

    Raises:
        ServerError: the server is gone, or refused one of them.
    """
    same = Configuration({}, server.identity).same
    refused: StatementFailed | None = None
    for change in changes:
        now = server.read_back([change.name])[change.name]
        ours = any(same(change.name, now, value) for value in (change.during, *change.later))
        if ours or (whatever_it_is and not same(change.name, now, change.before)):
            try:
                set_variable(server.query, server.identity, change.name, change.before)
            except StatementFailed as error:
                refused = error
            else:
                say(f"put back: {_statement(server.identity, change.name, change.before)}")
        elif not same(change.name, now, change.before):
            say(f"{change.name} is {now} now: somebody else has set it, and it stays so")
    if refused is not None:
        raise refused


def _not_yet(address: Address, undo: tuple[str, ...], error: ServerError) -> str:
    return (
        f"warning: settings could not be put back: {error.message}. The next flushlab command tries again; by"
        f" hand: {' '.join(undo)}"
    )


def _statement(identity: ServerIdentity, name: str, value: Value) -> str:
    here = Configuration({}, identity).here(name)
    literally = here.sql(value) if here and here.part else repr(literal(value, here))
    return f"SET GLOBAL {here.variable if here else name} = {literally};"
