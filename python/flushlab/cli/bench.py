"""`flushlab bench`: one workload, one configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flushlab.cli import options
from flushlab.cli.output import emit_json, require_writable, stdout
from flushlab.errors import MeasurementError, UsageError
from flushlab.record import Arm, LoadResult, Trial

if TYPE_CHECKING:
    from flushlab.cli.place import Place
    from flushlab.workload import Timing, Workload

CONTEXT = options.OWN


def bench(
    context: typer.Context,
    server: options.Server = "mariadb",
    workload: options.Workload = "oltp_update_non_index",
    threads: Annotated[int, typer.Option("--threads", help="Connections of the load.")] = 16,
    tables: options.Tables = 8,
    table_size: options.TableSize = 10_000,
    seconds: Annotated[float, typer.Option("--seconds", help="Length of the measured window.")] = 10.0,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE; may be given again.", show_default=False)
    ] = None,
    transport: options.Transport = "socket",
    ssl_mode: options.SslMode = None,
    ssl_ca: options.SslCa = None,
    rand_type: options.RandType = None,
    rate: options.Rate = 0.0,
    rows: options.Rows = None,
    key: options.Key = None,
    hit_ratio: options.HitRatio = None,
    commit: options.Commit = None,
    dataset: options.Dataset = None,
    basedir: options.BaseDir = None,
    data_root: options.DataRoot = None,
    disk_iops: options.DiskIops = None,
    json: options.Json = None,
    hdr_log: Annotated[
        Path | None,
        typer.Option("--hdr-log", help="Write each second's latencies to a file, as HdrHistogram's log."),
    ] = None,
    per_second: Annotated[
        Path | None, typer.Option("--per-second", help="Write a line per second to a CSV file.")
    ] = None,
) -> None:
    """Run one workload on one configuration and say what it yields.

    Example: flushlab bench --server mariadb --workload oltp_update_non_index --set sync_binlog=1

    Example: flushlab bench --workload upsert --threads 1 --rows 10 --commit '1 s'

    Example: flushlab bench --workload oltp_read_write --tables 4 --point-selects 5 --skip-trx

    OLTP workloads take sysbench's options under its names; docs/reference/workloads.md lists all options.
    """
    from flushlab.cli import place
    from flushlab.report import bench as report
    from flushlab.workload import parse_workload
    from flushlab.workload.engine import LoadInterrupted

    require_writable(json)
    shape = place.parse_shape(
        threads=threads,
        tables=tables,
        table_size=table_size,
        transport=transport,
        rand_type=rand_type,
        rate=rate,
        rows=rows,
        key=key,
        hit_ratio=hit_ratio,
        commit=commit,
        ssl_mode=ssl_mode,
        ssl_ca=ssl_ca,
        options=options.own(context),
    )
    asked = parse_workload(workload, shape)
    if hdr_log or per_second:
        asked = _with_intervals(asked)
        for path in (hdr_log, per_second):
            require_writable(str(path) if path else None)
    timing = place.parse_timing(seconds)
    if dataset and server.startswith("sandbox:"):
        raise UsageError("--dataset needs a fresh server, and a kept sandbox has data", hint="leave it out")
    try:
        if server.startswith("sandbox:"):
            trial = on_sandbox(server, asked, timing, setting or [])
        else:
            with place.open_place(server, basedir=basedir, data_root=data_root, disk_iops=disk_iops) as where:
                arguments = place.connection_arguments(threads)
                trial = on_build(where, asked, timing, setting or [], arguments, dataset)
    except LoadInterrupted as interrupted:
        stdout.print(report.render_interrupted(interrupted.result, interrupted.unit))
        _write_seconds(interrupted.result, hdr_log, per_second)
        raise typer.Exit(130) from None
    if trial.load is not None:
        _write_seconds(trial.load, hdr_log, per_second)
    emit_json(report.document(trial), json)
    if json != "-":
        stdout.print(report.render(trial))


def _with_intervals(workload: Workload) -> Workload:
    """The same workload with the latencies of each second kept.

    Raises:
        UsageError: the engine does not drive it.
    """
    import msgspec

    from flushlab.workload.driven import Driven

    if not isinstance(workload, Driven):
        raise UsageError(
            f"{workload.name} has no latencies per second", hint="leave out --hdr-log and --per-second"
        )
    return msgspec.structs.replace(workload, intervals=True)


def _write_seconds(load: LoadResult, hdr_log: Path | None, per_second: Path | None) -> None:
    from flushlab.report.bench import per_second_csv

    for path, text in ((hdr_log, load.hdr_log or ""), (per_second, per_second_csv(load))):
        if path is not None:
            path.write_text(text, encoding="utf-8")


def on_build(
    where: Place,
    workload: Workload,
    timing: Timing,
    assignments: list[str],
    arguments: tuple[str, ...],
    dataset: Path | None,
) -> Trial:
    """A fresh sandbox for one trial."""
    from flushlab.cli import place
    from flushlab.datadir import Snapshots
    from flushlab.trial import Dataset, Preparation, TrialRunner

    settings = place.parse_settings(assignments, where.build, where.catalog)
    runner = TrialRunner(
        build=where.build,
        catalog=where.catalog,
        workloads=(workload,),
        timing=timing,
        preparation=Preparation(
            build=where.build,
            catalog=where.catalog,
            data_root=where.data_root,
            dataset=Dataset.open(dataset, where.build) if dataset else None,
            snapshots=Snapshots(),
            progress=place.say,
        ),
        data_root=where.data_root,
        disk_limit=where.disk_limit,
        arguments=arguments,
    )
    place.say(f"running {workload.name} on {where.build.name}")
    trial = runner.run(Arm(name="bench", settings=settings), stage="bench", block=1)
    if trial.outcome == "refused":
        raise place.refusal(trial.reason, settings, where.catalog, where.build)
    return _counted(trial)


def on_sandbox(name: str, workload: Workload, timing: Timing, assignments: list[str]) -> Trial:
    """A kept sandbox, as it is; settings are applied to it and stay."""
    from flushlab.cli import place
    from flushlab.server import Sandbox
    from flushlab.settings.catalog import load_catalog
    from flushlab.trial import Draft, measure

    server, catalog = Sandbox.attach(name.removeprefix("sandbox:")), load_catalog()
    settings = place.parse_settings(assignments, server.build, catalog)
    applied = server.apply(settings)
    for refused in applied.refused:
        raise place.refusal(
            f"{refused.name}={refused.value}: {refused.reason}", settings, catalog, server.build
        )
    workload.prepare(server)
    place.say(f"running {workload.name} on {name}")
    draft = Draft(arm=Arm(name="bench", settings=settings), stage="bench", block=1, variant=0)
    return _counted(measure(draft, server, workload, timing, catalog))


def _counted(trial: Trial) -> Trial:
    """The trial, if it has a figure.

    Raises:
        MeasurementError: it has none.
    """
    if trial.figure is None:
        raise MeasurementError(f"nothing was measured: {trial.reason}", hint=trial.hint or None)
    return trial
