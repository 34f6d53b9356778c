"""Own load: the load that a running server of the user has. flushlab adds nothing to it and only observes it.

`campaign.pool.own_load` measures it, in slices of a server whose settings change between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from flushlab.errors import UsageError
from flushlab.server.protocol import Server
from flushlab.workload.protocol import Driving, Measured, Reset, Timing, Window

NAME = "own load"
UNIT = "commits/s"
SLICE_S = 4.0
"""Length of a slice, so that it has many commits of a slow load."""
LEAD_S = 1.0
"""Seconds after each switch that do not count: commits that the last arm's settings still delay."""


class OwnLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load that is there."""

    reset: ClassVar[Reset] = "none"

    name: str = NAME

    @property
    def data_key(self) -> Mapping[str, str]:
        """None: the data are the application's."""
        return {}

    @property
    def slice_s(self) -> float | None:
        """It needs no pause: only the settings change."""
        return SLICE_S

    def prepare(self, server: Server) -> None:
        """Nothing: the data are there."""

    def driving(self, server: Server) -> Driving | None:
        """Nobody drives it."""
        return None

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        """Never: it is observed in slices.

        Raises:
            UsageError: always.
        """
        raise only_compared()


def only_compared() -> UsageError:
    """The error of a command that would drive it."""
    return UsageError(
        f"{NAME} is the load that a running server has, and this command would have to make it",
        hint="measure it by `flushlab compare --own-load`",
    )
