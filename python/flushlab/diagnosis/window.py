"""Window: adds up a session's answers, of all the time or of the last seconds, and makes the evidence. Pure.

`sampling` fills one for the doctor, `watch` keeps one that slides.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from flushlab.diagnosis.evidence import COUNTED, CommitCount, Evidence, settings_of
from flushlab.diagnosis.shares import Tally, is_group_held
from flushlab.diagnosis.waits import Longest
from flushlab.record import Value
from flushlab.telemetry.live.questions import (
    ASLEEP,
    METADATA_LOCKS,
    STATES,
    TRANSACTIONS,
    MetadataLock,
    OpenTransaction,
)
from flushlab.telemetry.live.status import ServerStatus


class Window:
    """What was seen.

    Args:
        first: the first answers; the window begins with them.
        step_s: of the series of connections.
        keep_s: older answers are forgotten.
    """

    def __init__(self, first: ServerStatus, step_s: float, keep_s: float = math.inf) -> None:
        self._keep_s = keep_s
        self._tally = Tally(first.identity, step_s, held=is_group_held(first.identity, first.variables))
        self._ends = deque[ServerStatus]()
        self._commits = deque[tuple[float, tuple[float | None, ...]]]()
        self._ages = deque[tuple[float, int]]()
        self._looks = deque[tuple[float, tuple[OpenTransaction, ...]]]()
        self._waiters = deque[tuple[float, float]]()
        self._longest, self._asleep = Longest(), Longest(asleep=True)
        self._locks: tuple[float, tuple[MetadataLock, ...]] = (0.0, ())
        self._last: ServerStatus | None = None
        self.restarted = False
        """Whether the server's counters began anew."""
        self._settings: tuple[object, Mapping[str, Value]] = (None, {})
        self.note(first, 0.0)

    @property
    def first(self) -> ServerStatus:
        """The answers that the window begins with."""
        return self._ends[0]

    @property
    def last(self) -> ServerStatus:
        """The newest answers."""
        assert self._last is not None
        return self._last

    def note(self, seen: ServerStatus, at_s: float) -> None:
        """Takes those of the answers that are new.

        Args:
            at_s: seconds since the window began.
        """
        last, self._last = self._last, seen
        if last is not None and _began_anew(last, seen):
            self.restarted = True
        if seen.states is not None and _is_new(last, seen, STATES):
            self._tally.add(at_s, seen.states)
            self._longest.note(at_s, seen.states)
        if last is None or seen.at_s != last.at_s:
            self._ends.append(msgspec.structs.replace(seen, states=None, threads=None, transactions=None))
            self._commits.append((seen.at_s, tuple(seen.number(name) for name in COUNTED)))
            if (waiters := seen.row_lock_waiters) is not None:
                self._waiters.append((seen.at_s, waiters))
            if (age := seen.redo.checkpoint_age) is not None:
                self._ages.append((seen.at_s, age))
        if seen.transactions is not None and _is_new(last, seen, TRANSACTIONS):
            self._looks.append((seen.at_s, seen.transactions))
        if _is_new(last, seen, ASLEEP):
            self._asleep.note(at_s, seen.asleep)
        if seen.locks and _is_new(last, seen, METADATA_LOCKS):
            self._locks = at_s, seen.locks
        self._forget(at_s)

    def evidence(self, path: str, **more: Any) -> Evidence:
        """What was seen.

        Args:
            path: names the server's variables.
            more: of the evidence.
        """
        first, last = self.first, self.last
        seconds = last.at_s - first.at_s
        waited_ms = (last.number("innodb_row_lock_time") or 0.0) - (
            first.number("innodb_row_lock_time") or 0.0
        )
        # The counter of time has waits that ended, the others those that go on; the looks have all locks.
        row_locks = max(
            _mean([waiters for _, waiters in self._waiters]),
            _mean([sum(one.waits for one in look) for _, look in self._looks]),
            waited_ms / 1000 / seconds if seconds > 0 else 0.0,
        )
        return Evidence(
            seconds=seconds,
            before=first,
            after=last,
            checkpoint_ages=tuple(age for _, age in self._ages),
            commit_counts=tuple(
                CommitCount(at_s=at_s - first.at_s, counts=counts) for at_s, counts in self._commits
            ),
            write_time=self._tally.write_time(row_locks) if sees_others(last) else None,
            transactions={one.key: one for _, look in self._looks for one in look},
            looks=tuple(look for _, look in self._looks),
            longest=self._longest.found,
            asleep=self._asleep.found,
            locks=self._locks[1],
            settings=self._in_force(last, path),
            missing=last.missing,
            **more,
        )

    def _forget(self, at_s: float) -> None:
        if self._keep_s == math.inf:
            while len(self._ends) > 2:
                del self._ends[1]
            return
        self._tally.forget(at_s - self._keep_s)
        self._longest.forget(at_s - self._keep_s)
        self._asleep.forget(at_s - self._keep_s)
        if self._locks[0] < at_s - self._keep_s:
            self._locks = (0.0, ())
        since = self.last.at_s - self._keep_s
        while len(self._ends) > 2 and self._ends[1].at_s <= since:
            self._ends.popleft()
        for series in (self._commits, self._ages, self._looks, self._waiters):
            while series and series[0][0] < self.first.at_s:
                series.popleft()

    def _in_force(self, seen: ServerStatus, path: str) -> Mapping[str, Value]:
        """Settings of the catalog."""
        if self._settings[0] is not seen.variables:
            self._settings = (seen.variables, settings_of(seen, path))
        return self._settings[1]


def _is_new(last: ServerStatus | None, seen: ServerStatus, question: str) -> bool:
    """Whether it was asked again; its answer may be the same."""
    return last is None or seen.asked_s.get(question) != last.asked_s.get(question)


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def sees_others(seen: ServerStatus) -> bool:
    """Whether connections of other accounts are seen: without PROCESS, the list of processes is the own ones,
    and no error says so."""
    if seen.states is None:
        return False
    instrumented = seen.identity.flavor == "mysql" and seen.variables.get("performance_schema", "") in (
        "ON",
        "1",
    )
    by_list = not instrumented or any("performance_schema" in one for one in seen.missing)
    return "PROCESS" not in seen.missing or not by_list


def _began_anew(before: ServerStatus, after: ServerStatus) -> bool:
    """Whether the server started between two answers; a clock that goes back shortens the uptime alone."""
    shrunk = [
        (after.number(name) or 0.0) < (before.number(name) or 0.0)
        for name in ("uptime", "questions")
        if before.number(name) is not None
    ]
    return bool(shrunk) and all(shrunk)
