"""`flushlab series`: named changes one at a time against a base."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from flushlab.cli import options
from flushlab.cli.dry_run import tell
from flushlab.cli.handed_over import FOUND, hand_over
from flushlab.cli.out_folder import OutFolder
from flushlab.cli.output import require_writable, stdout, write_file
from flushlab.cli.watching import watched
from flushlab.errors import NotWritable, UsageError
from flushlab.spec import Option
from flushlab.spec.kinds import SeriesSpec

FILES = ("series.json", "report.html", *FOUND)
"""In the folder of --out; `FOUND` where something is recommended."""


SPEC = SeriesSpec


def series(
    given: Mapping[str, Any],
    watch: options.Watch = False,
    json: options.Json = None,
    out: Annotated[
        Path | None,
        Option("Folder for series.json, report.html and, where something is recommended, my.cnf and SQL."),
    ] = None,
    init: Annotated[bool, Option("Write a commented plan to PLAN (default: plan.toml).")] = False,
    force: Annotated[bool, Option("Let --init overwrite an existing file.")] = False,
) -> None:
    """Run a plan: each change by itself, then the best together.

    \b
    Examples:
      flushlab series insert-on-duplicate --server mysql@5.7 --blocks 5
      flushlab series plan.toml --dsn mysql://me:secret@db1 \\
                      --allow-writes --tune-server
    """
    if init:
        target = Path(given.get("plan", "plan.toml"))
        _write_starter(target, force=force)
        stdout.print(f"wrote {target}; run it with: flushlab series {target}", soft_wrap=True)
        return
    from flushlab.campaign.series import series as run
    from flushlab.cli.progress import CampaignProgress

    require_writable(json)
    dry_run = given.get("dry_run")
    if out is not None and not dry_run:
        OutFolder(out, FILES)
    with watched(watch):
        facts = run(**given, progress=CampaignProgress())
    if dry_run:
        tell(facts, out, FILES, json)
        return
    hand_over(facts, out=out, json=json)
    if facts.ending == "interrupted":
        raise SystemExit(130)


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
