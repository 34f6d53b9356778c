"""What a second looks like: the document that the page, the terminal and `/api/history` have. Pure.

Unknown values are None. Names of users and arms are as they are: whoever shows them escapes
them. Units stand last in names; shares are 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flushlab.diagnosis.finding import Strength
from flushlab.record.running import ShownRatio
from flushlab.telemetry.live.status import Connections, LockWaits, Redo, RowRates, Syncs


class ServerNow(msgspec.Struct, frozen=True, kw_only=True):
    """The server that is watched.

    Attributes:
        up: the server answers.
        name: `mariadb@10.11.19`; empty until it has answered once.
        since: Unix time since which `up` is what it is.
        missing: privileges that the account lacks, without which something is not shown.
        slow_s: how long its last answer to SHOW GLOBAL STATUS took.
        why: why it is down, in its or the system's words; empty if it is not.
    """

    up: bool
    name: str = ""
    since: float | None = None
    missing: tuple[str, ...] = ()
    slow_s: float | None = None
    why: str = ""


class RunningNow(msgspec.Struct, frozen=True, kw_only=True):
    """What flushlab runs on this machine.

    Attributes:
        kind: `tune`, `series`, `compare`, `bench`, `fill` or `test`.
        campaign: its id; empty for what is not stored.
        arm, stage, round: of the current measurement; round counts the blocks.
        left_s: until it ends, at most or about.
        server, workload, floor: as they were asked for.
    """

    kind: str
    campaign: str = ""
    arm: str = ""
    stage: str = ""
    round: int | None = None
    left_s: float | None = None
    server: str = ""
    workload: str = ""
    floor: str = ""


class MachineNow(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that flushlab runs on, as shares of the last second.

    Attributes:
        cpu_pressure, io_pressure, memory_pressure: of the time in which some task waited.
        others: of all CPU time that neither the watched server nor flushlab used.
        steal: of all CPU time that the hypervisor took.
    """

    cpu_pressure: float | None = None
    io_pressure: float | None = None
    memory_pressure: float | None = None
    others: float | None = None
    steal: float | None = None


class FillNow(msgspec.Struct, frozen=True, kw_only=True):
    """How far a fill's table is."""

    table: str
    rows: int
    total: int = msgspec.field(name="of")
    rows_per_s: float
    bytes: int
    left_s: float
    bound_by: str


class FindingNow(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of the doctor.

    Attributes:
        name, title: `commit_sync`, and a line.
        strength: `binds`, `unmeasured`, `contributes` or `hint`.
        low, mid, high: share of the writers' time with its 95 % interval; None if it is not measured.
        at_most: factor that throughput cannot exceed if this time goes, at this number of connections; None
            without a share, or if that may be all of the time.
        seen: evidence in words; none for a hint.
    """

    name: str
    title: str
    strength: Strength
    low: float | None = None
    mid: float | None = None
    high: float | None = None
    at_most: float | None = None
    seen: tuple[str, ...] = ()


class DiagnosisNow(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds writes, over the last half minute.

    Attributes:
        answer: in a sentence.
        seconds, samples: that it is from.
        writers: connections that were seen to write.
        waits: mean number of writers by wait, in the last two seconds alone.
        findings: the most binding first.
    """

    answer: str
    seconds: float
    samples: int
    writers: int
    waits: Mapping[str, float]
    findings: tuple[FindingNow, ...] = ()


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Something that began: a `stage`, a `trial`, a `slice`, or a `gap` in what is known."""

    t: float
    kind: str
    text: str = ""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One second.

    Attributes:
        t: Unix time.
        failed: the error inside flushlab that prevented the sample; empty if there is one.
        throughput: rate of flushlab's own load, else of the server's statements.
        unit: of the throughput.
        p50_ms, p99_ms: latency of flushlab's own load.
        dirty: share of the buffer pool's pages.
        commits_per_group: transactions that one sync of the binary log made durable, on average.
        diagnosis: None while there is too little to judge, and of a server that flushlab measures.
        wait_timeout, max_connections: of the server.
        own_cpu_s: CPU time that watching has taken since it began.
    """

    t: float
    server: ServerNow
    failed: str = ""
    running: RunningNow | None = None
    throughput: float | None = None
    unit: str = ""
    p50_ms: float | None = None
    p99_ms: float | None = None
    redo: Redo = Redo()
    dirty: float | None = None
    fsyncs: Syncs = Syncs()
    commits_per_group: float | None = None
    lock_waits: LockWaits = LockWaits()
    binlog_bytes_per_s: float | None = None
    rows_per_s: RowRates = RowRates()
    machine: MachineNow = MachineNow()
    connections: tuple[Connections, ...] = ()
    diagnosis: DiagnosisNow | None = None
    wait_timeout: int | None = None
    max_connections: int | None = None
    fill: FillNow | None = None
    ratios: tuple[ShownRatio, ...] = ()
    marks: tuple[Mark, ...] = ()
    own_cpu_s: float = 0.0
