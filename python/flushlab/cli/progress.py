"""Progress on stderr: a live bar on a terminal; elsewhere lines, of trials and of blocks of turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from flushlab.campaign.watcher import Spent, Watcher
from flushlab.cli.output import console, print_warning, say
from flushlab.experiment.protocol import Progress, Request
from flushlab.record import Crash, Trial


class LiveBar:
    """A bar while the context lasts; gone behind it."""

    def __init__(self) -> None:
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.completed}/{task.total}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, done: int, total: int, doing: str) -> None:
        """So much is done, and what runs now."""
        self._bar.update(self._task, description=doing, completed=done, total=total)


class StepProgress(LiveBar):
    """Shows which of several measurements runs; nothing where there is no terminal."""

    def step(self, done: int, total: int, doing: str) -> None:
        """A measurement begins."""
        self.show(done, total, doing[:46])


class CampaignProgress(Watcher):
    """Shows what runs, the best so far and the time left."""

    def __init__(self) -> None:
        super().__init__(say)
        self._bar: LiveBar | None = None

    def warn(self, text: str) -> None:
        """A line that should not be overlooked."""
        print_warning(text)

    @contextmanager
    def campaign(self, budget_s: float | None) -> Iterator[None]:
        """Shows a bar while trials run."""
        with super().campaign(budget_s), LiveBar() as self._bar:
            yield

    def starting(self, request: Request, progress: Progress, spent: Spent) -> None:
        """A trial is about to run."""
        if not console.is_terminal:
            super().starting(request, progress, spent)
        if self._bar is not None:
            outlook = self._outlook(progress, spent, progress.done)
            doing = f"{request.stage} · {self.known_as(request.arm.name)[:32]}{outlook}"
            self._bar.show(progress.done, max(progress.total, progress.done + 1), doing)

    def ended(self, trial: Trial, progress: Progress, spent: Spent) -> None:
        """A trial has been saved; said in a line where nobody sees the bar, or where it has no figure."""
        if trial.outcome != "measured" or not console.is_terminal:
            super().ended(trial, progress, spent)

    def crashed(self, crash: Crash, progress: Progress, spent: Spent) -> None:
        """A crash has been saved; said in lines where nobody sees the bar."""
        if not console.is_terminal:
            super().crashed(crash, progress, spent)
