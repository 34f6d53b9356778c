"""Trial: one workload run once on one server under one arm, as frozen facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.record.arm import Arm, Value
from flushlab.record.fault import DiskEmulation
from flushlab.record.load import LoadResult
from flushlab.record.node import LostNode, NodeActivity
from flushlab.record.performance import Performance
from flushlab.record.server import Launch, ServerIdentity, Storage
from flushlab.record.warning import Warning

Stage = Literal[
    "bench", "calibrate", "screen", "combine", "confirm", "reduce", "recovery", "arms", "best", "crash"
]
Outcome = Literal["measured", "refused", "failed", "void", "invalid"]
"""measured: a figure that counts. refused: the server did not accept the settings.
failed: the server or the workload died. void: the machine was disturbed (steal, pressure).
invalid: a setting read back differently."""


class ServerSample(msgspec.Struct, frozen=True, kw_only=True):
    """State of the server at one moment; None where this server does not tell.

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
    """What the server did in the window to its files of one class; see docs/concepts/effects.md.

    Attributes:
        fsyncs: calls of fsync and fdatasync, or None where neither the kernel nor the server tells.
        bytes: written to files of that class, or None where the server does not tell.
        flags: with which such files are open: `O_DIRECT`, `O_DSYNC`, `O_SYNC`, sorted; a flag that only
            some of them have counts. Empty if none has any, or no such file is open or can be seen.
    """

    fsyncs: int | None = None
    bytes: int | None = None
    flags: tuple[str, ...] = ()


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of one of several servers that stand side by side, while the others wait.

    Attributes:
        round: in which every server had one, from 0; within the block.
        start_s: since the servers stood.
        seconds: length of the slice.
        events: transactions, or committed rows.
        foreign_share: of the machine's CPU time that neither these servers nor the client used, or None.
        steal_share: share of the CPU time stolen by the hypervisor.
        dropped: its round does not count: there was a gap in the clock.
        switch_s: before it, for the settings of a server that arms share, with a lead under load that does
            not count; 0 where each arm has a server of its own.
        drain_s: after it, until the nodes of a cluster had applied what it left them.
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
        figure: result of the workload, in `unit`; None unless measured.
        unit: `transactions/s`, `rows/s` or `s`.
        higher_is_better: False for seconds.
        seed: of the load's draws; None for a command, and in records of earlier versions.
        load: details from the load engine, or None for a command.
        output: of a command, within bounds, whether it succeeded or not.
        settings: catalogued settings as read back from the server.
        data_bytes: size of the user's tables (data and indexes) before the window, or None.
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
            other; then what passed since the trial before it (`between`), or since the command began
            (`before`). Together they are the time of the campaign.
        warnings: doubts about the figure.
        slices: that the figure consists of, where servers stood side by side and were measured in turns;
            empty if the server was fresh. What they took together with the other arms' stands in `seconds` of
            the first trial of the block alone.
        later_bytes: what the server wrote to disks in this block while others had their slices; None if it
            was fresh.
    """

    arm: Arm
    stage: Stage
    block: int
    variant: int = 0
    outcome: Outcome
    reason: str = ""
    hint: str = ""
    lacked_memory: bool = False
    figure: float | None = None
    unit: str = "transactions/s"
    higher_is_better: bool = True
    seed: int | None = None
    load: LoadResult | None = None
    output: str = ""
    settings: Mapping[str, Value] = {}
    data_bytes: int | None = None
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

    @property
    def spent_s(self) -> float:
        """All seconds of it."""
        return sum(self.seconds.values())

    @property
    def once_s(self) -> float:
        """Those that no further trial takes again: the data are prepared, the command has started."""
        return sum(self.seconds.get(name, 0.0) for name in ("prepare", "before"))
