"""Sections of a page that show what was measured: ratios, the frontier, throughput, files. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from flushlab.campaign.facts import TuneFacts
from flushlab.experiment.frontier import FrontierPoint
from flushlab.plan.plan import BASE, CONTROL
from flushlab.record import FILE_CLASSES
from flushlab.report import plots
from flushlab.report.page_found import Compared
from flushlab.report.page_parts import (
    Cell,
    Section,
    Subject,
    Table,
    figure,
    interval,
    small,
    times,
    verdict_kind,
)
from flushlab.report.page_trials import Activity, Throughput, activity, throughput
from flushlab.report.tune import spell
from flushlab.units import format_size

MAX_PANELS = 8
MAX_PLOTTED = 40
"""Limits on what one page shows: panels of throughput, rows of a forest plot."""

# -- ratios ----------------------------------------------------------------------------------------------


def ratios(subject: Subject) -> Iterator[Section]:
    """Every arm and the control against the base."""
    what = subject.found
    rows = list(what.compared)
    if what.control is not None:
        rows.append(Compared(CONTROL, "the base once more: should be about 1", what.control))
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
    head = (Cell("arm"), Cell("ratio", "num"), Cell("interval", "num"), Cell("verdict"))
    lead = (
        f"{what.compares}, each with its interval. All intervals hold together with 95 % "
        "probability. Filled: the interval excludes 1. The control is the base once more."
    )
    notes = (f"{len(rows) - len(plotted)} more are in the table only.",) if len(rows) > len(plotted) else ()
    table = Table(head, tuple(map(_ratio_row, rows)))
    yield Section("ratios", "Against the base", lead, (plot,), tables=(table,), notes=notes)


def _ratio_row(row: Compared) -> tuple[Cell, ...]:
    compared, kind = row.comparison, verdict_kind(row.comparison)
    return (
        Cell(row.arm, "name", " · ".join(part for part in (row.text, *row.notes) if part)),
        Cell(times(compared.ratio.estimate), f"num {kind}"),
        Cell(interval(compared.ratio), "num"),
        Cell(compared.verdict, kind, f"{compared.blocks} blocks"),
    )


def frontier(subject: Subject) -> Iterator[Section]:
    """What each floor buys, for a tuning."""
    if not isinstance(subject.facts, TuneFacts) or not subject.facts.result.frontier:
        return
    result = subject.facts.result
    steps = [
        plots.Step(point.floor.value, point.ratio, point.free_ratio, point == result.winner)
        for point in result.frontier
    ]
    drawn = []
    if len(steps) > 1 and any(point.settings for point in result.frontier):
        title = "Best proven ratio at each floor, from the safest on the left"
        drawn.append(plots.frontier(steps, name="frontier", title=title))
    rows = [row for point in result.frontier for row in _floor_rows(point, is_winner=point == result.winner)]
    head = (Cell("floor"), Cell("ratio", "num"), Cell("interval", "num"), Cell("free", "num"))
    lead = (
        "What each durability floor gains, from the safest, and what it changes in the base. “Free” is "
        "the part of the gain that weakens no guarantee (a hollow diamond if it is less than the whole)."
    )
    table = Table(head, tuple(rows))
    yield Section("frontier", "Speed against safety", lead, tuple(drawn), tables=(table,))


def _floor_rows(point: FrontierPoint, *, is_winner: bool) -> Iterator[tuple[Cell, ...]]:
    lines = "\n".join(f"{name} = {spell(value)}" for name, value in point.settings.items())
    note = "the winner" if is_winner else "" if lines else "nothing faster was proven"
    yield (
        Cell(point.floor.value, "name", note),
        Cell(times(point.ratio.estimate), f"num {'good' if point.ratio.low > 1 else 'mute'}"),
        Cell(interval(point.ratio) if lines else "", "num"),
        Cell(times(point.free_ratio.estimate) if point.free_ratio else "?", "num"),
    )
    if lines:
        yield (Cell(lines, "code"),)


# -- over time -------------------------------------------------------------------------------------------


def over_time(subject: Subject) -> Iterator[Section]:
    """Throughput of every second, or the figure of every trial where a workload has no seconds."""
    candidates = _candidates(subject)
    shown = candidates[:MAX_PANELS]
    left = len(candidates) - len(shown)
    notes = (f"{left} more {'arms are' if left > 1 else 'arm is'} not shown.",) if left else ()
    lines = [line for arm in shown if (line := throughput(arm, subject.arms[arm])) is not None]
    if not lines:
        yield from _every_trial(subject, shown, notes)
        return
    windows = max(line.windows for line in lines)
    title = "Throughput of each second of the measured windows, per arm"
    head = ("median", "slowest", "stalled", "p99")
    stand = f"{windows} measured windows" if windows != 1 else "one measured window"
    lead = (
        f"Throughput of every second in {subject.found.unit or 'events/s'}; {stand} end to end, separated by "
        "thin lines. A triangle marks a stalled second: less than a tenth of its window's median."
    )
    table = Table((Cell("arm"), *(Cell(name, "num") for name in head)), tuple(map(_line_row, lines)))
    drawn = (plots.seconds(lines, name="time", title=title),)
    yield Section("time", "Throughput over time", lead, drawn, tables=(table,), notes=notes)


def _line_row(line: Throughput) -> tuple[Cell, ...]:
    return (
        Cell(line.arm, "name"),
        Cell(figure(line.median), "num"),
        Cell(figure(line.slowest), "num"),
        Cell(f"{len(line.stalled)} of {len(line.seconds):,} s", "num bad" if line.stalled else "num"),
        Cell(f"{line.p99_ms:,.1f} ms" if line.p99_ms is not None else "", "num"),
    )


def _every_trial(subject: Subject, shown: Sequence[str], notes: tuple[str, ...]) -> Iterator[Section]:
    unit = subject.found.unit
    rows = {
        arm: own
        for arm in shown
        if (own := [trial.figure for trial in subject.arms[arm] if trial.figure is not None])
    }
    if not rows:
        return
    head = ("least", "median", "most", "trials")
    table = Table(
        (Cell("arm"), *(Cell(name, "num") for name in head)),
        tuple(_figures_row(arm, sorted(own)) for arm, own in rows.items()),
    )
    better = "more" if subject.found.higher_is_better else "less"
    lead = f"Each trial yields one figure in {unit}; {better} is better. A dot is a trial."
    drawn = (plots.figures(rows, name="time", title=f"Figure of every trial in {unit}, per arm"),)
    yield Section("time", "Every trial", lead, drawn, tables=(table,), notes=notes)


def _figures_row(arm: str, own: Sequence[float]) -> tuple[Cell, ...]:
    picked = (figure(own[0]), figure(own[len(own) // 2]), figure(own[-1]), f"{len(own):,}")
    return (Cell(arm, "name"), *(Cell(text, "num") for text in picked))


def _candidates(subject: Subject) -> list[str]:
    """The base, the arm of the answer, then what was compared; all that ran as long as nothing was."""
    arms = subject.found.arms or [arm for arm in subject.arms if arm != CONTROL]
    return [arm for arm in dict.fromkeys((BASE, *arms)) if arm in subject.arms]


# -- files -----------------------------------------------------------------------------------------------

_CLASSES = {
    "redo": "redo log",
    "binlog": "binlog",
    "doublewrite": "doublewrite",
    "data": "data",
    "undo": "undo",
    "other": "other",
}
_PER = {"transactions/s": "transaction", "rows/s": "row"}


class _Quantity(NamedTuple):
    """What is counted per class of files."""

    name: str
    read: Callable[[Activity], Mapping[str, float]]
    spell: Callable[[float], str]
    unit: str = ""

    def spelled(self, value: float) -> str:
        """The value with its unit."""
        return self.spell(value) + self.unit


_QUANTITIES = (
    _Quantity("fsyncs", lambda row: row.fsyncs, small, " fsyncs"),
    _Quantity("bytes", lambda row: row.bytes, format_size),
)


def files(subject: Subject) -> Iterator[Section]:
    """Where fsyncs and bytes went."""
    shown = _candidates(subject)[:MAX_PANELS]
    rows = [one for arm in shown if (one := activity(arm, subject.arms[arm])) is not None]
    told = [quantity for quantity in _QUANTITIES if any(quantity.read(row) for row in rows)]
    if not told:
        return
    per = _PER.get(subject.found.unit, "run")
    drawn = tuple(
        plots.stacked(
            rows,
            quantity.read,
            quantity.spelled,
            name=quantity.name,
            title=f"{quantity.name.capitalize()} per {per} and class of files, per arm",
        )
        for quantity in told
    )
    lead = (
        f"Where writes went, per {per}. A class without a bar wrote nothing; one without a figure (–) is not "
        "reported by this server."
    )
    yield Section(
        "files",
        "Fsyncs and bytes",
        lead,
        drawn,
        legend=tuple(_seen(rows)),
        tables=tuple(_classes(quantity, rows, per) for quantity in told),
        notes=tuple(_flags(rows)),
    )


def _classes(quantity: _Quantity, rows: Sequence[Activity], per: str) -> Table:
    kinds = [kind for kind in FILE_CLASSES if any(kind in quantity.read(row) for row in rows)]
    return Table(
        head=(Cell("arm"), *(Cell(_CLASSES[kind], "num") for kind in kinds)),
        rows=tuple(
            (
                Cell(row.arm, "name"),
                *(
                    Cell(quantity.spell(known[kind]) if kind in known else "–", "num")
                    for known in [quantity.read(row)]
                    for kind in kinds
                ),
            )
            for row in rows
        ),
        caption=f"{quantity.name.capitalize()} per {per}",
    )


def _seen(rows: Sequence[Activity]) -> Iterator[str]:
    """Classes that have a bar."""
    for kind in FILE_CLASSES:
        if any(quantity.read(row).get(kind) for quantity in _QUANTITIES for row in rows):
            yield kind


def _flags(rows: Sequence[Activity]) -> Iterator[str]:
    """With which flags files were open, arms that agree in one sentence."""
    opened: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in rows:
        for kind, flags in row.flags.items():
            opened.setdefault((_CLASSES[kind], flags), []).append(row.arm)
    for (kind, flags), arms in opened.items():
        where = "every arm" if len(arms) == len(rows) else ", ".join(arms)
        yield f"Open with {', '.join(flags)}: {kind} in {where}."
