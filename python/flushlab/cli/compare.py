"""`flushlab compare`: configurations against each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from flushlab.cli import options
from flushlab.cli.dry_run import tell
from flushlab.cli.handed_over import FOUND, hand_over
from flushlab.cli.out_folder import OutFolder
from flushlab.cli.output import require_writable, stdout
from flushlab.cli.watching import watched
from flushlab.spec import Option
from flushlab.spec.kinds import CompareSpec

FILES = ("compare.json", "report.html", *FOUND)
"""In the folder of --out; `FOUND` where something is recommended, in a folder for each of several servers."""

SPEC = CompareSpec


def compare(
    given: Mapping[str, Any],
    watch: options.Watch = False,
    json: options.Json = None,
    out: Annotated[
        Path | None,
        Option("Folder for compare.json, report.html and, where something is recommended, my.cnf and SQL."),
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

    require_writable(json)
    dry_run = given.get("dry_run")
    if out is not None and not dry_run:
        several = "resume" in given or len(given.get("server", ())) > 1
        OutFolder(out, FILES[:2] if several else FILES)
    with watched(watch):
        facts = run(**given, progress=LiveTable())
    if dry_run:
        tell(facts, out, FILES, json)
        return
    more = [partial(_say_again, facts.campaign_id)] if facts.ending == "done" else []
    hand_over(facts, out=out, json=json, more=more)
    if facts.ending == "interrupted":
        raise SystemExit(130)


def _say_again(campaign_id: str) -> None:
    """The command that repeats a campaign, whole, whatever the terminal's width."""
    from flushlab.report.stored import command, request_of
    from flushlab.store import existing_store

    with existing_store() as store:
        row = store.campaign(campaign_id)
    request = request_of(row)
    assert request is not None, "it was just stored"
    words = command(request).replace(" \\\n ", "")
    stdout.print(f"again: {words}", soft_wrap=True)
