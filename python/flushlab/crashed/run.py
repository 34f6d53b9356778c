"""Run: a recorded run of a server, of one node or several, as it stands beside its records.

Sits in `crashed`, below `recording`, which makes it, and `recorded`, which cuts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.build import Build
from flushlab.crashed.acks import Note, begun_after
from flushlab.crashed.recovered_server import IDLE_S, AcksTable
from flushlab.datadir import DataRoot
from flushlab.datadir.fault_disk import FaultDisk, FileSystemName
from flushlab.datadir.recording import Recording
from flushlab.errors import StorageError
from flushlab.record import DiskProfile, Failure, Storage, Value
from flushlab.server import DataDirectory, Sandbox, Startup
from flushlab.server.galera.cluster import Cluster
from flushlab.units import counted

NOTES, RUN = "notes", "run.json"
Fault = Literal["eio", "full"]


class CrashedServer(msgspec.Struct, frozen=True, kw_only=True):
    """The server that crashes.

    Attributes:
        build, settings, arguments: of its nodes.
        nodes: how many; 1: it is no cluster.
        data_root: where their data lie, unless each has a disk of its own.
        seconds: longest time of load before a crash; less where the load ends by itself.
        latency_s: between the nodes, there and back; 0: they are on loopback.
    """

    build: Build
    settings: Mapping[str, Value]
    arguments: tuple[str, ...]
    nodes: int
    data_root: DataRoot
    seconds: float
    latency_s: float = 0.0


class Disks(msgspec.Struct, frozen=True, kw_only=True):
    """Disks that crash with their nodes.

    Attributes:
        fail: what crashes.
        fs: file system.
        size: of each, in bytes.
        folder: that they are made in.
        emulate: how slow each is.
    """

    fail: Failure
    fs: FileSystemName
    size: int
    folder: Path
    emulate: DiskProfile | None = None


def start(server: CrashedServer, disks: Sequence[FaultDisk] = ()) -> Sandbox | Cluster:
    """Starts a server, or a cluster if there are several nodes; its owner closes it.

    Args:
        disks: of its nodes; none: all data lie in the data root.
    """
    roots = [DataRoot.open(disk.mount) for disk in disks]
    if server.nodes == 1:
        return Sandbox.start(
            server.build,
            settings=server.settings,
            arguments=server.arguments,
            data=DataDirectory(roots[0] if roots else server.data_root),
            startup=Startup(idle_s=IDLE_S),
        )
    return Cluster.start(
        server.build,
        size=server.nodes,
        settings=server.settings,
        arguments=server.arguments,
        data=DataDirectory(server.data_root, node_roots=roots, settle=False),
        latency_s=server.latency_s,
    )


class RecordedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a recorded run.

    Attributes:
        disk: name of the folder of its record.
        datadir: on the disk, from its root.
    """

    disk: str
    datadir: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run: all that its crash images need.

    Attributes:
        build: id of the server's build.
        settings, arguments: what the nodes ran with, and run with on the images.
        nodes: a server alone is one.
        fs: file system.
        first, last: between which the load ran: records of the disk of a server alone; of a cluster, whose
            disks count their own, CLOCK_MONOTONIC in ns.
        rows: per transaction in the acknowledgement table; 0: no acknowledgement table.
        database: schema of the acknowledgement table.
        alone: as of `AcksTable`.
        ended_ns: CLOCK_MONOTONIC.
        commits_per_s: acknowledged.
        faulty: what the disk was to do in the middle of the load; None: nothing.
        fault: what the server did when the disk failed so; empty if it did not.
        storage: what the data lay on.
        workload, beside: what the server was under, by name.
        whole: False while it is recorded, and for ever if that was cut short; then what is there counts.
    """

    build: str
    settings: Mapping[str, Value]
    arguments: tuple[str, ...]
    nodes: tuple[RecordedNode, ...]
    fs: FileSystemName
    first: int = 0
    last: int = 0
    rows: int
    database: str
    alone: bool = False
    ended_ns: int = 0
    commits_per_s: float = 0.0
    faulty: Fault | None = None
    fault: str = ""
    storage: Storage | None = None
    workload: str = ""
    beside: str = ""
    whole: bool = True

    @property
    def acks(self) -> AcksTable | None:
        """None: there is none."""
        return AcksTable(self.database, self.rows, self.alone) if self.rows else None

    def write(self, folder: Path) -> None:
        """Puts it beside the records that it describes."""
        beside = folder / f".{RUN}"
        beside.write_bytes(msgspec.json.encode(self))
        beside.rename(folder / RUN)

    def recordings(self, folder: Path) -> list[Recording]:
        """The recordings of the nodes' disks, in their order; a StorageError if one cannot be read."""
        return [Recording(folder / node.disk) for node in self.nodes]

    def completed(self, folder: Path, notes: Sequence[Note]) -> Run:
        """With the end that was left, if it was cut short.

        Raises:
            StorageError: that was before anything was committed or written, or before the disk was to fail.
        """
        if self.whole:
            return self
        recordings = self.recordings(folder)
        ends = [next(one.records(first=max(one.last, 1)), None) for one in recordings]
        before = None if all(ends) and (notes or not self.acks) else "the first commit"
        first = min((note.position for note in notes), default=0)
        if self.faulty:
            failed = next((one.number for one in recordings[0].records("failed")), 0)
            first = failed if self.faulty == "eio" else self.first
            before = before or (None if first else "the disk failed")
        if before:
            raise StorageError(
                f"the record {folder} was cut short before {before}", hint="remove it, and record again"
            )
        ended_ns = min(end.time_ns for end in ends if end is not None)
        last = recordings[0].last
        if len(self.nodes) > 1:
            first, last = min(note.time_ns for note in notes), ended_ns
        seconds = max(1e-3, (ended_ns - notes[0].time_ns) / 1e9) if notes else 1.0
        later = counted(begun_after(notes, first), "commit")
        return msgspec.structs.replace(
            self,
            first=first,
            last=last,
            ended_ns=ended_ns,
            fault=f"the server acknowledged {later} begun after the fault, until the recording was cut short"
            if self.faulty and self.acks
            else "",
            commits_per_s=len(notes) / seconds,
        )

    @classmethod
    def read(cls, folder: Path) -> Run:
        """The run that stands beside records; a StorageError if there is none."""
        try:
            return msgspec.json.decode((folder / RUN).read_bytes(), type=Run)
        except (OSError, msgspec.DecodeError) as error:
            why = f"{RUN} is missing" if isinstance(error, FileNotFoundError) else str(error)
            raise StorageError(
                f"{folder} is no recorded run: {why}", hint="name a folder that --save-recording has written"
            ) from error
