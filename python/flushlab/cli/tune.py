"""`flushlab tune`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flushlab.cli import options
from flushlab.cli.output import emit_json, require_writable, stdout
from flushlab.settings.floor import Floor

CONTEXT = options.OWN


def tune(
    context: typer.Context,
    server: options.Server = "mariadb",
    workload: options.Workload = "oltp_update_non_index",
    floor: Annotated[
        Floor, typer.Option("--floor", help="The least guarantees that you accept.")
    ] = Floor.SECOND,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Budget in time; 10 if no budget is given.")
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", help="Budget in trials.")] = None,
    base: Annotated[
        Path | None, typer.Option("--base", help="Your option file: what everything is compared with.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE on top of the base; may be given again.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="A setting that must stay as it is; may be given again."),
    ] = None,
    dataset: options.Dataset = None,
    threads: Annotated[str, typer.Option("--threads", help="Connections; several as 1,16,64.")] = "16",
    memory: Annotated[
        str | None, typer.Option("--memory", help="Memory that the server may use, like 2G.")
    ] = None,
    objective: Annotated[
        str, typer.Option("--objective", help="What is compared: throughput, or p99 (with --rate).")
    ] = "throughput",
    p99_limit: Annotated[
        float, typer.Option("--p99-limit", help="A winner's p99 may be at most this many times the base's.")
    ] = 2.0,
    rate: options.Rate = 0.0,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="There are no replicas to care for.")
    ] = False,
    tables: options.Tables = 8,
    table_size: options.TableSize = 10_000,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", help="Measured window of a trial; chosen by the budget if absent."),
    ] = None,
    transport: options.Transport = "socket",
    ssl_mode: options.SslMode = None,
    ssl_ca: options.SslCa = None,
    rand_type: options.RandType = None,
    rows: options.Rows = None,
    key: options.Key = None,
    hit_ratio: options.HitRatio = None,
    commit: options.Commit = None,
    basedir: options.BaseDir = None,
    data_root: options.DataRoot = None,
    disk_iops: options.DiskIops = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of every random order.")] = None,
    json: options.Json = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the option file goes; flushlab-ID if absent.")
    ] = None,
    resume: Annotated[str | None, typer.Option("--resume", help="Go on with a campaign, by its id.")] = None,
) -> None:
    """Find the fastest settings at a durability floor, prove them, write them down.

    Example: flushlab tune --server mysql@5.7 --floor strict --minutes 30 --base my.cnf

    OLTP workloads take sysbench's options under its names; docs/reference/workloads.md lists all options.
    """
    from flushlab.cli import campaigns, place, tuning
    from flushlab.machine import home
    from flushlab.report import tune as report
    from flushlab.store import Store

    require_writable(json)
    campaigns.require_folder(out)
    asked = tuning.Flags(
        server=server,
        workload=workload,
        floor=floor,
        minutes=minutes,
        trials=trials,
        base=base,
        assignments=tuple(setting or ()),
        keep=tuple(keep or ()),
        dataset=dataset,
        threads=threads,
        memory=memory,
        objective=objective,
        p99_limit=p99_limit,
        rate=rate,
        standalone=standalone,
        tables=tables,
        table_size=table_size,
        seconds=seconds,
        transport=transport,
        ssl_mode=ssl_mode,
        ssl_ca=ssl_ca,
        rand_type=rand_type,
        rows=rows,
        key=key,
        hit_ratio=hit_ratio,
        commit=commit,
        options=options.own(context),
        basedir=basedir,
        data_root=data_root,
        disk_iops=disk_iops,
        seed=seed,
    )
    with Store(home() / "store.sqlite") as store:
        earlier = tuning.stored_request(store, resume) if resume else None
        with place.open_place(
            earlier.build if earlier else server,
            basedir=Path(earlier.basedir) if earlier and earlier.basedir else basedir,
            data_root=Path(earlier.data_root) if earlier and earlier.data_root else data_root,
            disk_iops=earlier.disk_iops if earlier else disk_iops,
        ) as where:
            request = earlier or tuning.decide(asked, where)
            facts = tuning.carry_out(request, where, store, resume)
            facts = tuning.write_files(facts, request, where, out, store)
    emit_json(report.document(facts), json)
    if json != "-":
        stdout.print(report.render(facts))
    if facts.ending == "interrupted":
        raise typer.Exit(130)
