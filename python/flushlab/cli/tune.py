"""`flushlab tune`: the main job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from flushlab.cli import options
from flushlab.cli.campaign import FOUND, run_campaign
from flushlab.cli.output import Forms
from flushlab.errors import NEGATIVE
from flushlab.spec import Option
from flushlab.spec.kinds import TuneSpec

FILES = ("tune.json", "report.html", *FOUND)
"""In the folder of --out; `FOUND` where something was."""

SPEC = TuneSpec


def tune(
    given: Mapping[str, Any],
    watch: options.Watch = False,
    json: options.Json = None,
    markdown: options.Markdown = None,
    out: Annotated[Path | None, Option("Output folder; default: flushlab-ID.")] = None,
) -> None:
    """Find the fastest settings at a durability floor, and prove them.

    \b
    Examples:
      flushlab tune --server mysql@5.7 --base my.cnf --floor strict
      flushlab tune --base my.cnf --dataset dump.sql --workload data
      flushlab tune -h db1 -u me -p --allow-writes --allow-set-global
    """
    from flushlab.campaign.crash.check import not_passed
    from flushlab.campaign.tune import tune as run
    from flushlab.cli.progress import CampaignProgress

    facts = run_campaign(
        partial(run, progress=CampaignProgress()),
        given,
        Forms(json, markdown),
        watch=watch,
        files=FILES,
        out=out,
        default_out="flushlab-{id}",
    )
    if facts is not None and not_passed(facts.warnings):
        raise SystemExit(NEGATIVE)
