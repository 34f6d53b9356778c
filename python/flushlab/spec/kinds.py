"""Kinds: the specification of each command that runs something, composed of parts and of fields of its own.

Sits in `spec`. The order of attributes is that of --help and of the command that repeats a campaign.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from flushlab.record import CrashKind
from flushlab.settings.floor import Floor
from flushlab.spec.option import DATA, OUTPUT, SERVER, SURE, Option, Spec, Without
from flushlab.spec.parts import (
    CLIENT,
    BaseSpec,
    CrashWorkloadSpec,
    DataSpec,
    FileSpec,
    FilledServerSpec,
    RemoteAccess,
    RunSpec,
    ServerOrKeptSpec,
    ServerSpec,
    ServersSpec,
    StorageSpec,
    WorkloadSpec,
)

MOST_BLOCKS = 1_000
MOST_ROWS = 10**15

Positive = Annotated[int, Meta(ge=1)]
Blocks = Annotated[int, Meta(ge=2, le=MOST_BLOCKS)]
Seconds = Annotated[float, Meta(ge=0.1, le=86_400)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Share = Annotated[float, Meta(gt=0, le=0.99)]
Threads = Annotated[int, Meta(ge=1, le=4096)]

_Window = Option("Length of a measured window in seconds.", panel=SURE)
_Duration = Option("Length of the measurement in seconds.", panel=SURE)
_Precision = Option(
    "End as soon as every interval is this narrow, like 2%; the planned length is then the limit.",
    metavar="PERCENT",
    range_hint="for example 2%",
    panel=SURE,
)
_Blocks = Option(
    "Runs of each configuration; default: 5.",
    range_hint="an interval needs two blocks, a good one five",
    panel=SURE,
)
_Objective = Option(
    "Quantity to compare; default: throughput, at a fixed rate p99 latency.",
    panel=SURE,
    rare=True,
)
_Seed = Option("Seed of the random draws (order of the trials).", panel=SURE, rare=True)
_Fresh = Option(
    "Start a fresh server for every window; do not measure arms side by side.",
    started=True,
    panel=SURE,
    rare=True,
)
_Quiet = Option("Wait, at most 30 minutes, until the machine is quiet.", panel=SURE, rare=True)


class TuneSpec(Spec, frozen=True, kw_only=True):
    """What `tune` is asked for."""

    kind: ClassVar[Literal["tune"]] = "tune"

    server: ServerSpec = ServerSpec()
    remote: RemoteAccess = RemoteAccess()
    workload: WorkloadSpec = WorkloadSpec()
    floor: Annotated[Floor, Option("The weakest guarantees you accept in the result.", always=True)] = (
        Floor.STRICT
    )
    offer: Annotated[
        Floor | None,
        Option(
            "Measure gains below --floor too, down to this floor, and report them apart from the result;"
            " default: second, on your own server none.",
            rare=True,
        ),
    ] = None
    minutes: Annotated[
        Annotated[float, Meta(gt=0, le=525_600)] | None,
        Option(
            "Budget in minutes; default: 5, or 10 (fresh servers; few side by side).",
            panel=SURE,
        ),
    ] = None
    trials: Annotated[Positive | None, Option("Budget in trials.", panel=SURE, rare=True)] = None
    base: BaseSpec = BaseSpec()
    fixed: Annotated[tuple[str, ...], Option("Fixed setting: leave it unchanged; repeatable.")] = ()
    data: DataSpec = DataSpec()
    pool_ratio: Annotated[
        Annotated[float, Meta(gt=0, le=4)] | None,
        Option(
            "Buffer pool of every configuration as a share of the data, such as production's: 0.2.",
            started=True,
        ),
    ] = None
    threads: Annotated[tuple[Threads, ...], Option("Number of connections; several as 1,16,64.")] = (16,)
    objective: Annotated[str | None, _Objective] = None
    p99_limit: Annotated[
        float,
        Meta(ge=1),
        Option(
            "Reject a winner whose p99 is more than this many times the base's.",
            panel=SURE,
            rare=True,
        ),
    ] = 2.0
    no_replicas: Annotated[bool, Option("Assume that the server has no replicas.", rare=True)] = False
    window: Annotated[
        Seconds | None,
        Option(
            "Length of a measured window in seconds; default: depends on the budget.",
            panel=SURE,
            rare=True,
        ),
    ] = None
    storage: StorageSpec = StorageSpec()
    seed: Annotated[Seed | None, _Seed] = None
    fresh: Annotated[bool, _Fresh] = False
    crash: Annotated[
        bool,
        Option(
            "Crash the winner, and reject a winner that breaks its floor. With root and FUSE the power fails;"
            " otherwise mysqld is killed.",
            started=True,
            panel=SURE,
        ),
    ] = False
    crashes: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | None,
        Option(
            "Number of crashes; default: 30, for a cluster 8.",
            needs="crash",
            hint="add --crash",
            panel=SURE,
            rare=True,
        ),
    ] = None
    run: RunSpec = RunSpec()


class SeriesSpec(Spec, frozen=True, kw_only=True, tag="series"):
    """What `series` is asked for besides its plan."""

    kind: ClassVar[Literal["series"]] = "series"

    plan: Annotated[str | None, Option("A plan file, or the name of a shipped plan.", positional=True)] = None
    server: ServerSpec = ServerSpec()
    remote: RemoteAccess = RemoteAccess()
    base: FileSpec = FileSpec()
    blocks: Annotated[Blocks | None, _Blocks] = None
    window: Annotated[Seconds | None, _Window] = None
    only: Annotated[
        tuple[str, ...],
        Option("Run only this arm; the beginning of its name will do; repeatable.", metavar="ARM"),
    ] = ()
    precision: Annotated[Share | None, _Precision] = None
    floor: Annotated[
        Floor | None, Option("Recommend nothing that guarantees less; default: less than the plan's base.")
    ] = None
    objective: Annotated[str | None, _Objective] = None
    threads: Annotated[Threads | None, Option("Connections, instead of the plan's.")] = None
    scale: Annotated[
        float, Meta(gt=0, le=1e6), Option("Multiply the plan's table_size by this.", rare=True)
    ] = 1.0
    data: DataSpec = DataSpec()
    storage: StorageSpec = StorageSpec()
    seed: Annotated[Seed | None, _Seed] = None
    fresh: Annotated[bool, _Fresh] = False
    run: RunSpec = RunSpec()


class CompareSpec(Spec, frozen=True, kw_only=True, tag="compare"):
    """What `compare` is asked for."""

    kind: ClassVar[Literal["compare"]] = "compare"

    configurations: Annotated[
        tuple[str, ...],
        Option(
            "base, an option file, or settings ('NAME=VALUE …'), perhaps with a workload of its own"
            " ('base --workload txn:new.toml'); the first is what the others are compared with. 'label: …'"
            " names one.",
            positional=True,
        ),
    ] = ()
    server: ServersSpec = ServersSpec()
    remote: RemoteAccess = RemoteAccess()
    workload: WorkloadSpec = WorkloadSpec()
    own_load: Annotated[
        bool,
        Option("Measure your server's own load; flushlab adds none.", panel=SERVER),
    ] = False
    duration: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Option(
            "Measured seconds in all; default: 60, with --precision 600, with --own-load 300.",
            panel=SURE,
        ),
    ] = None
    blocks: Annotated[Blocks | None, _Blocks] = None
    precision: Annotated[Share | None, _Precision] = None
    floor: Annotated[
        Floor | None,
        Option(
            "Recommend nothing that guarantees less, and with --own-load run nothing either; default: less"
            " than the first configuration."
        ),
    ] = None
    objective: Annotated[str | None, _Objective] = None
    base: BaseSpec = BaseSpec()
    data: DataSpec = DataSpec()
    storage: StorageSpec = StorageSpec()
    seed: Annotated[Seed, _Seed] = 1
    fresh: Annotated[bool, _Fresh] = False
    run: RunSpec = RunSpec()


class BenchSpec(Spec, frozen=True, kw_only=True):
    """What `bench` is asked for."""

    kind: ClassVar[Literal["bench"]] = "bench"

    server: ServerOrKeptSpec = ServerOrKeptSpec()
    remote: RemoteAccess = RemoteAccess()
    workload: WorkloadSpec = WorkloadSpec()
    duration: Annotated[Seconds, _Duration] = 10.0
    base: BaseSpec = BaseSpec()
    data: DataSpec = DataSpec()
    storage: StorageSpec = StorageSpec()
    seed: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Option(
            "Seed of the random draws (rows of the load); default: 1, on a kept server a random one. A row"
            " that already has the drawn value costs next to nothing.",
            panel=SURE,
            rare=True,
        ),
    ] = None
    hdr_log: Annotated[
        str | None,
        Option(
            "Write each second's latencies to a file in HdrHistogram log format.",
            path=True,
            panel=OUTPUT,
            rare=True,
        ),
    ] = None
    per_second: Annotated[
        str | None, Option("Write a CSV file with a line per second.", path=True, panel=OUTPUT)
    ] = None
    wait_for_quiet: Annotated[bool, _Quiet] = False
    fleet: Annotated[
        str | None,
        Option(
            "Run on each machine of this fleet, or with --client drive the load from some: HOST:PORT;"
            " default: FLUSHLAB_FLEET.",
            metavar="ADDRESS",
            started=True,
            panel=SERVER,
            rare=True,
        ),
    ] = None
    client: Annotated[tuple[str, ...], CLIENT] = ()


class CrashSpec(Spec, frozen=True, kw_only=True):
    """What `crash` is asked for."""

    kind: ClassVar[Literal["crash"]] = "crash"

    configurations: Annotated[
        tuple[str, ...],
        Option(
            "base, an option file, or settings ('NAME=VALUE …'); 'label: …' names one. Default: base.",
            positional=True,
        ),
    ] = ()
    server: ServerSpec = ServerSpec()
    workload: CrashWorkloadSpec = CrashWorkloadSpec()
    background: Annotated[str | None, Option("Run beside the load: 'command: …' or sql:FILE.")] = None
    failure: Annotated[
        CrashKind,
        Option(
            "With process, mysqld is killed. With os, the operating system crashes. With power, the power"
            " fails and unflushed writes are lost. With lying-disk, so are writes that the disk only claimed"
            " to have flushed. With torn, a page is torn. With eio, a flush fails; later the power fails."
            " With full, the file system fills up; later the power fails."
        ),
    ] = "power"
    crashes: Annotated[int, Meta(ge=1, le=100_000), Option("Crashes of each configuration.", panel=SURE)] = 30
    duration: Annotated[
        float,
        Meta(ge=0.2, le=600),
        Option("Seconds of load to record, or at most before each kill.", panel=SURE),
    ] = 3.0
    threads: Annotated[int, Meta(ge=1, le=1000), Option("Number of connections.")] = 4
    rows: Annotated[
        int,
        Meta(ge=1, le=1000),
        Option("Rows of each of the acknowledgement table's transactions.", rare=True),
    ] = 1
    base: Annotated[BaseSpec, Without(("memory", "no_scale"))] = BaseSpec()
    fs: Annotated[
        Literal["ext4", "xfs", "btrfs"], Option("File system of the disk.", panel=DATA, rare=True)
    ] = "ext4"
    tear: Annotated[
        int,
        Option(
            "Bytes that the disk writes atomically: 512, 4096, or 0 for whole writes.", panel=DATA, rare=True
        ),
    ] = 512
    dropped_flushes: Annotated[
        int, Meta(ge=1, le=1_000_000), Option("Final flushes that the disk drops.", panel=DATA, rare=True)
    ] = 10
    disk_size: Annotated[
        int, Meta(ge=256, le=65_536), Option("Size of the disk in MiB.", panel=DATA, rare=True)
    ] = 1024
    storage: StorageSpec = StorageSpec()
    positive_control: Annotated[
        bool, Option("If no configuration loses anything, run one that must.", panel=SURE)
    ] = True
    seed: Annotated[
        int,
        Meta(ge=0, le=999_999_999),
        Option("Seed of the random draws (crash points).", panel=SURE, rare=True),
    ] = 1
    nodes: Annotated[
        str | None,
        Option(
            "Nodes of the cluster that crash; default: one. all: all at once. cascade: one after the other"
            " until none is left."
        ),
    ] = None
    replica: Annotated[
        bool,
        Option(
            "Attach a real replica until the server crashes. Then report whether this replica and a new one"
            " follow the restarted server, diverge or stop."
        ),
    ] = False
    save_recording: Annotated[
        str | None, Option("Save the recordings in this folder.", path=True, panel=OUTPUT)
    ] = None
    replay: Annotated[
        str | None,
        Option("Judge one crash of a kept recording.", metavar="FOLDER:at=N:seed=N"),
    ] = None
    run: Annotated[
        RunSpec,
        Without(("wait_for_quiet", "dry_run")),
        Without(
            ("client",),
            "one clock tells what was acknowledged before the crash, and another machine does not share it;"
            " the load runs beside the server",
        ),
    ] = RunSpec()


class FillSpec(Spec, frozen=True, kw_only=True):
    """What `fill` is asked for."""

    kind: ClassVar[Literal["fill"]] = "fill"

    plan: Annotated[str, Option("A built-in plan (users, sbtest), or a plan file.", positional=True)] = (
        "users"
    )
    rows: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_ROWS)] | None,
        Option("Rows of the largest table; default: the plan's."),
    ] = None
    server: Annotated[FilledServerSpec, Without(("network_latency",))] = FilledServerSpec()
    remote: Annotated[RemoteAccess, Without(("allow_writes",))] = RemoteAccess()
    database: Annotated[
        str | None, Option("Database of the tables; default: app, or the DSN's.", panel=SERVER)
    ] = None
    threads: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        Option("Connections; default: as many as prove fastest."),
    ] = None
    method: Annotated[
        Literal["auto", "load-data", "insert", "single"], Option("How rows are sent.", rare=True)
    ] = "auto"
    floor: Annotated[
        Floor | None,
        Option(
            "The weakest guarantees you accept during the load; default: throwaway for a new sandbox or"
            " cluster, second for a kept one and with --allow-set-global."
        ),
    ] = None
    create: Annotated[bool, Option("Create the database and its tables if they are missing.")] = False
    append: Annotated[bool, Option("Add rows to tables that have some.")] = False
    truncate: Annotated[bool, Option("Remove all rows of the tables first.")] = False
    seed: Annotated[
        Seed | None,
        Option("Seed of the random draws (values of the rows); default: the plan's.", rare=True),
    ] = None
    replica: Annotated[
        tuple[str, ...],
        Option(
            "Wait while this replica of your own server lags; repeatable.", metavar="DSN|FILE", panel=SERVER
        ),
    ] = ()
    max_lag: Annotated[
        float, Meta(ge=0), Option("Seconds that replicas may be behind.", panel=SERVER, rare=True)
    ] = 1.0
    continue_: Annotated[bool, Option("Continue a load that was interrupted.")] = False
    compare_methods: Annotated[
        bool, Option("First measure each load method, from one row per statement up.", rare=True)
    ] = False
    storage: StorageSpec = StorageSpec()
