"""`flushlab series`: named changes one at a time against a base."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flushlab.cli import options
from flushlab.cli.dry_run import tell
from flushlab.cli.handed_over import FOUND, hand_over
from flushlab.cli.out_folder import OutFolder
from flushlab.cli.output import require_writable, stdout, write_file
from flushlab.cli.watching import watched
from flushlab.errors import NotWritable, UsageError
from flushlab.settings.floor import Floor

FILES = ("series.json", "report.html", *FOUND)
"""In the folder of --out; `FOUND` where something is recommended."""


@options.also(server=options.OWN_SERVER, scale={**options.DATA, **options.PLACE})
def series(
    context: typer.Context,
    plan: Annotated[
        str | None,
        typer.Argument(help="A plan file, or the name of a shipped plan.", show_default=False),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option("--server", help="A build; default: the plan's, or mariadb.", show_default=False),
    ] = None,
    base: options.Base = None,
    memory: options.Memory = None,
    exact: options.Exact = False,
    blocks: Annotated[
        int | None,
        typer.Option("--blocks", help="Number of blocks, instead of the plan's.", show_default=False),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            help="Length of the measured window in seconds, instead of the plan's.",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="Run only this arm; the beginning of its name will do; repeatable.",
            metavar="ARM",
            show_default=False,
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            help="Stop measuring an arm once its interval is this narrow, like 2%; --blocks is then a limit.",
            show_default=False,
        ),
    ] = None,
    floor: Annotated[
        Floor | None,
        typer.Option(
            "--floor",
            help="Recommend nothing that guarantees less; default: less than the plan's base.",
            show_default=False,
        ),
    ] = None,
    objective: options.Objective = None,
    threads: Annotated[
        int | None,
        typer.Option("--threads", help="Connections, instead of the plan's.", show_default=False),
    ] = None,
    scale: Annotated[float, typer.Option("--scale", help="Multiply the plan's table_size by this.")] = 1.0,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of the random order.", show_default=False)
    ] = None,
    fresh: options.Fresh = False,
    wait_for_quiet: options.WaitForQuiet = False,
    dry_run: options.DryRun = False,
    watch: options.Watch = False,
    json: options.Json = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for series.json, report.html and, where something is recommended, my.cnf and SQL.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", help="Resume the campaign with this id.", show_default=False),
    ] = None,
    init: Annotated[
        bool, typer.Option("--init", help="Write a commented plan to PLAN (default: plan.toml).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Let --init overwrite an existing file.")] = False,
) -> None:
    """Run a plan: each change by itself, then the best together.

    \b
    Examples:
      flushlab series insert-on-duplicate --server mysql@5.7 --blocks 5
      flushlab series plan.toml --dsn mysql://me:secret@db1 \\
                      --allow-writes --tune-server
    """
    if init:
        target = Path(plan or "plan.toml")
        _write_starter(target, force=force)
        stdout.print(f"wrote {target}; run it with: flushlab series {target}", soft_wrap=True)
        return
    from flushlab.campaign.series import series as run
    from flushlab.cli.progress import CampaignProgress

    options.require_kept(context)
    require_writable(json)
    if out is not None and not dry_run:
        OutFolder(out, FILES)
    flags = options.given(context, "json", "out", "init", "force", "watch", "precision")
    with watched(watch):
        facts = run(**flags, precision=options.precision_of(precision), progress=CampaignProgress())
    if dry_run:
        tell(facts, out, FILES, json)
        return
    hand_over(facts, out=out, json=json)
    if facts.ending == "interrupted":
        raise typer.Exit(130)


def _write_starter(target: Path, *, force: bool) -> None:
    """Writes a commented plan to start from.

    Raises:
        UsageError: the file exists, and `force` was not given.
        NotWritable: it cannot be written.
    """
    from flushlab.plan.shipped import example

    if target.exists() and not force:
        raise UsageError(f"{target} exists", hint="give another name, or --force to overwrite it")
    if not target.absolute().parent.is_dir():
        raise NotWritable(f"there is no folder {target.absolute().parent}", hint="make it first")
    write_file(target, example().encode())
