"""`flushlab fill`: rows of a plan into a server."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flushlab.cli import options
from flushlab.cli.output import deliver, emit_json, require_writable, say, stdout
from flushlab.cli.watching import watched
from flushlab.settings.floor import Floor


def fill(
    context: typer.Context,
    plan: Annotated[str, typer.Argument(help="A built-in plan (users, sbtest), or a plan file.")] = "users",
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, help="Rows of the largest table; default: the plan's.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            help="A build (mariadb, mysql@8.0): a new sandbox that is kept; or a kept one (sandbox:NAME,"
            " cluster:NAME)."
            " Default: mariadb.",
            show_default=False,
        ),
    ] = None,
    dsn: options.DsnOrNodes = None,
    defaults_file: options.DefaultsFile = None,
    database: Annotated[
        str | None, typer.Option("--database", help="Database of the tables; default: app, or the DSN's.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", help="Connections; default: as many as prove fastest.")
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="How rows are sent: auto, load-data, insert or single.")
    ] = "auto",
    floor: Annotated[
        Floor | None,
        typer.Option(
            "--floor",
            help="The weakest guarantees you accept during the load; default: throwaway for a new sandbox or"
            " cluster, second for a kept one.",
            show_default=False,
        ),
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Create the database and its tables if they are missing.")
    ] = False,
    append: Annotated[bool, typer.Option("--append", help="Add rows to tables that have some.")] = False,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Remove all rows of the tables first.")
    ] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the rows; default: the plan's.")] = None,
    tune_server: Annotated[
        bool,
        typer.Option(
            "--tune-server",
            help="Relax commits and enlarge the redo log of your own server for the load, down to --floor"
            " (default: second); all is put back.",
        ),
    ] = False,
    replica: Annotated[
        list[str] | None,
        typer.Option(
            "--replica",
            metavar="DSN|FILE",
            help="Wait while this replica of your own server lags; repeatable.",
            show_default=False,
        ),
    ] = None,
    max_lag: Annotated[
        float, typer.Option("--max-lag", min=0, help="Seconds that replicas may be behind.")
    ] = 1.0,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a load that was interrupted.")] = False,
    ladder: Annotated[
        bool,
        typer.Option("--ladder", help="First measure each way of loading, from one row per statement up."),
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="FILE",
            help="Write the rows to FILE.csv, .tsv or .sql instead, optionally .gz or .zst.",
            show_default=False,
        ),
    ] = None,
    print_plan: Annotated[
        bool, typer.Option("--print-plan", help="Print the plan, to start your own from.")
    ] = False,
    from_schema: Annotated[
        str | None,
        typer.Option(
            "--from-schema",
            metavar="DSN",
            help="Write a plan for the tables of a database to PLAN, or to stdout.",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        int | None,
        typer.Option(
            "--cluster",
            min=2,
            max=9,
            help="Start a new Galera cluster of this many nodes of --server, and keep it (MariaDB).",
            show_default=False,
        ),
    ] = None,
    basedir: options.BaseDir = None,
    data_root: options.DataRoot = None,
    disk: options.Disk = None,
    watch: options.Watch = False,
    json: options.Json = None,
) -> None:
    """Fill tables with generated rows, fast, and verify them.

    \b
    Examples:
      flushlab fill users --rows 1000000
      flushlab fill plan.toml --server sandbox:legacy --create
      flushlab fill users --rows 5000 --dsn mysql://me:secret@db/app --create
      flushlab fill users --rows 1000000 --export users.csv.zst
      flushlab fill mine.toml --from-schema mysql://me:secret@db/app

    Rows are verified afterwards. An interrupted load continues with --resume,
    without duplicates or gaps.
    """
    require_writable(json)
    if export or print_plan or from_schema:
        from flushlab.cli import fill_files

        fill_files.instead(context)
        return
    from flushlab.campaign.fill import fill as run
    from flushlab.cli.fill_progress import FillBar
    from flushlab.report import fill as report

    with watched(watch), FillBar() as bar:
        done = run(
            **options.given(context, "json", "export", "print_plan", "from_schema", "watch"),
            progress=say,
            show=bar.show_far,
        )
    deliver(
        *([partial(stdout.print, report.render(done))] if json != "-" else []),
        partial(emit_json, report.document(done), json),
    )
