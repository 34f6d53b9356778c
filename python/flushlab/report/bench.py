"""One trial for people and as `flushlab.bench/1`."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flushlab.record import Trial

SCHEMA = "flushlab.bench/1"


def document(trial: Trial) -> dict[str, Any]:
    """The JSON document of a measured trial."""
    assert trial.figure is not None and trial.server is not None
    load = trial.load
    latency = load.latency_us if load else None
    return {
        "schema": SCHEMA,
        "throughput": trial.figure,
        "unit": trial.unit,
        "latency_us": None
        if latency is None
        else {
            "p50": latency.p50,
            "p95": latency.p95,
            "p99": latency.p99,
            "p999": latency.p999,
            "max": latency.max,
        },
        "per_second": list(load.per_second) if load else [],
        "client_cpu_us_per_event": load.client_cpu_us_per_event if load else None,
        "errors": list(load.errors) if load else [],
        "warnings": list(trial.warnings),
        "outcome": trial.outcome,
        "server": {"flavor": trial.server.flavor, "version": trial.server.version_text},
        "storage": trial.storage,
        "settings": dict(trial.settings),
        "deltas": dict(trial.deltas),
        "seconds": dict(trial.seconds),
    }


def render(trial: Trial) -> RenderableType:
    """What a person reads; fits 80 columns."""
    assert trial.figure is not None and trial.server is not None
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    digits = 2 if trial.figure < 100 else 0
    table.add_row("figure", Text(f"{trial.figure:,.{digits}f} {trial.unit}", style="bold"))
    if trial.load is not None and trial.load.latency_us is not None:
        latency = trial.load.latency_us
        table.add_row(
            "latency",
            f"p50 {latency.p50} · p95 {latency.p95} · p99 {latency.p99} · max {latency.max} µs",
        )
        if trial.load.client_cpu_us_per_event is not None:
            table.add_row("client", f"{trial.load.client_cpu_us_per_event:.1f} µs of CPU per transaction")
        fsyncs = trial.deltas.get("Innodb_data_fsyncs", 0) / max(trial.load.events, 1)
        table.add_row("fsyncs", f"{fsyncs:.3f} by InnoDB per transaction")
    table.add_row("server", trial.server.name)
    table.add_row(
        "window",
        f"{trial.seconds.get('window', 0):.1f} s after {trial.seconds.get('warm_up', 0):.1f} s of warm-up",
    )
    doubts = [Text(f"warning: {warning.text}", style="yellow") for warning in trial.warnings]
    if trial.outcome == "void":
        doubts.insert(0, Text(f"void: {trial.reason}", style="red"))
    return Group(table, *doubts)
