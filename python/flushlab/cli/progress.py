"""Progress on stderr: a live bar or table on a terminal; elsewhere lines."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from flushlab.campaign.analysis import disturbed_words
from flushlab.campaign.watcher import Spent, Watcher
from flushlab.cli.consoles import console
from flushlab.cli.output import print_warning, say
from flushlab.experiment.protocol import Objective, Request, Standing, result_of, result_words
from flushlab.record import Comparison, CrashRow, Trial

_SAY_EVERY_S = 10.0
WIDTH = 79
_BESIDE = len("  99.99  99.99 – 99.99  1,234,567  99,999")
"""Columns of what stands beside a name."""

_COMPARES: Mapping[Objective, str] = {
    "throughput": "of throughput",
    "p99": "how many times lower p99 latency is than the base's",
    "latency": "how many times lower write latency is than the base's",
}


class LiveBar:
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
        self._bar.update(self._task, description=doing, completed=done, total=total)


class StepProgress(LiveBar):
    def step(self, done: int, total: int, doing: str) -> None:
        self.show(done, total, doing[:46])


class RowsProgress(LiveBar):
    def __init__(self) -> None:
        super().__init__()
        self._said = time.monotonic()

    def show_rows(self, done: int, total: int, doing: str, more: str) -> None:
        self.show(done, total, doing)
        if not console.is_terminal and time.monotonic() - self._said >= _SAY_EVERY_S:
            self._said = time.monotonic()
            say(f"{done:,} of {total:,} rows: {more}")


class CampaignProgress(Watcher):
    def __init__(self) -> None:
        super().__init__(say)
        self._bar: LiveBar | None = None

    def warn(self, text: str) -> None:
        print_warning(text)

    @contextmanager
    def campaign(self, budget_s: float | None) -> Iterator[None]:
        with super().campaign(budget_s), LiveBar() as self._bar:
            yield

    def starting(self, request: Request, standing: Standing, spent: Spent) -> None:
        if not console.is_terminal:
            super().starting(request, standing, spent)
        if self._bar is not None:
            forecast = self._forecast(standing, spent, standing.done)
            doing = f"{request.stage} · {self.known_as(request.arm.name)[:32]}{forecast}"
            self._bar.show(standing.done, max(standing.total, standing.done + 1), doing)

    def ended(self, trial: Trial, standing: Standing, spent: Spent) -> None:
        if trial.outcome != "measured" or not console.is_terminal:
            super().ended(trial, standing, spent)

    def crashed(self, crash: CrashRow, standing: Standing, spent: Spent) -> None:
        if not console.is_terminal:
            super().crashed(crash, standing, spent)


@dataclass
class _Row:
    logs: tuple[float, ...] = ()
    rounds: int = 0
    unit: str = ""

    def add(self, trial: Trial, objective: Objective) -> None:
        if trial.result:
            result, self.unit = result_of(trial, objective)
            self.logs += (math.log(result),)
            self.rounds += sum(not one.dropped for one in trial.slices) or 1

    @property
    def result(self) -> str:
        if not self.logs:
            return ""
        return result_words(math.exp(statistics.fmean(self.logs)), self.unit)


class LiveTable(CampaignProgress):
    """Ratios appear as soon as an interim analysis has proven them; no later one takes them back. Before,
    each configuration has its own rate, which proves nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._live: Live | None = None
        self._rows: dict[str, _Row] = {}
        self._found: Mapping[str, Comparison] = {}
        self._trials = self._disturbed = 0
        self._why = ""
        self._doing = "starting"
        self._objective: Objective = "throughput"

    def names(self, names: Mapping[str, str]) -> None:
        super().names(names)
        self._rows = {name: _Row() for name in names}

    @contextmanager
    def campaign(self, budget_s: float | None) -> Iterator[None]:
        self._budget_s = budget_s
        if not console.is_terminal:
            yield
            return
        with Live(console=console, transient=True, get_renderable=self.table) as self._live:
            yield

    def starting(self, request: Request, standing: Standing, spent: Spent) -> None:
        super().starting(request, standing, spent)
        self._found, self._objective = standing.found, standing.objective
        forecast = self._forecast(standing, spent, standing.done)
        self._doing = f"block {request.block + 1}: {self.known_as(request.arm.name)}{forecast}"

    def ended(self, trial: Trial, standing: Standing, spent: Spent) -> None:
        self._trials += 1
        self._disturbed += trial.outcome == "discarded"
        self._why = trial.reason if trial.outcome == "discarded" else ""
        self._rows[trial.arm.name].add(trial, standing.objective)
        if not console.is_terminal or trial.outcome not in ("measured", "discarded"):
            Watcher.ended(self, trial, standing, spent)

    def table(self) -> RenderableType:
        names = {name: self.known_as(name) for name in self._rows}
        width = max(map(len, ("configuration", *names.values())))
        width = min(width, WIDTH - _BESIDE)
        head = f"{'configuration':<{width}}  {'ratio':>5}  {'interval':<13}  {'result':>9}  {'rounds':>6}"
        lines = [Text(head, style="dim"), *(self._row(name, names[name], width) for name in names)]
        unit = next((row.unit for row in self._rows.values() if row.unit), "")
        status = [Text(f"ratio: {_COMPARES[self._objective]}{unit and f'; result: {unit}'}", style="dim")]
        status.append(Text(self._doing, overflow="ellipsis", no_wrap=True))
        if self._disturbed:
            said = f"{disturbed_words(self._disturbed)}{f'; last: {self._why}' if self._why else ''}"
            status.append(Text(said, style="yellow", overflow="ellipsis", no_wrap=True))
        return Group(*lines, *status)

    def _row(self, arm: str, name: str, width: int) -> Text:
        found, row = self._found.get(arm), self._rows[arm]
        ratio = f"{found.ratio.estimate:.2f}" if found else ""
        interval = f"{found.ratio.low:.2f} – {found.ratio.high:.2f}" if found else ""
        styles = {"faster": "green", "slower": "red"}
        text = Text(name if len(name) <= width else f"{name[: width - 1]}…", style="bold")
        text.pad_right(width - len(text.plain))
        text.append(f"  {ratio:>5}  {interval:<13}", style=styles.get(found.verdict, "") if found else "")
        text.append(f"  {row.result:>9}  {row.rounds:>6,}", style="not bold")
        return text
