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
from flushlab.report.plots import COLOURS, above, axes_in, note, round_ticks, short

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
    rows = [one for one in figures if one.latency_us is not None]
    pitch, foot = 38, 26
    height = pitch * len(rows) + foot

    def draw(figure: Figure) -> None:
        axes = axes_in(figure, left=8, right=12, top=2, bottom=foot)
        axes.set_ylim(len(rows) - 0.3, -0.8)
        axes.set_xscale("log", base=10, subs=[])
        low = min(one.latency_us.p50 for one in rows if one.latency_us)
        high = max(one.latency_us.max for one in rows if one.latency_us)
        low, high = low / 1.6, high * 1.3
        axes.set_xlim(low, high)
        marks = [10.0**power for power in range(-1, 8) if low <= 10.0**power <= high]
        axes.set_xticks(marks, [duration(mark).replace(".0", "") for mark in marks])
        axes.set_xticks([], minor=True)
        axes.set_yticks([])
        axes.grid(axis="x")
        for place, one in enumerate(rows):
            assert one.latency_us is not None
            latency, colour = one.latency_us, COLOURS["mute" if one.way == "direct" else "accent"]
            above(axes, f"{way_words(one)}, {size_words(one.bytes)}", place, 9)
            above(axes, f"{one.operations_per_s:,.0f}/s", place, 9, at_end=True, colour=colour)
            axes.plot([latency.p50, latency.p99], [place, place], color=colour, linewidth=2.4)
            axes.plot([latency.max], [place], marker="|", markersize=8, color=colour, markeredgewidth=1.6)
            axes.plot([latency.p50], [place], marker="o", markersize=7, color=colour, markeredgewidth=0)

    return Plot(name, title, height, draw)


def strategies(cells: Iterable[Ceiling]) -> list[BinlogStrategy]:
    found = {one.binlog_strategy for one in cells}
    return [strategy for strategy in BINLOG_STRATEGIES if strategy in found]


def ceilings(cells: Sequence[Ceiling], *, name: str, title: str) -> Plot:
    counts = sorted({one.threads for one in cells})
    top = 1.08 * (max(one.commits_per_s for one in cells) or 1)
    ticks = round_ticks(top, count=4)

    def draw(figure: Figure) -> None:
        axes = _axes(figure, "connections")
        axes.set_ylim(0, top)
        axes.set_xlim(-0.25, len(counts) - 0.75)
        axes.set_xticks(range(len(counts)), [str(count) for count in counts], color=COLOURS["ink"])
        axes.set_yticks(ticks, [*map(short, ticks)])
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
        axes.set_xscale("log", base=2, subs=[])
        axes.set_yscale("log", base=10, subs=[])
        axes.set_xlim(PROCESSORS[0] / 1.15, PROCESSORS[-1] * 1.15)
        axes.set_ylim(low, high)
        axes.set_xticks(PROCESSORS, [str(one) for one in PROCESSORS], color=COLOURS["ink"])
        ticks = [digit * 10.0**power for power in range(2, 9) for digit in (1, 3)]
        ticks = [tick for tick in ticks if low <= tick <= high]
        axes.set_yticks(ticks, [short(tick) for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_yticks([], minor=True)
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
    axes.grid(axis="y")
    axes.set_xlabel(over, color=COLOURS["mute"])
    return axes


def _line(
    axes: Axes, x: Sequence[float], y: Sequence[float], strategy: BinlogStrategy, marker: str = ""
) -> None:
    colour = COLOURS[INKS[strategy]]
    axes.plot(x, y, color=colour, marker=marker, markersize=6, linewidth=2, markeredgewidth=0)
