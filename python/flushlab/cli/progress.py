"""Progress on stderr: a live bar on a terminal; elsewhere a line per trial of a campaign."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from flushlab.cli.output import console
from flushlab.units import format_seconds

if TYPE_CHECKING:
    from flushlab.experiment.protocol import Progress, Request
    from flushlab.record import Trial


class LiveBar:
    """A bar while the context lasts; gone behind it."""

    def __init__(self) -> None:
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


class StepProgress(LiveBar):
    """Shows which of several measurements runs; nothing where there is no terminal."""

    def step(self, done: int, total: int, doing: str) -> None:
        """A measurement begins."""
        self._bar.update(self._task, description=doing[:46], completed=done, total=total)


class CampaignProgress(LiveBar):
    """Shows what runs, the best so far and the time left; a context manager and a Watcher.

    Args:
        budget_s: seconds that the campaign may take; None: the time left is estimated from its trials so far.
    """

    def __init__(self, budget_s: float | None) -> None:
        super().__init__()
        self._budget_s = budget_s
        self._spent_s = 0.0

    def starting(self, request: Request, progress: Progress, seconds_spent: float) -> None:
        """A trial is about to run."""
        self._spent_s = seconds_spent
        self._bar.update(
            self._task,
            description=f"{request.stage} · {request.arm.name[:32]}{self._outlook(progress, progress.done)}",
            completed=progress.done,
            total=max(progress.total, progress.done + 1),
        )

    def ended(self, trial: Trial, progress: Progress) -> None:
        """A trial has been saved."""
        self._spent_s += sum(trial.seconds.values())
        self._bar.update(self._task, completed=progress.done)
        if trial.outcome == "measured" and trial.figure is not None:
            what = f"{trial.figure:,.{2 if trial.figure < 100 else 0}f} {trial.unit}"
        else:
            what = f"{trial.outcome}: {trial.reason.strip().splitlines()[0] if trial.reason.strip() else ''}"
        if trial.outcome != "measured" or not console.is_terminal:
            console.print(
                f"{trial.stage} {trial.block} · {trial.arm.name}: {what}"
                f"{self._outlook(progress, progress.done + 1)}",
                markup=False,
            )

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
