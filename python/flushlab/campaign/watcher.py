"""Watcher: told what happens in a campaign, and says it in lines.

Sits in `campaign`. A caller from Python gives a function that takes a line (`progress=print`); the command
line derives a watcher that shows a bar as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flushlab.build import Progress as Say
from flushlab.build import silent
from flushlab.experiment.protocol import Progress, Request
from flushlab.record import Trial
from flushlab.units import format_seconds


class Watcher:
    """Says what happens.

    Args:
        say: takes a line.
    """

    def __init__(self, say: Say = silent) -> None:
        self.say = say
        self._budget_s: float | None = None
        self._spent_s = 0.0

    def warn(self, text: str) -> None:
        """A line that should not be overlooked."""
        self.say(f"warning: {text}")

    @contextmanager
    def campaign(self, budget_s: float | None) -> Iterator[None]:
        """Trials run while the context lasts.

        Args:
            budget_s: seconds that they may take; None: the time left is estimated from the trials so far.
        """
        self._budget_s = budget_s
        yield

    def starting(self, request: Request, progress: Progress, seconds_spent: float) -> None:
        """A trial is about to run."""
        self._spent_s = seconds_spent

    def ended(self, trial: Trial, progress: Progress) -> None:
        """A trial has been saved and is about to be told."""
        self._spent_s += sum(trial.seconds.values())
        self.say(self._line(trial, progress))

    def _line(self, trial: Trial, progress: Progress) -> str:
        if trial.outcome == "measured" and trial.figure is not None:
            what = f"{trial.figure:,.{2 if trial.figure < 100 else 0}f} {trial.unit}"
        else:
            what = f"{trial.outcome}: {trial.reason.strip().splitlines()[0] if trial.reason.strip() else ''}"
        outlook = self._outlook(progress, progress.done + 1)
        return f"{trial.stage} {trial.block} · {trial.arm.name}: {what}{outlook}"

    def _outlook(self, progress: Progress, done: int) -> str:
        parts = []
        if progress.best is not None:
            parts.append(f"best so far {progress.best.estimate:.2f}×")
        if self._budget_s is not None:
            parts.append(f"at most {format_seconds(max(0.0, self._budget_s - self._spent_s))} left")
        elif done and progress.total > done:
            left_s = self._spent_s / done * (progress.total - done)
            parts.append(f"about {format_seconds(left_s)} left")
        return f" ({', '.join(parts)})" if parts else ""


def watching(progress: Say | Watcher) -> Watcher:
    """The watcher of what a caller gave."""
    return progress if isinstance(progress, Watcher) else Watcher(progress)
