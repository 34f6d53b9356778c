"""Shares: how large a part of the writers' time each wait is, with an interval. Pure.

By Little's law the mean number of connections in a state is the time spent there per second. A writer's time
is all that it was seen to do, its client's turn included: a closed loop of connections is as fast as the sum
of these allows. Connections that never wrote, or slept through, count nowhere.

A share is of the time of all writers. Its bound is of those that the wait affects: a writer that could gain
less than half as much as they do together is left out (`_spared`). For connections that do alike, a share s
of their time bounds the growth of their throughput by 1/(1-s). Those that are left out grow less, so the
bound holds for all writers together. A wait may delay other states too; the bound includes these.

The interval is a jackknife's over equal stretches of the window: samples of one stretch are alike. The
affected writers are chosen once, from the whole window. A writer left out by chance raises the bound.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK, WAITS, Wait, is_write, wait_of
from flushlab.record import ServerIdentity
from flushlab.telemetry.live.questions import ThreadState

STRETCHES = 10
LEAST_SAMPLES = 5
"""Fewer moments are no sample: they have waits, and no share."""
_T_975 = 2.262
"""Student's t of 9 degrees of freedom at 97.5 %."""
_ALL = 0.99
"""A share that may be so large leaves nothing to compute a bound from."""
_ANYTHING = 0.9
"""Width of an interval that says nothing."""
_ALONE, _MOST_OF_IT, _ONES = 1.5, 0.6, 0.6
_ALIKE = 0.5
"""Part of the gain of all affected writers that one of them may have at least."""
_KNOWN = 30
"""Samples of a writer below which it is not known to be spared: of connections that live for one transaction,
each is seen once."""


class TimeShare(msgspec.Struct, frozen=True):
    """Part of the writers' time.

    Attributes:
        low, mid, high: 0 to 1; low and high are the ends of the 95 % interval.
        bounding: upper end of the same share in the time of the affected writers, with all that the wait
            delays; null if it is `high`.
        affected: number of these writers; null if all are.
        proportional: throughput grows in proportion to the time that goes, or less; false: it may grow more.
    """

    low: float
    mid: float
    high: float
    bounding: float | None = None
    affected: int | None = None
    proportional: bool = True

    @property
    def at_most(self) -> float | None:
        """Factor that the throughput of the affected writers cannot exceed if this time goes, at the same
        number of connections; None if there is no bound (`unbounded`)."""
        most = self.high if self.bounding is None else max(self.high, self.bounding)
        return 1.0 / (1.0 - most) if most < _ALL and self.proportional else None

    @property
    def is_anything(self) -> bool:
        return self.high - self.low >= _ANYTHING

    @property
    def unbounded(self) -> str:
        why = (
            "It may be all of the time" if self.proportional else "Mending may bring more than in proportion"
        )
        return f"{why}: no bound can be computed."

    def at_most_all(self, part: float) -> TimeShare:
        return msgspec.structs.replace(self, low=0.0, mid=self.mid * min(1.0, part))

    def part(self, part: float) -> TimeShare:
        low, mid, high = (part * end for end in (self.low, self.mid, self.high))
        bounding = self.high if self.bounding is None else self.bounding
        return msgspec.structs.replace(self, low=low, mid=mid, high=high, bounding=bounding)


def times(factor: float) -> str:
    return f"{factor:.1f}×" if factor < 10 else f"{factor:.0f}×"


class CommitStep(msgspec.Struct, frozen=True, kw_only=True):
    """A point of the window, for plots.

    Attributes:
        at_s: its begin, in seconds since the window's.
        connections: by wait, the mean number of writers in it.
    """

    at_s: float
    connections: Mapping[str, float]


class SeenWriter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    thread: int
    samples: int
    connections: Mapping[str, float]
    stretches: Mapping[str, tuple[float, ...]]

    def split(self, waits: tuple[str, ...]) -> tuple[float, float]:
        inside = sum(self.connections.get(one, 0.0) for one in waits)
        return inside, sum(self.connections.values()) - inside

    def stretch(self, number: int) -> dict[str, float]:
        return {wait: mean for wait, means in self.stretches.items() if (mean := means[number])}


class WriteTime(msgspec.Struct, frozen=True, kw_only=True):
    """Where writers spent their time.

    Attributes:
        connections: by wait, the mean number of writers in it.
        steps: the same by step, shorter than a stretch; those without a sample are missing.
        each: the writers one by one; empty if they are not known apart.
        queued: mean number of the server's threads that waited for a processor, in whatever state; 0 if that
            is not seen.
        row_locks_known: waits for row locks do not count as statements.
        pauses: a writer was seen to wait for its client for a second or longer, which `client` does not have.
    """

    samples: int = 0
    writers: int = 0
    others: float = 0.0
    connections: Mapping[str, float] = {}
    stretches: tuple[Mapping[str, float], ...] = ()
    steps: tuple[CommitStep, ...] = ()
    step_s: float = 1.0
    each: tuple[SeenWriter, ...] = ()
    queued: float = 0.0
    row_locks_known: bool = True
    pauses: bool = False

    @property
    def is_sample(self) -> bool:
        return self.samples >= LEAST_SAMPLES

    def told(self, does: str, *waits: str) -> str:
        inside = sum(self.connections.get(one, 0.0) for one in waits)
        if self.is_sample:
            return f"{inside:.1f} of {self.total:.1f} busy writers {does}, on average"
        return f"{inside:.3g} of {self.total:.3g} busy writers {does}"

    @property
    def total(self) -> float:
        return sum(self.connections.values())

    @property
    def in_server(self) -> float:
        return self.total - self.connections.get("client", 0.0)

    @property
    def is_serial(self) -> bool:
        """About one writer gets on at a time; if one connection has most of the time outside of row locks, it
        holds up all others instead."""
        locked = self.connections.get(ROW_LOCK, 0.0)
        outside = [one.split((ROW_LOCK,))[1] for one in self.each]
        is_shared = 0 < max(outside, default=0.0) <= _ONES * sum(outside)
        return is_shared and locked >= max(1.0, _MOST_OF_IT * self.total) and self.total - locked <= _ALONE

    def within(self, part: float, *waits: str, delays: tuple[str, ...] = ()) -> TimeShare | None:
        found = self.share(*waits, delays=delays)
        return None if found is None else found.at_most_all(part)

    def share(self, *waits: str, delays: tuple[str, ...] = ()) -> TimeShare | None:
        """`delays` are waits that these may lengthen besides: only the bound has them. None if too few
        writers were seen. `PROCESSOR` is all time in which the server's threads may have waited for a
        processor."""
        whole = _ratio(self.connections, waits)
        if whole is None or not self.is_sample:
            return None
        if ROW_LOCK in (*waits, *delays) and not self.row_locks_known:
            delays = (*delays, *_WITH_ROW_LOCKS)
        all_of_it = tuple({*waits, *delays} - {PROCESSOR})
        low, high = self._interval(whole, self.stretches, waits)
        spared = self._spared(all_of_it)
        if not spared and not delays:
            return TimeShare(low, whole, high)
        affected = _without(self.connections, [one.connections for one in spared])
        stretches = [
            _without(stretch, [one.stretch(number) for one in spared])
            for number, stretch in enumerate(self.stretches)
        ]
        part = _ratio(affected, all_of_it)
        most = 1.0 if part is None else self._interval(part, stretches, all_of_it)[1]
        if PROCESSOR in delays and (total := sum(affected.values())):
            # Other waits in which the server's threads may have waited for a processor.
            others = sum(mean for wait, mean in affected.items() if wait not in all_of_it)
            most += min(others, self.queued) / total
        return TimeShare(low, whole, high, min(1.0, most), self.writers - len(spared) if spared else None)

    def _spared(self, waits: tuple[str, ...]) -> list[SeenWriter]:
        """The writers that these waits do not affect.

        Each of the others may gain at least half as much as all of them together. The gain that a share s
        allows is s/(1-s): the time in the waits by that outside of them.
        """
        inside = sum(self.connections.get(wait, 0.0) for wait in waits)
        outside = self.total - inside
        known = [(*one.split(waits), one) for one in self.each if one.samples >= _KNOWN]
        spared = []
        for own_in, own_out, writer in sorted(
            known, key=lambda one: one[0] / one[1] if one[1] > 0 else math.inf
        ):
            if own_in * outside >= _ALIKE * inside * own_out:
                break
            spared.append(writer)
            inside, outside = inside - own_in, outside - own_out
        return spared

    def _interval(
        self, whole: float, stretches: Sequence[Mapping[str, float]], waits: tuple[str, ...]
    ) -> tuple[float, float]:
        parts = []
        for left_out in stretches:
            rest = _sum((stretch, 1.0) for stretch in stretches if stretch is not left_out)
            if (part := _ratio(rest, waits)) is not None:
                parts.append(part)
        if len(parts) < 2:
            return 0.0, 1.0
        mean = sum(parts) / len(parts)
        spread = math.sqrt((len(parts) - 1) / len(parts) * sum((one - mean) ** 2 for one in parts))
        return _score_interval(whole, spread, self.samples)


class Tally:
    """While one commit waits for a semi-sync replica, the group that follows may wait for it: MySQL's leader
    waits for its whole group, and so does MariaDB's with AFTER_SYNC (`wait_after_sync` in
    https://github.com/MariaDB/server/blob/10.11/sql/log.cc); with its default AFTER_COMMIT each one waits for
    itself.
    """

    def __init__(
        self, identity: ServerIdentity, step_s: float = 1.0, variables: Mapping[str, str] = {}
    ) -> None:
        self._identity = identity
        self._step_s = step_s
        point = variables.get("rpl_semi_sync_master_wait_point", "")
        self._held = identity.flavor == "mysql" or point.upper() == "AFTER_SYNC"
        self._asleep: dict[int, int] = {}
        self._moments: Counter[int] = Counter()
        self._cells: dict[int, tuple[array[int], array[int]]] = {}
        """By step: how often a connection was in a wait, the two as one number. In little memory: thousands
        of connections make hundreds of thousands of cells."""
        self._writers: dict[int, array[int]] = {}
        self._open: tuple[int, Counter[int], set[int]] = (-1, Counter(), set())

    def add(self, at_s: float, states: Iterable[ThreadState]) -> None:
        step = int(at_s / self._step_s)
        self._moments[step] += 1
        if step != self._open[0]:
            self._pack()
            writers = set(self._writers.get(step, ()))
            self._open = step, Counter(dict(self._counts(step))), writers
        _, cells, writers = self._open
        known = list[tuple[ThreadState, Wait]]()
        for seen in states:
            if (wait := wait_of(seen, self._identity)) is not None:
                known.append((seen, wait))
            elif seen.command == "Sleep":
                self._asleep[seen.id] = step
        is_held = self._held and any(wait == "semi-sync" for _, wait in known)
        for seen, wait in known:
            if is_write(seen):
                writers.add(seen.id)
            held = "semi-sync" if is_held and wait == "commit" else wait
            cells[seen.id * len(WAITS) + _NUMBERS[held]] += 1

    def _pack(self) -> None:
        step, cells, writers = self._open
        if cells or step in self._moments:
            self._cells[step] = array("q", cells), array("i", cells.values())
            self._writers[step] = array("q", writers)

    def _counts(self, step: int) -> Iterator[tuple[int, int]]:
        return zip(*self._cells.get(step, ((), ())), strict=True)

    def forget(self, until_s: float) -> None:
        for step in [one for one in self._moments if (one + 1) * self._step_s <= until_s]:
            for counted in (self._moments, self._cells, self._writers):
                counted.pop(step, None)
            if step == self._open[0]:
                self._open = (-1, Counter(), set())
        if self._moments:
            first = min(self._moments)
            self._asleep = {one: step for one, step in self._asleep.items() if step >= first}

    def write_time(self, row_lock_connections: float | None = 0.0) -> WriteTime:
        """`row_lock_connections` is taken out of `statement`, and what is more out of `reading`: SELECT … FOR
        UPDATE."""
        self._pack()
        writers = set[int]().union(*self._writers.values())
        means, others = dict[int, Mapping[str, float]](), dict[int, float]()
        for step in sorted(self._moments):
            found, others[step] = Counter[str](), 0.0
            for cell, count in self._counts(step):
                thread, number = divmod(cell, len(WAITS))
                if thread in writers:
                    found[WAITS[number]] += count
                else:
                    others[step] += count / self._moments[step]
            means[step] = {wait: count / self._moments[step] for wait, count in found.items()}
        spans = _spans(list(means))
        whole = _weighed(means, spans)
        parts, left = dict[str, float](), row_lock_connections or 0.0
        for wait in _WITH_ROW_LOCKS:
            if left > 0 and (mean := whole.get(wait, 0.0)):
                parts[wait] = min(1.0, left / mean)
                left -= mean * parts[wait]
        stretches = _stretches(list(means))
        return WriteTime(
            samples=self._moments.total(),
            writers=len(writers),
            others=sum(span * others[step] for step, span in spans.items()) / max(sum(spans.values()), 1e-9),
            connections=_with_row_locks(whole, parts),
            stretches=tuple(
                _with_row_locks(_weighed(means, {one: spans[one] for one in steps}), parts)
                for steps in stretches
            ),
            steps=tuple(
                CommitStep(at_s=step * self._step_s, connections=_with_row_locks(found, parts))
                for step, found in means.items()
            ),
            step_s=self._step_s,
            each=tuple(self._each(writers, stretches, spans, parts)),
            row_locks_known=row_lock_connections is not None,
            pauses=not writers.isdisjoint(self._asleep.keys()),
        )

    def _each(
        self,
        writers: set[int],
        stretches: list[list[int]],
        spans: Mapping[int, float],
        parts: Mapping[str, float],
    ) -> Iterator[SeenWriter]:
        seen: dict[int, dict[str, list[float]]] = {}
        samples = Counter[int]()
        for number, steps in enumerate(stretches):
            for step in steps:
                weight = spans[step] / self._moments[step]
                for cell, count in self._counts(step):
                    thread, wait = divmod(cell, len(WAITS))
                    if thread in writers:
                        own = seen.setdefault(thread, {})
                        own.setdefault(WAITS[wait], [0.0] * len(stretches))[number] += count * weight
                        samples[thread] += count
        lengths = [sum(spans[step] for step in steps) for steps in stretches]
        for thread, own in seen.items():
            of_stretches = [
                _with_row_locks({wait: counts[number] / length for wait, counts in own.items()}, parts)
                for number, length in enumerate(lengths)
            ]
            whole = {wait: sum(counts) / sum(lengths) for wait, counts in own.items()}
            yield SeenWriter(
                thread=thread,
                samples=samples[thread],
                connections=_with_row_locks(whole, parts),
                stretches={
                    wait: tuple(stretch.get(wait, 0.0) for stretch in of_stretches)
                    for wait in dict.fromkeys(itertools.chain(*of_stretches))
                },
            )


_WITH_ROW_LOCKS: tuple[Wait, ...] = ("statement", "reading")
"""Waits in which waits for rows are, the likeliest first."""
_NUMBERS = {wait: number for number, wait in enumerate(WAITS)}


def step_of(seconds: float) -> float:
    return seconds / (STRETCHES * min(12, max(1, round(seconds / STRETCHES))))


def _stretches(steps: list[int]) -> list[list[int]]:
    if not steps:
        return []
    span, found = steps[-1] + 1 - steps[0], dict[int, list[int]]()
    for step in steps:
        found.setdefault((step - steps[0]) * STRETCHES // span, []).append(step)
    return [*found.values()]


def _spans(steps: list[int]) -> dict[int, float]:
    """How many steps each of these stands for: one without a sample is half of either neighbor's. A server
    that answers slowly is sampled less often then, and its time counts all the same."""
    if not steps:
        return {}
    between = [(after - before) / 2 for before, after in itertools.pairwise(steps)]
    return dict(zip(steps, map(sum, zip([0.5, *between], [*between, 0.5], strict=True)), strict=True))


def _sum(weighted: Iterable[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for connections, weight in weighted:
        for wait, mean in connections.items():
            total[wait] = total.get(wait, 0.0) + mean * weight
    return total


def _weighed(means: Mapping[int, Mapping[str, float]], spans: Mapping[int, float]) -> dict[str, float]:
    length, total = sum(spans.values()), _sum((means[step], span) for step, span in spans.items())
    return {wait: time / length for wait, time in total.items()}


def _with_row_locks(connections: Mapping[str, float], parts: Mapping[str, float]) -> dict[str, float]:
    rest, locked = dict(connections), 0.0
    for wait, part in parts.items():
        if wait in rest:
            locked += rest[wait] * part
            rest[wait] *= 1 - part
    return {**rest, ROW_LOCK: locked} if locked else rest


def _without(connections: Mapping[str, float], parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    rest = dict(connections)
    for part in parts:
        for wait, mean in part.items():
            rest[wait] = max(0.0, rest[wait] - mean)
    return rest


def _score_interval(share: float, spread: float, samples: int) -> tuple[float, float]:
    """Wilson's interval of a share with this standard error, or with that of a share of so many samples if
    all stretches are alike by chance.

    It is that of as many independent samples as have such a standard error. A share near 1 varies less than
    one in the middle; an interval that is as wide on both sides would reach 1, and leave no bound.
    """
    own = share * (1 - share)
    known = max(1.0, min(samples, own / spread**2) if own and spread else samples)
    wide = _T_975**2 / known
    half = _T_975 * math.sqrt(own / known + wide / known / 4)
    middle = share + wide / 2
    return max(0.0, (middle - half) / (1 + wide)), min(1.0, (middle + half) / (1 + wide))


def _ratio(connections: Mapping[str, float], waits: tuple[str, ...]) -> float | None:
    total = sum(connections.values())
    return sum(connections.get(one, 0.0) for one in waits) / total if total else None
