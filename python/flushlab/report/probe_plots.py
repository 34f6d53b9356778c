"""Plots of a probe's page: syncs, ceilings by threads, and the curve over processors. Pure.

Sits in `report`, on the drawing of `plots`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from flushlab.probe.ceilings import BINLOG_STRATEGIES
from flushlab.probe.reading import duration
from flushlab.probe.servers import PROCESSORS, Curve
from flushlab.record import BinlogStrategy, Ceiling, DiskResult
from flushlab.report.document import Plot
from flushlab.report.plots import COLOURS, RISE, Rows, above, axes_in, dots, note, round_ticks, short, ticked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INKS: Mapping[BinlogStrategy, str] = {
    "serial": "mute",
    "parallel": "accent",
    "redo": "class-doublewrite",
    "two-syncs": "class-binlog",
}
"""CSS variables of the strategies, without the dashes before them."""
_MARKERS: Mapping[BinlogStrategy, str] = {"serial": "o", "parallel": "D", "redo": "^", "two-syncs": "s"}
WAYS = {
    "fsync": "fsync",
    "fdatasync": "fdatasync",
    "dsync": "O_DSYNC",
    "direct_dsync": "O_DIRECT + O_DSYNC",
    "direct": "O_DIRECT (no flush)",
    "pair": "fdatasync of redo + binlog",
}
"""Ways of writing, as people know them."""

_LAYOUTS = {"written": "", "allocated": ", preallocated", "extending": ", growing file"}


def way_words(one: DiskResult) -> str:
    return WAYS[one.way] + _LAYOUTS[one.layout]


def size_words(size: int) -> str:
    return f"{size >> 10} KiB" if size >= 1024 else f"{size} B"


def syncs(figures: Sequence[DiskResult], *, name: str, title: str) -> Plot:
    rows = [(one, one.latency_us) for one in figures if one.latency_us is not None]
    ruled = Rows([f"{way_words(one)}, {size_words(one.bytes)}" for one, _ in rows], 42, 26)
    low, high = min(took.p50 for _, took in rows) / 1.6, max(took.max for _, took in rows) * 1.3
    marks = [10.0**power for power in range(-1, 8) if low <= 10.0**power <= high]

    def draw(figure: Figure) -> None:
        axes = ruled.axes(figure)
        words = [duration(mark).replace(".0", "") for mark in marks]
        ticked(axes, "x", (low, high), marks, words, log=10, grid=True)
        for place, (one, took) in zip(ruled.places, rows, strict=True):
            colour = COLOURS["mute" if one.way == "direct" else "accent"]
            above(axes, f"{one.operations_per_s:,.0f}/s", place, RISE, at_end=True, colour=colour)
            axes.plot([took.p50, took.p99], [place, place], color=colour, linewidth=2.4)
            dots(axes, [took.max], [place], colour, size=8, edge=1.6, marker="|")
            dots(axes, [took.p50], [place], colour, size=7)

    return Plot(name, title, ruled.height, draw)


def strategies(cells: Iterable[Ceiling]) -> list[BinlogStrategy]:
    found = {one.binlog_strategy for one in cells}
    return [strategy for strategy in BINLOG_STRATEGIES if strategy in found]


def ceilings(cells: Sequence[Ceiling], *, name: str, title: str) -> Plot:
    counts = sorted({one.threads for one in cells})
    top = 1.08 * (max(one.commits_per_s for one in cells) or 1)
    ticks = round_ticks(top, count=4)

    def draw(figure: Figure) -> None:
        axes = _axes(figure, "connections")
        ticked(axes, "x", (-0.25, len(counts) - 0.75), range(len(counts)), [*map(str, counts)])
        ticked(axes, "y", (0, top), ticks, [*map(short, ticks)], grid=True)
        for strategy in strategies(cells):
            own = {one.threads: one.commits_per_s for one in cells if one.binlog_strategy == strategy}
            x = [counts.index(threads) for threads in sorted(own)]
            _line(axes, x, [own[threads] for threads in sorted(own)], strategy, _MARKERS[strategy])

    return Plot(name, title, 206, draw)


def scaling(
    curves: Sequence[Curve],
    measured: Mapping[BinlogStrategy, tuple[int, float]],
    marks: Mapping[int, str],
    *,
    name: str,
    title: str,
) -> Plot:
    rates = [rate for curve in curves for rate in curve.commits_per_s]
    low, high = min(rates) / 1.5, max(rates) * 1.8

    def draw(figure: Figure) -> None:
        axes = _axes(figure, "processors")
        ends = PROCESSORS[0] / 1.15, PROCESSORS[-1] * 1.15
        ticked(axes, "x", ends, PROCESSORS, [*map(str, PROCESSORS)], log=2)
        ticks = [digit * 10.0**power for power in range(2, 9) for digit in (1, 3)]
        ticks = [tick for tick in ticks if low <= tick <= high]
        ticked(axes, "y", (low, high), ticks, [*map(short, ticks)], log=10, grid=True)
        for processors, words in marks.items():
            axes.axvline(processors, color=COLOURS["line"], linewidth=1.4)
            note(axes, words, (processors, low), (4, 5), xycoords="data", size=11)
        for curve in curves:
            strategy = curve.cost.binlog_strategy
            _line(axes, PROCESSORS, curve.commits_per_s, strategy)
            if strategy in measured:
                x, y = measured[strategy]
                _line(axes, [x], [y], strategy, _MARKERS[strategy])

    return Plot(name, title, 242, draw)


def _axes(figure: Figure, over: str) -> Axes:
    axes = axes_in(figure, left=50, right=16, top=8, bottom=42)
    axes.set_xlabel(over, color=COLOURS["mute"])
    return axes


def _line(
    axes: Axes, x: Sequence[float], y: Sequence[float], strategy: BinlogStrategy, marker: str = ""
) -> None:
    colour = COLOURS[INKS[strategy]]
    axes.plot(x, y, color=colour, marker=marker, markersize=6, linewidth=2, markeredgewidth=0)
