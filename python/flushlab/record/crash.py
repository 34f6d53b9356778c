"""What crashes have left: of one image, and of all images of an arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.record.arm import Value
from flushlab.record.source import SourceText
from flushlab.record.warning import Warning

CrashKind = Literal["process", "os", "power", "lying-disk", "torn", "eio", "full"]
"""What crashes; see `Failure`. `eio`: a flush fails under load, `full`: the file system fills up; some time
later the power fails. Their controls are cut by the power alone."""
CrashOutcome = Literal["kept", "sound", "lost", "inconsistent", "not_started", "unknown"]
"""`kept`: all that was acknowledged is there; `sound`: the server starts and its tables are sound, and
without a ledger no more is known; `lost`: a whole end of it is not there; `inconsistent`: what is there is no
state that the server was ever in; `not_started`: the server does not start on it; `unknown`: flushlab could
not look."""
PointKind = Literal["random", "after_ack", "before_flush", "most_unsynced", "after_write", "in_recovery"]
"""`in_recovery`: it crashes once more while the server recovers."""

ReplicaOutcome = Literal["follows", "diverged", "stopped", "unknown"]
"""See `ReplicaState`."""
NodesKind = Literal["one", "all", "rolling", "cascade"]
"""Which nodes of a cluster crash: one of them; all at once; one after the other, each when the one before is
back; one after the other until none is left."""
NodeWay = Literal["stayed", "bootstrap", "ist", "sst", "none"]
"""How a node came to have what the cluster has: it never left, the cluster was started from it, it got the
transactions that it lacked, it got a copy of another node's data, or it lacked nothing."""


class CrashPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a recorded run is cut.

    Attributes:
        at: number of the last record that was answered before the crash; 0 where the process was killed; of a
            cluster whose disks were recorded, nanoseconds from the load's first commit to the crash.
        kind: how it was chosen.
        seed: chooses among what the failure may leave.
    """

    at: int
    kind: PointKind
    seed: int


class BinlogState(msgspec.Struct, frozen=True, kw_only=True):
    """What the binary log of a recovered server holds of the ledger, beside its rows.

    Attributes:
        lost: acknowledged commits that are not in it.
        behind: commits that the tables have and it has not: replicas will never get them.
        ahead: commits that it has and the tables have not: replicas have what their source lost.
    """

    lost: int = 0
    behind: int = 0
    ahead: int = 0


class GtidState(msgspec.Struct, frozen=True, kw_only=True):
    """Which transactions a recovered server says that it has executed, beside its rows.

    Attributes:
        behind: commits that the tables have and it does not count: their GTIDs will be given to others.
        ahead: GTIDs that it counts of commits that the tables lack: no replica will send these again.
    """

    behind: int = 0
    ahead: int = 0


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a real replica of a recovered server that goes on with new commits.

    Attributes:
        outcome: `follows`: replication goes on, and both have the same rows in the end; `diverged`: it goes
            on, and they have not; `stopped`: by an error; `unknown`: flushlab could not look.
        ahead: commits that it had, and the recovered server had not, before they met.
        lacks: commits of the recovered server that it has not in the end.
        error: number of the error that stopped it; 0: none did.
        said: the error's words; with `unknown`, why.
    """

    outcome: ReplicaOutcome
    ahead: int = 0
    lacks: int = 0
    error: int = 0
    said: str = ""


class DdlState(msgspec.Struct, frozen=True, kw_only=True):
    """What a recovered server has of the statements that ran beside the ledger's load and changed tables.

    Attributes:
        acknowledged: statements before the crash.
        lost: the last ones of them, which the tables do not show.
    """

    acknowledged: int
    lost: int = 0


class NodeAlone(msgspec.Struct, frozen=True, kw_only=True):
    """What one node's data hold by themselves: a server without Galera was started on them.

    Attributes:
        outcome, lost, binlog, reasons: as of `CrashImage`.
    """

    outcome: CrashOutcome
    lost: int = 0
    binlog: BinlogState | None = None
    reasons: tuple[str, ...] = ()


class CrashNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node of a cluster after a crash.

    Attributes:
        number: from 1.
        crashed: the node was among those that crashed.
        way: how it came back.
        outcome: what it has, once the cluster is whole again; of one that stayed, before that too.
        lost: acknowledged commits that it lacks.
        position: how far it had come by itself when it came back (`grastate.dat` or `--wsrep-recover`).
        alone: where the data were looked at without the other nodes.
    """

    number: int
    crashed: bool
    way: NodeWay
    outcome: CrashOutcome
    lost: int = 0
    position: int | None = None
    alone: NodeAlone | None = None


class CrashPart(msgspec.Struct, frozen=True, kw_only=True):
    """Sectors of one write that follow each other.

    Attributes:
        record: number of the write.
        place: of the first one on the disk, in bytes.
        length: in bytes.
        file: that they belong to, from the root of the disk; empty: the file system's own, or not known.
        offset: in the file, in bytes.
    """

    record: int
    place: int
    length: int
    file: str = ""
    offset: int = 0


class CrashCause(msgspec.Struct, frozen=True, kw_only=True):
    """The fewest sectors that no flush had made durable, and that make a crash what it is.

    Attributes:
        way: `kept`: it is so if these are there, and no others of that kind; `missing`: if these are not, and
            all others are; `any`: whatever is there of them.
        parts: the sectors; none for `any`.
        sectors: how many were kept, or missing, in the image that was minimised.
        tries: images that were judged.
        ended: `done`, or `limit`: fewer may do.
    """

    way: Literal["kept", "missing", "any"]
    parts: tuple[CrashPart, ...] = ()
    sectors: int = 0
    tries: int = 0
    ended: Literal["done", "limit"] = "done"


class CrashImage(msgspec.Struct, frozen=True, kw_only=True):
    """One crash and what the server made of it.

    Attributes:
        point: of the crash.
        outcome: see `CrashOutcome`.
        acknowledged: commits before the crash; 0 without a ledger.
        lost: of them, those that the tables do not have.
        lost_s: from the acknowledgement of the first of them to the crash.
        unflushed: commits acknowledged since the disk's last flush before the crash; None where no disk was
            recorded. A server that syncs before it answers keeps them; one that does not loses them.
        binlog: None without a binary log, or where it could not be read.
        binlog_unread: why it could not be read; empty if it was, or if there is none.
        gtid: None without GTIDs, or where other transactions than the ledger's have some, too.
        ddl: None where none ran beside the load.
        replica: one that had followed the server before the crash, and went on with what came back; None
            without one, or where nothing came back.
        new_replica: one that follows what came back from the beginning of its binary log; None likewise.
        reasons: of the outcome, in words; the server's own where it does not start.
        seconds: how long all of it took.
        cause: where it was minimised.
        nodes: of a cluster, each; the other fields are then those of the cluster as one.
    """

    point: CrashPoint
    outcome: CrashOutcome
    acknowledged: int
    lost: int = 0
    lost_s: float = 0.0
    unflushed: int | None = None
    binlog: BinlogState | None = None
    binlog_unread: str = ""
    gtid: GtidState | None = None
    ddl: DdlState | None = None
    replica: ReplicaState | None = None
    new_replica: ReplicaState | None = None
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
    cause: CrashCause | None = None
    nodes: tuple[CrashNode, ...] = ()


class CrashArm(msgspec.Struct, frozen=True, kw_only=True):
    """All crashes of one configuration.

    Attributes:
        name: of the configuration.
        settings: of the server.
        control: it must lose; else nothing is known of the others.
        checks_rows: there is a ledger; else only starts and consistency were looked at.
        commits_per_s: while it was recorded.
        records: writes and flushes that were recorded.
        folder: of the record, where it was kept.
        floor: that it meets by the durability model, with the condition on the disk; empty: not known.
        guarantee: what the durability model says of it under this failure.
        fault: what the server did when the disk failed under load; empty if it did not.
        images: in the order in which they were judged.
    """

    name: str
    settings: Mapping[str, Value]
    control: bool = False
    checks_rows: bool = True
    commits_per_s: float = 0.0
    records: int = 0
    folder: str = ""
    floor: str = ""
    guarantee: str = ""
    fault: str = ""
    images: tuple[CrashImage, ...] = ()


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """One crash of a configuration: a row of a campaign, as a `Trial` is one.

    Attributes:
        arm: the configuration, without images; what it says of a run is that of the run that crashed.
        number: of the arm's crashes, from 0; of two rows with one number the later one counts.
        image: what became of it.
        seconds: time of the campaign: record, crash; then what passed since the row before it (`between`), or
            since the command began (`before`).
    """

    arm: CrashArm
    number: int
    image: CrashImage
    seconds: Mapping[str, float] = {}

    @property
    def spent_s(self) -> float:
        """All seconds of it."""
        return sum(self.seconds.values())

    @property
    def once_s(self) -> float:
        """Those that no further crash of the arm takes again."""
        return sum(self.seconds.get(name, 0.0) for name in ("record", "before"))


class CrashFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What `flushlab crash` found.

    Attributes:
        server: name and version.
        workload: beside the ledger.
        beside: what ran beside it; empty: nothing.
        fail: failure mode.
        fs: file system; empty where the process was killed.
        disk: how slow the disk was while the run was recorded, as it was asked for; empty: not made slow.
        tear: bytes that the disk wrote whole; 0: it tore no write.
        lying_flushes: flushes that a lying disk had not done; 0: it did not lie.
        nodes: of the cluster; 1: a server alone.
        crashed: which of them; empty for a server alone.
        ending: `done` or `interrupted`.
        arms: the requested ones, then the controls.
        seed: of the points.
        warnings: doubts.
        campaign: its id in the store; empty if it is not stored.
        sources: the texts that were run, as they were when it started.
    """

    server: str
    workload: str
    beside: str = ""
    fail: CrashKind
    fs: str = ""
    disk: str = ""
    tear: int = 512
    lying_flushes: int = 0
    nodes: int = 1
    crashed: NodesKind | Literal[""] = ""
    ending: Literal["done", "interrupted"] = "done"
    arms: tuple[CrashArm, ...] = ()
    seed: int = 1
    warnings: tuple[Warning, ...] = ()
    campaign: str = ""
    sources: tuple[SourceText, ...] = ()
