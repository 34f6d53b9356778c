"""`flushlab tune`: the main job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from flushlab.cli import options
from flushlab.cli.dry_run import tell
from flushlab.cli.handed_over import FOUND, hand_over
from flushlab.cli.out_folder import OutFolder
from flushlab.cli.output import require_writable
from flushlab.cli.watching import watched
from flushlab.errors import MeasurementError
from flushlab.spec import Option
from flushlab.spec.kinds import TuneSpec

FILES = ("tune.json", "report.html", *FOUND)
"""In the folder of --out; `FOUND` where something was."""

SPEC = TuneSpec


def tune(
    given: Mapping[str, Any],
    watch: options.Watch = False,
    json: options.Json = None,
    out: Annotated[Path | None, Option("Output folder; default: flushlab-ID.")] = None,
) -> None:
    """Find the fastest settings at a durability floor, and prove them.

    \b
    Examples:
      flushlab tune --server mysql@5.7 --base my.cnf --floor strict
      flushlab tune --base my.cnf --dataset dump.sql \\
                    --workload 'command: ./load.sh'
      flushlab tune --dsn mysql://me:secret@db1 --allow-writes --tune-server

    OLTP workloads also take sysbench's options, and a command takes --timeout,
    --reset and --warm-up-runs: docs/reference/workloads.md.
    """
    from flushlab.campaign.crash.check import not_passed
    from flushlab.campaign.tune import tune as run
    from flushlab.cli.progress import CampaignProgress

    require_writable(json)
    if out is not None and not given.get("dry_run"):
        OutFolder(out, FILES)
    with watched(watch):
        facts = run(**given, progress=CampaignProgress())
    if given.get("dry_run"):
        tell(facts, out or Path("flushlab-ID"), FILES, json)
        return
    hand_over(facts, out=out or Path(f"flushlab-{facts.campaign_id}"), json=json)
    if facts.ending == "interrupted":
        raise SystemExit(130)
    if not_passed(facts.warnings):
        raise SystemExit(MeasurementError.exit_code)
