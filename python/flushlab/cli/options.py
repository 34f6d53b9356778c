"""Options that several commands share: spelled once, explained once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from flushlab.errors import UsageError
from flushlab.record import Value

Server = Annotated[
    str,
    typer.Option(
        "--server",
        help="A build (mariadb, mariadb@10.11, mysql@5.7), or a tarball (path or URL, optionally with"
        " #sha256=…).",
    ),
]
ServerOrSandbox = Annotated[
    str,
    typer.Option(
        "--server",
        help="A build (mariadb, mariadb@10.11, mysql@5.7), a tarball (path or URL, optionally with #sha256=…)"
        " or a kept sandbox (sandbox:NAME).",
    ),
]
Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        help="Your own server: mysql://USER:PASSWORD@HOST:PORT, optionally with /DATABASE.",
        show_default=False,
    ),
]
DsnOrNodes = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        help="Your own server: mysql://USER:PASSWORD@HOST:PORT, optionally with /DATABASE; for a cluster,"
        " one node or all: …@NODE1,NODE2,NODE3.",
        show_default=False,
    ),
]
DefaultsFile = Annotated[
    Path | None,
    typer.Option(
        "--defaults-file", help="Your own server, by an option file's [client] group.", show_default=False
    ),
]
AllowWrites = Annotated[
    bool,
    typer.Option(
        "--allow-writes",
        help="Let the load write to your own server; tables that flushlab makes are dropped at the end.",
    ),
]
TuneServer = Annotated[
    bool,
    typer.Option(
        "--tune-server",
        help="Let settings of your own server be changed, on every node of a cluster; all are put back.",
    ),
]
BaseDir = Annotated[
    Path | None, typer.Option("--basedir", help="Use the server installed in this directory.")
]
Workload = Annotated[
    str,
    typer.Option(
        "--workload",
        help="A sysbench workload (oltp_update_non_index, oltp_read_write, …), upsert, txn:FILE, sql:FILE, or"
        " any program: 'command: ./load.sh'.",
    ),
]
Tables = Annotated[int, typer.Option("--tables", help="Number of tables (OLTP and upsert).")]
TableSize = Annotated[int, typer.Option("--table-size", help="Rows per table.")]
Transport = Annotated[str, typer.Option("--transport", help="How the load connects: socket or tcp.")]
SslMode = Annotated[
    str | None,
    typer.Option(
        "--ssl-mode",
        help="TLS mode for --transport tcp: disabled (default), required, verify_ca or verify_identity.",
        show_default=False,
    ),
]
SslCa = Annotated[
    Path | None,
    typer.Option(
        "--ssl-ca",
        help="PEM file with the certificates that verify_ca and verify_identity trust.",
        show_default=False,
    ),
]
RandType = Annotated[
    str | None,
    typer.Option(
        "--rand-type",
        help="Distribution of rows: special (OLTP default, as in sysbench 1.0), uniform (upsert default),"
        " gaussian, pareto or zipfian.",
        show_default=False,
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        "--objective",
        help="What to compare: throughput, or at a fixed rate p99 latency; default: whichever it is.",
        show_default=False,
    ),
]
Rate = Annotated[
    float,
    typer.Option(
        "--rate", help="Target transactions/s, or rows/s for upsert (open loop); 0 is as fast as possible."
    ),
]
Rows = Annotated[
    int | None, typer.Option("--rows", help="upsert: rows per statement; default 1.", show_default=False)
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        help="upsert: the key in which rows conflict: primary (default) or unique.",
        show_default=False,
    ),
]
HitRatio = Annotated[
    float | None,
    typer.Option(
        "--hit-ratio",
        help="upsert: share of rows that already exist; default 0.5.",
        show_default=False,
    ),
]
Commit = Annotated[
    str | None,
    typer.Option(
        "--commit",
        help="upsert: when to commit: autocommit (default), '1000 rows' or '1 s'.",
        show_default=False,
    ),
]
Dataset = Annotated[
    Path | None,
    typer.Option(
        "--dataset",
        help="Your data: an SQL dump (also .gz, .zst), a dump folder of mydumper or MySQL Shell,"
        " a prepared backup, or a stopped server's data directory.",
        readable=False,
        show_default=False,
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        help="The workload's database in --dataset; needed if there are several.",
        show_default=False,
    ),
]
Base = Annotated[
    Path | None,
    typer.Option(
        "--base",
        help="Your option file, used as the base; scaled to this machine if need be.",
        readable=False,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", help="Memory the server may use, such as 2G; default: half of the machine's."),
]
Exact = Annotated[
    bool, typer.Option("--exact", help="Refuse a base that this machine cannot hold; do not scale it.")
]
Cluster = Annotated[
    int | None,
    typer.Option(
        "--cluster",
        min=2,
        max=9,
        help="Use a Galera cluster of this many nodes of --server, on this machine (MariaDB).",
        show_default=False,
    ),
]
DataRoot = Annotated[
    Path | None, typer.Option("--data-root", help="Where to put data directories.", readable=False)
]
DiskIops = Annotated[
    int | None,
    typer.Option("--disk-iops", help="Limit the disk to this many writes/s (root, cgroups)."),
]
Disk = Annotated[
    str | None,
    typer.Option(
        "--disk",
        metavar="PROFILE",
        help="Run on a disk as slow as this one: gp3, 7200rpm, … or flush=1ms,write=0.1ms,iops=3000 (root).",
        show_default=False,
    ),
]
NetworkLatency = Annotated[
    str | None,
    typer.Option(
        "--network-latency",
        help="Round-trip time between a cluster's nodes, such as 1ms (root).",
        show_default=False,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say what would be tried and written, and how long it would take; start and write nothing.",
    ),
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", help="Start a fresh server for every window; do not measure arms side by side."),
]

WaitForQuiet = Annotated[
    bool,
    typer.Option("--wait-for-quiet", help="Wait, at most 30 minutes, until the machine is quiet."),
]

Watch = Annotated[
    bool, typer.Option("--watch", help="Serve a live page and metrics on loopback while it runs.")
]
WatchPort = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=1,
        max=65535,
        help="Port of the page; default: 9194, or a free one if that is taken.",
        show_default=False,
    ),
]

Group = Mapping[str, tuple[Any, Any]]
"""Options by their names, each with its type and its default."""

OWN_SERVER: Group = {
    "dsn": (DsnOrNodes, None),
    "defaults_file": (DefaultsFile, None),
    "allow_writes": (AllowWrites, False),
    "tune_server": (TuneServer, False),
}
PLACE: Group = {
    "basedir": (BaseDir, None),
    "data_root": (DataRoot, None),
    "disk_iops": (DiskIops, None),
    "disk": (Disk, None),
    "cluster": (Cluster, None),
    "network_latency": (NetworkLatency, None),
}
DATA: Group = {"dataset": (Dataset, None), "database": (Database, None)}

Command = Callable[..., None]


def also(**groups: Group) -> Callable[[Command], Command]:
    """Declares options that several commands share, which find them in their context (`given`).

    Args:
        groups: each behind the parameter that it is named after.
    """

    def declaring(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        parameters = list[inspect.Parameter]()
        for name, one in own.items():
            parameters.append(one)
            parameters += [
                inspect.Parameter(other, one.kind, annotation=kind, default=default)
                for other, (kind, default) in groups.get(name, {}).items()
            ]

        @functools.wraps(command)
        def declared(**flags: Any) -> None:
            command(**{name: flags[name] for name in own})

        shared = {other: kind for group in groups.values() for other, (kind, _) in group.items()}
        declared.__annotations__ = {**command.__annotations__, **shared}
        vars(declared)["__signature__"] = inspect.Signature(parameters)
        return declared

    return declaring


OWN = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Context settings of a command that reads them with `own`."""


def typed(context: typer.Context) -> set[str]:
    """The flags that somebody gave, whatever their values."""
    sources = ((name, context.get_parameter_source(name)) for name in context.params)
    return {name for name, source in sources if source is not None and source.name != "DEFAULT"}


def precision_of(text: str | None) -> float | None:
    """`--precision`: `2%` and `0.02` as a fraction.

    Raises:
        UsageError: it is neither.
    """
    if text is None:
        return None
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise UsageError(
            f"--precision {text!r} is not a percentage", hint="for example --precision 2%"
        ) from None


def given(context: typer.Context, *without: str) -> dict[str, Any]:
    """The flags of a command as the function of its name takes them.

    Args:
        context: of a command; one with `OWN` has the options of workloads, too.
        without: names of flags that are the command's alone.

    Raises:
        UsageError: as `own` and `assigned`.
    """
    flags = {name: value for name, value in context.params.items() if name not in without}
    if "setting" in flags:
        flags["settings"] = assigned(flags.pop("setting") or ())
    return flags | (own(context) if context.allow_extra_args else {})


_WITH_RESUME = {
    *OWN_SERVER,
    *("configurations", "plan", "resume", "json", "out", "watch", "wait_for_quiet", "dry_run"),
}
"""Parameters that do not belong to the campaign, or that have errors of their own beside `--resume`."""


def require_kept(context: typer.Context, own: Iterable[str] = ()) -> None:
    """Refuses beside `--resume` what the campaign has kept.

    Args:
        context: of a command that resumes campaigns.
        own: names of the options of workloads that were given.

    Raises:
        UsageError: an option of the campaign is given again.
    """
    given = typed(context)
    if "resume" not in given:
        return
    declared = (one for one in context.command.params if one.name in given - _WITH_RESUME)
    again = [*(one.opts[0] for one in declared), *(f"--{name.replace('_', '-')}" for name in own)]
    if again:
        raise UsageError(
            f"--resume takes no {again[0]}",
            hint="the campaign goes on as it was started; remove it, or start a new campaign",
        )


def words_and_own(context: typer.Context, words: Iterable[str]) -> tuple[list[str], dict[str, Value]]:
    """The words of a command that takes any number of them, and the workloads' options among these.

    Raises:
        UsageError: as `own`.
    """
    from flushlab.cli import workload_flags

    found: list[str] = []
    return found, workload_flags.read(words, _declared(context), found)


def assigned(assignments: Iterable[str]) -> dict[str, Value]:
    """Settings of `--set NAME=VALUE`, as texts.

    Raises:
        UsageError: not of the form NAME=VALUE, or given twice.
    """
    settings: dict[str, Value] = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        name = name.strip().replace("-", "_")
        if not separator or not name:
            raise UsageError(
                f"--set {assignment!r} is not NAME=VALUE", hint="for example --set sync_binlog=1"
            )
        if name in settings:
            raise UsageError(f"--set names {name} twice", hint="give each setting once")
        settings[name] = text.strip()
    return settings


def own(context: typer.Context) -> dict[str, Value]:
    """The options that only some workloads have, from what the command line has besides declared flags.

    Raises:
        UsageError: no workload has one of them, or it does not take its value.
    """
    from flushlab.cli import workload_flags

    return workload_flags.read(context.args, _declared(context))


def _declared(context: typer.Context) -> list[str]:
    return [name for parameter in context.command.params for name in parameter.opts if name.startswith("-")]


Json = Annotated[str | None, typer.Option("--json", help="Write the result as JSON to a file; - is stdout.")]
