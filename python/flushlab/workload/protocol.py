"""The Workload protocol: prepare data once, run against a server, yield one result.

`run` opens the window it is given around the measured part, so that whoever runs the workload can
put telemetry on both ends of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from flushlab.errors import UsageError
from flushlab.record import LoadResult, LoadSpec, LostNode, ObservedLoad, StandIn, Warning
from flushlab.server.protocol import Server

Window = AbstractContextManager[Any]
"""Opened by the workload exactly around what is measured."""


Reset = Literal["each", "none"]


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The window goes on until `redo_bytes` of redo were written in it, but no longer than `max_seconds`."""

    warm_up_s: float = 2.0
    max_warm_up_s: float = 6.0
    seconds: float = 10.0
    redo_bytes: int = 0
    max_seconds: float = 600.0

    def with_window(self, seconds: float) -> Timing:
        return msgspec.structs.replace(
            self,
            seconds=seconds,
            warm_up_s=min(self.warm_up_s, seconds),
            max_warm_up_s=min(self.max_warm_up_s, 2 * seconds),
        )


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """None: the workload does not know; `observed`: the load that was there, where flushlab added none."""

    result: float
    unit: str
    higher_is_better: bool
    warm_up_s: float
    window_s: float
    load: LoadResult | None = None
    observed: ObservedLoad | None = None
    warnings: tuple[Warning, ...] = ()
    commits: int | None = None
    connections: int | None = None
    output: str = ""
    seed: int | None = None
    lost_nodes: tuple[LostNode, ...] = ()
    stand_in: StandIn | None = None


COMMITS = 20
"""Commits of each connection that fit into a slice: transactions cut at its edges must not matter."""
MOST_SLICE_S = 10.0


class Driving(msgspec.Struct, frozen=True, kw_only=True):
    """Never stored, as it holds a password; `grain`: share of one event in the result."""

    spec: LoadSpec
    unit: str
    grain: int = 1
    stand_in: StandIn | None = None


class Workload(Protocol):
    """See the module's docstring."""

    @property
    def name(self) -> str:
        """As the user wrote it."""
        ...

    @property
    def data_key(self) -> Mapping[str, str]:
        """Key of its prepared data; a part of the snapshot's key."""
        ...

    @property
    def reset(self) -> Reset:
        """Each trial starts from a fresh copy of the data, or from those that the last one left."""
        ...

    @property
    def slice_s(self) -> float | None:
        """Shortest stretch in which it may be measured before it is paused for another server's slice, as far
        as its options tell; None: it cannot be paused."""
        ...

    def prepare(self, server: Server) -> None:
        """Makes its data on an empty server.

        Raises:
            MeasurementError: the server did not take them.
        """
        ...

    def driving(self, server: Server) -> Driving | None:
        """Reads its data into the buffer pool if they fit and tells how it is driven; None if it cannot
        pause."""
        ...

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        """Warms up, opens the window, measures.

        Raises:
            MeasurementError: the workload failed; the message says how.
            ServerDied: the server is gone.
        """
        ...


OWN_LOAD = "own load"
OWN_LOAD_UNIT = "commits/s"
OWN_LOAD_SLICE_S = 4.0
"""Length of a slice, so that it has many commits of a slow load."""
OWN_LOAD_LEAD_S = 1.0
"""Seconds after each switch that do not count: commits that the last arm's settings still delay."""


class OwnLoad(msgspec.Struct, frozen=True, kw_only=True):
    reset: ClassVar[Reset] = "none"
    slice_s: ClassVar[float] = OWN_LOAD_SLICE_S

    name: str = OWN_LOAD

    @property
    def data_key(self) -> Mapping[str, str]:
        return {}

    def prepare(self, server: Server) -> None:
        pass

    def driving(self, server: Server) -> Driving | None:
        return None

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        raise only_compared()


def only_compared() -> UsageError:
    return UsageError(
        f"{OWN_LOAD} is the load that a running server has, and this command would have to make it",
        hint="measure it by `flushlab compare --own-load`",
    )
