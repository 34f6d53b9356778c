"""`flushlab compare`: configurations against each other."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flushlab.cli import options
from flushlab.cli.dry_run import tell
from flushlab.cli.handed_over import FOUND, hand_over
from flushlab.cli.out_folder import OutFolder
from flushlab.cli.output import require_writable, stdout
from flushlab.cli.watching import watched
from flushlab.settings.floor import Floor

FILES = ("compare.json", "report.html", *FOUND)
"""In the folder of --out; `FOUND` where something is recommended, in a folder for each of several servers."""

CONTEXT = options.OWN


@options.also(server=options.OWN_SERVER, exact={**options.DATA, **options.PLACE})
def compare(
    context: typer.Context,
    configurations: Annotated[
        list[str] | None,
        typer.Argument(
            help="base, an option file, or settings ('NAME=VALUE …'); the first is what the others are"
            " compared with. 'label: …' names one.",
            show_default=False,
        ),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            "--server",
            help="A build (mariadb, mysql@5.7) or a tarball (path or URL); default: mariadb. Repeatable:"
            " compares them, each with all configurations.",
            show_default=False,
        ),
    ] = None,
    workload: options.Workload = "oltp_update_non_index",
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", help="Measured seconds in all; default: 60.", show_default=False),
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option("--blocks", help="How often each configuration runs; default: 5.", show_default=False),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            help="End as soon as every interval is this narrow, like 2%; then --seconds (600) and --blocks"
            " (20) are limits.",
            show_default=False,
        ),
    ] = None,
    floor: Annotated[
        Floor | None,
        typer.Option(
            "--floor",
            help="Recommend nothing that guarantees less; default: less than the first configuration.",
            show_default=False,
        ),
    ] = None,
    objective: options.Objective = None,
    threads: Annotated[
        int | None, typer.Option("--threads", help="Number of connections; default: 16.", show_default=False)
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(
            "--base",
            help="What base stands for, an option file; settings go on top of it.",
            readable=False,
            show_default=False,
        ),
    ] = None,
    memory: options.Memory = None,
    exact: options.Exact = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random order.")] = 1,
    fresh: options.Fresh = False,
    wait_for_quiet: options.WaitForQuiet = False,
    dry_run: options.DryRun = False,
    watch: options.Watch = False,
    json: options.Json = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for compare.json, report.html and, where something is recommended, my.cnf and SQL.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", help="Resume the campaign with this id.", show_default=False),
    ] = None,
) -> None:
    """Compare settings, option files or servers with each other.

    \b
    Examples:
      flushlab compare base innodb_flush_log_at_trx_commit=2 --server mysql@8.0
      flushlab compare base --server mysql@5.7 --server mysql@9.7
      flushlab compare my.cnf new.cnf --dataset backup.sql \\
                       --workload 'command: ./load.sh'
      flushlab compare base sync_binlog=0 --dsn mysql://me:secret@db1 \\
                       --allow-writes --tune-server

    Workloads also take their own options; docs/reference/workloads.md lists them.
    """
    from flushlab.campaign.compare import compare as run
    from flushlab.cli.live_table import LiveTable

    words, own = options.words_and_own(context, configurations or ())
    options.require_kept(context, own)
    require_writable(json)
    if out is not None and not dry_run:
        OutFolder(out, FILES[:2] if resume or len(server or ()) > 1 else FILES)
    if threads is not None:
        own["threads"] = threads
    not_theirs = ("configurations", "server", "json", "out", "threads", "precision", "watch")
    flags = options.given(context, *not_theirs) | own
    found = {"server": server or "mariadb", "precision": options.precision_of(precision), **flags}
    with watched(watch):
        facts = run(words, **found, progress=LiveTable())
    if dry_run:
        tell(facts, out, FILES, json)
        return
    more = [partial(_say_again, facts.campaign_id)] if facts.ending == "done" else []
    hand_over(facts, out=out, json=json, more=more)
    if facts.ending == "interrupted":
        raise typer.Exit(130)


def _say_again(campaign_id: str) -> None:
    """The command that repeats a campaign, whole, whatever the terminal's width."""
    from flushlab.report.repeat import command
    from flushlab.report.stored import plan_of
    from flushlab.store import existing_store

    with existing_store() as store:
        row = store.campaign(campaign_id)
    words = command(row, plan_of(row)).replace(" \\\n ", "")
    stdout.print(f"again: {words}", soft_wrap=True)
