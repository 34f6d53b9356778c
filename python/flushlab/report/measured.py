"""Sections: what trials showed: throughput, files, nodes of a cluster, caveats and output. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import mean, median

from flushlab.record import FILE_CLASSES, Trial
from flushlab.report import plots
from flushlab.report.document import Cell, Code, Row, Section, Table, named, numbers
from flushlab.report.subject import (
    MAX_PANELS,
    Activity,
    Rounds,
    Subject,
    Throughput,
    activity,
    rounds,
    throughput,
)
from flushlab.report.words import rounded, small
from flushlab.units import counted, format_size, format_spread


def over_time(subject: Subject) -> Iterator[Section]:
    arms, unit = [*subject.shown.items()], subject.units
    slices = [one for arm in arms if (one := rounds(*arm)) is not None]
    shown = arms[:MAX_PANELS]
    lines = [line for arm in shown if (line := throughput(*arm)) is not None]
    results = {
        arm: results
        for arm, trials in shown
        if (results := [trial.result for trial in trials if trial.result is not None])
    }
    left = (len(slices) or len(arms)) - MAX_PANELS
    notes = [f"{left} more {'arms are' if left > 1 else 'arm is'} not shown."] if left > 0 else []
    if slices:
        if fresh := [arm for arm, trials in arms if not any(trial.slices for trial in trials)]:
            notes.append(f"{', '.join(fresh)}: a fresh server for each window, so no slices.")
        found = _every_slice(slices[:MAX_PANELS], unit)
    elif lines:
        found = _every_second(lines, unit)
    elif results:
        better = "more" if all(trial.higher_is_better for trial in subject.trials) else "less"
        found = _every_trial(results, unit, better)
    else:
        return
    yield found._replace(notes=tuple(notes))


def _every_second(lines: Sequence[Throughput], unit: str) -> Section:
    windows = max(len(line.borders) + 1 for line in lines)
    rows = tuple(
        (
            *named(line.arm, rounded(median(line.seconds)), rounded(min(line.seconds))),
            Cell(f"{len(line.stalled)} of {len(line.seconds):,} s", "num bad" if line.stalled else "num"),
            Cell(f"{line.p99_ms:,.1f} ms" if line.p99_ms is not None else "", "num"),
        )
        for line in lines
    )
    title = "Throughput of each second of the measured windows, per arm"
    return Section(
        "time",
        "Throughput over time",
        f"Throughput of every second in {unit}; {counted(windows, 'measured window')} end to end, separated"
        " by thin lines. A triangle marks a stalled second: less than a tenth of its window's median.",
        plots=(plots.seconds(lines, unit=unit, name="time", title=title),),
        tables=(Table(("arm", "median", "slowest", "stalled", "p99"), rows),),
    )


def _every_slice(panels: Sequence[Rounds], unit: str) -> Section:
    has_dropped = any(panel.dropped for panel in panels)
    cross = " A cross is a slice whose round does not count, because the clock had a gap."
    how = "All servers kept running, and the load ran on one at a time, in alternating slices."
    if any(panel.switched for panel in panels):
        how = "Arms alternated on one server, which SET GLOBAL switched to their settings."
    rows = tuple(
        (
            *named(panel.arm, *_spread(rate for _, rate in panel.kept), format_spread(*panel.slice_s)),
            Cell(f"{len(panel.dropped):,}", "num bad" if panel.dropped else "num"),
            Cell("" if panel.foreign_share is None else f"{panel.foreign_share:.0%}", "num"),
        )
        for panel in panels
    )
    return Section(
        "time",
        "Every slice over time",
        f"{how} A dot is one slice, in {unit}, when it was measured.{cross if has_dropped else ''}",
        plots=(plots.rounds(panels, unit=unit, name="time", title=f"Every slice in {unit}, per arm"),),
        tables=(Table(("arm", "least", "median", "most", "slices", "each", "dropped", "others' CPU"), rows),),
    )


def _every_trial(results: Mapping[str, Sequence[float]], unit: str, better: str) -> Section:
    title = f"Result of every trial in {unit}, per arm"
    rows = tuple(named(arm, *_spread(own)) for arm, own in results.items())
    return Section(
        "time",
        "Every trial",
        f"Each trial yields one result in {unit}; {better} is better. A dot is a trial.",
        plots=(plots.figures(results, unit=unit, name="time", title=title),),
        tables=(Table(("arm", "least", "median", "most", "trials"), rows),),
    )


def _spread(values: Iterable[float]) -> tuple[str, str, str, str]:
    ordered = sorted(values)
    low, middle, high = map(rounded, (ordered[0], ordered[len(ordered) // 2], ordered[-1]))
    return low, middle, high, f"{len(ordered):,}"


_CLASSES = {
    "redo": "redo log",
    "binlog": "binlog",
    "doublewrite": "doublewrite",
    "data": "data",
    "undo": "undo",
    "other": "other",
}


_SPELLED: Mapping[str, Callable[[float], str]] = {"fsyncs": small, "bytes": format_size}


def files(subject: Subject) -> Iterator[Section]:
    shown = [*subject.shown.items()][:MAX_PANELS]
    rows = [one for arm in shown if (one := activity(*arm)) is not None]
    told = [what for what in _SPELLED if any(row.amounts[what] for row in rows)]
    if not told:
        return
    per = " or ".join(dict.fromkeys(row.per for row in rows))
    drawn = []
    for what in told:
        title = f"{what.capitalize()} per {per} and class of files, per arm"
        sums = [sum(row.amounts[what].values()) for row in rows]
        words = [_SPELLED[what](whole) + (" fsyncs" if what == "fsyncs" else "") for whole in sums]
        drawn.append(plots.stacked(rows, what, words, title=title))
    seen = {kind for row in rows for own in row.amounts.values() for kind, value in own.items() if value}
    yield Section(
        "files",
        "Fsyncs and bytes",
        f"Where writes went, per {per}. In the tables, 0 means that nothing was written, and – that the "
        "server does not show it; bars have no part for either.",
        plots=tuple(drawn),
        legend=tuple((kind, f"class-{kind}") for kind in FILE_CLASSES if kind in seen),
        tables=tuple(_classes(what, rows, per) for what in told),
        notes=(*(note for what in told for note in _unseen(what, rows)), *_flags(rows)),
    )


def _classes(what: str, arms: Sequence[Activity], per: str) -> Table:
    kinds, rows = _columns(what, arms), []
    for arm in arms:
        known, spell = arm.amounts[what], _SPELLED[what]
        rows.append(named(arm.arm, *(spell(known[kind]) if kind in known else "–" for kind in kinds)))
    caption = f"{what.capitalize()} per {per}"
    return Table(("arm", *(_CLASSES[kind] for kind in kinds)), rows, caption)


def _columns(what: str, rows: Sequence[Activity]) -> list[str]:
    return [kind for kind in FILE_CLASSES if any(kind in row.looked_for(what) for row in rows)]


def _unseen(what: str, rows: Sequence[Activity]) -> Iterator[str]:
    for kind in _columns(what, rows):
        hidden = [row for row in rows if kind in row.classes and kind not in row.amounts[what]]
        if not hidden:
            continue
        arms = "" if len(hidden) == len(rows) else f" in {', '.join(row.arm for row in hidden)}"
        why = next((row.why for row in hidden if row.why), "") if kind == "binlog" else ""
        text = f"{what.capitalize()} of the {_CLASSES[kind]} are not visible on this server{arms}"
        yield f"{text}: {why}." if why else f"{text}."


def _flags(rows: Sequence[Activity]) -> Iterator[str]:
    opened: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in rows:
        for kind, flags in row.flags.items():
            opened.setdefault((_CLASSES[kind], flags), []).append(row.arm)
    together: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (kind, flags), arms in opened.items():
        if len(arms) < len(rows):
            together.setdefault((flags, tuple(arms)), []).append(kind)
    for (flags, some), kinds in together.items():
        yield f"{', '.join(kinds)}: opened with {' and '.join(flags)} in {', '.join(some)} only."


def nodes(subject: Subject) -> Iterator[Section]:
    rows = [
        row
        for arm, trials in [*subject.shown.items()][:MAX_PANELS]
        for row in _nodes(arm, [trial for trial in trials if trial.nodes])
    ]
    figures = ("commits", "received", "paused", "pauses asked", "queue", "conflicts lost", "side by side")
    if rows:
        yield Section(
            "nodes",
            "Nodes of the cluster",
            "Each node's own report on the windows. Commits: transactions of its own clients. Received:"
            " write sets of the other nodes. Paused: share of the time in which flow control paused writers."
            " Pauses asked: how often this node asked for a pause. Queue: write sets that waited to be"
            " applied. Conflicts lost: transactions lost to certification or to applied ones. Side by side:"
            " how many write sets could have been applied at once; appliers beyond that number are idle.",
            tables=(Table(("arm", "node", *figures), rows),),
        )


def _nodes(arm: str, trials: Sequence[Trial]) -> Iterator[Row]:
    for own in zip(*(trial.nodes for trial in trials), strict=False):
        queues = [node.recv_queue_avg for node in own if node.recv_queue_avg is not None]
        apart = [node.deps_distance for node in own if node.deps_distance is not None]
        yield (
            Cell(arm, "name"),
            Cell(str(own[0].node)),
            *numbers(
                f"{sum(node.commits for node in own):,}",
                f"{sum(node.received for node in own):,}",
                f"{mean(node.paused_share for node in own):.1%}",
                f"{sum(node.pauses_asked for node in own):,}",
                small(mean(queues)) if queues else "–",
                f"{sum(node.cert_failures + node.bf_aborts for node in own):,}",
                small(apart[-1]) if apart else "–",
            ),
        )
        arm = ""


_OUTCOMES = {
    "discarded": "did not count",
    "refused": "refused by the server",
    "failed": "failed",
    "invalid": "invalid: a setting read back differently",
}


_GENERAL = {"window-too-short": "short-measurement"}
"""Warnings of trials and the warning of the campaign with the same content, where their slugs differ."""


def warnings(subject: Subject) -> Iterator[Section]:
    whole = len(subject.trials)
    found = subject.facts.warnings if subject.facts is not None else ()
    told = {warning.text for warning in found}
    seen: dict[str, list[tuple[str, str]]] = {}
    having: Counter[str] = Counter()
    for trial in subject.trials:
        having.update({warning.slug for warning in trial.warnings})
        for warning in trial.warnings:
            seen.setdefault(warning.slug, []).append((subject.named(trial.arm.name), warning.text))
    counts = {warning.slug: "" for warning in found}
    for slug in [*seen]:
        general = _GENERAL.get(slug, slug)
        if general in counts:  # one caveat with a count, not one for each trial too
            counts[general] = f"{having[slug]:,} of {counted(whole, 'trial')}"
            del seen[slug]
    rows = [(Cell(warning.text), Cell(counts[warning.slug] or "the whole", "num mute")) for warning in found]
    for slug, own in seen.items():
        if not any(text in words for _, text in own for words in told):
            first = f", first of {len(own):,}" if len(own) > 1 else ""
            rows.append((Cell(": ".join(own[0]), "", f"{slug}{first}"), _share(having[slug], whole)))
    outcomes = Counter(trial.outcome for trial in subject.trials if trial.outcome != "measured")
    rows += [(Cell(f"Trials {_OUTCOMES[name]}"), _share(count, whole)) for name, count in outcomes.items()]
    if rows:
        lead = "Reasons not to take the results at face value."
        table = Table(("warning", "about"), rows)
        short = tuple(f"warning: {warning.text}" for warning in found)
        yield Section("warnings", "Warnings", lead, tables=(table,), short=short)
    elif subject.facts is not None:
        yield Section("warnings", "Warnings", texts=("None.",), short=())


def _share(count: int, whole: int) -> Cell:
    return Cell(f"{count:,} of {counted(whole, 'trial')}", "num")


MAX_RUNS = 12
"""Most runs whose output is on the page; the store has all of them."""


def output(subject: Subject) -> Iterator[Section]:
    failed = [trial for trial in subject.trials if trial.outcome == "failed" and trial.output]
    last = [trials[-1] for trials in subject.shown.values() if trials[-1].output]
    code = []
    for run in [*failed, *last][:MAX_RUNS]:
        how = "failed" if run.result is None else f"{run.result:,.2f} {run.unit}"
        code.append(Code(run.output, f"{run.arm.name}, {run.stage} {run.block}: {how}"))
    if code:
        yield Section(
            "output",
            "Output of the command",
            "Of each run, the first 4 KiB and the last 12 KiB of what it printed are kept. Here are the runs"
            " that failed, and the last run of each arm.",
            code=tuple(code),
        )
