"""Plots of a doctor's page: the writers' time by wait, and commits, over the window. Pure.

Sits in `report`, on the drawing of `plots`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flushlab.diagnosis.shares import WriteTime
from flushlab.diagnosis.waits import ROW_LOCK
from flushlab.report.document import Plot
from flushlab.report.plots import COLOURS, axes_in, note, round_ticks, short, ticked, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INKS: Mapping[str, str] = {
    "commit": "class-redo",
    ROW_LOCK: "class-binlog",
    "metadata lock": "bad",
    "semi-sync": "class-doublewrite",
    "certification": "class-doublewrite",
    "flow control": "good",
    "statement": "class-data",
    "reading": "class-undo",
    "client": "class-other",
}
"""CSS variables of the waits, without the dashes before them. No server has semi-sync and certification."""
_MOST_POINTS = 400
_LEFT = 46


def stacking(time: WriteTime, binding: Sequence[str]) -> list[str]:
    """The waits that were seen, from the lowest area up: those that bind, the longest of the others, the
    client's turn."""
    seen = sorted((wait for wait, mean in time.connections.items() if mean), key=time.connections.__getitem__)
    seen.reverse()
    return sorted(seen, key=lambda wait: (wait not in binding, wait == "client"))


def waits(time: WriteTime, binding: Sequence[str], seconds: float, *, name: str, title: str) -> Plot:
    stack = stacking(time, binding)
    top = 1.06 * max((sum(one.connections.values()) for one in time.steps), default=1.0) or 1.0

    def draw(figure: Figure) -> None:
        axes = _axes(figure, seconds, top, "writers")
        for part in _unbroken(time):
            ends = [edge for step in part for edge in (step.at_s, step.at_s + time.step_s)]
            floor = [0.0] * len(ends)
            for place, wait in enumerate(stack):
                means = [mean for step in part for mean in [step.connections.get(wait, 0.0)] * 2]
                above = [low + mean for low, mean in zip(floor, means, strict=True)]
                axes.fill_between(ends, floor, above, color=COLOURS[INKS.get(wait, "mute")], linewidth=0)
                floor = above
                if wait in binding and (place + 1 == len(stack) or stack[place + 1] not in binding):
                    axes.plot(ends, above, color=COLOURS["ink"], linewidth=1.6, solid_joinstyle="round")
        if binding:
            note(axes, "binds", (0, 0), (6, 6), ha="left", weight="bold", color=COLOURS["ink"])

    return Plot(name, title, 220, draw)


def commits(rates: Sequence[tuple[float, float]], seconds: float, *, name: str, title: str) -> Plot:
    shown = rates[:: 1 + len(rates) // _MOST_POINTS]
    top = 1.06 * (max(rate for _, rate in shown) or 1.0)

    def draw(figure: Figure) -> None:
        axes = _axes(figure, seconds, top, "commits/s")
        marker = "o" if len(shown) == 1 else ""
        at_s, values = [at for at, _ in shown], [rate for _, rate in shown]
        axes.plot(at_s, values, color=COLOURS["accent"], linewidth=1.6, marker=marker, markersize=5)

    return Plot(name, title, 150, draw)


def _axes(figure: Figure, seconds: float, top: float, unit: str) -> Axes:
    axes = axes_in(figure, left=_LEFT, right=14, top=24, bottom=44)
    time_axis(axes, seconds, "time since the window began")
    ticks = round_ticks(top / 1.06, count=3)
    ticked(axes, "y", (0, top), ticks, [*map(short, ticks)], grid=True)
    note(axes, unit, (0, 1), (-_LEFT + 4, 8), ha="left")
    return axes


def _unbroken(time: WriteTime) -> list[list[Any]]:
    """Steps that follow each other: nothing is drawn where no connection was looked at."""
    found: list[list[Any]] = []
    for step in time.steps:
        if not found or step.at_s - found[-1][-1].at_s > 1.5 * time.step_s:
            found.append([])
        found[-1].append(step)
    return found
