"""`flushlab tune`: the main job."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flushlab.cli import options
from flushlab.cli.dry_run import tell
from flushlab.cli.handed_over import FOUND, write_files
from flushlab.cli.out_folder import OutFolder
from flushlab.cli.output import deliver, emit_json, json_bytes, kept, require_writable, stdout
from flushlab.cli.watching import watched
from flushlab.errors import MeasurementError, UsageError
from flushlab.settings.floor import Floor

FILES = ("tune.json", "report.html", *FOUND)
"""In the folder of --out; `FOUND` where something was."""

if TYPE_CHECKING:
    from flushlab.campaign.facts import TuneFacts

CONTEXT = options.OWN


@options.also(server=options.OWN_SERVER, keep=options.DATA, commit=options.PLACE)
def tune(
    context: typer.Context,
    server: options.Server = "mariadb",
    workload: options.Workload = "oltp_update_non_index",
    floor: Annotated[
        Floor, typer.Option("--floor", help="The weakest guarantees you accept.")
    ] = Floor.SECOND,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Budget in minutes; default: 5, on fresh servers 10.")
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", help="Budget in trials.")] = None,
    base: options.Base = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A setting on top of the base, NAME=VALUE; repeatable.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="A setting to leave unchanged; repeatable."),
    ] = None,
    threads: Annotated[
        str, typer.Option("--threads", help="Number of connections; several as 1,16,64.")
    ] = "16",
    memory: options.Memory = None,
    exact: options.Exact = False,
    objective: options.Objective = None,
    p99_limit: Annotated[
        float,
        typer.Option(
            "--p99-limit", help="Reject a winner whose p99 is more than this many times the base's."
        ),
    ] = 2.0,
    rate: options.Rate = 0.0,
    standalone: Annotated[bool, typer.Option("--standalone", help="There are no replicas.")] = False,
    tables: options.Tables = 8,
    table_size: options.TableSize = 10_000,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", help="Length of a measured window in seconds; default: depends on the budget."
        ),
    ] = None,
    transport: options.Transport = "socket",
    ssl_mode: options.SslMode = None,
    ssl_ca: options.SslCa = None,
    rand_type: options.RandType = None,
    rows: options.Rows = None,
    key: options.Key = None,
    hit_ratio: options.HitRatio = None,
    commit: options.Commit = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the random order.")] = None,
    fresh: options.Fresh = False,
    crash: Annotated[
        bool,
        typer.Option(
            "--crash",
            help="Crash the winner before it is handed over, and reject it if it breaks its floor: the power"
            " fails (needs root and FUSE), or else the server is killed.",
        ),
    ] = False,
    crash_images: Annotated[
        int | None,
        typer.Option("--crash-images", help="How often to crash it; default: 30, for a cluster 8."),
    ] = None,
    wait_for_quiet: options.WaitForQuiet = False,
    dry_run: options.DryRun = False,
    watch: options.Watch = False,
    json: options.Json = None,
    out: Annotated[Path | None, typer.Option("--out", help="Output folder; default: flushlab-ID.")] = None,
    resume: Annotated[str | None, typer.Option("--resume", help="Resume the campaign with this id.")] = None,
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

    options.require_kept(context, options.own(context))
    require_writable(json)
    if out is not None and not dry_run:
        OutFolder(out, FILES)
    flags = options.given(context, "json", "out", "watch") | {"threads": _parse_threads(threads)}
    with watched(watch):
        facts = run(**flags, progress=CampaignProgress())
    if dry_run:
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
        raise typer.Exit(130)
    if not_passed(facts.warnings):
        raise typer.Exit(MeasurementError.exit_code)


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


def _parse_threads(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"--threads {text!r} is not a list of numbers", hint="for example --threads 1,16,64"
        ) from None
