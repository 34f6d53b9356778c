"""Section: throughput over time; every turn of standing servers; every trial where a workload has no seconds.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flushlab.report import plots
from flushlab.report.page.arms import Rounds, Throughput, rounds, throughput
from flushlab.report.page.parts import (
    MAX_PANELS,
    Cell,
    Section,
    Subject,
    Table,
    shown_arms,
)
from flushlab.report.words import figure
from flushlab.units import format_spread


def section(subject: Subject) -> Iterator[Section]:
    """Throughput of every second, or the figure of every trial where a workload has no seconds."""
    candidates = shown_arms(subject)
    turns = [rounds(subject.named(arm), subject.arms[arm]) for arm in candidates]
    panels = [panel for panel in turns if panel is not None]
    if panels:
        fresh = [
            subject.named(arm) for arm in candidates if not any(trial.slices for trial in subject.arms[arm])
        ]
        notes = _left(len(panels))
        if fresh:
            notes += (f"{', '.join(fresh)}: a fresh server for each window, so no turns.",)
        yield _every_slice(subject, panels[:MAX_PANELS], notes)
        return
    shown, notes = candidates[:MAX_PANELS], _left(len(candidates))
    lines = [line for arm in shown if (line := throughput(subject.named(arm), subject.arms[arm])) is not None]
    if not lines:
        yield from _every_trial(subject, shown, notes)
        return
    windows = max(line.windows for line in lines)
    title = "Throughput of each second of the measured windows, per arm"
    head = ("median", "slowest", "stalled", "p99")
    stand = f"{windows} measured windows" if windows != 1 else "one measured window"
    lead = (
        f"Throughput of every second in {subject.units or 'events/s'}; {stand} end to end, separated"
        " by thin lines. A triangle marks a stalled second: less than a tenth of its window's median."
    )
    table = Table((Cell("arm"), *(Cell(name, "num") for name in head)), tuple(map(_line_row, lines)))
    drawn = (plots.seconds(lines, name="time", title=title),)
    yield Section("time", "Throughput over time", lead, drawn, tables=(table,), notes=notes)


def _left(count: int) -> tuple[str, ...]:
    """What is said of arms beyond those that are drawn."""
    left = count - MAX_PANELS
    return (f"{left} more {'arms are' if left > 1 else 'arm is'} not shown.",) if left > 0 else ()


def _every_slice(subject: Subject, panels: Sequence[Rounds], notes: tuple[str, ...]) -> Section:
    unit = subject.units or "events/s"
    dropped = any(panel.dropped for panel in panels)
    cross = " A cross is a turn whose round does not count, because the clock had a gap." if dropped else ""
    turns = "Servers stood side by side and took turns, one at a time."
    if any(panel.switched for panel in panels):
        turns = "Arms took turns on the same server, which was switched to their settings by SET GLOBAL."
    lead = f"{turns} A dot is one turn, in {unit}, when it was measured.{cross}"
    head = ("least", "median", "most", "turns", "each", "dropped", "others' CPU")
    table = Table((Cell("arm"), *(Cell(name, "num") for name in head)), tuple(map(_rounds_row, panels)))
    drawn = (plots.rounds(panels, name="time", title=f"Every turn in {unit}, per arm"),)
    return Section("time", "Every turn over time", lead, drawn, tables=(table,), notes=notes)


def _rounds_row(panel: Rounds) -> tuple[Cell, ...]:
    rates = sorted(rate for _, rate in panel.kept)
    foreign = "" if panel.foreign_share is None else f"{panel.foreign_share:.0%}"
    dropped = Cell(f"{len(panel.dropped):,}", "num bad" if panel.dropped else "num")
    middle, turns = figure(rates[len(rates) // 2]), f"{len(rates):,}"
    picked = (figure(rates[0]), middle, figure(rates[-1]), turns, format_spread(*panel.turn_s))
    return (Cell(panel.arm, "name"), *(Cell(text, "num") for text in picked), dropped, Cell(foreign, "num"))


def _line_row(line: Throughput) -> tuple[Cell, ...]:
    return (
        Cell(line.arm, "name"),
        Cell(figure(line.median), "num"),
        Cell(figure(line.slowest), "num"),
        Cell(f"{len(line.stalled)} of {len(line.seconds):,} s", "num bad" if line.stalled else "num"),
        Cell(f"{line.p99_ms:,.1f} ms" if line.p99_ms is not None else "", "num"),
    )


def _every_trial(subject: Subject, shown: Sequence[str], notes: tuple[str, ...]) -> Iterator[Section]:
    unit = subject.units
    rows = {
        subject.named(arm): own
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
    better = "more" if all(trial.higher_is_better for trial in subject.trials) else "less"
    lead = f"Each trial yields one figure in {unit}; {better} is better. A dot is a trial."
    drawn = (plots.figures(rows, name="time", title=f"Figure of every trial in {unit}, per arm"),)
    yield Section("time", "Every trial", lead, drawn, tables=(table,), notes=notes)


def _figures_row(arm: str, own: Sequence[float]) -> tuple[Cell, ...]:
    picked = (figure(own[0]), figure(own[len(own) // 2]), figure(own[-1]), f"{len(own):,}")
    return (Cell(arm, "name"), *(Cell(text, "num") for text in picked))
