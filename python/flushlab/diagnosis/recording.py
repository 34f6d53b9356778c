"""Recording: the load of a running server, kept in a file, and two of them beside each other.

A file of JSON lines: the server with its settings, then one line for each stretch of `STRETCH_S`. A recording
that is killed loses at most its last stretch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from statistics import stdev
from typing import Literal

import msgspec

from flushlab.diagnosis.load import LoadObserver
from flushlab.errors import CountersReset, MeasurementError, NotWritable, StorageError
from flushlab.record import ObservedLoad, ServerIdentity, Value, together
from flushlab.record.running import WatchedServer
from flushlab.telemetry.live.session import waiting_aloud
from flushlab.units import format_seconds

SCHEMA: Literal["flushlab.load/1"] = "flushlab.load/1"
STRETCH_S = 10.0
LEAST_S = 1.0
"""A stretch that Ctrl-C cuts shorter has no rates worth a line."""
_WAY_OUT = "record it with `flushlab watch --record FILE`"


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line.

    Attributes:
        place: address of the server.
        server: flavor and version.
        settings: catalogued ones, as they were at the start.
        schema: `flushlab.load/1`.
    """

    place: str
    server: ServerIdentity
    settings: Mapping[str, Value]
    schema: Literal["flushlab.load/1"] = SCHEMA


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A line.

    Attributes:
        ended_at: in UTC.
        load: of the stretch.
        changed: settings that were otherwise than at the start of the recording.
    """

    ended_at: datetime
    load: ObservedLoad
    changed: Mapping[str, Value] = {}


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A recording that was read.

    Attributes:
        path: of its file.
        head: its first line.
        stretches: the others.
    """

    path: str
    head: Head
    stretches: tuple[Stretch, ...]

    @property
    def load(self) -> ObservedLoad:
        """All stretches together."""
        return together([one.load for one in self.stretches])

    @property
    def changed(self) -> dict[str, Value]:
        """Settings that changed during the recording, with their last other value."""
        return {name: value for one in self.stretches for name, value in one.changed.items()}

    def scatter(self, of: Callable[[ObservedLoad], float | None]) -> float | None:
        """Standard deviation between stretches, as a part of the mean, short ones left out; None for fewer
        than three."""
        whole = (one.load for one in self.stretches if one.load.seconds >= STRETCH_S / 2)
        values = [value for load in whole if (value := of(load))]
        logs = [math.log(value) for value in values]
        return stdev(logs) if len(logs) >= 3 else None


def record(reach: WatchedServer, path: Path, seconds: float | None, progress: Callable[[str], None]) -> None:
    """Records until the time is over, or Ctrl-C.

    Args:
        reach: the server.
        path: of the file, which must not exist.
        seconds: None: until Ctrl-C.
        progress: takes a line at a time.

    Raises:
        NotWritable: the file exists, or cannot be written.
        ServerError: the server does not answer, or refuses the account.
        KeyboardInterrupt: Ctrl-C; what was observed until then is in the file.
    """
    observer = LoadObserver([reach])
    try:
        with waiting_aloud(reach.key, progress):
            server, settings = observer.settings()
        head = Head(place=reach.key, server=server, settings=settings)
        with _new(path) as file:
            _line(file, head)
            limit = f"for {format_seconds(seconds)}" if seconds else "until Ctrl-C"
            progress(f"recording the load of {server.name} at {reach.key} {limit}, read-only")
            began = time.monotonic()

            def keep(load: ObservedLoad) -> None:
                _, now = observer.settings()
                changed = {name: value for name, value in now.items() if settings.get(name) != value}
                _line(file, Stretch(ended_at=datetime.now(UTC), load=load, changed=changed))

            def keep_cut(load: ObservedLoad) -> None:
                if load.seconds >= LEAST_S:
                    keep(load)

            while (left_s := (seconds or math.inf) - (time.monotonic() - began)) > 0:
                try:
                    load = observer.observe(min(STRETCH_S, left_s), cut=keep_cut)
                except CountersReset as error:
                    progress(f"{error}: the last {min(STRETCH_S, left_s):.0f} s are left out")
                else:
                    keep(load)
    finally:
        observer.close()


def read(path: Path) -> Recording:
    """Reads a recording.

    Raises:
        StorageError: it cannot be read, or is none.
        MeasurementError: nothing was committed in it.
    """
    try:
        first, *rest = path.read_bytes().splitlines()
        head = msgspec.json.decode(first, type=Head)
        stretches = tuple(msgspec.json.decode(line, type=Stretch) for line in _whole(rest))
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}", hint=_WAY_OUT) from error
    except (ValueError, msgspec.DecodeError) as error:
        raise StorageError(f"{path} is no recording of a load: {error}", hint=_WAY_OUT) from error
    found = Recording(path=str(path), head=head, stretches=stretches)
    if not stretches or not found.load.commits:
        raise MeasurementError(f"{path}: nothing was committed in it", hint="record while the load runs")
    return found


def _whole(lines: list[bytes]) -> list[bytes]:
    """The lines without a last one that a kill has cut."""
    return lines[:-1] if lines and not lines[-1].endswith(b"}") else lines


def _new(path: Path) -> FileIO:
    try:
        return path.open("xb", buffering=0)
    except FileExistsError as error:
        raise NotWritable(f"{path} exists already", hint="name a new file") from error
    except OSError as error:
        raise NotWritable(f"{path} cannot be written: {error.strerror}", hint="name another file") from error


def _line(file: FileIO, value: msgspec.Struct) -> None:
    try:
        file.write(msgspec.json.encode(value) + b"\n")
    except OSError as error:
        text = f"the recording cannot be written: {error.strerror}"
        raise NotWritable(text, hint="free some space; what was recorded until now is whole") from error
