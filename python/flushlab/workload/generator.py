"""Generator: a part of a load that one process drives, alone or with others on other machines.

Sits in `workload`. It takes and gives JSON, so that it may be on any machine (`generators.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from flushlab import _core
from flushlab.record import Latency, LoadSpec

PINGS = 300
Action = Literal["start", "progress", "seen", "open_window", "close_window_part", "pause", "resume", "stop"]


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A `_core.CoreError` of another process."""

    kind: Literal["server", "protocol", "measurement", "storage", "usage", "harness"]
    message: str
    text: str
    hint: str | None = None
    errno: int | None = None
    sqlstate: str | None = None

    @classmethod
    def of(cls, error: _core.CoreError) -> Refused:
        return cls(
            kind=error.kind,
            message=error.message,
            text=str(error),
            hint=error.hint,
            errno=error.errno,
            sqlstate=error.sqlstate,
        )

    def error(self, machine: str) -> _core.CoreError:
        error = _core.CoreError(f"machine {machine}: {self.text}")
        error.kind, error.hint, error.errno, error.sqlstate = self.kind, self.hint, self.errno, self.sqlstate
        error.message = f"machine {machine}: {self.message}"
        return error


class Acted(msgspec.Struct, frozen=True, kw_only=True):
    """`at_s`: of the generator's monotonic clock."""

    at_s: float = 0.0
    json: msgspec.Raw = msgspec.Raw(b"null")
    refused: Refused | None = None


class Generator:
    """Drives loads by their numbers; `complete` adds what does not travel: the password, a certificate's path
    here."""

    def __init__(self, complete: Callable[[LoadSpec], LoadSpec] = lambda spec: spec) -> None:
        self._complete = complete
        self._loads: dict[int, _core.LoadRun] = {}

    def clock(self) -> float:
        return time.monotonic()

    def connect(self, number: int, spec: bytes) -> bytes:
        try:
            whole = self._complete(msgspec.json.decode(spec, type=LoadSpec))
            load = _core.LoadRun(msgspec.json.encode(whole))
            trips = load.round_trips(PINGS)
        except _core.CoreError as error:
            return msgspec.json.encode(Acted(refused=Refused.of(error)))
        self._loads[number] = load
        return msgspec.json.encode(Acted(json=msgspec.Raw(trips)))

    def act(self, number: int, action: Action, at_s: float | None = None) -> bytes:
        """Does something to a load, at a moment of this machine's monotonic clock if one is given.

        Returns:
            JSON of `Acted`.
        """
        load = self._loads.pop(number, None) if action == "stop" else self._loads[number]
        if load is None:
            return msgspec.json.encode(Acted())
        if at_s is not None:
            time.sleep(max(0.0, at_s - time.monotonic()))
        began_s = time.monotonic()
        try:
            given = getattr(load, action)()
        except _core.CoreError as error:
            return msgspec.json.encode(Acted(at_s=began_s, refused=Refused.of(error)))
        return msgspec.json.encode(Acted(at_s=began_s, json=msgspec.Raw(given or b"null")))


def answer(said: bytes, machine: str) -> Acted:
    acted = msgspec.json.decode(said, type=Acted)
    if acted.refused is not None:
        raise acted.refused.error(machine)
    return acted


def latency(acted: Acted) -> Latency:
    return msgspec.json.decode(acted.json, type=Latency)
