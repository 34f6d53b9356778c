"""Watcher: told what happens in a campaign, and says it in lines.

Sits in `campaign`. A caller from Python gives a function that takes a line (`progress=print`); the command
line derives a watcher that shows a bar as well.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from flushlab.experiment.protocol import Request, Standing, gain_words, result_of, result_words
from flushlab.progress import Progress, silent
from flushlab.record import CrashRow, Trial
from flushlab.units import format_seconds

BUSY_SHARE, QUIET_SHARE = 0.25, 0.1
"""Shares of the CPU time: other programs are reported from the first on, and gone below the second."""
LATEST = 20
"""Latest trials for the share of other programs: a trial on a server kept running lasts a second."""


class Spent(NamedTuple):
    """Over all sessions; `repeated_s`: what further trials will take again, as if one ran after another."""

    seconds: float = 0.0
    repeated_s: float = 0.0
    trials: int = 0

    def and_of(self, row: Trial | CrashRow) -> Spent:
        own_s = row.spent_s
        repeated_s = own_s - row.once_s
        if row.machine:  # it ran beside others, whose block ended with or before it
            repeated_s -= row.seconds.get("between", 0.0)
        return Spent(self.seconds + own_s, self.repeated_s + repeated_s, self.trials + 1)

    def until_now(self, since: float) -> Spent:
        """With the time since a moment of the monotonic clock."""
        return self._replace(seconds=self.seconds + time.monotonic() - since)


WIDTH = 120
"""Longest list of a block's results, in characters; a longer list is reported by its minimum and maximum."""
CRASHES_TOLD = 10
"""The watcher reports one of this many crashes."""
TELL_S = 10.0
"""Blocks of slices are short: the watcher reports one of those that end within this many seconds."""


class Watcher:
    def __init__(self, say: Progress = silent) -> None:
        self.say = say
        self._budget_s: float | None = None
        self.called: Mapping[str, str] = {}
        self._pending: list[Trial] = []
        self._told = -TELL_S
        self._crashes: dict[str, Counter[str]] = {}
        self._others: deque[float] = deque(maxlen=LATEST)
        self._is_busy = False
        self._machines = 1

    def warn(self, text: str) -> None:
        self.say(f"warning: {text}")

    def names(self, names: Mapping[str, str]) -> None:
        self.called = names

    def spreads(self, machines: int) -> None:
        self._machines = max(1, machines)

    def known_as(self, arm: str) -> str:
        return self.called.get(arm, arm)

    @contextmanager
    def campaign(self, budget_s: float | None) -> Iterator[None]:
        self._budget_s = budget_s
        yield

    def starting(self, request: Request, standing: Standing, spent: Spent) -> None:
        slices = self._pending
        if not slices or (slices[0].stage, slices[0].block) == (request.stage, request.block):
            return
        order = {name: place for place, name in enumerate(self.called)}
        slices, self._pending = sorted(slices, key=lambda one: order.get(one.arm.name, 0)), []
        now = time.monotonic()
        if now - self._told >= TELL_S:
            self._told = now
            found = [(one.arm.name, *result_of(one, standing.objective)) for one in slices]
            unit = found[0][2]
            figures = ", ".join(f"{self.known_as(arm)} {result_words(one, unit)}" for arm, one, unit in found)
            if len(figures) > WIDTH and len(found) > 1:
                first, *_, last = sorted(one for _, one, _ in found)
                figures = f"{len(slices)} arms, {result_words(first, unit)} to {result_words(last, unit)}"
            self.say(
                f"{_where(slices[0])} · {figures} {unit}{self._forecast(standing, spent, standing.done)}"
            )

    def ended(self, trial: Trial, standing: Standing, spent: Spent) -> None:
        if trial.slices and trial.outcome == "measured":
            self._pending.append(trial)
        else:
            self.say(self._line(trial, standing, spent))

    def known(self, row: Trial | CrashRow) -> None:
        if isinstance(row, CrashRow):
            self._crashes.setdefault(row.arm.name, Counter())[row.crash.outcome] += 1

    def crashed(self, crash: CrashRow, standing: Standing, spent: Spent) -> None:
        self.known(crash)
        done = standing.done + 1
        if done % CRASHES_TOLD == 0 or done == standing.total:
            found = self._crashes[crash.arm.name]
            kept = f"{found['sound']} sound" if found["sound"] else f"{found['kept']} kept all"
            forecast = self._forecast(standing, spent, done)
            self.say(f"{self.known_as(crash.arm.name)}: {done} of {standing.total} judged, {kept}{forecast}")

    def look_around(self, trial: Trial) -> None:
        """Other programs do not disturb trials on servers kept running, but intervals narrow more
        slowly."""
        if not trial.slices or trial.foreign_cpu_share is None:
            return
        self._others.append(trial.foreign_cpu_share)
        share = sum(self._others) / len(self._others)
        if len(self._others) == LATEST and not self._is_busy and share > BUSY_SHARE:
            self._is_busy = True
            self.say(f"other programs use {share:.0%} of the CPU time: intervals narrow more slowly")
        elif self._is_busy and share < QUIET_SHARE:
            self._is_busy = False
            self.say("other programs are quiet again")

    def left_s(self, standing: Standing, spent: Spent, done: int) -> float | None:
        """At most, if it has a budget; else about; None if nobody knows."""
        if self._budget_s is not None:
            return max(0.0, self._budget_s - spent.seconds)
        left = standing.total - done + standing.after
        if not spent.trials or left <= 0:
            return None
        left_s = spent.repeated_s / spent.trials * left if standing.left_s is None else standing.left_s
        return left_s / self._machines

    def _line(self, trial: Trial, standing: Standing, spent: Spent) -> str:
        if trial.outcome == "discarded":
            busy = trial.result is not None and not trial.slices
            what = f"disturbed, {trial.reason}: measuring longer" if busy else f"again: {trial.reason}"
        elif trial.outcome == "measured" and trial.result is not None:
            result, unit = result_of(trial, standing.objective)
            what = f"{result_words(result, unit)} {unit}"
        else:
            what = f"{trial.outcome}: {trial.reason.strip().splitlines()[0] if trial.reason.strip() else ''}"
        forecast = self._forecast(standing, spent, standing.done + 1)
        return f"{_where(trial)} · {self.known_as(trial.arm.name)}: {what}{forecast}"

    def _forecast(self, standing: Standing, spent: Spent, done: int) -> str:
        parts = []
        if standing.best is not None:
            gain = gain_words(standing.best, standing.objective, "").rpartition(" [")[0]
            parts.append(f"best so far {gain}")
        if (left_s := self.left_s(standing, spent, done)) is not None:
            words = "about" if self._budget_s is None else "at most"
            parts.append(f"{words} {format_seconds(left_s)} left")
        return f" ({', '.join(parts)})" if parts else ""


def _where(trial: Trial) -> str:
    return f"{trial.stage} {trial.block}{f' on {trial.machine}' if trial.machine else ''}"


def watching(progress: Progress | Watcher) -> Watcher:
    return progress if isinstance(progress, Watcher) else Watcher(progress)
