"""Section: every arm and the control against the base. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.plan.plan import CONTROL
from flushlab.report import plots
from flushlab.report.page.found import Compared
from flushlab.report.page.parts import (
    Cell,
    Section,
    Subject,
    Table,
    figure,
    interval,
    times,
    verdict_kind,
)
from flushlab.units import format_latency

MAX_PLOTTED = 40
"""Most rows of the forest plot; the table has them all."""


def section(subject: Subject) -> Iterator[Section]:
    """Every arm and the control against the base."""
    what = subject.found
    rows = list(what.compared)
    if what.control is not None:
        rows.append(
            Compared(CONTROL, "the base once more: should be about 1", what.control, (), what.control_figures)
        )
    if not rows:
        return
    plotted = rows[: MAX_PLOTTED - 1] + rows[-1:] if len(rows) > MAX_PLOTTED else rows
    plot = plots.forest(
        [
            plots.Row(
                row.arm,
                row.comparison.ratio,
                verdict_kind(row.comparison),
                times(row.comparison.ratio.estimate),
            )
            for row in plotted
        ],
        name="ratios",
        title="Ratio of each arm to the base with its interval; the table gives the same figures",
    )
    absolute = any(row.figures.figure is not None for row in rows)
    last = (Cell(what.unit, "num"),) if absolute else ()
    head = (Cell("arm"), Cell("ratio", "num"), Cell("interval", "num"), Cell("verdict"), *last)
    lead = (
        f"{what.compares}, each with its interval. All intervals hold together with 95 % "
        "probability. Filled: the interval excludes 1. The control is the base once more."
    )
    left = (f"{len(rows) - len(plotted)} more are in the table only.",) if len(rows) > len(plotted) else ()
    notes = (*left, *what.ways)
    table = Table(head, tuple((*_ratio_row(row), *_absolute(row, absolute)) for row in rows))
    yield Section("ratios", "Against the base", lead, (plot,), tables=(table,), notes=notes)


def _ratio_row(row: Compared) -> tuple[Cell, ...]:
    compared, kind = row.comparison, verdict_kind(row.comparison)
    return (
        Cell(row.arm, "name", " · ".join(part for part in (row.text, *row.notes) if part)),
        Cell(times(compared.ratio.estimate), f"num {kind}"),
        Cell(interval(compared.ratio), "num"),
        Cell(compared.verdict, kind, f"{compared.blocks} blocks"),
    )


def _absolute(row: Compared, shown: bool) -> Iterator[Cell]:
    """What the arm yielded by itself."""
    own = row.figures
    if shown:
        latency = "" if own.p99_us is None else f"p99 {format_latency(own.p99_us)}"
        yield Cell("" if own.figure is None else figure(own.figure), "num", latency)
