"""`flushlab series`: named changes one at a time against a base."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from flushlab.cli import options
from flushlab.cli.campaign import FOUND, run_campaign
from flushlab.cli.consoles import stdout
from flushlab.cli.output import Forms, write_file
from flushlab.errors import NotWritable, UsageError
from flushlab.spec import Option
from flushlab.spec.kinds import SeriesSpec
from flushlab.spec.option import RUN

FILES = ("series.json", "report.html", *FOUND)
"""In the folder of --out; `FOUND` where something is recommended."""


SPEC = SeriesSpec


def series(
    given: Mapping[str, Any],
    watch: options.Watch = False,
    json: options.Json = None,
    markdown: options.Markdown = None,
    out: Annotated[
        Path | None,
        Option("Folder for JSON, page and, for a gain, my.cnf and SQL."),
    ] = None,
    init: Annotated[bool, Option("Write a commented plan to PLAN (default: plan.toml).", panel=RUN)] = False,
    force: Annotated[bool, Option("Let --init overwrite an existing file.", panel=RUN)] = False,
) -> None:
    """Run a plan: each change by itself, then the best together.

    \b
    Examples:
      flushlab series insert-on-duplicate --server mysql@5.7 --blocks 5
      flushlab series plan.toml -h db1 -u me -p \\
                      --allow-writes --allow-set-global
    """
    if init:
        target = Path(given.get("plan", "plan.toml"))
        _write_starter(target, force=force)
        stdout.print(f"wrote {target}; run it with: flushlab series {target}", soft_wrap=True)
        return
    from flushlab.campaign.series import series as run
    from flushlab.cli.progress import CampaignProgress

    measure = partial(run, progress=CampaignProgress())
    run_campaign(measure, given, Forms(json, markdown), watch=watch, files=FILES, out=out)


def _write_starter(target: Path, *, force: bool) -> None:
    from flushlab.plan.parse import example

    if target.exists() and not force:
        raise UsageError(f"{target} exists", hint="give another name, or --force to overwrite it")
    if not target.absolute().parent.is_dir():
        raise NotWritable(f"there is no folder {target.absolute().parent}", hint="make it first")
    write_file(target, example().encode())
