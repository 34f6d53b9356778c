"""Recording: the load of a running server, kept in a file.

A file of JSON lines: the server with its settings, then one line for each stretch of `STRETCH_S`. A recording
that is killed loses at most its last stretch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.diagnosis.load import LoadObserver
from flushlab.errors import CountersReset, NotWritable
from flushlab.progress import Progress
from flushlab.record import ObservedLoad, ServerIdentity, Value
from flushlab.record.running import WatchedServer
from flushlab.telemetry.live.session import waiting_aloud
from flushlab.units import format_seconds

SCHEMA: Literal["flushlab.load/1"] = "flushlab.load/1"
STRETCH_S = 10.0
LEAST_S = 1.0
"""A stretch that Ctrl-C cuts shorter has no rates worth a line."""


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


def record(reach: WatchedServer, path: Path, seconds: float | None, progress: Progress) -> None:
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
