"""Trial: one workload run once on one server under one arm; the same run on several machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.record.arm import Arm, Ratio, Value, Warning
from flushlab.record.load import LoadResult
from flushlab.record.machine import DiskEmulation, Launch, ServerIdentity, Storage
from flushlab.record.observed import ObservedLoad


class TableRows(msgspec.Struct, frozen=True):
    """A table and its rows.

    Attributes:
        name: with its database.
        rows: number of rows, as the server estimates it.
    """

    name: str
    rows: int


class SkippedTable(msgspec.Struct, frozen=True):
    """A table that a load does not touch.

    Attributes:
        name: with its database.
        why: reason.
    """

    name: str
    why: str


class WrittenTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that `--workload data` writes to.

    Attributes:
        name: with its database.
        rows: number of rows before the load.
        keys: number of sampled rows that updates draw from.
        column: the column that updates change; empty: none.
        without: why it has no updates, inserts or deletes, by `update`, `insert` and `delete`.
    """

    name: str
    rows: int
    keys: int
    column: str = ""
    without: Mapping[str, str] = {}


class StandIn(msgspec.Struct, frozen=True, kw_only=True):
    """The load of `--workload data`, which stands in for the application's.

    Attributes:
        shares: of transactions, by `update`, `insert` and `delete`.
        tables: that it writes to, the largest first.
        skipped: tables that it does not touch, with the reason.
        smaller: number of tables that it does not touch because they are smaller.
    """

    shares: Mapping[str, float]
    tables: tuple[WrittenTable, ...]
    skipped: tuple[SkippedTable, ...] = ()
    smaller: int = 0


class DataFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The user's data set.

    Attributes:
        path: file or folder.
        kind: `SQL dump`, `folder of SQL files`, `mydumper dump`, `MySQL Shell dump` or `data directory`.
        size_bytes: size of its files.
        untouched: workloads that run on tables of their own and do not touch the data.
    """

    path: str
    kind: str
    size_bytes: int
    untouched: tuple[str, ...] = ()


Stage = Literal[
    "bench", "calibrate", "screen", "combine", "confirm", "reduce", "recovery", "arms", "best", "crash"
]
Outcome = Literal["measured", "refused", "failed", "discarded", "invalid"]
"""measured: a result that counts. refused: the server did not accept the settings.
failed: the server or the workload died. discarded: the machine was disturbed (steal, pressure).
invalid: a setting read back differently."""


class ServerSample(msgspec.Struct, frozen=True, kw_only=True):
    """State of the server at one moment; None where this server does not report the value.

    Attributes:
        checkpoint_age_bytes: redo written since the last checkpoint.
        dirty_pages: pages of the buffer pool that are not written yet.
        history_length: transactions that purge has not reached.
        pool_reads: pages read from disk since the start.
        redo_written_bytes: redo written since the start.
    """

    checkpoint_age_bytes: int | None = None
    dirty_pages: int | None = None
    history_length: int | None = None
    pool_reads: int | None = None
    redo_written_bytes: int | None = None


FILE_CLASSES = ("redo", "binlog", "doublewrite", "data", "undo", "other")
"""Classes of the server's files: `data` holds the system, table and dictionary tablespaces, `other` temporary
files, relay and server logs and the rest."""


class FileActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What the server did in the window to its files of one class; see docs/explanation/effects.md.

    Attributes:
        fsyncs: calls of fsync and fdatasync, or None where neither the kernel nor the server reports them.
        bytes: written to files of that class, or None where the server does not report them.
        flags: with which such files are open: `O_DIRECT`, `O_DSYNC`, `O_SYNC`, sorted; a flag that only
            some of them have counts. Empty if none has any, or no such file is open or can be seen.
    """

    fsyncs: int | None = None
    bytes: int | None = None
    flags: tuple[str, ...] = ()


class FileIo(msgspec.Struct, frozen=True, kw_only=True):
    """I/O of one file, or of several files in one row; None where the server does not report the value.

    Attributes:
        file: relative to the data directory; for several files, their description.
        kind: class of the file, of `FILE_CLASSES`.
        files: number of files in the row; 0 if some of them were removed in the window.
        reads, writes: calls.
        misc: other calls: syncs, opens, closes, removals. In the redo and binary logs nearly all are syncs.
        read_bytes, written_bytes: moved by the calls.
        seconds: in all calls, summed over the server's threads. Asynchronous I/O shows its submission only.
        misc_seconds: of them, in `misc`.
        fsyncs: counted in the kernel, or None where it could not count.
    """

    file: str
    kind: str
    files: int = 1
    reads: int | None = None
    writes: int | None = None
    misc: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    seconds: float | None = None
    misc_seconds: float | None = None
    fsyncs: int | None = None


class StatementKind(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of one kind.

    Attributes:
        kind: as the server calls it: `alter_table`, `create_index`, `insert`.
        count: statements that ended.
        seconds: in all of them, or None where the server only counts.
        errors: of them, those that failed, or None.
        rows_affected: rows that they changed, or None.
    """

    kind: str
    count: int
    seconds: float | None = None
    errors: int | None = None
    rows_affected: int | None = None


class StageTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time in one stage of statements.

    Attributes:
        stage: as the server calls it: `innodb/alter table (log apply table)`.
        count: how often it was gone through.
        seconds: in all of them.
    """

    stage: str
    count: int
    seconds: float


class Performance(msgspec.Struct, frozen=True, kw_only=True):
    """What a server did in a window, as it told itself; most time first.

    Attributes:
        io_by_file: the files with the most I/O one by one, the others together by class: their sum is all.
        statements_by_kind: every kind that occurred.
        stages: every stage that occurred.
        untold: reason by field for values that are missing or incomplete.
    """

    io_by_file: tuple[FileIo, ...] = ()
    statements_by_kind: tuple[StatementKind, ...] = ()
    stages: tuple[StageTime, ...] = ()
    untold: Mapping[str, str] = {}


class LostNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that died in a window that went on without it.

    Attributes:
        node: number in the cluster, from 1.
        at_s: since the window's beginning; 0 for one that died in the warm-up.
        without_commit_s: the longest stretch without a commit that ended after it had died.
    """

    node: int
    at_s: float
    without_commit_s: float


class NodeActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What one node did in a window, from its own status.

    Attributes:
        node: number in the cluster, from 1; the load goes to the first unless it is spread.
        commits: transactions of its own clients that the cluster took (wsrep_local_commits).
        received: write sets of other nodes (wsrep_received).
        cert_failures: own transactions that lost to one committed elsewhere (wsrep_local_cert_failures).
        bf_aborts: own transactions that an applied one pushed aside (wsrep_local_bf_aborts).
        paused_share: of the window in which flow control let nobody write (wsrep_flow_control_paused_ns).
        pauses_asked: how often this node asked for it (wsrep_flow_control_sent): it could not keep up.
        recv_queue_avg: write sets that waited to be applied, mean over those received in the window
            (wsrep_local_recv_queue_avg); None if it received none.
        recv_queue_end: those that waited when the window ended.
        deps_distance: how many transactions could be applied side by side: the node's own mean since it
            started (wsrep_cert_deps_distance). More appliers (wsrep_slave_threads) than this are idle.
        apply_window, commit_window: write sets applied, or committed, side by side: means since it started.
        appliers: threads that apply, as the server reports them (wsrep_slave_threads).
    """

    node: int
    commits: int = 0
    received: int = 0
    cert_failures: int = 0
    bf_aborts: int = 0
    paused_share: float = 0.0
    pauses_asked: int = 0
    recv_queue_avg: float | None = None
    recv_queue_end: int = 0
    deps_distance: float | None = None
    apply_window: float | None = None
    commit_window: float | None = None
    appliers: int | None = None


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """Slice of one of several servers that are kept running side by side; the other servers wait meanwhile.

    Attributes:
        round: number of the round, from 0 within the block; each server has one slice in a round.
        start_s: start of the slice, in seconds since all servers were running.
        seconds: length of the slice.
        events: transactions, or committed rows.
        foreign_share: of the machine's CPU time that neither these servers nor the client used, or None.
        steal_share: share of the CPU time stolen by the hypervisor.
        dropped: its round does not count: there was a gap in the clock.
        switch_s: time before the slice to change the settings of a server that arms share, with a lead under
            load that does not count. Where each arm has a server of its own: 0.
        drain_s: time after the slice until the nodes of a cluster had applied all its transactions.
    """

    round: int
    start_s: float
    seconds: float
    events: int
    foreign_share: float | None = None
    steal_share: float = 0.0
    dropped: bool = False
    switch_s: float = 0.0
    drain_s: float = 0.0


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One workload run once on one server under one arm.

    Attributes:
        arm: requested settings.
        stage: the part of the experiment that it belongs to.
        block: number of the block within the stage.
        variant: index of the workload variant (for example of the thread count) within the block.
        outcome: see `Outcome`.
        reason: why it was not measured; empty otherwise.
        hint: the way out, where one is known.
        lacked_memory: the machine had too little for the server to start, which says nothing of the settings.
        result: rate or duration of the workload, in `unit`; None unless measured.
        unit: `transactions/s`, `rows/s`, `commits/s` or `s`.
        higher_is_better: False for seconds.
        seed: of the load's draws; None for a command, and in records of earlier versions.
        load: details from the load engine, or None for a command.
        observed: the load that was there, where flushlab added none; else None.
        output: of a command, within bounds, whether it succeeded or not.
        settings: catalogued settings as read back from the server.
        workload: its name; of `bench` alone, as a campaign has it with its arms.
        data: the user's data set, or None; of `bench` alone.
        data_bytes: size of the user's tables (data and indexes) before the window, or None.
        tables: the largest tables before the window, with the server's estimates of their rows.
        stand_in: the load of `--workload data`; None for any other.
        server: the server that ran; None if it never started.
        storage: where its data directory lay; None if it never started.
        disk: the disk that was emulated, or None.
        launch: how it was started; None if it never started.
        before: the server's state at the start of the window.
        after: the server's state at the end of the window.
        file_activity: per class of files (`FILE_CLASSES`) what was done to them; a class that this server
            does not have, or of which nothing is known, is left out. The binary log of a server that writes
            one is always there.
        performance: the server's performance_schema over the window, or None.
        nodes: of a Galera cluster, what each did in the window; empty for a server that is alone.
        lost_nodes: of a Galera cluster, those that died in the window while the load failed over.
        deltas: differences of status counters over the window, under their server's names.
        steal_share: share of CPU time stolen by the hypervisor in the window.
        foreign_cpu_share: share of CPU time used by neither the server nor the client, or None.
        cpu_pressure_share: share of the window in which some task waited for a CPU (PSI), or None.
        io_pressure_share: share of the window in which some task waited for I/O (PSI), or None.
        seconds: time per stage of the trial: prepare, restore, start, settle, warm_up, switch, window, stop,
            other. `between` is the time since the trial before, `before` the time since the command began.
            All of them together are the time of the campaign; on a fleet, where blocks run at once, `between`
            is negative by the time that others ran meanwhile.
        warnings: caveats about the result.
        slices: slices that the result consists of, where servers were kept running side by side and measured
            in rounds; empty if the server was fresh. The time of the slices of all arms is in `seconds` of
            the first trial of the block alone.
        later_bytes: bytes that the server wrote to disks in this block while others had their slices; None if
            the server was fresh.
        machine: name of the machine of the fleet that ran it; empty without a fleet.
    """

    arm: Arm
    stage: Stage
    block: int
    variant: int = 0
    outcome: Outcome
    reason: str = ""
    hint: str = ""
    lacked_memory: bool = False
    result: float | None = None
    unit: str = "transactions/s"
    higher_is_better: bool = True
    seed: int | None = None
    load: LoadResult | None = None
    observed: ObservedLoad | None = None
    output: str = ""
    settings: Mapping[str, Value] = {}
    workload: str = ""
    data: DataFacts | None = None
    data_bytes: int | None = None
    tables: tuple[TableRows, ...] = ()
    stand_in: StandIn | None = None
    server: ServerIdentity | None = None
    storage: Storage | None = None
    disk: DiskEmulation | None = None
    launch: Launch | None = None
    before: ServerSample | None = None
    after: ServerSample | None = None
    file_activity: Mapping[str, FileActivity] = {}
    performance: Performance | None = None
    nodes: tuple[NodeActivity, ...] = ()
    lost_nodes: tuple[LostNode, ...] = ()
    deltas: Mapping[str, int] = {}
    steal_share: float = 0.0
    foreign_cpu_share: float | None = None
    cpu_pressure_share: float | None = None
    io_pressure_share: float | None = None
    seconds: Mapping[str, float] = {}
    warnings: tuple[Warning, ...] = ()
    slices: tuple[Slice, ...] = ()
    later_bytes: int | None = None
    machine: str = ""

    @property
    def spent_s(self) -> float:
        return sum(self.seconds.values())

    @property
    def once_s(self) -> float:
        """Not taken again by a further trial: the data are prepared, the command has started."""
        return sum(self.seconds.get(name, 0.0) for name in ("prepare", "before"))


class MachineRatio(msgspec.Struct, frozen=True, kw_only=True):
    """An arm against the base on one machine.

    Attributes:
        machine: its name in the fleet.
        ratio: of the blocks that ran there; the intervals of all arms and machines hold at once.
        blocks: number of these blocks.
    """

    machine: str
    ratio: Ratio
    blocks: int


class OverMachines(msgspec.Struct, frozen=True, kw_only=True):
    """An arm's ratio on every machine of the fleet.

    Attributes:
        ratios: by machine, in the order of their names.
        between_share: share of the variance of a block's log ratio that is between machines; 0: the ratio
            depends on no machine.
        unstable: whether it is proven that the ratio depends on the machine.
    """

    ratios: tuple[MachineRatio, ...]
    between_share: float
    unstable: bool

    @property
    def slowest(self) -> MachineRatio:
        return min(self.ratios, key=lambda one: one.ratio.estimate)

    @property
    def better_on(self) -> tuple[str, ...]:
        return tuple(one.machine for one in self.ratios if one.ratio.verdict == "faster")

    @property
    def worse_on(self) -> tuple[str, ...]:
        return tuple(one.machine for one in self.ratios if one.ratio.verdict == "slower")


class MachineRun(msgspec.Struct, frozen=True, kw_only=True):
    """A single run on one machine.

    Attributes:
        machine: its name in the fleet.
        trial: the record; null if nothing was measured.
        problem: why nothing was measured; else empty.
    """

    machine: str
    trial: Trial | None = None
    problem: str = ""


class MachineMean(msgspec.Struct, frozen=True, kw_only=True):
    """The mean over machines of this kind, in the unit of the results.

    Attributes:
        estimate: geometric mean of the machines' results.
        low: lower end of its 95 % interval.
        high: upper end.
    """

    estimate: float
    low: float
    high: float


class FleetBench(msgspec.Struct, frozen=True, kw_only=True):
    """Results of `flushlab bench --fleet`: the same run on every machine.

    Attributes:
        runs: by machine, in the order of their names.
        fastest: name of the machine with the best result that counts; empty if there is none.
        slowest: name of the machine with the worst one; likewise.
        between: result of the fastest over that of the slowest, or for seconds the reverse; null with fewer
            than two results that count. It contains the noise of single runs.
        mean: over machines of this kind; null with fewer than three results that count.
    """

    runs: tuple[MachineRun, ...]
    fastest: str = ""
    slowest: str = ""
    between: float | None = None
    mean: MachineMean | None = None
