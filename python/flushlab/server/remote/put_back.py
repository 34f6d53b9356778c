"""Put back: settings of a server that is not flushlab's, changed for a while.

Server layer. Before the first change, a file in flushlab's state folder has the values to put back and the
server's address. The file goes once the server reports the old values again. If its flushlab is gone, the
next flushlab carries it out. A value that somebody else has set meanwhile stays; settings that change in
slices are read before each slice. If a server does not answer, flushlab gives up after a minute or two, and
reports how to undo the changes.

A restart of the server loses every SET GLOBAL. MySQL 8.0 and later could keep it by SET PERSIST, which
flushlab does not use here; on MariaDB and MySQL 5.7 only the option file outlasts a restart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from flushlab.errors import FlushlabError, ServerError, SettingsTouched, UsageError
from flushlab.machine import state
from flushlab.progress import Progress
from flushlab.record import ServerIdentity, Value
from flushlab.server.control import StatementFailed
from flushlab.server.remote import journal
from flushlab.server.remote.journal import ANSWER_S, CONNECT_S, await_answer
from flushlab.server.remote.login import Address
from flushlab.server.remote.server import RemoteServer
from flushlab.server.sql import (
    REDO_CAPACITY,
    Query,
    read_variables,
    redo_capacity_in_force,
    set_variable,
)
from flushlab.settings.configuration import LOST_AT_RESTART, Configuration, literal
from flushlab.undo import Undo

FOLDER = "put-back"
_LOCK = "flushlab_tunes_this_server"
_RUNS_ON_S = 60.0
"""Longest wait for a statement that a Ctrl-C has left alone: the server carries it out all the same, and
resizing a redo log takes MariaDB seconds."""
_SAME_START_S = 5.0
"""Two readings of one start differ by less."""
_BOUNDS = {
    "innodb_io_capacity": "innodb_io_capacity_max",
    "innodb_max_dirty_pages_pct_lwm": "innodb_max_dirty_pages_pct",
}
"""Settings, and what bounds them. A bound that is set too low takes the other one down with it; a value above
its bound is cut, and MariaDB raises innodb_io_capacity_max instead."""


class VariableChange(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    before: Value
    during: tuple[Value, ...]


class _Written(journal.JournalEntry, frozen=True, kw_only=True):
    """Content of the file.

    Attributes:
        started_s: when the server started, by its own clock. None if it does not tell, and for settings that
            change before each slice: a slice may set them on a server that started anew, too.
        whatever_it_is: also a value that is not among those of `changes`, where the server may have made it
            of one of them: it was not read back. Not any value: whoever found the server as a killed flushlab
            had left it may have set `sync_binlog` right.
    """

    address: Address
    changes: tuple[VariableChange, ...]
    undo: tuple[str, ...]
    whatever_it_is: bool = False
    started_s: float | None = None


class Changes:
    def __init__(self, server: RemoteServer, *wanted: Mapping[str, Value]) -> None:
        self._server = server
        self._query: Query = partial(server.query, answer_s=ANSWER_S)
        names = dict.fromkeys(name for values in wanted for name in values)
        self._found = self._in_force(dict.fromkeys((*names, *_bound_to(names))))
        self._started_s: float | None = None
        self._same = Configuration({}, server.identity).same
        changes = []
        for name in names:
            before, asked = self._found.get(name), [values[name] for values in wanted if name in values]
            during = tuple(value for value in asked if not self._same(name, before, value))
            if before is not None and during:
                changes.append(VariableChange(name=name, before=before, during=during))
        self._changes = tuple(changes)
        self._alternates = len(wanted) > 1
        self._came_of_it: tuple[VariableChange, ...] = ()
        self._path: Path | None = None

    @property
    def before(self) -> dict[str, Value]:
        return {one.name: one.before for one in self._changes}

    def require_settable(self) -> None:
        """Sets each variable to the value that it has: one that a server refuses could not be put back."""
        for one in self._changes:
            try:
                set_variable(self._query, self._server.identity, one.name, one.before)
            except StatementFailed as error:
                raise UsageError(
                    f"{one.name} could not be put back: the server refuses {one.before}, which it has now"
                    f" ({error.text})",
                    hint="leave it out, or measure it on a copy: --server, --dataset",
                ) from error

    @property
    def do(self) -> tuple[str, ...]:
        return tuple(_statement(self._server.identity, one.name, one.during[0]) for one in self._changes)

    @property
    def undo(self) -> tuple[str, ...]:
        return tuple(_statement(self._server.identity, one.name, one.before) for one in self._all)

    @property
    def by_hand(self) -> str:
        return f"{' '.join(self.undo)} ({LOST_AT_RESTART})"

    @property
    def meanwhile(self) -> str:
        words = []
        for change in self._changes:
            values = f"{change.during[0]}"
            if self._alternates:
                others = " or ".join(dict.fromkeys(map(str, change.during)))
                values = f"{change.before} or {others}, in alternating slices"
            words.append(f"{change.name} is {values}")
        return "; ".join(words)

    @property
    def where(self) -> str:
        return self._server.address.name

    def report_silence(self, say: Progress) -> None:
        def report() -> None:
            self._server.when_silent = lambda: None
            if self._path is not None:
                say(f"warning: {self.where} does not answer. If it stays so, by hand: {self.by_hand}")

        self._server.when_silent = report

    def make(self) -> None:
        self._write_down()
        for change in self._changes:
            set_variable(self._query, self._server.identity, change.name, change.during[0])
        if self._path is not None:
            self._note_what_came_of_it(self._path)

    def announce(self) -> None:
        """Writes down the values to put back, for changes that others make before each slice.

        Raises:
            UsageError, NotWritable: as `make`.
        """
        self._write_down()
        self._server.started_before_s = self._started_s = _started_s(self._query, latest=True)
        self._server.made = dict(self.before)

    def _write_down(self) -> None:
        if not self._changes:
            return
        digest = hashlib.sha256(self.where.encode()).hexdigest()
        path = state() / FOLDER / f"{digest[:16]}.json"
        is_mine = _lock(self._query, wait_s=0)
        if not is_mine or path.exists():
            raise UsageError(
                f"another flushlab has changed settings of {self.where} for a while",
                hint=f"wait until it ends; else see {path}" if is_mine else "wait until it ends",
            )
        now = self._in_force(self._found)
        found = self._found.items()
        differing = [name for name, value in found if not self._same(name, value, now.get(name))]
        if differing:  # it ended after they were read
            raise UsageError(
                f"{', '.join(differing)} of {self.where} changed while this started",
                hint="run it again; by now another flushlab may have put back what it had changed",
            )
        self._write(path, whatever_it_is=True, new=True)  # new, or an error: only then is it ours to remove
        self._path = path

    def _note_what_came_of_it(self, path: Path) -> None:
        """What the server rounded, and what it changed along: from now on all else is somebody else's. A
        start after this loses all of it, and nothing sets it again."""
        self._server.started_before_s = self._started_s = _started_s(self._query, latest=True)
        now = read_variables(self._query, self._server.identity, [change.name for change in self._all])
        self._server.made = {one.name: now.get(one.name) for one in self._changes}
        self._came_of_it = tuple(
            msgspec.structs.replace(one, during=(*one.during, now.get(one.name, one.during[0])))
            for one in self._all
        )
        self._write(path, whatever_it_is=False, new=False)

    @property
    def _all(self) -> tuple[VariableChange, ...]:
        if self._came_of_it:
            return self._came_of_it
        along = [
            VariableChange(name=name, before=self._found[name], during=(self._found[name],))
            for name in _bound_to(self.before)
            if name in self._found and name not in self.before
        ]
        return tuple(sorted((*self._changes, *along), key=lambda one: one.name not in _BOUNDS.values()))

    def _in_force(self, names: Iterable[str]) -> dict[str, Value]:
        values = read_variables(self._query, self._server.identity, names)
        if REDO_CAPACITY in values and (size := redo_capacity_in_force(self._query)):
            values[REDO_CAPACITY] = size
        return values

    def put_back(self, say: Progress) -> None:
        if self._path is None:
            return
        found = set[str]()
        try:
            await_answer(self._server.query, self.where, say)
            self._await_own_statement(say)
            is_restarted = _is_restarted(self._query, self._started_s)
            if not (is_restarted and self._came_of_it):
                found = _restore(self._server, self._all, say, self._is_ours)
            if is_restarted:
                _report_restart(self._server, self._all, say)
        except ServerError as error:
            say(_not_yet(self.undo, error))
        except BaseException:
            say(_not_yet(self.undo, ServerError("interrupted")))
            raise
        else:
            self._path.unlink(missing_ok=True)
            self._path = None
            _unlock(self._query)
            for one in self._changes if self._alternates and not is_restarted else ():
                if one.name not in found and self._is_ours(one, one.before):  # the last slice has put it back
                    say(f"put back: {_statement(self._server.identity, one.name, one.before)}")
            self._server.made = {}

    def _is_ours(self, change: VariableChange, now: Value | None) -> bool:
        if (made := self._server.made.get(change.name)) is not None:
            return self._same(change.name, now, made)
        return not self._came_of_it or any(self._same(change.name, now, value) for value in change.during)

    def _await_own_statement(self, say: Progress) -> None:
        """Waits until a statement that was interrupted has ended. Its connection had the lock, and is not
        this one any more; what it set would come after everything has been put back."""
        if _lock(self._query, wait_s=0):
            return
        say(f"{self.where}: waiting for the statement that was interrupted; then all is put back")
        if not _lock(self._query, wait_s=_RUNS_ON_S):
            raise ServerError(f"a statement that was interrupted still runs on {self.where}")

    def _write(self, path: Path, *, whatever_it_is: bool, new: bool) -> None:
        written = _Written(
            **journal.this_author(),
            address=self._server.address,
            changes=self._all,
            undo=self.undo,
            whatever_it_is=whatever_it_is,
            started_s=self._started_s,
        )
        why = "nothing was changed; without that file nobody could put it back"
        journal.write(path, written, new=new, without=why)


@contextmanager
def putting_back(every: Sequence[Changes], say: Progress) -> Iterator[Undo]:
    """At the end, all that was changed is put back, whatever fails meanwhile."""
    with Undo() as undo:
        for one in reversed(every):
            one.report_silence(say)
            undo.callback(one.put_back, say)
        yield undo


def put_back_left(say: Progress) -> None:
    for path, written in journal.left_entries(FOLDER, _Written, say):
        name = written.address.name
        say(f"{name}: an interrupted flushlab had changed settings there; putting them back")
        try:
            with RemoteServer(written.address, connect_s=CONNECT_S) as server:
                query = partial(server.query, answer_s=ANSWER_S)
                # Under the lock nobody else writes or carries out that file.
                is_mine = _lock(query, wait_s=CONNECT_S)
                if not journal.is_there(path, written):
                    continue  # another flushlab was quicker
                if not is_mine:
                    say(f"{name}: another flushlab changes settings there; the next command tries again")
                    continue
                if _is_restarted(query, written.started_s):
                    _report_restart(server, written.changes, say)
                else:
                    _restore(server, written.changes, say, partial(_is_left, server.identity, written))
                path.unlink(missing_ok=True)
                _unlock(query)
        except FlushlabError as error:  # such as certificates that are gone
            say(f"{_not_yet(written.undo, error)}. If that server is gone, remove {path}")


def require_kept(server: RemoteServer) -> None:
    same, made = Configuration({}, server.identity).same, dict(server.made)
    now = server.read_back(name for name, value in made.items() if value is not None)
    touched = [name for name, value in now.items() if not same(name, made[name], value)]
    if not touched:
        return
    words = "; ".join(f"{name} is {now[name]}, and flushlab had set {made[name]}" for name in touched)
    if _is_restarted(server.query, server.started_before_s):
        raise SettingsTouched(
            f"{server.address.name} started anew: {words}", hint="run it again; nothing was set since"
        )
    raise SettingsTouched(
        f"somebody else has changed settings of {server.address.name}: {words}",
        hint="their value stays; run it again when nobody else changes these settings",
    )


def _started_s(query: Query, *, latest: bool) -> float | None:
    statements = ("SHOW GLOBAL STATUS LIKE 'Uptime'", "SELECT UNIX_TIMESTAMP()")
    rows = {sql: query(sql) for sql in (statements if latest else reversed(statements))}
    up, now = (rows[sql] for sql in statements)
    try:
        return float(str(now[0][0])) - float(str(up[0][1]))
    except (IndexError, ValueError):
        return None


def _is_restarted(query: Query, started_s: float | None) -> bool:
    """True if it started after settings were written down: a start loses every SET GLOBAL."""
    now = _started_s(query, latest=False)
    return started_s is not None and now is not None and now > started_s + _SAME_START_S


def _lock(query: Query, *, wait_s: float) -> bool:
    ((mine,),) = query("SELECT GET_LOCK(%s, %s)", (_LOCK, round(wait_s)))
    return bool(mine == 1)


def _unlock(query: Query) -> None:
    """Lets the next flushlab begin at once: a busy server sees only later that a connection is closed."""
    with suppress(ServerError):
        while query("SELECT RELEASE_LOCK(%s)", (_LOCK,)) == [(1,)]:  # as often as it was taken
            pass


def _bound_to(names: Iterable[str]) -> list[str]:
    both_ways = {**_BOUNDS, **{bound: name for name, bound in _BOUNDS.items()}}
    return [other for name, other in both_ways.items() if name in {*names}]


def _is_left(identity: ServerIdentity, written: _Written, change: VariableChange, now: Value | None) -> bool:
    """True if a killed flushlab may have left the value: servers round sizes, and cut to bounds."""
    configuration = Configuration({}, identity)
    here = configuration.here(change.name)
    is_inexact = bool(_bound_to([change.name])) or (here is not None and here.type == "size")
    return (written.whatever_it_is and is_inexact) or any(
        configuration.same(change.name, now, value) for value in change.during
    )


def _report_restart(server: RemoteServer, changes: tuple[VariableChange, ...], say: Progress) -> None:
    now, changed = _differing(server, changes)
    words = [
        f"{change.name} is {now.get(change.name)}, "
        + (f"and was {change.before}" if change in changed else "as before")
        for change in changes
    ]
    say(f"{server.address.name}: the server has started anew, and has its own settings: {'; '.join(words)}")


def _restore(
    server: RemoteServer,
    changes: tuple[VariableChange, ...],
    say: Progress,
    is_ours: Callable[[VariableChange, Value | None], bool],
) -> set[str]:
    """Puts back what can be, whatever is refused meanwhile.

    Returns:
        Names of variables that had another value than before, each of which was reported.
    """
    query = partial(server.query, answer_s=ANSWER_S)
    now, changed = _differing(server, changes)
    ours = [change for change in changed if is_ours(change, now.get(change.name))]
    for change in changed:
        if change not in ours:
            say(f"{change.name} is {now.get(change.name)} now: somebody else has set it, and it stays so")
    refused: StatementFailed | None = None
    for change in ours:
        try:
            set_variable(query, server.identity, change.name, change.before)
        except StatementFailed as error:
            refused = error
        else:
            say(f"put back: {_statement(server.identity, change.name, change.before)}")
    if refused is not None:
        raise refused
    now, wrong = _differing(server, ours)
    if wrong:
        words = ", ".join(f"{change.name} is {now.get(change.name)}" for change in wrong)
        raise ServerError(f"{words}, whatever was asked for")
    return {change.name for change in changed}


def _differing(
    server: RemoteServer, changes: Sequence[VariableChange]
) -> tuple[dict[str, Value], list[VariableChange]]:
    query, same = partial(server.query, answer_s=ANSWER_S), Configuration({}, server.identity).same
    now = read_variables(query, server.identity, [change.name for change in changes])
    return now, [one for one in changes if not same(one.name, now.get(one.name), one.before)]


def _not_yet(undo: tuple[str, ...], error: FlushlabError) -> str:
    return (
        f"warning: settings could not be put back: {error.message}. The next flushlab command tries again."
        f" By hand: {' '.join(undo)} ({LOST_AT_RESTART})"
    )


def _statement(identity: ServerIdentity, name: str, value: Value) -> str:
    here = Configuration({}, identity).here(name)
    literally = here.sql(value) if here and here.part else repr(literal(value, here))
    return f"SET GLOBAL {here.variable if here else name} = {literally};"
