"""`flushlab fill`: rows of a plan into a server."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from flushlab.cli import options
from flushlab.cli.output import deliver, emit_json, require_writable, say, stdout
from flushlab.cli.watching import watched
from flushlab.spec import Option
from flushlab.spec.kinds import FillSpec

SPEC = FillSpec


def fill(
    given: Mapping[str, Any],
    export: Annotated[
        str | None,
        Option("Write the rows to FILE.csv, .tsv or .sql instead, optionally .gz or .zst.", metavar="FILE"),
    ] = None,
    print_plan: Annotated[bool, Option("Print the plan, to start your own from.")] = False,
    from_schema: Annotated[
        str | None,
        Option("Write a plan for the tables of a database to PLAN, or to stdout.", metavar="DSN"),
    ] = None,
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

        fill_files.write_files(given, export=export, from_schema=from_schema, json=json)
        return
    from flushlab.bulk.fill import fill as run
    from flushlab.cli.fill_progress import FillBar
    from flushlab.report import fill as report

    with watched(watch), FillBar() as bar:
        done = run(**given, progress=say, show=bar.show_rows)
    deliver(
        *([partial(stdout.print, report.render(done))] if json != "-" else []),
        partial(emit_json, report.document(done), json),
    )
