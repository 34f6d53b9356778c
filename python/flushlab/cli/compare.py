"""`flushlab compare`: configurations against each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flushlab.cli import options
from flushlab.cli.campaign import FOUND, run_campaign
from flushlab.cli.consoles import stdout
from flushlab.cli.output import Forms
from flushlab.spec import Option
from flushlab.spec.kinds import CompareSpec
from flushlab.spec.option import OUTPUT

if TYPE_CHECKING:
    from flushlab.campaign.facts import CampaignFacts

FILES = ("compare.json", "report.html", *FOUND)
"""In the folder of --out; `FOUND` where something is recommended, in a folder for each of several servers."""

SPEC = CompareSpec


def compare(
    given: Mapping[str, Any],
    watch: options.Watch = False,
    json: options.Json = None,
    markdown: options.Markdown = None,
    out: Annotated[
        Path | None,
        Option("Folder for JSON, page and, for a gain, my.cnf and SQL."),
    ] = None,
    per_machine: Annotated[
        bool, Option("Show each ratio on each machine of a fleet.", panel=OUTPUT, rare=True)
    ] = False,
) -> None:
    """Compare settings, option files or servers with each other.

    \b
    Examples:
      flushlab compare base innodb_flush_log_at_trx_commit=2 --server mysql@8.0
      flushlab compare base --server mysql@5.7 --server mysql@9.7
      flushlab compare my.cnf new.cnf --dataset backup.sql \\
                       --workload 'command: ./load.sh'
      flushlab compare base sync_binlog=0 -h db1 -u me -p \\
                       --allow-writes --allow-set-global
    """
    from flushlab.campaign.compare import compare as run
    from flushlab.cli.progress import LiveTable

    several = "resume" in given or len(given.get("server", ())) > 1
    forms = Forms(json, markdown)
    facts = run_campaign(
        partial(run, progress=LiveTable()),
        given,
        forms,
        watch=watch,
        files=FILES[:2] if several and not given.get("dry_run") else FILES,
        out=out,
        per_machine=per_machine,
    )
    if facts is not None and facts.ending == "done" and forms.is_printed:
        _say_again(facts)


def _say_again(facts: CampaignFacts) -> None:
    from flushlab.report.stored import command, request_of
    from flushlab.store import existing_store

    with existing_store() as store:
        row = store.campaign(facts.campaign_id)
    request = request_of(row)
    assert request is not None, "it was just stored"
    words = command(request).replace(" \\\n ", "")
    stdout.print(f"again: {words}", soft_wrap=True)
