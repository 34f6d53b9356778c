"""`flushlab tune`: the main job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flushlab.cli import options
from flushlab.cli.dry_run import tell
from flushlab.cli.handed_over import FOUND, write_files
from flushlab.cli.out_folder import OutFolder
from flushlab.cli.output import deliver, emit_json, json_bytes, kept, require_writable, stdout
from flushlab.cli.watching import watched
from flushlab.errors import MeasurementError
from flushlab.spec import Option
from flushlab.spec.kinds import TuneSpec

FILES = ("tune.json", "report.html", *FOUND)
"""In the folder of --out; `FOUND` where something was."""

if TYPE_CHECKING:
    from flushlab.campaign.facts import TuneFacts

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
    from flushlab.report import tune as report

    require_writable(json)
    if out is not None and not given.get("dry_run"):
        OutFolder(out, FILES)
    with watched(watch):
        facts = run(**given, progress=CampaignProgress())
    if given.get("dry_run"):
        tell(facts, out or Path("flushlab-ID"), FILES, json)
        return
    facts = _named(facts, out)
    deliver(
        *([partial(stdout.print, report.render(facts))] if json != "-" else []),
        partial(emit_json, report.document(facts), json),
        partial(_write_files, facts, told=json != "-"),
        kept=kept(facts.campaign_id),
    )
    if facts.ending == "interrupted":
        raise SystemExit(130)
    if not_passed(facts.warnings):
        raise SystemExit(MeasurementError.exit_code)


def _named(facts: TuneFacts, out: Path | None) -> TuneFacts:
    """The facts with the names of their files: result and page, and option file and statements if any."""
    import msgspec

    names = FILES if facts.handed_over is not None else FILES[:2]
    folder = out or Path(f"flushlab-{facts.campaign_id}")
    return msgspec.structs.replace(facts, files=tuple(str(folder / name) for name in names))


def _write_files(facts: TuneFacts, *, told: bool) -> None:
    """Writes the files of a tuning and says so on stdout.

    Raises:
        NotWritable: the folder, or one of them, cannot be written.
    """
    import msgspec

    from flushlab.advice.tuned import tuned_files
    from flushlab.campaign.request import TuneRequest
    from flushlab.cli.report import page_of
    from flushlab.report import tune as report
    from flushlab.report.stored import before_change
    from flushlab.store import existing_store

    with existing_store() as store:
        contents: dict[str, Callable[[], bytes]] = {
            "tune.json": lambda: json_bytes(report.document(facts)),
            "report.html": lambda: page_of(store, store.campaign(facts.campaign_id)),
        }
        if facts.handed_over is not None:
            request = msgspec.json.decode(store.campaign(facts.campaign_id).plan, type=TuneRequest)
            ran = next(trial for trial in store.trials(facts.campaign_id) if trial.storage and trial.launch)
            assert ran.storage and ran.launch
            before = before_change(store.trials(facts.campaign_id))
            texts = tuned_files(facts, request, before, ran.storage, ran.launch)
            contents |= {name: text.encode for name, text in zip(FOUND, texts, strict=True)}
        write_files(Path(facts.files[0]).parent, contents, told=told)
