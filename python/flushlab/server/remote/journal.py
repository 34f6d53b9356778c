"""Journal: what is to be undone on servers that are not flushlab's, on disk before it is done.

Server layer. A file of mode 0600 for each undertaking, for it has the account's password. Whoever made it
removes it once all is undone; a file whose flushlab is gone is carried out by the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from flushlab import atomic
from flushlab.errors import NotWritable, ServerDied, ServerError
from flushlab.machine import state_path
from flushlab.process import ProcessIdentity
from flushlab.process.identity import machine, myself, world
from flushlab.progress import Progress
from flushlab.undo import signals

CONNECT_S = 5.0
"""Longest wait for a server on which a killed flushlab has left something."""

ANSWER_S = 300.0
"""Longest wait for an answer to what undoes something, from a server that gives signs of life: a buffer pool
may shrink, a large table be dropped."""

_SILENCE_S = 60.0
"""Longest wait for a sign of life, unless Ctrl-C was pressed: a busy server gives it sooner, a stopped one
never."""

_RESTART_S = 20.0
"""Longest wait for a server that is down: it may be restarting."""
_POLL_S = 0.5


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The author of an entry of any kind. No field has a default: a file without one has no known author."""

    owner: ProcessIdentity
    world: str
    machine: str

    @property
    def is_left(self) -> bool:
        if self.world == world():
            return not self.owner.alive()
        is_older = self.world.split()[0] != world().split()[0]
        return bool(self.machine) and self.machine == machine() and is_older


E = TypeVar("E", bound=JournalEntry)


def this_author() -> dict[str, Any]:
    return {"owner": myself(), "world": world(), "machine": machine()}


def write(path: Path, entry: JournalEntry, *, new: bool, without: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        atomic.write(path, msgspec.json.encode(entry), mode=0o600, new=new)
    except OSError as error:
        raise NotWritable(f"{path} cannot be written: {error.strerror}", hint=without) from error


def await_answer(query: Callable[..., object], name: str, say: Progress) -> None:
    """Waits until a server answers, so that things on it can be undone; says so if that takes long."""
    began = time.monotonic()
    try:
        _ask(query, CONNECT_S)
    except ServerDied:
        if signals:
            raise
        is_down = time.monotonic() - began < CONNECT_S
        limit_s = _RESTART_S if is_down else _SILENCE_S
        say(
            f"{name} does not answer: waiting for {limit_s:.0f} s to undo what was changed on it. Ctrl-C"
            " leaves that to the next flushlab command"
        )
        deadline = time.monotonic() + limit_s
        while True:  # on a new connection, which the server may greet at once when it goes on
            try:
                return _ask(query, max(1.0, deadline - time.monotonic()))
            except ServerDied:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_POLL_S)


def _ask(query: Callable[..., object], limit_s: float) -> None:
    try:
        query("SELECT 1", answer_s=limit_s)
    except ServerError as error:  # else it is an answer
        if isinstance(error, ServerDied):
            raise


def files(folder: str) -> list[Path]:
    return sorted((state_path() / folder).glob("*.json"))


def left_entries(folder: str, kind: type[E], say: Progress) -> Iterator[tuple[Path, E]]:
    for path in files(folder):
        try:
            entry = msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:  # another flushlab was quicker
            continue
        except (OSError, msgspec.DecodeError) as error:
            say(f"{path} cannot be read ({error}): it says what is to be undone on a server")
            continue
        if entry.is_left:
            yield path, entry


def is_there(path: Path, entry: JournalEntry) -> bool:
    return atomic.read_json(path, type(entry)) == entry
