"""The same run on every machine of a fleet, for people and as `flushlab.fleet-bench/1`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flushlab.record import FleetBench, Trial


class FleetBenchDocument(
    FleetBench, frozen=True, kw_only=True, tag_field="schema", tag="flushlab.fleet-bench/1"
):
    """The document: `schema` and the results."""


def document(found: FleetBench) -> FleetBenchDocument:
    """The JSON document."""
    return FleetBenchDocument(**{name: getattr(found, name) for name in found.__struct_fields__})


def render(found: FleetBench) -> RenderableType:
    """What a person reads; fits 80 columns."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("machine", overflow="fold")
    table.add_column("result", justify="right")
    table.add_column("others", overflow="fold")
    for run in found.runs:
        if run.trial is None:
            table.add_row(run.machine, "none", run.problem)
            continue
        table.add_row(run.machine, _result(run.trial), _others(run.trial))
    measured = [run.trial for run in found.runs if run.trial is not None]
    title = Text(measured[0].server.title, style="bold") if measured and measured[0].server else Text("")
    warnings = dict.fromkeys(
        f"warning: {run.machine}: {one.text}" for run in found.runs if run.trial for one in run.trial.warnings
    )
    return Group(title, table, *_between(found), *(Text(one, style="yellow") for one in warnings))


def _between(found: FleetBench) -> Iterator[Text]:
    if found.between is None:
        return
    yield Text(f"fastest {found.fastest}, slowest {found.slowest}: {found.between:.2f}× between them")
    if found.mean is not None:
        unit = next(run.trial.unit for run in found.runs if run.trial is not None)
        low, high = _figure(found.mean.low), _figure(found.mean.high)
        yield Text(f"mean of such machines {_figure(found.mean.estimate)} {unit} [{low}, {high}], 95 %")
    yield Text("one run on each machine: the difference contains the noise of single runs", style="dim")


def _result(trial: Trial) -> str:
    if trial.result is None or trial.outcome != "measured":
        return trial.outcome
    return f"{_figure(trial.result)} {trial.unit}"


def _figure(value: float) -> str:
    return f"{value:,.{2 if value < 100 else 0}f}"


def _others(trial: Trial) -> str:
    if trial.outcome != "measured":
        return trial.reason
    if trial.foreign_cpu_share is None:
        return ""
    return f"other programs took {trial.foreign_cpu_share:.0%} of the CPU"
