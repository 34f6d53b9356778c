"""Recording: one run of a server whose disks record, of one node or several. Sits in `crashed`."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple, Self

import msgspec

from flushlab import _core
from flushlab.crashed.judge import NOTE_BYTES, AckNote, begun_after, read_notes
from flushlab.crashed.recovered_server import IDLE_S, AcksTable, make_acks_table, require_alike, said
from flushlab.crashed.replica import listening
from flushlab.datadir import DataRoot
from flushlab.datadir.fault_disk import FaultDisk, FileSystemName, remove_record
from flushlab.datadir.recording import Recording
from flushlab.errors import FlushlabError, HarnessError, MeasurementError, StorageError
from flushlab.process import make_lasting
from flushlab.record import AcksSpec, DiskProfile, Failure, LoadSpec, Storage, Value
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.galera.cluster import SYNC_LIMIT_S, Cluster
from flushlab.units import counted
from flushlab.workload.command import CommandWorkload
from flushlab.workload.engine import native, raise_if_failed
from flushlab.workload.protocol import Timing
from flushlab.workload.sql import SqlWorkload

SideWorkload = CommandWorkload | SqlWorkload
_JOIN_S = 60.0
_LONGEST_S = 86_400.0
"""The server does not live that long."""
_POLL_S = 0.01
_FIRST_COMMIT_S = 60.0
_DYING = re.compile(r"fatal|abort|assert|got signal", re.IGNORECASE)
_DYING_S = 30.0
"""A server that ends itself writes a stack trace first."""


class CrashingLoad(NamedTuple):
    spec: LoadSpec | None
    acks: AcksTable | None
    side: SideWorkload | None = None
    workload: str = ""
    beside: str = ""


class LoadOutcome(NamedTuple):
    notes: list[AckNote]
    ended_ns: int
    commits_per_s: float
    over: bool
    lasted_s: float
    complaint: str = ""
    died: bool = False
    words: str = ""


class UnderLoad:
    def __init__(
        self, server: Sandbox, load: CrashingLoad, folder: Path, position: Path | None = None
    ) -> None:
        self._server, self._given = server, load
        self._file = folder / "notes"
        self._load: _core.LoadRun | None = None
        if load.spec and load.acks:
            noted = AcksSpec(file=str(self._file), position=str(position or ""), rows=load.acks.rows)
            spec = msgspec.json.encode(msgspec.structs.replace(load.spec, acks=noted))
            self._file.unlink(missing_ok=True)
            self._load = native(lambda: _core.LoadRun(spec), server)
        self._side_failed: FlushlabError | None = None
        self._side: threading.Thread | None = None
        if load.side:
            self._stop_side = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._side = threading.Thread(target=self._run_side, name=load.side.name, daemon=True)

    def __enter__(self) -> Self:
        if self._load:
            try:
                self._await_commit(self._load)
            except BaseException:
                self._load.stop()
                raise
        if self._side:
            self._side.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # The side workload may wait for the server, and after a Ctrl-C nobody waits for its answers.
        if kind is not None and (self._side or not issubclass(kind, Exception)):
            self._server.kill()
        if self._side:  # what becomes of it once the server is dead does not matter
            os.eventfd_write(self._stop_side, 1)
            self._side.join(_JOIN_S)
            if not self._side.is_alive():
                os.close(self._stop_side)
        if self._load:
            self._load.stop()

    @property
    def over(self) -> bool:
        return self._load is None and (self._side is None or not self._side.is_alive())

    def let_run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.over:
            self._check()
            time.sleep(min(_POLL_S, left))
        self._check()

    def acknowledged(self) -> int:
        return self._file.stat().st_size // NOTE_BYTES if self._file.exists() else 0

    def notes(self) -> list[AckNote]:
        return read_notes(self._file) if self._load else []

    def _await_commit(self, load: _core.LoadRun) -> None:
        load.start()
        began = time.monotonic()
        while not self.acknowledged():
            self._check()
            if time.monotonic() - began > _FIRST_COMMIT_S:
                assert self._given.spec is not None, "it has commits"
                raise MeasurementError(
                    f"{self._given.spec.workload}: nothing was committed within {_FIRST_COMMIT_S:.0f} s",
                    hint="try fewer --threads or another workload",
                )
            time.sleep(_POLL_S)

    def _check(self) -> None:
        if self._load:
            raise_if_failed(self._load, self._server)
        if self._side_failed is not None:
            raise self._side_failed

    def _run_side(self) -> None:
        side = self._given.side
        try:
            if isinstance(side, CommandWorkload):
                side.run_until(self._server, self._stop_side)
            elif side:
                side.run(self._server, Timing(max_seconds=_LONGEST_S), nullcontext())
        except FlushlabError as error:
            self._side_failed = error


def run_until_killed(
    server: Sandbox,
    load: CrashingLoad,
    seconds: float,
    folder: Path,
    position: Path | None = None,
    fault: Callable[[], object] | None = None,
    kill: Callable[[], object] | None = None,
) -> LoadOutcome:
    complaint, words, died = "", "", False
    with UnderLoad(server, load, folder, position) as working:
        began = time.monotonic()
        working.let_run(seconds / 2 if fault else seconds)
        if fault:
            fault()
            until = time.monotonic() + seconds / 2
            try:
                working.let_run(seconds / 2)
            except FlushlabError as error:
                complaint = said(error.message)
            time.sleep(max(0.0, until - time.monotonic()))  # whatever it does without a load
            words = said(server.said_since_start())
            patience = time.monotonic() + (_DYING_S if _DYING.search(words) else 0.0)
            while server.alive() and time.monotonic() < patience:
                time.sleep(_POLL_S)
            died = not server.alive()
        over = working.over
        ended_ns, lasted = time.monotonic_ns(), time.monotonic() - began
        (kill or server.kill)()
    notes = working.notes()
    return LoadOutcome(
        notes, ended_ns, len(notes) / max(lasted, _POLL_S), over, lasted, complaint, died, words
    )


NOTES, RUN = "notes", "run.json"
Fault = Literal["eio", "full"]


class CrashedServer(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds`: longest time of load before a crash."""

    spec: SandboxSpec
    data_root: DataRoot
    seconds: float
    fail: Failure | None = None
    fs: FileSystemName = "ext4"
    disk_bytes: int = 0
    emulate: DiskProfile | None = None

    def new_disk(self, record_in: Path | None = None) -> FaultDisk:
        return FaultDisk(
            self.data_root.path, self.disk_bytes, self.fs, self.emulate, record=True, record_in=record_in
        )

    def start(self, disks: Sequence[FaultDisk] = ()) -> Sandbox | Cluster:
        roots = [DataRoot.open(disk.mount) for disk in disks]
        if self.spec.nodes == 1:
            root = roots[0] if roots else self.data_root
            return Sandbox.start(replace(self.spec, data_root=root, idle_s=IDLE_S))
        return Cluster.start(replace(self.spec, data_root=self.data_root, node_roots=roots, settle=False))


class RecordedNode(msgspec.Struct, frozen=True, kw_only=True):
    disk: str
    datadir: str


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """`first` and `last` are records of the disk; of a cluster, CLOCK_MONOTONIC in ns."""

    build: str
    settings: Mapping[str, Value]
    arguments: tuple[str, ...]
    nodes: tuple[RecordedNode, ...]
    fs: FileSystemName
    first: int = 0
    last: int = 0
    acks: AcksTable | None
    ended_ns: int = 0
    commits_per_s: float = 0.0
    faulty: Fault | None = None
    fault: str = ""
    storage: Storage | None = None
    workload: str = ""
    beside: str = ""
    whole: bool = True

    def write(self, folder: Path) -> None:
        beside = folder / f".{RUN}"
        beside.write_bytes(msgspec.json.encode(self))
        beside.rename(folder / RUN)

    def recordings(self, folder: Path) -> list[Recording]:
        return [Recording(folder / node.disk) for node in self.nodes]

    def completed(self, folder: Path, notes: Sequence[AckNote]) -> RecordedRun:
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
    prepare: Callable[[Sandbox], CrashingLoad],
    where: Path,
    owner: str = "",
    *,
    fault: Fault | None = None,
    replica: bool = False,
) -> Path:
    folder = where / f"flushlab-disk-{secrets.token_hex(4)}.record"
    make_lasting(folder, "disk-record", **({"arm": owner} if owner else {}))
    free = _SPARED_BYTES
    try:
        with ExitStack() as stack:
            own = [stack.enter_context(server.new_disk(folder)) for _ in range(server.spec.nodes)]
            try:
                _run(server, own, prepare, folder, fault, server.data_root.path if replica else None)
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
    with server.start(own) as started:
        nodes = started.nodes if isinstance(started, Cluster) else [started]
        first, disk = nodes[0], own[0]
        load = prepare(first)
        if isinstance(started, Cluster):
            require_alike(started, server.spec.settings)
        if load.acks:
            make_acks_table(first, load.acks)
        if load.side:
            load.side.prepare(first)
        started.settled(SYNC_LIMIT_S)
        for node in nodes:
            # Pages are written all the time, so that crashes meet them and not the redo log alone.
            node.query("SET GLOBAL innodb_max_dirty_pages_pct = 0")
        run = RecordedRun(
            build=server.spec.build.id,
            settings=server.spec.settings,
            arguments=tuple(server.spec.arguments),
            nodes=tuple(
                RecordedNode(disk=one.record.name, datadir=str(node.datadir.relative_to(one.mount)))
                for node, one in zip(nodes, own, strict=True)
            ),
            fs=disk.fs,
            acks=load.acks,
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
    if fault == "full":
        begin = faults[0]
    elif fault == "eio":
        failed = Recording(disk.record).records("failed", first=faults[0] + 1)
        if (met := next((one.number for one in failed), None)) is None:
            raise MeasurementError(
                "no flush failed: none was asked of the disk in the second half of the load",
                hint="take a longer --duration, settings that sync more often or a load that lasts longer",
            )
        begin = met
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
