"""Outcomes of crashes: of one crash, and of all crashes of an arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.record.arm import SourceText, Value, Warning

CrashKind = Literal["process", "os", "power", "lying-disk", "torn", "eio", "full"]
"""`eio`: a flush fails under load; `full`: the file system fills up; in both, the power fails later."""
CrashOutcome = Literal["kept", "sound", "lost", "inconsistent", "not_started", "unknown"]
PointKind = Literal["random", "after_ack", "before_flush", "most_unsynced", "after_write", "in_recovery"]

ReplicaOutcome = Literal["follows", "diverged", "stopped", "unknown"]
NodesKind = Literal["one", "all", "cascade"]
NodeWay = Literal["stayed", "bootstrap", "ist", "sst", "none"]


class CrashPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a recorded run is cut.

    Attributes:
        at: number of the last record that was answered before the crash. Where the process was killed: 0. Of
            a cluster whose disks were recorded: nanoseconds from the load's first commit to the crash.
        kind: the moment. `random`: any moment of the recording, or with `torn` any write of pages.
            `after_ack`: just after an acknowledgement. `before_flush`: just before a flush. `most_unsynced`:
            just before one of the 5 % of flushes with the most data waiting for them. `after_write`: just
            after a write, each file equally often (not on btrfs, and not with `torn`). `in_recovery`: any
            moment, with another crash while the server recovers.
        seed: choice among the states that the failure may leave.
    """

    at: int
    kind: PointKind
    seed: int


class BinlogState(msgspec.Struct, frozen=True, kw_only=True):
    """The binary log of a recovered server beside its tables.

    Attributes:
        lost: acknowledged commits that the binary log lacks.
        behind: commits of the tables that the binary log lacks: replicas will never get them.
        ahead: commits of the binary log that the tables lack: replicas have what their source lost.
    """

    lost: int = 0
    behind: int = 0
    ahead: int = 0


class GtidState(msgspec.Struct, frozen=True, kw_only=True):
    """The GTIDs of a recovered server beside its tables.

    Attributes:
        behind: commits of the tables without a GTID: their GTIDs will be given to others.
        ahead: GTIDs of commits that the tables lack: no source will send these again.
    """

    behind: int = 0
    ahead: int = 0


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """A real replica of a recovered server, after more commits on the server.

    Attributes:
        outcome: `follows`: replication goes on, and both have the same rows in the end; `diverged`:
            replication goes on with different rows; `stopped`: by an error; `unknown`: not judged.
        ahead: commits of the replica that the recovered server lacked before they met.
        lacks: commits of the recovered server that the replica lacks in the end.
        error: number of the error that stopped replication; 0: none.
        said: the error's words; with `unknown`, the reason.
    """

    outcome: ReplicaOutcome
    ahead: int = 0
    lacks: int = 0
    error: int = 0
    said: str = ""


class NodeAlone(msgspec.Struct, frozen=True, kw_only=True):
    """One node's data without the other nodes: a server without Galera was started on them.

    Attributes:
        outcome, lost, binlog, reasons: as of `Crash`.
    """

    outcome: CrashOutcome
    lost: int = 0
    binlog: BinlogState | None = None
    reasons: tuple[str, ...] = ()


class CrashNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node of a cluster after a crash.

    Attributes:
        number: from 1.
        crashed: whether the node crashed.
        way: how the node reached the cluster's state. `bootstrap`: the cluster was started from the node.
            `ist`: the node received the missing transactions. `sst`: the node received a copy of another
            node's data. `none`: nothing was missing. `stayed`: the node did not crash.
        outcome: of the node, once the cluster is whole again.
        lost: acknowledged commits that the node lacks.
        position: the last of the cluster's transactions that the node had by itself when it came back
            (`grastate.dat` or `--wsrep-recover`); None: unknown.
        alone: of recorded disks, the node's data without the other nodes; None: not checked.
    """

    number: int
    crashed: bool
    way: NodeWay
    outcome: CrashOutcome
    lost: int = 0
    position: int | None = None
    alone: NodeAlone | None = None


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """One crash and its outcome.

    Attributes:
        point: moment of the crash.
        outcome: see Outcomes.
        acknowledged: commits before the crash; 0 without an acknowledgement table.
        lost: acknowledged commits that the tables lack.
        lost_s: from the acknowledgement of the first of them to the crash, in seconds.
        unflushed: commits acknowledged since the disk's last flush before the crash; None where no disk was
            recorded. A server that syncs before it answers keeps them; any other loses them.
        binlog: None without a binary log, or where it could not be read.
        binlog_unread: why the binary log could not be read; else empty.
        gtid: None without GTIDs, or if transactions without an acknowledgement have some, too.
        replica: a replica that had followed the server before the crash; None without `--replica`, or where
            the server did not come back.
        new_replica: a replica that follows the recovered server from the beginning of its binary log; None
            likewise.
        reasons: of the outcome, in words; the server's own where it does not start.
        seconds: time for the judgement.
        machine: of the fleet, that it crashed on; empty without one.
        nodes: each node of a cluster; the other fields then describe the cluster as a whole. A commit that
            any node acknowledged must be on every node once the cluster is whole again.
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
    replica: ReplicaState | None = None
    new_replica: ReplicaState | None = None
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
    machine: str = ""
    nodes: tuple[CrashNode, ...] = ()


class CrashArm(msgspec.Struct, frozen=True, kw_only=True):
    """All crashes of one configuration.

    Attributes:
        name: of the configuration.
        settings: of the server.
        positive_control: the configuration must lose; it runs only if no other one lost.
        checks_rows: there is an acknowledgement table; without one only starts and tables were judged, and
            crashes are `sound` at best.
        commits_per_s: commits per second that were acknowledged before the crash.
        records: writes and flushes that were recorded under load.
        folder: of the record with `--save-recording`; else empty.
        floor: the floor that the settings meet by the durability model, with its condition on the disk;
            empty: not known.
        guarantee: the durability model's words about the settings under this failure.
        fault: with `eio` and `full`, what the server did when the disk failed, in words; else empty.
        crashes: the crashes.
    """

    name: str
    settings: Mapping[str, Value]
    positive_control: bool = False
    checks_rows: bool = True
    commits_per_s: float = 0.0
    records: int = 0
    folder: str = ""
    floor: str = ""
    guarantee: str = ""
    fault: str = ""
    crashes: tuple[Crash, ...] = ()


class CrashRow(msgspec.Struct, frozen=True, kw_only=True):
    """Of two rows with one number the later one counts."""

    arm: CrashArm
    number: int
    crash: Crash
    seconds: Mapping[str, float] = {}

    @property
    def machine(self) -> str:
        return self.crash.machine

    @property
    def spent_s(self) -> float:
        return sum(self.seconds.values())

    @property
    def once_s(self) -> float:
        return sum(self.seconds.get(name, 0.0) for name in ("record", "before"))


class CrashFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Results of `flushlab crash`.

    Attributes:
        server: name and version.
        workload: the load.
        background: what ran beside the load: `command: …` or `sql:FILE`; empty: nothing.
        failure: the failure: `process`, `os`, `power`, `lying-disk`, `torn`, `eio` or `full`.
        fs: file system of the recorded disk; empty for `process`.
        disk: how slow the disk was during the recording (`--disk`); empty: not made slow.
        tear: bytes that the disk wrote atomically; 0: it tore no write.
        dropped_flushes: final flushes that the disk drops; 0: the disk honors flushes.
        nodes: number of nodes of the cluster; 1: a single server.
        crashed: the nodes that crashed: `one`, `all` or `cascade`; empty for a single server.
        ending: `done`, or `interrupted` by Ctrl-C.
        arms: the configurations, then the positive control.
        seed: of the crash points.
        warnings: caveats.
        campaign: id for `flushlab report` and `--resume`; empty for `--replay`.
        sources: option files, and texts that were run, as they were when the campaign began.
    """

    server: str
    workload: str
    background: str = ""
    failure: CrashKind
    fs: str = ""
    disk: str = ""
    tear: int = 512
    dropped_flushes: int = 0
    nodes: int = 1
    crashed: NodesKind | Literal[""] = ""
    ending: Literal["done", "interrupted"] = "done"
    arms: tuple[CrashArm, ...] = ()
    seed: int = 1
    warnings: tuple[Warning, ...] = ()
    campaign: str = ""
    sources: tuple[SourceText, ...] = ()
