"""Put back: settings of a server that is not flushlab's, changed for a while.

Server layer. A file in flushlab's state folder has what is to be put back, and how to reach the server,
before the first change; it goes once all is as it was. A file whose flushlab is gone is carried out by the
next one. What somebody else has set meanwhile stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from flushlab import atomic
from flushlab.errors import NotWritable, ServerError, UsageError
from flushlab.machine import state, state_path
from flushlab.process import ProcessIdentity
from flushlab.process.identity import machine, myself, world
from flushlab.record import ServerIdentity, Value
from flushlab.server.attached import Address, Attached
from flushlab.server.control import ACCESS_DENIED, StatementFailed
from flushlab.server.variables import set_variable
from flushlab.settings.configuration import Configuration, literal

FOLDER = "put-back"
_LOCK = "flushlab_tunes_this_server"
_NOT_ALLOWED = {*ACCESS_DENIED, 1227}  # ER_SPECIFIC_ACCESS_DENIED_ERROR
_CONNECT_S = 5.0

Say = Callable[[str], None]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A global variable that has another value for a while."""

    name: str
    before: Value
    during: Value


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds; a password too: its mode is 0600."""

    address: Address
    changes: tuple[Change, ...]
    undo: tuple[str, ...]
    owner: ProcessIdentity
    world: str
    machine: str

    @property
    def is_left(self) -> bool:
        """Whether the flushlab that wrote it is known to be gone."""
        if self.world == world():
            return not self.owner.alive()
        return bool(self.machine) and self.machine == machine() and self._boot != world().split()[0]

    @property
    def _boot(self) -> str:
        return self.world.split()[0]


class Changes:
    """Global variables of an attached server, changed until they are put back.

    Args:
        server: whose they are.
        wanted: names and values for a while; what has its value already is left out.
    """

    def __init__(self, server: Attached, wanted: Mapping[str, Value]) -> None:
        self._server = server
        before = server.read_back(wanted)
        same = Configuration({}, server.identity).same
        self._changes = tuple(
            Change(name=name, before=before[name], during=value)
            for name, value in wanted.items()
            if name in before and not same(name, before[name], value)
        )
        self._path: Path | None = None

    @property
    def do(self) -> tuple[str, ...]:
        """The statements that make them."""
        return tuple(_statement(self._server.identity, one.name, one.during) for one in self._changes)

    @property
    def undo(self) -> tuple[str, ...]:
        """The statements that put all back."""
        return tuple(_statement(self._server.identity, one.name, one.before) for one in self._changes)

    def make(self) -> None:
        """Writes down what is to be put back, and makes the changes.

        Raises:
            UsageError: another flushlab changes that server just now, or the account may not.
            NotWritable: it cannot be written down.
        """
        if not self._changes:
            return
        ((mine,),) = self._server.query("SELECT GET_LOCK(%s, 0)", (_LOCK,))
        path = _file(self._server.address)
        if mine != 1 or path.exists():
            raise UsageError(
                f"another flushlab has changed settings of {self._server.address.name} for a load",
                hint="wait until it ends" if mine != 1 else f"wait until it ends; else see {path}",
            )
        self._write(path)  # new, or an error: only then is it ours to remove
        self._path = path
        for change in self._changes:
            try:
                set_variable(self._server.query, self._server.identity, change.name, change.during)
            except StatementFailed as error:
                if error.errno in _NOT_ALLOWED:
                    raise UsageError(
                        f"the account may not set {change.name}: {error.text}",
                        hint="it needs SUPER, or SYSTEM_VARIABLES_ADMIN on MySQL 8.0 and later; or leave out"
                        " --tune-server",
                    ) from error
                raise

    def put_back(self, say: Say) -> None:
        """Puts all back, once; what is in the way is told, and left to the next flushlab."""
        if self._path is None:
            return
        try:
            _restore(self._server, self._changes, say)
        except ServerError as error:
            say(_not_yet(self._server.address, self.undo, error))
        else:
            self._path.unlink(missing_ok=True)
            self._path = None

    def _write(self, path: Path) -> None:
        written = _Written(
            address=self._server.address,
            changes=self._changes,
            undo=self.undo,
            owner=myself(),
            world=world(),
            machine=machine(),
        )
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            atomic.write(path, msgspec.json.encode(written), mode=0o600, new=True)
        except OSError as error:
            raise NotWritable(
                f"{path} cannot be written: {error.strerror}",
                hint="nothing was changed; without that file nobody could put it back",
            ) from error


def put_back_left(say: Say) -> None:
    """Puts back what killed flushlabs have left; servers that do not answer keep their file."""
    for path in left():
        try:
            written = msgspec.json.decode(path.read_bytes(), type=_Written)
        except FileNotFoundError:  # another flushlab was quicker
            continue
        except (OSError, msgspec.DecodeError) as error:
            say(f"{path} cannot be read ({error}): it has settings of a server that are to be put back")
            continue
        if not written.is_left:
            continue
        say(f"{written.address.name}: putting back what an interrupted flushlab fill had changed")
        try:
            with Attached(written.address, connect_s=_CONNECT_S) as server:
                _restore(server, written.changes, say)
        except ServerError as error:
            say(f"{_not_yet(written.address, written.undo, error)} If that server is gone, remove {path}")
            continue
        path.unlink(missing_ok=True)


def left() -> list[Path]:
    """Files of what is to be put back, or is being used."""
    return sorted((state_path() / FOLDER).glob("*.json"))


def _file(address: Address) -> Path:
    return state() / FOLDER / f"{hashlib.sha256(address.name.encode()).hexdigest()[:16]}.json"


def _restore(server: Attached, changes: tuple[Change, ...], say: Say) -> None:
    """Puts back what can be, whatever is refused meanwhile.

    Raises:
        ServerError: the server is gone, or refused one of them.
    """
    same = Configuration({}, server.identity).same
    refused: StatementFailed | None = None
    for change in changes:
        now = server.read_back([change.name])[change.name]
        if same(change.name, now, change.during):
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
