"""Plots of a probe's page: syncs, ceilings by threads, and the curve over processors. Pure.

Sits in `report`, on the drawing of `plots`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flushlab.probe.ceilings import BINLOG_STRATEGIES
from flushlab.probe.reading import duration
from flushlab.probe.servers import PROCESSORS, Curve
from flushlab.record import BinlogStrategy, Ceiling, DiskResult
from flushlab.report.document import Plot
from flushlab.report.plots import COLOURS, above, axes_in, round_ticks, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STRATEGY_COLOURS: Mapping[BinlogStrategy, str] = {
    "serial": COLOURS["mute"],
    "parallel": COLOURS["accent"],
    "redo": COLOURS["class-doublewrite"],
    "two-syncs": COLOURS["class-binlog"],
}
_MARKERS: Mapping[BinlogStrategy, str] = {"serial": "o", "parallel": "D", "redo": "^", "two-syncs": "s"}
_LEGEND = 26
"""Height of the line of names above a plot."""


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
            _sync(axes, place, one)

    return Plot(name, title, height, draw)


def _sync(axes: Axes, place: int, one: DiskResult) -> None:
    latency = one.latency_us
    assert latency is not None
    durable = one.way != "direct"
    colour = COLOURS["accent" if durable else "mute"]
    above(axes, f"{way_words(one)}, {size_words(one.bytes)}", place, 9)
    above(axes, f"{one.operations_per_s:,.0f}/s", place, 9, at_end=True, colour=colour)
    axes.plot([latency.p50, latency.p99], [place, place], color=colour, linewidth=2.4)
    axes.plot([latency.max], [place], marker="|", markersize=8, color=colour, markeredgewidth=1.6)
    axes.plot([latency.p50], [place], marker="o", markersize=7, color=colour, markeredgewidth=0)


def ceilings(cells: Sequence[Ceiling], *, name: str, title: str) -> Plot:
    counts = sorted({one.threads for one in cells})
    strategies = [
        strategy for strategy in BINLOG_STRATEGIES if any(one.binlog_strategy == strategy for one in cells)
    ]
    top = 1.08 * (max(one.commits_per_s for one in cells) or 1)

    def draw(figure: Figure) -> None:
        axes = axes_in(figure, left=50, right=16, top=_LEGEND + 8, bottom=42)
        axes.set_ylim(0, top)
        axes.set_xlim(-0.25, len(counts) - 0.75)
        axes.set_xticks(range(len(counts)), [str(count) for count in counts], color=COLOURS["ink"])
        axes.set_xlabel("connections", color=COLOURS["mute"])
        _rates(axes, top)
        _names(axes, strategies)
        for strategy in strategies:
            own = sorted(
                (one for one in cells if one.binlog_strategy == strategy), key=lambda one: one.threads
            )
            axes.plot(
                [counts.index(one.threads) for one in own],
                [one.commits_per_s for one in own],
                color=STRATEGY_COLOURS[strategy],
                marker=_MARKERS[strategy],
                markersize=6,
                linewidth=2,
                markeredgewidth=0,
            )

    return Plot(name, title, 232, draw)


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
        axes = axes_in(figure, left=50, right=16, top=_LEGEND + 8, bottom=42)
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
        axes.grid(axis="y")
        axes.set_xlabel("processors", color=COLOURS["mute"])
        _names(axes, [curve.cost.binlog_strategy for curve in curves])
        for processors, words in marks.items():
            axes.axvline(processors, color=COLOURS["line"], linewidth=1.4)
            _mark(axes, words, (processors, low))
        for curve in curves:
            strategy = curve.cost.binlog_strategy
            axes.plot(PROCESSORS, curve.commits_per_s, color=STRATEGY_COLOURS[strategy], linewidth=2)
            if strategy in measured:
                _dot(axes, strategy, measured[strategy])

    return Plot(name, title, 268, draw)


def _mark(axes: Axes, words: str, place: tuple[float, float]) -> None:
    colour = COLOURS["mute"]
    axes.annotate(words, place, (4, 5), textcoords="offset points", color=colour, fontsize=11)


def _dot(axes: Axes, strategy: BinlogStrategy, place: tuple[int, float]) -> None:
    x, y = place
    colour = STRATEGY_COLOURS[strategy]
    axes.plot([x], [y], color=colour, marker=_MARKERS[strategy], markersize=7, markeredgewidth=0)


def _rates(axes: Axes, top: float) -> None:
    ticks = round_ticks(top, count=4)
    axes.set_yticks(ticks, [short(tick) for tick in ticks])
    axes.grid(axis="y")


def _names(axes: Axes, strategies: Sequence[BinlogStrategy]) -> None:
    left = 0.0
    for strategy in strategies:
        axes.annotate(
            strategy,
            (0, 1),
            (left, 16),
            xycoords="axes fraction",
            textcoords="offset points",
            color=STRATEGY_COLOURS[strategy],
            weight="bold",
            fontsize=12,
        )
        left += 8.0 * len(strategy) + 14
