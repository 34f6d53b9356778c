"""Plots of the page: SVG by matplotlib, inside the HTML. Pure.

Each plot is 360 units wide, about its width on a phone, so that its text keeps its size there. Names stand
above their rows, which leaves the whole width to the data. What the page relies on:

- colours are CSS variables (`INKS`), so that dark mode and print need no second plot;
- text stays text, in the page's own font; matplotlib reads none of it as mathematics;
- ids are the same in every run and differ between the plots of a page; nothing refers to another file.

matplotlib (0.7 s) loads when the first plot is drawn.
"""

from __future__ import annotations

import html
import io
import itertools
import math
import re
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from flushlab.record import FILE_CLASSES, Ratio
from flushlab.report.document import Plot
from flushlab.report.subject import Activity, Rounds, Throughput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 360
POINTS = 400
"""Points of a line; longer series are drawn as the mean of neighbours within the band of their extremes."""
MAX_BORDERS = 60
"""With more windows than these, lines between them would hide the series."""

INKS = {
    "#010101": "--ink",
    "#020202": "--mute",
    "#030303": "--line",
    "#040404": "--good",
    "#050505": "--bad",
    "#060606": "--accent",
    "#070707": "--card",
    **{f"#11111{index}": f"--class-{name}" for index, name in enumerate(FILE_CLASSES)},
}
"""Stand-ins that are drawn with, and the CSS variables that take their place."""
COLOURS = {variable.removeprefix("--"): colour for colour, variable in INKS.items()}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "flushlab",
    "svg.id": None,
    "font.family": ["DejaVu Sans"],
    "font.size": 13,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "text.parse_math": False,
    "axes.edgecolor": COLOURS["line"],
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "xtick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "xtick.color": COLOURS["mute"],
    "ytick.color": COLOURS["mute"],
    "text.color": COLOURS["ink"],
    "grid.color": COLOURS["line"],
    "grid.linewidth": 0.8,
    "path.simplify": False,
}
_LABEL, _LABEL_LINES, _LINE = 36, 4, 15
"""Characters of a name that fit above its row, lines that it may take, and the height of one."""
RISE, _BELOW = 13, 14
"""Heights of a name above its row's line, and of the room below that line."""
_HIGH, _GAP, _FOOT = 64, 28, 44
"""Heights of a panel, of the room for the name above it, and of ticks and title of the axis below all."""

Verdict = Literal["good", "bad", "mute"]


class Row(NamedTuple):
    label: str
    ratio: Ratio
    verdict: Verdict
    note: str


def forest(rows: Sequence[Row], *, name: str, title: str) -> Plot:
    ruled, ratios = Rows([row.label for row in rows], 42, _FOOT), [row.ratio for row in rows]
    low = max(min(1.0, *(min(ratio.low, ratio.estimate) for ratio in ratios)), 1e-3)
    high = min(max(1.0, *(max(ratio.high, ratio.estimate) for ratio in ratios)), 1e4)
    room = math.exp(max(math.log(high / low) * 0.06, 0.01))
    ticks = _ratio_ticks(low / room, high * room)

    def draw(figure: Figure) -> None:
        axes = ruled.axes(figure)
        words = [f"{tick:g}×" for tick in ticks]
        ticked(axes, "x", (low / room, high * room), ticks, words, log=10, grid=True)
        axis_title(axes, "ratio, logarithmic; above 1 is better")
        axes.axvline(1, color=COLOURS["mute"], linewidth=1.2)
        for place, row in zip(ruled.places, rows, strict=True):
            colour = COLOURS[row.verdict]
            face = COLOURS["card"] if row.verdict == "mute" else colour
            axes.plot([row.ratio.low, row.ratio.high], [place, place], color=colour, linewidth=2.4)
            dots(axes, [row.ratio.estimate], [place], colour, size=7, edge=1.8, markerfacecolor=face)
            above(axes, row.note, place, RISE, at_end=True, colour=colour)

    return Plot(name, title, ruled.height, draw)


class _Stack:
    def __init__(self, arms: Sequence[str], highest: float, seconds: float) -> None:
        self._names, self._seconds, self.top = [*map(_wrapped, arms)], seconds, 1.04 * (highest or 1)
        gaps = [_GAP + _LINE * name.count("\n") for name in self._names]
        self.height, self._gap = _HIGH * len(arms) + sum(gaps) + _FOOT, gaps[0]
        floors = [0, *itertools.accumulate(_HIGH + gap for gap in reversed(gaps[1:]))]
        self.floors = [self.top / _HIGH * floor for floor in reversed(floors)]

    def axes(self, figure: Figure, unit: str, over: str) -> Axes:
        axes = axes_in(figure, left=46, right=14, top=self._gap, bottom=_FOOT)
        time_axis(axes, self._seconds, over)
        ticks = round_ticks(self.top / 1.04)
        places = [floor + tick for floor in self.floors for tick in ticks]
        words = [*map(short, ticks)] * len(self._names)
        ticked(axes, "y", (0, self.floors[0] + self.top), places, words, grid=True)
        for name, floor in zip(self._names, self.floors, strict=True):
            above(axes, name, floor + self.top, 6)
        note(axes, unit, (1, 1), (0, 6), ha="right")
        return axes


def seconds(panels: Sequence[Throughput], *, unit: str, name: str, title: str) -> Plot:
    longest = max(len(panel.seconds) for panel in panels)
    stack = _Stack([panel.arm for panel in panels], max(max(panel.seconds) for panel in panels), longest)

    def draw(figure: Figure) -> None:
        axes = stack.axes(figure, unit, "seconds of the windows, end to end")
        for place, (panel, floor) in enumerate(zip(panels, stack.floors, strict=True)):
            if len(panel.borders) < MAX_BORDERS:
                axes.vlines(panel.borders, floor, floor + stack.top, color=COLOURS["line"], linewidth=0.8)
            _line(axes, panel.seconds, floor, COLOURS["accent" if place else "mute"])
            stalls = sorted({second * POINTS // longest for second in panel.stalled})
            at, bottom = [stall * longest / POINTS + 0.5 for stall in stalls], [floor] * len(stalls)
            dots(axes, at, bottom, COLOURS["bad"], size=6, edge=1, marker="^", clip_on=False, zorder=3)

    return Plot(name, title, stack.height, draw)


def rounds(panels: Sequence[Rounds], *, unit: str, name: str, title: str) -> Plot:
    points = [point for panel in panels for point in (*panel.kept, *panel.dropped)]
    first, last = (pick(at for at, _ in points) for pick in (min, max))
    highest = max(rate for _, rate in points)
    stack = _Stack([panel.arm for panel in panels], highest, max(last - first, 1.0))

    def draw(figure: Figure) -> None:
        axes = stack.axes(figure, unit, "time since the first slice")
        for place, (panel, floor) in enumerate(zip(panels, stack.floors, strict=True)):
            colour = COLOURS["accent" if place else "mute"]
            for shown, marker, ink in ((panel.kept, "o", colour), (panel.dropped, "x", COLOURS["bad"])):
                picked = shown[:: 1 + len(shown) // POINTS]
                x, y = [at - first for at, _ in picked], [floor + rate for _, rate in picked]
                edge = 0 if marker == "o" else 1.4
                dots(axes, x, y, ink, size=4, edge=edge, marker=marker, clip_on=False, zorder=3)

    return Plot(name, title, stack.height, draw)


def figures(rows: Mapping[str, Sequence[float]], *, unit: str, name: str, title: str) -> Plot:
    ruled, top = Rows([*rows], 38, _FOOT), max(max(values) for values in rows.values())
    ticks = round_ticks(top, count=4)

    def draw(figure: Figure) -> None:
        axes = ruled.axes(figure)
        ticked(axes, "x", (0, 1.04 * top), ticks, [*map(short, ticks)], grid=True)
        axis_title(axes, unit)
        for number, (place, values) in enumerate(zip(ruled.places, rows.values(), strict=True)):
            shown = list(values)[-POINTS:]
            dots(axes, shown, [place] * len(shown), COLOURS["accent" if number else "mute"], alpha=0.55)

    return Plot(name, title, ruled.height, draw)


def stacked(rows: Sequence[Activity], what: str, sums: Sequence[str], *, title: str) -> Plot:
    """One quantity per class of files, a stacked bar per arm; a sum that lacks a class is a bound."""
    ruled = Rows([row.arm for row in rows], 40, 24, width=_LABEL - 3)
    known = [row.amounts[what] for row in rows]
    told = {kind for row in rows for kind in row.looked_for(what)}

    def draw(figure: Figure) -> None:
        axes = ruled.axes(figure)
        axes.set_xlim(0, max(sum(own.values()) for own in known) or 1)
        axes.set_xticks([])
        axis_title(axes, title.rpartition(", ")[0] or title, drop=16)
        axes.spines["bottom"].set_visible(False)
        left = [0.0] * len(rows)
        for kind in FILE_CLASSES:
            values = [own.get(kind, 0.0) for own in known]
            if any(values):
                axes.barh(ruled.places, values, 14, left, color=COLOURS[f"class-{kind}"], linewidth=0)
                left = [start + value for start, value in zip(left, values, strict=True)]
        for place, row, own, whole in zip(ruled.places, rows, known, sums, strict=True):
            bound = "" if told & {*row.classes} <= own.keys() else "≥ "
            above(axes, bound + whole, place, RISE, at_end=True)

    return Plot(what, title, ruled.height, draw)


# -- drawing ---------------------------------------------------------------------------------------------


def axes_in(figure: Figure, *, left: float, right: float, top: float, bottom: float) -> Axes:
    height = figure.get_figheight() * 72
    return figure.add_axes(
        (left / WIDTH, bottom / height, (WIDTH - left - right) / WIDTH, (height - top - bottom) / height)
    )


def note(axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **look: Any) -> None:
    """A text at a place of the axes (fractions), moved by units of the plot."""
    usual: dict[str, Any] = {"xycoords": "axes fraction", "va": "baseline", "color": COLOURS["mute"]}
    usual |= {"size": 12, "annotation_clip": False}
    axes.annotate(text, at, offset, textcoords="offset points", **usual | look)


def axis_title(axes: Axes, text: str, *, drop: int = 36) -> None:
    note(axes, text, (1, 0), (0, -drop), ha="right")


def ticked(
    axes: Axes,
    side: Literal["x", "y"],
    ends: tuple[float, float],
    ticks: Sequence[float],
    words: Sequence[str],
    *,
    log: int = 0,
    grid: bool = False,
) -> None:
    """`log`: the base of a logarithmic scale; 0: a linear one."""
    if log:
        getattr(axes, f"set_{side}scale")("log", base=log, subs=[])
    getattr(axes, f"set_{side}lim")(*ends)
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_ticks(ticks, words)
    axis.set_ticks([], minor=True)
    axis.grid(grid)


def time_axis(axes: Axes, seconds: float, over: str) -> None:
    marks = round_ticks(seconds, count=4)
    ticked(axes, "x", (0, seconds), marks, [f"{mark:g} s" if mark else "0" for mark in marks])
    axis_title(axes, over)


def above(
    axes: Axes, text: str, place: float, rise: float, *, at_end: bool = False, colour: str = COLOURS["ink"]
) -> None:
    look: dict[str, Any] = {"ha": "right", "weight": "bold"} if at_end else {"ha": "left"}
    look |= {"xycoords": ("axes fraction", "data"), "color": colour, "size": 13}
    for number, line in enumerate(reversed(text.split("\n"))):
        note(axes, line, (1 if at_end else 0, place), (0, rise + _LINE * number), **look)


class Rows:
    """Rows below each other, each with its name above it; `places` of their lines are units from the top."""

    def __init__(self, names: Sequence[str], pitch: int, foot: int, *, width: int = _LABEL) -> None:
        self._names, self._foot = [_wrapped(name, width) for name in names], foot
        ends = [*itertools.accumulate(pitch + _LINE * name.count("\n") for name in self._names)]
        self.places = [end - _BELOW for end in ends]
        self.height = ends[-1] + foot

    def axes(self, figure: Figure) -> Axes:
        axes = axes_in(figure, left=8, right=8, top=0, bottom=self._foot)
        axes.set_ylim(self.height - self._foot, 0)
        axes.set_yticks([])
        for place, name in zip(self.places, self._names, strict=True):
            above(axes, name, place, RISE)
        return axes


def dots(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    colour: str,
    *,
    size: float = 5,
    edge: float = 0,
    **look: Any,
) -> None:
    chosen: dict[str, Any] = {"marker": "o", "markersize": size, "markeredgewidth": edge} | look
    axes.plot(x, y, linestyle="none", color=colour, **chosen)


def _ratio_ticks(low: float, high: float) -> list[float]:
    ladders: list[list[float]] = [
        [10.0**power for power in range(-3, 5)],
        [digit * 10.0**power for power in range(-3, 5) for digit in (1, 3)],
        [digit * 10.0**power for power in range(-3, 5) for digit in (1, 2, 5)],
    ]
    ladders += [
        [1 + step * count for count in range(-int(1 / step) + 1, int(9 / step))]
        for step in (0.5, 0.25, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
    ]
    chosen = [1.0]
    for ladder in ladders:
        inside = [round(tick, 6) for tick in ladder if low <= tick <= high]
        if len(inside) > 7:
            break
        chosen = inside if len(inside) > len(chosen) else chosen
    return chosen


def round_ticks(top: float, count: int = 2) -> list[float]:
    step = 10.0 ** math.floor(math.log10(top / count)) if top > 0 else 1.0
    for factor in (1, 2, 2.5, 5, 10):
        if top / (step * factor) <= count + 0.5:
            step *= factor
            break
    return [step * index for index in range(int(top / step) + 1)]


def _line(axes: Axes, values: Sequence[int], floor: float, colour: str) -> None:
    size = math.ceil(len(values) / POINTS)
    bins = [values[start : start + size] for start in range(0, len(values), size)]
    middles = [min((index + 0.5) * size, len(values)) for index in range(len(bins))]
    if size > 1:
        lows, highs = [floor + min(one) for one in bins], [floor + max(one) for one in bins]
        axes.fill_between(middles, lows, highs, color=colour, alpha=0.25, linewidth=0)
    means = [floor + sum(one) / len(one) for one in bins]
    if len(bins) == 1:  # one second is a line, too
        middles, means = [0, len(values)], means * 2
    axes.plot(middles, means, color=colour, linewidth=1.3)


def short(value: float) -> str:
    for limit, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{suffix}"
    return f"{value:g}"


def _wrapped(text: str, width: int = _LABEL) -> str:
    printable = "".join(one if one.isprintable() else "·" for one in text)
    return "\n".join(textwrap.wrap(printable, width, max_lines=_LABEL_LINES, placeholder="…"))


# -- from matplotlib's SVG to ours -----------------------------------------------------------------------


def svg(plot: Plot) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that its own font lacks; the page's font draws the text
        figure = Figure(figsize=(WIDTH / 72, plot.height / 72))
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        plot.draw(figure)
        for axes in figure.axes:
            axes.patch.set_visible(False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return _inline(buffer.getvalue(), plot.height, plot.name, plot.title)


def _inline(svg: str, height: float, name: str, title: str) -> str:
    """The element alone, without what a file needs, with ids of its own and colours of the page."""
    body = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>|<metadata>.*?</metadata>|<g/>", "", body, flags=re.S)
    used = set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", body))

    def tag(found: re.Match[str]) -> str:
        """Only tags change: what people named stands between them."""
        one = found[0].replace("xlink:href=", "href=")
        one = re.sub(r' id="([^"]*)"', lambda two: f' id="{name}-{two[1]}"' if two[1] in used else "", one)
        one = re.sub(r"(href=\"#|url\(#)", rf"\g<1>{name}-", one)
        one = re.sub(r" ?font-family: [^;\"]*;?| transform=\"rotate\(-0 [^\"]*\"", "", one)
        one = re.sub(r"-?[0-9]+\.[0-9]{3,}", lambda two: f"{float(two[0]):.2f}", one)
        return re.sub("|".join(INKS), lambda two: f"var({INKS[two[0]]})", re.sub(r"\s+", " ", one))

    body = re.sub(r"<[^>]*>", tag, body)
    body = re.sub(r"\n\s*", "\n", body).strip()
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{name}-title">'
        f'<title id="{name}-title">{html.escape(title)}</title>\n{body}\n</svg>'
    )
