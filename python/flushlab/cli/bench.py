"""`flushlab bench`: one workload, one configuration."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from flushlab.cli import options
from flushlab.cli.output import deliver, emit_json, require_writable, say, stdout
from flushlab.cli.watching import watched
from flushlab.errors import MeasurementError, NotWritable
from flushlab.record import LoadResult, Trial

CONTEXT = options.OWN
ABOVE = "free some space and name another file next time; what was measured is printed above"


@options.also(server=options.OWN_SERVER, commit={**options.DATA, **options.PLACE})
def bench(
    context: typer.Context,
    server: options.ServerOrSandbox = "mariadb",
    workload: options.Workload = "oltp_update_non_index",
    threads: Annotated[int, typer.Option("--threads", help="Number of connections.")] = 16,
    tables: options.Tables = 8,
    table_size: options.TableSize = 10_000,
    seconds: Annotated[
        float, typer.Option("--seconds", help="Length of the measured window in seconds.")
    ] = 10.0,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, NAME=VALUE; repeatable.", show_default=False)
    ] = None,
    base: options.Base = None,
    memory: options.Memory = None,
    exact: options.Exact = False,
    transport: options.Transport = "socket",
    ssl_mode: options.SslMode = None,
    ssl_ca: options.SslCa = None,
    rand_type: options.RandType = None,
    rate: options.Rate = 0.0,
    rows: options.Rows = None,
    key: options.Key = None,
    hit_ratio: options.HitRatio = None,
    commit: options.Commit = None,
    wait_for_quiet: options.WaitForQuiet = False,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            help="Seed of the load's random draws; default: 1, on a kept server a random one.",
            show_default=False,
        ),
    ] = None,
    watch: options.Watch = False,
    json: options.Json = None,
    hdr_log: Annotated[
        Path | None,
        typer.Option("--hdr-log", help="Write each second's latencies to a file in HdrHistogram log format."),
    ] = None,
    per_second: Annotated[
        Path | None, typer.Option("--per-second", help="Write a CSV file with a line per second.")
    ] = None,
) -> None:
    """Run one workload on one configuration and print the result.

    \b
    Examples:
      flushlab bench --server mariadb@10.11 --set sync_binlog=1
      flushlab bench --workload upsert --rows 10 --commit '1 s'
      flushlab bench --cluster 3 --set innodb_flush_log_at_trx_commit=2
      flushlab bench --dsn mysql://me:secret@db1 --allow-writes
      flushlab bench --workload oltp_read_write --point-selects 5 --skip-trx

    Exits with 4 if other load disturbed the window (void).

    OLTP workloads also take sysbench's options, and a command takes --timeout,
    --reset and --warm-up-runs: docs/reference/workloads.md.
    """
    from flushlab.campaign.bench import bench as run
    from flushlab.report import bench as report
    from flushlab.workload.engine import LoadInterrupted

    for path in (json, hdr_log, per_second):
        require_writable(str(path) if path else None)
    flags = options.given(context, "json", "watch")
    try:
        with watched(watch):
            trial = run(**flags, progress=say)
    except LoadInterrupted as interrupted:
        text = report.render_interrupted(interrupted.result, interrupted.unit)
        deliver(partial(stdout.print, text), partial(_require_seconds, interrupted.result), kept=ABOVE)
        raise typer.Exit(130) from None
    deliver(
        *([partial(stdout.print, report.render(trial))] if json != "-" else []),
        partial(_require_seconds, trial.load),
        partial(_emit, report.document(trial), json),
        partial(_require_counted, trial),
        kept=ABOVE,
    )


def _require_counted(trial: Trial) -> None:
    """Says that the figures do not count, if the machine was disturbed."""
    if trial.outcome == "void":
        raise MeasurementError(f"void: {trial.reason}", hint="--wait-for-quiet waits until it is quiet")


def _require_seconds(load: LoadResult | None) -> None:
    """Says that `--hdr-log` or `--per-second` is not whole, if the engine could not write them."""
    if load is not None and load.unwritten:
        raise NotWritable(load.unwritten)


def _emit(document: dict[str, Any], json: str | None) -> None:
    """Writes the document, on stdout where its file cannot be written: no store has it."""
    try:
        emit_json(document, json)
    except NotWritable:
        if json != "-":
            emit_json(document, "-")
        raise
