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


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """A load that has not given back all yet.

    Attributes:
        owner: its process.
        defaults: the sandbox was made for the load: it is restarted with its defaults.
        values: global variables to give back, by name.
    """

    owner: ProcessIdentity
    defaults: bool = False
    values: Mapping[str, Value] = {}

    @property
    def runs_elsewhere(self) -> bool:
        """It is a load of another process that still runs."""
        return self.owner != myself() and self.owner.alive()


def left(server: Sandbox) -> Unfinished | None:
    """A load that was cut short; None where there was none, or it still runs."""
    note = _read(server)
    return None if note is None or note.runs_elsewhere else note


def begin(server: Sandbox, *, defaults: bool = False, values: Mapping[str, Value] | None = None) -> None:
    """Notes what is to be given back, unless another load that still runs has done so.

    Raises:
        NotWritable: it cannot be written down.
    """
    if (note := _read(server)) is not None and note.runs_elsewhere:
        return
    path = server.folder / _FILE
    note = Unfinished(owner=myself(), defaults=defaults, values=values or {})
    try:
        atomic.write(path, msgspec.json.encode(note), mode=0o600)
    except OSError as error:
        raise NotWritable(
            f"{path} cannot be written: {error.strerror}", hint="nothing was changed or loaded"
        ) from error


def end(server: Sandbox) -> None:
    """All is as it was; a note of another load stays."""
    if (note := _read(server)) is not None and note.owner == myself():
        (server.folder / _FILE).unlink(missing_ok=True)


def _read(server: Sandbox) -> Unfinished | None:
    try:
        return msgspec.json.decode((server.folder / _FILE).read_bytes(), type=Unfinished)
    except (FileNotFoundError, msgspec.DecodeError):  # written by rename: another flushlab's form at worst
        return None
