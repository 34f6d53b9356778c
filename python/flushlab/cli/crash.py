"""`flushlab crash`: what a configuration loses when the server is killed or the power goes."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flushlab.cli import options
from flushlab.cli.output import deliver, emit_json, kept, require_writable, say, stdout, write_file
from flushlab.cli.watching import watched
from flushlab.errors import UsageError

if TYPE_CHECKING:
    from flushlab.record import CrashFacts

CONTEXT = options.OWN
_OF_IMAGES = {"fail", "tear", "lying_flushes", "minimise", "replica"}
_OF_REPLAYS = {"replay", "server", "basedir", "data_root", "cluster"} | _OF_IMAGES
"""What may be said of an image of a record that was kept. A replica has an answer of its own."""


def crash(
    context: typer.Context,
    configurations: Annotated[
        list[str] | None,
        typer.Argument(
            help="base, an option file, or settings ('NAME=VALUE …'); 'label: …' names one. Default: base.",
            show_default=False,
        ),
    ] = None,
    server: options.Server = "mariadb",
    workload: Annotated[
        str,
        typer.Option(
            "--workload",
            help="ledger (one INSERT a commit), or a sysbench workload, upsert or txn:FILE with the ledger"
            " in its transactions; commits of 'command: …' and sql:FILE are not known, so crashes"
            " are judged only by whether the server starts with sound tables.",
        ),
    ] = "ledger",
    beside: Annotated[
        str | None,
        typer.Option(
            "--beside",
            help="What runs beside the ledger's load: ddl (tables are made, changed and dropped, and judged"
            " too), 'command: …' or sql:FILE.",
            show_default=False,
        ),
    ] = None,
    fail: Annotated[
        str,
        typer.Option(
            "--fail",
            help="process (the server is killed), os (the system crashes), power (what the disk has not"
            " flushed is lost), lying-disk (so is what it only claimed to have flushed), torn (a page"
            " write is cut short), eio (a flush fails under load, later the power does) or full (the file"
            " system fills up, later the power fails).",
        ),
    ] = "power",
    images: Annotated[int, typer.Option("--images", help="Crashes of each configuration.")] = 30,
    seconds: Annotated[
        float, typer.Option("--seconds", help="Seconds of load to record, or at most before each kill.")
    ] = 3.0,
    threads: Annotated[int, typer.Option("--threads", help="Number of connections.")] = 4,
    rows: Annotated[int, typer.Option("--rows", help="Rows of each of the ledger's transactions.")] = 1,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A setting of all configurations, NAME=VALUE; repeatable.", show_default=False
        ),
    ] = None,
    base: options.Base = None,
    fs: Annotated[str, typer.Option("--fs", help="File system: ext4, xfs or btrfs.")] = "ext4",
    tear: Annotated[
        int,
        typer.Option(
            "--tear", help="Bytes that the disk writes atomically: 512, 4096, or 0 for whole writes."
        ),
    ] = 512,
    lying_flushes: Annotated[
        int, typer.Option("--lying-flushes", help="How many of its last flushes a lying disk skipped.")
    ] = 10,
    disk_size: Annotated[int, typer.Option("--disk-size", help="Size of the disk in MiB.")] = 1024,
    disk: options.Disk = None,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls/--no-controls", help="Run a configuration that must lose, if nothing else did."
        ),
    ] = True,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the crash points.")] = 1,
    cluster: options.Cluster = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            "--nodes",
            help="Which nodes of the cluster crash: one (the default), all at once, rolling (each when the"
            " one before is back) or cascade (one after the other until none is left).",
            show_default=False,
        ),
    ] = None,
    network_latency: options.NetworkLatency = None,
    replica: Annotated[
        bool,
        typer.Option(
            "--replica",
            help="Let a real replica follow the server until it crashes, then go on with what comes back,"
            " beside a new one: do they follow, diverge or stop?",
        ),
    ] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="Keep the records in this folder.", show_default=False)
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            "--replay",
            metavar="FOLDER:at=N:seed=N",
            help="Judge one image of a record that was kept.",
            show_default=False,
        ),
    ] = None,
    minimise: Annotated[
        bool,
        typer.Option(
            "--minimise",
            help="With --replay: find the fewest unsynced sectors that explain the failure.",
        ),
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option("--resume", help="Resume the campaign with this id.", show_default=False),
    ] = None,
    basedir: options.BaseDir = None,
    data_root: options.DataRoot = None,
    watch: options.Watch = False,
    json: options.Json = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write an HTML page.", show_default=False)
    ] = None,
) -> None:
    """Crash a server many times and count what it loses.

    \b
    Examples:
      flushlab crash --server mysql@8.0 --set sync_binlog=1
      flushlab crash base innodb_flush_log_at_trx_commit=2 --images 300
      flushlab crash --fail process --server mysql@5.7
      flushlab crash --cluster 3 --nodes all --server mariadb@10.11
      flushlab crash --replica --server mysql@8.0 --set sync_binlog=0

    A run is recorded once, on a disk of its own, and cut at many points. That
    needs root, FUSE and a loop device; --fail process needs none of them.
    """
    from flushlab.campaign.crash.control import require_judged
    from flushlab.campaign.crash.crash import crash as run
    from flushlab.report import crash as report

    require_writable(json)
    require_writable(out)
    words, own = options.words_and_own(context, configurations or ())
    flags = options.given(context, "configurations", "json", "out", "watch") | own
    typed = options.typed(context) if words else options.typed(context) - {"configurations"}
    others = (typed | {*own}) - {"json", "out", "watch"}
    if resume is not None and (others := others - {"resume"}):
        raise UsageError(
            f"--resume takes no {_spelled(others)}: the campaign keeps what it was started with",
            hint=f"flushlab crash --resume {resume}",
        )
    if replay is not None and (others := others - _OF_REPLAYS):
        known = ", ".join(_spelled([name]) for name in sorted(_OF_REPLAYS - {"replay"}))
        raise UsageError(
            f"--replay takes no {_spelled(others)}: the record keeps what it was made with",
            hint=f"remove it: --replay takes {known}",
        )
    if out == "-":
        raise UsageError(
            "--out writes a file", hint="flushlab report --out - writes the page of a campaign to stdout"
        )
    if replay is not None and out:
        raise UsageError("one image alone has no page", hint="remove --out")
    with watched(watch):
        facts = run(words, **flags, progress=say)
    deliver(
        *([partial(stdout.print, report.render(facts))] if json != "-" else []),
        partial(emit_json, report.document(facts), json),
        *([partial(_write_page, facts, out)] if out else []),
        kept=kept(facts.campaign) if facts.campaign else "what was found is printed above",
    )
    if facts.ending == "interrupted":
        raise typer.Exit(130)
    require_judged(facts)


def _spelled(names: Collection[str]) -> str:
    """The first of some options, as it is typed; the configurations have no option."""
    first = {"setting": "set"}.get(name := min(names), name)
    return first if first == "configurations" else f"--{first.replace('_', '-')}"


def _write_page(facts: CrashFacts, out: str) -> None:
    """Writes the page of what was found, and says so.

    Raises:
        NotWritable: the file cannot be written.
    """
    from flushlab.cli.report import stored_page

    write_file(Path(out), stored_page(facts.campaign))
    say(f"wrote {out}")
