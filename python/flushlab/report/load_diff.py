"""Two recordings of a load beside each other, for the terminal and as `flushlab.load-diff/1`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flushlab.diagnosis.recording import Recording
from flushlab.record import ObservedLoad
from flushlab.report.words import rounded, small
from flushlab.units import format_latency, format_seconds, format_size

SCHEMA = "flushlab.load-diff/1"
NOT_RANDOM = (
    "Time is not randomized: whatever else changed between the two stretches is in these ratios, too."
    " flushlab compare --own-load alternates settings in random slices, and gives intervals."
)
LOUD = 0.1
"""From this scatter between stretches on, a warning reports it."""


class Row(NamedTuple):
    """A quantity of both loads; None where one does not have it. `by_commits`: it takes their number."""

    name: str
    of: Callable[[ObservedLoad], float | None]
    words: Callable[[float], str]
    by_commits: bool = True

    def ratio(self, before: ObservedLoad, after: ObservedLoad) -> float | None:
        """After over before; None where the two do not compare."""
        first, last = self.of(before), self.of(after)
        comparable = before.commits_by == after.commits_by or not self.by_commits
        return last / first if first and last is not None and comparable else None


def _syncs(kind: str) -> Callable[[ObservedLoad], float | None]:
    return lambda load: load.per_commit(load.syncs.get(kind))


def _percentile(share: float) -> Callable[[ObservedLoad], float | None]:
    return lambda load: load.percentile_us(share)


ROWS = (
    Row("commits_per_s", lambda load: load.throughput, rounded),
    Row("write_latency_us", lambda load: load.write_us, format_latency),
    Row("commit_latency_us", lambda load: load.commit_us or None, format_latency),
    *(
        Row(f"p{share * 100:.0f}_us", _percentile(share), format_latency, by_commits=False)
        for share in (0.5, 0.95, 0.99)
    ),
    *(Row(f"{kind}_syncs_per_commit", _syncs(kind), small) for kind in ("redo", "binlog", "data")),
    Row(
        "redo_bytes_per_commit",
        lambda load: load.per_commit(load.redo_bytes),
        lambda size: format_size(round(size)),
    ),
    Row(
        "binlog_bytes_per_commit",
        lambda load: load.per_commit(load.binlog_bytes),
        lambda size: format_size(round(size)),
    ),
    Row("rollbacks_per_s", lambda load: load.rollbacks / load.seconds, small, by_commits=False),
    Row(
        "errors_per_s",
        lambda load: None if load.errors is None else load.errors / load.seconds,
        small,
        by_commits=False,
    ),
)


def changes(before: Recording, after: Recording) -> dict[str, tuple[Any, Any]]:
    """Settings that the two recordings began with otherwise."""
    first, last = before.head.settings, after.head.settings
    names = sorted({name for name in (*first, *last) if first.get(name) != last.get(name)})
    return {name: (first.get(name), last.get(name)) for name in names}


def warnings(before: Recording, after: Recording) -> Iterator[str]:
    """Caveats of the comparison; that time is not randomized is always one."""
    yield NOT_RANDOM
    for one in (before, after):
        if one.changed:
            yield f"{one.path}: {', '.join(sorted(one.changed))} changed during the recording"
        scatter = one.scatter(lambda load: load.write_us)
        if scatter is None:
            yield f"{one.path}: too short to see how much the load varies by itself"
        elif scatter >= LOUD:
            yield f"{one.path}: write latency varies by {scatter:.0%} from one stretch to the next"
    if before.head.place != after.head.place or before.head.server != after.head.server:
        yield f"two servers: {_server(before)}, {_server(after)}"
    if before.load.commits_by != after.load.commits_by:
        yield (
            f"commits are counted by {before.load.commits_by} before and by {after.load.commits_by} after:"
            " rows that use the number of commits have no ratio"
        )
    if before.load.source != after.load.source:
        yield "write latency comes from two sources: performance_schema, and samples of connections"


def document(before: Recording, after: Recording) -> dict[str, Any]:
    """The JSON document."""
    return {
        "schema": SCHEMA,
        "before": _document(before),
        "after": _document(after),
        "after_over_before": {
            row.name: ratio for row in ROWS if (ratio := row.ratio(before.load, after.load)) is not None
        },
        "settings": [
            {"name": name, "before": first, "after": last}
            for name, (first, last) in changes(before, after).items()
        ],
        "warnings": list(warnings(before, after)),
    }


def _document(one: Recording) -> dict[str, Any]:
    known = {row.name: value for row in ROWS if (value := row.of(one.load)) is not None}
    return {
        "file": one.path,
        "place": one.head.place,
        "server": one.head.server.name,
        "ended_at": one.stretches[-1].ended_at.isoformat(),
        "seconds": one.load.seconds,
        "commits": one.load.commits,
        "commits_by": one.load.commits_by,
        "source": one.load.source,
        **known,
    }


def render(before: Recording, after: Recording) -> RenderableType:
    """What a person reads; fits 80 columns."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for name in ("before", "after", "after/before"):
        table.add_column(name, justify="right")
    for row in ROWS:
        first, last = row.of(before.load), row.of(after.load)
        if first is None and last is None:
            continue
        cells = ["" if value is None else row.words(value) for value in (first, last)]
        ratio = row.ratio(before.load, after.load)
        table.add_row(_spelled(row.name), *cells, "" if ratio is None else f"{ratio:.2f}")
    return Group(
        *(
            Text(f"{name}: {_about(one)}", style="dim")
            for name, one in (("before", before), ("after", after))
        ),
        "",
        table,
        "",
        *_settings(before, after),
        *(Text(f"warning: {text}", style="yellow") for text in warnings(before, after)),
    )


def _settings(before: Recording, after: Recording) -> Iterator[Text]:
    found = changes(before, after)
    if not found:
        yield Text("no setting differs")
    for name, (first, last) in found.items():
        yield Text(f"{name}: {first} before, {last} after")


def _about(one: Recording) -> str:
    ended = one.stretches[-1].ended_at.strftime("%Y-%m-%d %H:%M UTC")
    length = format_seconds(one.load.seconds)
    return f"{one.path}, {_server(one)}, {length} until {ended}, {one.load.commits:,} commits"


def _server(one: Recording) -> str:
    return f"{one.head.server.name} at {one.head.place}"


def _spelled(name: str) -> str:
    """A row's name for people: without its unit, which its values have."""
    return name.removesuffix("_us").replace("_per_s", "/s").replace("_per_", " per ").replace("_", " ")
