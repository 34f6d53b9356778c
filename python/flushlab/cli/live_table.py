"""The table that `flushlab compare` shows while it runs; without a terminal, lines.

CLI layer. Ratios stand in it as soon as they may be shown: what the looks on the way have proven, which no
later one takes back. Until then it has each configuration's own figures, which prove nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from flushlab.campaign.warnings import disturbed_words
from flushlab.campaign.watcher import Spent, Watcher
from flushlab.cli.output import console
from flushlab.cli.progress import CampaignProgress
from flushlab.experiment.objective import Objective, figure_of, figure_words
from flushlab.experiment.protocol import Progress, Request
from flushlab.record import Comparison, Trial

WIDTH = 79
_BESIDE = len("  99.99  99.99 – 99.99  1,234,567  99,999")
"""Columns of what stands beside a name."""

_COMPARES: Mapping[Objective, str] = {
    "throughput": "of throughput",
    "p99": "how many times lower p99 latency is than the base's",
}


@dataclass
class _Row:
    """What a configuration has yielded so far."""

    logs: tuple[float, ...] = ()
    rounds: int = 0
    unit: str = ""

    def add(self, trial: Trial, objective: Objective) -> None:
        if trial.figure:
            figure, self.unit = figure_of(trial, objective)
            self.logs += (math.log(figure),)
            self.rounds += sum(not one.dropped for one in trial.slices) or 1

    @property
    def figure(self) -> str:
        if not self.logs:
            return ""
        return figure_words(math.exp(statistics.fmean(self.logs)), self.unit)


class LiveTable(CampaignProgress):
    """Shows what is known of each configuration, what runs and what disturbs."""

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
        """The rows."""
        super().names(names)
        self._rows = {name: _Row() for name in names}

    @contextmanager
    def campaign(self, budget_s: float | None) -> Iterator[None]:
        """Shows the table while runs are measured."""
        self._budget_s = budget_s
        if not console.is_terminal:
            yield
            return
        with Live(console=console, transient=True, get_renderable=self.table) as self._live:
            yield

    def starting(self, request: Request, progress: Progress, spent: Spent) -> None:
        """A run is about to begin."""
        super().starting(request, progress, spent)
        self._found, self._objective = progress.found, progress.objective
        outlook = self._outlook(progress, spent, progress.done)
        self._doing = f"block {request.block + 1}: {self.known_as(request.arm.name)}{outlook}"

    def ended(self, trial: Trial, progress: Progress, spent: Spent) -> None:
        """A run has been saved; said in a line where nobody sees the table."""
        self._trials += 1
        self._disturbed += trial.outcome == "void"
        self._why = trial.reason if trial.outcome == "void" else ""
        self._rows[trial.arm.name].add(trial, progress.objective)
        if not console.is_terminal or trial.outcome not in ("measured", "void"):
            Watcher.ended(self, trial, progress, spent)

    def table(self) -> RenderableType:
        """What is known now; fits 80 columns."""
        names = {name: self.known_as(name) for name in self._rows}
        width = max(map(len, ("configuration", *names.values())))
        width = min(width, WIDTH - _BESIDE)
        head = f"{'configuration':<{width}}  {'ratio':>5}  {'interval':<13}  {'figure':>9}  {'rounds':>6}"
        lines = [Text(head, style="dim"), *(self._row(name, names[name], width) for name in names)]
        unit = next((row.unit for row in self._rows.values() if row.unit), "")
        status = [Text(f"ratio: {_COMPARES[self._objective]}{unit and f'; figure: {unit}'}", style="dim")]
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
        text.append(f"  {row.figure:>9}  {row.rounds:>6,}", style="not bold")
        return text
