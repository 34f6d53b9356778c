"""Longest: what each connection was longest seen to do, or asleep. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flushlab.diagnosis.waits import BACKGROUND
from flushlab.telemetry.live.questions import ThreadState, waits_for_metadata

LONG_S = 2
"""Shorter times are those of a server that works."""


class Longest:
    """Takes the connections of one moment after the other.

    Args:
        asleep: those that sleep; else the others.
    """

    def __init__(self, *, asleep: bool = False) -> None:
        self._asleep = asleep
        self._found: dict[int, tuple[float, ThreadState]] = {}

    def note(self, at_s: float, states: Iterable[ThreadState]) -> None:
        """One moment."""
        for one in states:
            if one.seconds < LONG_S or (one.command == "Sleep") != self._asleep:
                continue
            if one.command in BACKGROUND and not waits_for_metadata(one.state):  # a replica's applier may
                continue
            known = self._found.get(one.id)
            if known is None or known[1].seconds <= one.seconds:
                self._found[one.id] = at_s, one

    def forget(self, until_s: float) -> None:
        """Leaves out what was not seen since."""
        self._found = {one: found for one, found in self._found.items() if found[0] >= until_s}

    @property
    def found(self) -> Mapping[int, ThreadState]:
        """By connection."""
        return {one: seen for one, (_, seen) in self._found.items()}
