"""`flushlab series`: named changes one at a time against a base."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flushlab.cli import options
from flushlab.cli.output import emit_json, require_writable, stdout
from flushlab.errors import UsageError


def series(
    plan: Annotated[
        str | None,
        typer.Argument(help="A plan's file, or the name of a shipped one.", show_default=False),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option("--server", help="A build; the plan's own, or mariadb, if absent.", show_default=False),
    ] = None,
    blocks: Annotated[
        int | None, typer.Option("--blocks", help="Rounds, instead of the plan's.", show_default=False)
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", help="Measured window, instead of the plan's.", show_default=False),
    ] = None,
    scale: Annotated[float, typer.Option("--scale", help="Multiplies the size of the plan's tables.")] = 1.0,
    basedir: options.BaseDir = None,
    data_root: options.DataRoot = None,
    disk_iops: options.DiskIops = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of every random order.", show_default=False)
    ] = None,
    json: options.Json = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for series.json.", show_default=False)
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", help="Go on with a campaign, by its id.", show_default=False),
    ] = None,
    init: Annotated[
        bool, typer.Option("--init", help="Write a commented plan to PLAN (plan.toml if absent).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Let --init overwrite a file.")] = False,
) -> None:
    """Run a plan: one change at a time against a base, then all that proved faster.

    Example: flushlab series insert-on-duplicate --server mysql@5.7 --blocks 5
    """
    from flushlab.cli import campaigns, place, planned
    from flushlab.cli.report import write_page
    from flushlab.machine import home
    from flushlab.report import series as report
    from flushlab.store import Store

    if init:
        target = Path(plan or "plan.toml")
        planned.write_starter(target, force=force)
        stdout.print(f"wrote {target}; run it with: flushlab series {target}", markup=False, soft_wrap=True)
        return
    if (plan is None) == (resume is None):
        raise UsageError(
            "series takes either a PLAN or --resume ID",
            hint="`flushlab series --init` writes a plan to start from",
        )
    require_writable(json)
    campaigns.require_folder(out)
    flags = planned.Flags(
        blocks=blocks,
        seconds=seconds,
        scale=scale,
        basedir=basedir,
        data_root=data_root,
        disk_iops=disk_iops,
        seed=seed,
    )
    planned.check(flags)
    loaded = planned.load_plan(plan) if plan is not None else None
    with Store(home() / "store.sqlite") as store:
        earlier = planned.stored_request(store, resume) if resume else None
        with (
            place.open_place(
                earlier.build
                if earlier
                else server or (loaded.plan.server if loaded else None) or planned.DEFAULT_SERVER,
                basedir=Path(earlier.basedir) if earlier and earlier.basedir else basedir,
                data_root=Path(earlier.data_root) if earlier and earlier.data_root else data_root,
                disk_iops=earlier.disk_iops if earlier else disk_iops,
            ) as where,
            planned.open_places(where) as places,
        ):
            request = earlier
            if loaded is not None:
                request = planned.decide(loaded, flags, where, places)
            assert request is not None

            facts = planned.carry_out(request, where, places, store, resume)
        if out is not None:
            write_page(store, facts.campaign_id, out / "report.html")
    document = report.document(facts)
    emit_json(document, json)
    if out is not None:
        emit_json(document, str(out / "series.json"))
    if json != "-":
        stdout.print(report.render(facts))
    if facts.ending == "interrupted":
        raise typer.Exit(130)
