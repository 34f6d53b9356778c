"""Recording: one run of a server whose disks record, of one node or several. Sits in `crashed`."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.build import Build
from flushlab.crashed.judge import Note, begun_after
from flushlab.crashed.live import CrashingLoad, LoadOutcome, make_acks_table, run_until_killed
from flushlab.crashed.recovered_server import IDLE_S, AcksTable, require_alike
from flushlab.crashed.replicated import listening
from flushlab.datadir import DataRoot
from flushlab.datadir.fault_disk import FaultDisk, FileSystemName, remove_record
from flushlab.datadir.recording import Recording
from flushlab.errors import FlushlabError, HarnessError, MeasurementError, StorageError
from flushlab.process import make_lasting
from flushlab.record import DiskProfile, Failure, Storage, Value
from flushlab.server import DataDirectory, Sandbox, Startup
from flushlab.server.galera.cluster import SYNC_LIMIT_S, Cluster
from flushlab.units import counted

NOTES, RUN = "notes", "run.json"
Fault = Literal["eio", "full"]


class CrashedServer(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds`: longest time of load before a crash; `latency_s`: between the nodes, there and back."""

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


def start_server(server: CrashedServer, disks: Sequence[FaultDisk] = ()) -> Sandbox | Cluster:
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
    disk: str
    datadir: str


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run: all that its crash images need.

    Its load ran from `first` to `last`: records of the disk; of a cluster, CLOCK_MONOTONIC in ns. The disk
    was to fail by `faulty`, and the server then did `fault`. It is not `whole` if it was cut short.
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
        return AcksTable(self.database, self.rows, self.alone) if self.rows else None

    def write(self, folder: Path) -> None:
        beside = folder / f".{RUN}"
        beside.write_bytes(msgspec.json.encode(self))
        beside.rename(folder / RUN)

    def recordings(self, folder: Path) -> list[Recording]:
        return [Recording(folder / node.disk) for node in self.nodes]

    def completed(self, folder: Path, notes: Sequence[Note]) -> RecordedRun:
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
    def read(cls, folder: Path) -> RecordedRun:
        try:
            return msgspec.json.decode((folder / RUN).read_bytes(), type=RecordedRun)
        except (OSError, msgspec.DecodeError) as error:
            why = f"{RUN} is missing" if isinstance(error, FileNotFoundError) else str(error)
            raise StorageError(
                f"{folder} is no recorded run: {why}", hint="name a folder that --save-recording has written"
            ) from error


FILLER = "filler"
"""A file that leaves no space to others."""
_SPARED_BYTES = 8 << 20
"""Where less is free, it is not the disk that is too small, but what its record lies on."""


def record(
    server: CrashedServer,
    disks: Disks,
    prepare: Callable[[Sandbox], CrashingLoad],
    where: Path,
    owner: str = "",
    *,
    fault: Fault | None = None,
    replica: bool = False,
) -> Path:
    """Runs a load on a server whose disks record, and kills all its nodes at once; the folder of the
    records."""
    folder = where / f"flushlab-disk-{secrets.token_hex(4)}.record"
    make_lasting(folder, "disk-record", **({"arm": owner} if owner else {}))
    free = _SPARED_BYTES
    try:
        with ExitStack() as stack:
            own = [
                stack.enter_context(
                    FaultDisk(
                        disks.folder, disks.size, disks.fs, disks.emulate, record=True, record_in=folder
                    )
                )
                for _ in range(server.nodes)
            ]
            try:
                _run(server, own, prepare, folder, fault, disks.folder if replica else None)
            except BaseException:
                free = shutil.disk_usage(where).free
                raise
    except BaseException as error:
        for disk in folder.glob("*.record"):
            remove_record(disk)
        remove_record(folder)
        if isinstance(error, FlushlabError) and free < _SPARED_BYTES:  # however the server has met it
            raise StorageError(
                f"the record has filled the file system of {where}",
                hint="free some space, name a folder elsewhere with --data-root or --save-recording, or take"
                " a shorter --duration",
            ) from error
        raise
    return folder


def _run(
    server: CrashedServer,
    own: Sequence[FaultDisk],
    prepare: Callable[[Sandbox], CrashingLoad],
    folder: Path,
    fault: Fault | None,
    replicas: Path | None,
) -> None:
    with start_server(server, own) as started:
        nodes = started.nodes if isinstance(started, Cluster) else [started]
        first, disk = nodes[0], own[0]
        load = prepare(first)
        if isinstance(started, Cluster):
            require_alike(started, server.settings)
        if load.acks:
            make_acks_table(first, load.acks)
        if load.side:
            load.side.prepare(first)
        started.settled(SYNC_LIMIT_S)
        for node in nodes:
            # Pages are written all the time, so that crashes meet them and not the redo log alone.
            node.query("SET GLOBAL innodb_max_dirty_pages_pct = 0")
        run = RecordedRun(
            build=server.build.id,
            settings=server.settings,
            arguments=server.arguments,
            nodes=tuple(
                RecordedNode(disk=one.record.name, datadir=str(node.datadir.relative_to(one.mount)))
                for node, one in zip(nodes, own, strict=True)
            ),
            fs=disk.fs,
            rows=load.acks.rows if load.acks else 0,
            database=load.acks.database if load.acks else "",
            alone=bool(load.acks and load.acks.alone),
            workload=load.workload,
            beside=load.beside,
            faulty=fault,
            storage=first.storage,
            whole=False,
        )
        with ExitStack() as stack:
            listener = None
            if replicas and load.acks:
                listener = stack.enter_context(listening(first, load.acks, replicas, disk.position_file))
            for one in own:
                one.start_recording()
            run.write(folder)
            faults: list[int] = []

            def fail() -> None:
                assert fault is not None, "it is called where there is one"
                faults.append(_fail(disk, fault))
                # Nothing in the record of a full disk shows when it was, should it be cut short.
                msgspec.structs.replace(run, first=faults[0]).write(folder)

            ran = run_until_killed(
                first,
                load,
                server.seconds,
                folder,
                position=disk.position_file,
                fault=fail if fault else None,
                kill=started.kill,
            )
            last = disk.position()
            if listener:
                listener.keep(folder)
    for one in own:
        one.require_served(1 if fault == "eio" else 0)
    begin = min((note.position for note in ran.notes), default=0)
    if fault:
        begin = _met(fault, disk.record, faults[0])
    if len(own) > 1:
        begin, last = min(note.time_ns for note in ran.notes), ran.ended_ns
    run = msgspec.structs.replace(
        run,
        first=begin,
        last=last,
        ended_ns=ran.ended_ns,
        commits_per_s=ran.commits_per_s,
        fault=_told(ran, begin, load.acks) if fault else "",
        whole=True,
    )
    run.write(folder)


def _fail(disk: FaultDisk, fault: Fault) -> int:
    """Lets the disk fail; the record at which it was asked to, or by which it was full."""
    at = disk.position()
    if fault == "eio":
        disk.fail_flush()
    else:
        with (disk.mount / FILLER).open("wb", buffering=0) as file:
            with suppress(OSError):  # the server takes some of it meanwhile
                now = os.statvfs(disk.mount)
                os.posix_fallocate(file.fileno(), 0, now.f_bavail * now.f_frsize)
            with suppress(OSError):
                while os.statvfs(disk.mount).f_bavail and file.write(bytes(65536)):
                    pass
        if free := os.statvfs(disk.mount).f_bavail:
            raise HarnessError(f"the file system of {disk.mount} could not be filled: {free} blocks are free")
        at = disk.position()
    return at


def _met(fault: Fault, record: Path, after: int) -> int:
    if fault == "full":
        return after
    failed = next((one.number for one in Recording(record).records("failed", first=after + 1)), None)
    if failed is None:
        raise MeasurementError(
            "no flush failed: none was asked of the disk in the second half of the load",
            hint="take a longer --duration, settings that sync more often or a load that lasts longer",
        )
    return failed


def _told(ran: LoadOutcome, at: int, acks: AcksTable | None) -> str:
    later = begun_after(ran.notes, at)
    if ran.died:
        did = f"ended itself: {ran.words}"
    elif ran.complaint:
        did = f"ended the load: {ran.complaint}"
    else:
        did = "went on" if later or not acks else f"answered nothing more: {ran.words}"
    if not acks:
        return f"the server {did}"
    return f"the server acknowledged {counted(later, 'commit')} begun after the fault, and {did}"
