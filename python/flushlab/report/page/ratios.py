"""Section: every arm and the control against the base. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flushlab.experiment.objective import Objective, verdict_words
from flushlab.plan.plan import CONTROL
from flushlab.report import plots
from flushlab.report.page.found import Compared, Found
from flushlab.report.page.parts import (
    P99_LEAD,
    Cell,
    Section,
    Subject,
    Table,
    figure,
    interval,
    p99_cell,
    times,
    verdict_kind,
)
from flushlab.report.plots import Verdict
from flushlab.units import format_latency

MAX_PLOTTED = 40
"""Most rows of the forest plot; the table has them all."""

_COMPARES = {
    "throughput": "How many times as fast as",
    "p99": "How many times lower p99 latency (the 99th percentile) is than that of",
}
_BETWEEN = {
    "throughput": "How many times as fast each server's base is as the first server's",
    "p99": "How many times lower the p99 latency of each server's base is than that of the first server's",
}


def section(subject: Subject) -> Iterator[Section]:
    """Every arm and the control against its base, then servers against each other."""
    what = subject.found
    arms = [row for row in what.compared if not row.is_server]
    if what.control is not None:
        arms.append(
            Compared(
                CONTROL,
                "the base once more: should be about 1",
                what.control,
                (),
                what.control_figures,
                p99=what.control_p99,
            )
        )
    lead = (
        f"{_COMPARES[what.objective]} {what.against}, each with its interval. All intervals hold "
        "together with 95 % probability. Filled: the interval excludes 1. The control is the base once more."
    )
    if any(row.base for row in arms):
        lead += " Each server's configurations are compared with its own base."
    if arms:
        yield _section("ratios", "Against the base", lead, arms, what)
    if servers := [row for row in what.compared if row.is_server]:
        lead = f"{_BETWEEN[what.objective]}. No setting gains this."
        yield _section("servers", "Between servers", lead, servers, what)


def _section(key: str, title: str, lead: str, rows: Sequence[Compared], what: Found) -> Section:
    plotted = [*rows[: MAX_PLOTTED - 1], *rows[-1:]] if len(rows) > MAX_PLOTTED else rows
    plot = plots.forest(
        [
            plots.Row(
                row.arm,
                row.comparison.ratio,
                _kind(row),
                times(row.comparison.ratio.estimate),
            )
            for row in plotted
        ],
        name=key,
        title="Ratio of each row with its interval; the table gives the same figures",
    )
    absolute = any(row.figures.figure is not None for row in rows)
    last = (Cell(what.unit, "num"),) if absolute else ()
    latency = what.objective != "p99" and any(row.p99 is not None for row in rows)
    p99 = (Cell("p99 ratio", "num"),) if latency else ()
    head = (Cell("arm"), Cell("ratio", "num"), Cell("interval", "num"), Cell("verdict"), *p99, *last)
    if latency:
        lead += P99_LEAD
    left = (f"{len(rows) - len(plotted)} more are in the table only.",) if len(rows) > len(plotted) else ()
    table = Table(
        head,
        tuple(
            (*_ratio_row(row, what.objective), *_latency(row, latency), *_absolute(row, absolute))
            for row in rows
        ),
    )
    return Section(
        key, title, lead, (plot,), tables=(table,), notes=(*left, *(what.ways if key == "ratios" else ()))
    )


def _kind(row: Compared) -> Verdict:
    """The colour of a row: another server is no gain."""
    return "mute" if row.is_server else verdict_kind(row.comparison)


def _ratio_row(row: Compared, objective: Objective) -> tuple[Cell, ...]:
    compared, kind = row.comparison, _kind(row)
    return (
        Cell(
            row.arm,
            "name",
            " · ".join(
                part for part in (row.text, *row.notes, f"against {row.base}" if row.base else "") if part
            ),
        ),
        Cell(times(compared.ratio.estimate), f"num {kind}"),
        Cell(interval(compared.ratio), "num"),
        Cell(
            "" if row.is_server else verdict_words(compared.verdict, objective),
            kind,
            f"{compared.blocks} blocks",
        ),
    )


def _latency(row: Compared, shown: bool) -> Iterator[Cell]:
    """How its p99 latency compares."""
    if shown:
        yield p99_cell(row.p99)


def _absolute(row: Compared, shown: bool) -> Iterator[Cell]:
    """What the arm yielded by itself."""
    own = row.figures
    if shown:
        latency = "" if own.p99_us is None else f"p99 {format_latency(own.p99_us)}"
        yield Cell("" if own.figure is None else figure(own.figure), "num", latency)
