"""Kinds: the specification of each command that runs something, composed of parts and of fields of its own.

Sits in `spec`. The order of attributes is that of --help and of the command that repeats a campaign.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

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
_SEED = 2**63 - 1
_MOST_ROWS = 10**15

_Window = Option("Length of a measured window in seconds.", least=0.1, most=86_400, panel=SURE)
_Duration = Option("Length of the measurement in seconds.", least=0.1, most=86_400, panel=SURE)
_Precision = Option(
    "End as soon as every interval is this narrow, like 2%; the planned length is then the limit.",
    metavar="PERCENT",
    above=0,
    most=0.99,
    range_hint="for example 2%",
    panel=SURE,
)
_Blocks = Option(
    "Runs of each configuration; default: 5.",
    least=2,
    most=MOST_BLOCKS,
    range_hint="an interval needs two blocks, a good one five",
    panel=SURE,
)
_Objective = Option(
    "Quantity to compare; default: throughput, at a fixed rate p99 latency.",
    panel=SURE,
    rare=True,
)
_Seed = Option("Seed of the random draws (order of the trials).", least=0, most=_SEED, panel=SURE, rare=True)
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
        float | None,
        Option(
            "Budget in minutes; default: 5, or 10 (fresh servers; few side by side).",
            above=0,
            most=525_600,
            panel=SURE,
        ),
    ] = None
    trials: Annotated[int | None, Option("Budget in trials.", least=1, panel=SURE, rare=True)] = None
    base: BaseSpec = BaseSpec()
    fixed: Annotated[tuple[str, ...], Option("Fixed setting: leave it unchanged; repeatable.")] = ()
    data: DataSpec = DataSpec()
    threads: Annotated[
        tuple[int, ...], Option("Number of connections; several as 1,16,64.", least=1, most=4096)
    ] = (16,)
    objective: Annotated[str | None, _Objective] = None
    p99_limit: Annotated[
        float,
        Option(
            "Reject a winner whose p99 is more than this many times the base's.",
            least=1,
            panel=SURE,
            rare=True,
        ),
    ] = 2.0
    no_replicas: Annotated[bool, Option("Assume that the server has no replicas.", rare=True)] = False
    window: Annotated[
        float | None,
        Option(
            "Length of a measured window in seconds; default: depends on the budget.",
            least=0.1,
            most=86_400,
            panel=SURE,
            rare=True,
        ),
    ] = None
    storage: StorageSpec = StorageSpec()
    seed: Annotated[int | None, _Seed] = None
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
        int | None,
        Option(
            "Number of crashes; default: 30, for a cluster 8.",
            least=1,
            most=100_000,
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
    blocks: Annotated[int | None, _Blocks] = None
    window: Annotated[float | None, _Window] = None
    only: Annotated[
        tuple[str, ...],
        Option("Run only this arm; the beginning of its name will do; repeatable.", metavar="ARM"),
    ] = ()
    precision: Annotated[float | None, _Precision] = None
    floor: Annotated[
        Floor | None, Option("Recommend nothing that guarantees less; default: less than the plan's base.")
    ] = None
    objective: Annotated[str | None, _Objective] = None
    threads: Annotated[int | None, Option("Connections, instead of the plan's.", least=1, most=4096)] = None
    scale: Annotated[
        float, Option("Multiply the plan's table_size by this.", above=0, most=1e6, rare=True)
    ] = 1.0
    data: DataSpec = DataSpec()
    storage: StorageSpec = StorageSpec()
    seed: Annotated[int | None, _Seed] = None
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
        float | None,
        Option(
            "Measured seconds in all; default: 60, with --precision 600, with --own-load 300.",
            above=0,
            panel=SURE,
        ),
    ] = None
    blocks: Annotated[int | None, _Blocks] = None
    precision: Annotated[float | None, _Precision] = None
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
    seed: Annotated[int, _Seed] = 1
    fresh: Annotated[bool, _Fresh] = False
    run: RunSpec = RunSpec()


class BenchSpec(Spec, frozen=True, kw_only=True):
    """What `bench` is asked for."""

    kind: ClassVar[Literal["bench"]] = "bench"

    server: ServerOrKeptSpec = ServerOrKeptSpec()
    remote: RemoteAccess = RemoteAccess()
    workload: WorkloadSpec = WorkloadSpec()
    duration: Annotated[float, _Duration] = 10.0
    base: BaseSpec = BaseSpec()
    data: DataSpec = DataSpec()
    storage: StorageSpec = StorageSpec()
    seed: Annotated[
        int | None,
        Option(
            "Seed of the random draws (rows of the load); default: 1, on a kept server a random one. A row"
            " that already has the drawn value costs next to nothing.",
            least=0,
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
    crashes: Annotated[int, Option("Crashes of each configuration.", least=1, most=100_000, panel=SURE)] = 30
    duration: Annotated[
        float,
        Option("Seconds of load to record, or at most before each kill.", least=0.2, most=600, panel=SURE),
    ] = 3.0
    threads: Annotated[int, Option("Number of connections.", least=1, most=1000)] = 4
    rows: Annotated[
        int,
        Option("Rows of each of the acknowledgement table's transactions.", least=1, most=1000, rare=True),
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
        int, Option("Final flushes that the disk drops.", least=1, most=1_000_000, panel=DATA, rare=True)
    ] = 10
    disk_size: Annotated[
        int, Option("Size of the disk in MiB.", least=256, most=65_536, panel=DATA, rare=True)
    ] = 1024
    storage: StorageSpec = StorageSpec()
    positive_control: Annotated[
        bool, Option("If no configuration loses anything, run one that must.", panel=SURE)
    ] = True
    seed: Annotated[
        int,
        Option("Seed of the random draws (crash points).", least=0, most=999_999_999, panel=SURE, rare=True),
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
        int | None, Option("Rows of the largest table; default: the plan's.", least=1, most=_MOST_ROWS)
    ] = None
    server: Annotated[FilledServerSpec, Without(("network_latency",))] = FilledServerSpec()
    remote: Annotated[RemoteAccess, Without(("allow_writes",))] = RemoteAccess()
    database: Annotated[
        str | None, Option("Database of the tables; default: app, or the DSN's.", panel=SERVER)
    ] = None
    threads: Annotated[
        int | None, Option("Connections; default: as many as prove fastest.", least=1, most=1024)
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
        int | None,
        Option(
            "Seed of the random draws (values of the rows); default: the plan's.",
            least=0,
            most=_SEED,
            rare=True,
        ),
    ] = None
    replica: Annotated[
        tuple[str, ...],
        Option(
            "Wait while this replica of your own server lags; repeatable.", metavar="DSN|FILE", panel=SERVER
        ),
    ] = ()
    max_lag: Annotated[
        float, Option("Seconds that replicas may be behind.", least=0, panel=SERVER, rare=True)
    ] = 1.0
    continue_: Annotated[bool, Option("Continue a load that was interrupted.")] = False
    compare_methods: Annotated[
        bool, Option("First measure each load method, from one row per statement up.", rare=True)
    ] = False
    storage: StorageSpec = StorageSpec()
