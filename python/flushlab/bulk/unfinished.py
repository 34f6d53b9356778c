"""Unfinished: what a kept sandbox is given back once the load into it has ended, noted in its folder.

Sits in `bulk`. The note is there before anything is changed, and goes once all is as it was. So a load that
goes on after `kill -9` still knows what the sandbox was like before the first one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flushlab import atomic
from flushlab.errors import NotWritable
from flushlab.process import ProcessIdentity
from flushlab.process.identity import myself
from flushlab.record import Value
from flushlab.server import Sandbox

_FILE = "fill.json"


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be given back.

    Attributes:
        defaults: the sandbox was made for the load: it is restarted with its defaults.
        values: of global variables, by name.
    """

    defaults: bool = False
    values: Mapping[str, Value] = {}


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    before: Before
    owner: ProcessIdentity


def left(server: Sandbox) -> Before | None:
    """What a load that was cut short did not give back; None where there was none, or it still runs."""
    note = _read(server)
    return None if note is None or _is_anothers(note) else note.before


def begin(server: Sandbox, before: Before) -> None:
    """Notes what is to be given back, unless another load that still runs has done so.

    Raises:
        NotWritable: it cannot be written down.
    """
    if (note := _read(server)) is not None and _is_anothers(note):
        return
    path = server.folder / _FILE
    try:
        atomic.write(path, msgspec.json.encode(_Note(before=before, owner=myself())), mode=0o600)
    except OSError as error:
        raise NotWritable(
            f"{path} cannot be written: {error.strerror}", hint="nothing was changed or loaded"
        ) from error


def end(server: Sandbox) -> None:
    """All is as it was; a note of another load stays."""
    if (note := _read(server)) is not None and note.owner == myself():
        (server.folder / _FILE).unlink(missing_ok=True)


def _is_anothers(note: _Note) -> bool:
    """A load of another process that still runs."""
    return note.owner != myself() and note.owner.alive()


def _read(server: Sandbox) -> _Note | None:
    try:
        return msgspec.json.decode((server.folder / _FILE).read_bytes(), type=_Note)
    except (FileNotFoundError, msgspec.DecodeError):  # written by rename: another flushlab's form at worst
        return None
