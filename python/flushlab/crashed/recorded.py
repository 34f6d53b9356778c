"""Recorded: one run of a server on a disk that records, and what crashes at its records have left."""

from __future__ import annotations

import errno
import os
import random
import shutil
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.build import Build
from flushlab.crashed import ddl_workload, judge, points, replicated
from flushlab.crashed.ledger import Note, before, begun_after, read_notes
from flushlab.crashed.live import Load, LoadOutcome, make_ledger, run_until_killed
from flushlab.crashed.received import Listening, Received, listening, there_is
from flushlab.crashed.recovered_server import IDLE_S, Ledger, ask, said, unfinished
from flushlab.crashed.recovery import cut_recovery
from flushlab.datadir import DataRoot
from flushlab.datadir.extents import Extents
from flushlab.datadir.fault_disk import (
    FaultDisk,
    FaultImage,
    FileSystemName,
    NotMounted,
    remove_record,
    trusted,
)
from flushlab.datadir.recording import Recording
from flushlab.datadir.unsynced import Part, Unsynced, unsynced, with_parts
from flushlab.errors import (
    FlushlabError,
    HarnessError,
    MeasurementError,
    StartFailed,
    StorageError,
)
from flushlab.process.passing import passing_folder
from flushlab.record import CrashImage, CrashPoint, DiskProfile, Failure, Storage, Value
from flushlab.server import DataDirectory, Sandbox, Startup
from flushlab.units import counted as number_of

_NOTES, RUN = "notes", "run.json"
_CHEAPER = "--loose-performance-schema=OFF"
"""On images: it takes a sixth of an image's time on MySQL 9.7, and nothing of what a crash has left. Some
servers are built without it."""
_FILLER = "filler"
"""A file that leaves no space to others."""

_DAMAGED = {errno.EIO, errno.ENOENT, errno.ENOTDIR, errno.EROFS, errno.EUCLEAN, errno.EBADMSG}
"""What a file system says that is not whole; the last one of checksums, ext4's and XFS's EFSBADCRC."""

_SPARED_BYTES = 8 << 20
"""Where less is free, it is not the disk that is too small, but what its record lies on."""
PAGE_BYTES = 16384
"""`innodb_page_size`, unless it is set."""
Fault = Literal["eio", "full"]
_ALL_KEPT = Failure(kind="os", tear=None, lying_flushes=0)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run, as it stands beside its record: all that its images need.

    Attributes:
        build: id of the server's build.
        settings, arguments: what the server ran with, and runs with on the images.
        datadir: on the disk, from its root.
        fs: file system.
        first, last: records between which the load ran.
        rows: of each of the ledger's transactions; 0: there is no ledger.
        database: the ledger's.
        ddl, alone: as of `Ledger`.
        ended_ns: CLOCK_MONOTONIC.
        commits_per_s: acknowledged.
        faulty: what the disk was to do in the middle of the load; None: nothing.
        fault: what the server did when the disk failed so; empty if it did not.
        storage: what the data lay on; None in records of earlier versions.
        workload, beside: what the server was under, by name; empty in records of earlier versions.
        whole: False while it is recorded, and for ever if that was cut short; then what is there counts.
    """

    build: str
    settings: dict[str, Value]
    arguments: tuple[str, ...]
    datadir: str
    fs: FileSystemName
    first: int
    last: int
    rows: int
    database: str
    ended_ns: int
    commits_per_s: float
    faulty: Fault | None = None
    fault: str = ""
    storage: Storage | None = None
    workload: str = ""
    beside: str = ""
    whole: bool = True
    ddl: bool = False
    alone: bool = False

    @property
    def ledger(self) -> Ledger | None:
        """None: there is none."""
        return Ledger(self.database, self.rows, self.ddl, self.alone) if self.rows else None

    def write(self, record: Path) -> None:
        """Puts it beside the record that it describes."""
        beside = record / f".{RUN}"
        beside.write_bytes(msgspec.json.encode(self))
        beside.rename(record / RUN)

    def completed(self, recording: Recording, notes: Sequence[Note]) -> Run:
        """With the end that was left, if it was cut short.

        Raises:
            StorageError: that was before anything was committed or written, or before the disk was to fail.
        """
        if self.whole:
            return self
        end = next(recording.records(first=max(recording.last, 1)), None)
        first = min((note.position for note in notes), default=0)
        before = None if end is not None and (notes or not self.ledger) else "the first commit"
        if self.faulty:
            failed = next((one.number for one in recording.records("failed")), 0)
            first = failed if self.faulty == "eio" else self.first
            before = before or (None if first else "the disk failed")
        if end is None or before:
            raise StorageError(
                f"the record {recording.folder} was cut short before {before}",
                hint="remove it, and record again",
            )
        later = number_of(begun_after(notes, first), "commit")
        seconds = max(1e-3, (end.time_ns - notes[0].time_ns) / 1e9) if notes else 1.0
        return msgspec.structs.replace(
            self,
            first=first,
            last=recording.last,
            ended_ns=end.time_ns,
            fault=f"the server acknowledged {later} begun after the fault, until the recording was cut short"
            if self.faulty and self.ledger
            else "",
            commits_per_s=len(notes) / seconds,
        )

    @classmethod
    def read(cls, record: Path) -> Run:
        """What stands beside a record.

        Raises:
            StorageError: nothing does.
        """
        try:
            return msgspec.json.decode((record / RUN).read_bytes(), type=Run)
        except (OSError, msgspec.DecodeError) as error:
            why = f"{RUN} is missing" if isinstance(error, FileNotFoundError) else str(error)
            raise StorageError(
                f"{record} is no recorded run: {why}", hint="name a folder that --keep has written"
            ) from error


def record(
    build: Build,
    settings: dict[str, Value],
    arguments: tuple[str, ...],
    prepare: Callable[[Sandbox], Load],
    *,
    seconds: float,
    folder: Path,
    record_in: Path | None = None,
    arm: str = "",
    workload: str = "",
    beside: str = "",
    size: int,
    fs: FileSystemName,
    fault: Fault | None = None,
    emulate: DiskProfile | None = None,
    replica: bool = False,
) -> tuple[Path, Storage]:
    """Runs a load on a server whose disk records, and kills it.

    Args:
        build, settings, arguments: the server.
        prepare: makes the load's tables and tells what the server is to be under.
        seconds: of load; less where it ends by itself.
        folder: that the disk and its record are made in.
        record_in: that the record is made in; None: `folder`.
        arm: whose record it is, to be found again; empty: nobody's.
        workload, beside: the load, by name.
        size: of the disk, in bytes.
        fs: file system.
        emulate: how slow the disk is.
        replica: a real replica listens, and what it receives is kept beside the record.
        fault: what the disk does in the middle of the load; the run is then cut behind it only.

    Returns:
        The folder of the record, with the notes and the `Run` in it; what the data lay on.

    Raises:
        FlushlabError: the disk cannot be made, the server does not run on it, or nothing met the fault.
    """
    with FaultDisk(folder, size, fs, emulate, record=True, record_in=record_in, record_of=arm) as disk:
        try:
            root = DataRoot.open(disk.mount)
            data = DataDirectory(root)
            with Sandbox.start(build, settings=settings, arguments=arguments, data=data) as server:
                load = prepare(server)
                if load.ledger:
                    make_ledger(server, load.ledger)
                if load.side:
                    load.side.prepare(server)
                # Pages are written all the time, so that crashes meet them and not the redo log alone.
                server.query("SET GLOBAL innodb_max_dirty_pages_pct = 0")
                datadir = str(server.datadir.relative_to(disk.mount))
                run = Run(
                    build=build.id,
                    settings=settings,
                    arguments=arguments,
                    datadir=datadir,
                    fs=fs,
                    first=0,
                    last=0,
                    rows=load.ledger.rows if load.ledger else 0,
                    database=load.ledger.database if load.ledger else "",
                    ddl=bool(load.ledger and load.ledger.ddl),
                    alone=bool(load.ledger and load.ledger.alone),
                    ended_ns=0,
                    commits_per_s=0.0,
                    workload=workload,
                    beside=beside,
                    faulty=fault,
                    storage=root.storage,
                    whole=False,
                )
                listens: AbstractContextManager[Listening | None] = (
                    listening(server, load.ledger, folder, disk.position_file)
                    if replica and load.ledger
                    else nullcontext()
                )
                with listens as listener:
                    disk.start_recording()
                    run.write(disk.record)
                    faults: list[int] = []

                    def fail() -> None:
                        assert fault is not None, "it is called where there is one"
                        faults.append(_fail(disk, fault))
                        # Nothing in the record of a full disk shows when it was, should it be cut short.
                        msgspec.structs.replace(run, first=faults[0]).write(disk.record)

                    ran = run_until_killed(
                        server,
                        load,
                        seconds,
                        disk.record,
                        position=disk.position_file,
                        fault=fail if fault else None,
                    )
                    last = disk.position()
                    if listener:
                        listener.keep(disk.record)
            disk.require_served(1 if fault == "eio" else 0)
            begin = min((one.position for one in ran.notes), default=0)
            if fault:
                begin = _met(fault, disk.record, faults[0])
            run = msgspec.structs.replace(
                run,
                first=begin,
                last=last,
                ended_ns=ran.ended_ns,
                commits_per_s=ran.commits_per_s,
                fault=_told(ran, begin, run.ledger) if fault else "",
                whole=True,
            )
            run.write(disk.record)
            return disk.record, root.storage
        except BaseException as error:
            free = shutil.disk_usage(disk.record.parent).free
            disk.close()
            remove_record(disk.record)
            if isinstance(error, FlushlabError) and free < _SPARED_BYTES:  # however the server has met it
                raise StorageError(
                    f"the record has filled the file system of {disk.record.parent}",
                    hint="free some space, name a folder elsewhere with --data-root or --keep, or take fewer"
                    " --seconds",
                ) from error
            raise


def _fail(disk: FaultDisk, fault: Fault) -> int:
    """Lets the disk fail; the record at which it was asked to, or by which it was full."""
    at = disk.position()
    if fault == "eio":
        disk.fail_flush()
    else:
        with (disk.mount / _FILLER).open("wb", buffering=0) as file:
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
    """The record at which the disk failed."""
    if fault == "full":
        return after
    failed = next((one.number for one in Recording(record).records("failed", first=after + 1)), None)
    if failed is None:
        raise MeasurementError(
            "no flush failed: none was asked of the disk in the second half of the load",
            hint="take more --seconds, settings that sync more often or a load that lasts longer",
        )
    return failed


def _told(ran: LoadOutcome, at: int, ledger: Ledger | None) -> str:
    """What the server did when the disk had failed at a record."""
    later = begun_after(ran.notes, at)
    if ran.died:
        did = f"ended itself: {ran.words}"
    elif ran.complaint:
        did = f"ended the load: {ran.complaint}"
    else:
        did = "went on" if later or not ledger else f"answered nothing more: {ran.words}"
    if not ledger:
        return f"the server {did}"
    return f"the server acknowledged {number_of(later, 'commit')} begun after the fault, and {did}"


class Images:
    """The images of a recorded run.

    Args:
        folder: of the record.
        fail: what crashes.
        build: that the server is started from.
        work: an existing folder for what is mounted.
    """

    def __init__(self, folder: Path, fail: Failure, build: Build, work: Path) -> None:
        self._folder, self._fail, self._build, self._work = folder, fail, build, work
        self._notes: Sequence[Note] = read_notes(folder / _NOTES)
        self._statements: Sequence[Note] = read_notes(folder / ddl_workload.NOTES)
        self._recording = Recording(folder)
        self.run = Run.read(folder).completed(self._recording, self._notes)
        self._flushes = _waiting(self._recording)
        self._flushed = sorted(self._flushes)
        self.received = Received(folder) if there_is(folder) else None
        """What the replica has received that listened; None if none did, or its recording was cut short."""

    @property
    def records(self) -> int:
        """How many were recorded under load."""
        return self.run.last - self.run.first + 1

    @property
    def end(self) -> int:
        """The last point of the record, as `CrashPoint.at`."""
        return self._recording.last

    def points(self, images: int, seed: int) -> list[CrashPoint]:
        """Where the run is cut; see `points.choose`. The last record of a torn one is a write of pages."""
        first, last = self.run.first, self.run.last
        torn = self._fail.kind == "torn"
        return points.choose(
            first,
            last,
            () if torn else [note.position for note in self._notes],
            self._flushes,
            images,
            seed,
            _large(self._recording, first, last, int(self.run.settings.get("innodb_page_size", PAGE_BYTES)))
            if torn
            else (),
            times=() if torn else self._times(),
            writes=None if torn else self._writes_by_file(),
            recovery=not self._fail.lying_flushes,  # which may have undone the very move of the data
        )

    def _times(self) -> list[int]:
        """When each record under load was the last one, and when the load ended; see `points.choose`."""
        run = self.run
        found = [one.time_ns for one in self._recording.records(first=max(run.first, 1), last=run.last)]
        if run.first == 0:  # before anything was recorded
            found.insert(0, min((note.time_ns for note in self._notes), default=(found or [0])[0]))
        return list(accumulate([*found, run.ended_ns], max))

    def _writes_by_file(self) -> Mapping[str, Sequence[int]] | None:
        """Numbers of the writes under load to each file that there is at its end, by the file's path; those
        to the file system's own places, and to files that are gone, under an empty one. None: not known.

        Raises:
            FlushlabError: this machine does not let it look.
        """
        run = self.run
        if run.fs == "btrfs":
            return None
        try:
            with (
                FaultImage(self._folder, run.last, _ALL_KEPT, 0, self._work, run.fs) as image,
                trusted(image),
            ):
                extents = Extents(image.mount)
        except NotMounted:  # its disk had failed
            return None
        found: dict[str, list[int]] = {}
        for one in self._recording.records("write", run.first or 1, run.last):
            place = extents.file_at(one.offset)
            found.setdefault(place[0] if place else "", []).append(one.number)
        return found

    def judge(self, point: CrashPoint) -> CrashImage:
        """Mounts an image, starts the server on it, judges what it has, and throws it away."""
        return self._timed(point, self._left(point), self.received)

    def judge_parts(self, point: CrashPoint, among: Collection[int], parts: Sequence[Part]) -> CrashImage:
        """As `judge`, but of the writes that the crash may have left, it has left these parts.

        Args:
            point: where.
            among: numbers of those writes.
            parts: of them, in the order of their numbers.
        """
        return self._timed(point, self._left_of(point, among, parts))

    def unsynced(self, point: CrashPoint) -> Unsynced:
        """Parts of writes that the crash may have left."""
        return unsynced(self._folder, point.at, self._fail, point.seed)

    def extents(self, point: CrashPoint, among: Collection[int], parts: Sequence[Part]) -> Extents:
        """Where files lie on the disk that `judge_parts` starts the server on."""
        with self._left_of(point, among, parts) as (image, _):
            return Extents(image.mount, known=self.run.fs != "btrfs")

    def _timed(
        self,
        point: CrashPoint,
        left: AbstractContextManager[tuple[FaultImage, Path]],
        received: Received | None = None,
    ) -> CrashImage:
        began = time.monotonic()
        found = self._judge(point, left, received)
        return msgspec.structs.replace(
            found,
            seconds=time.monotonic() - began,
            unflushed=self._unflushed(point) if self.run.ledger else None,
        )

    def _judge(
        self,
        point: CrashPoint,
        left: AbstractContextManager[tuple[FaultImage, Path]],
        received: Received | None,
    ) -> CrashImage:
        run, crashed_ns = self.run, self._moment(point)
        notes = self._by_then(self._notes, point)
        statements = len(self._by_then(self._statements, point))
        try:
            with left as (image, datadir), self._start(image, datadir) as server:
                recovered = ask(server, run.ledger)
                old, new = replicated.of_image(server, run.ledger, received, point.at, self._work)
        except StartFailed as error:
            if error.unfinished:
                return judge.unknown(point, notes, unfinished(error))
            return judge.not_started(point, notes, said(error.message))
        except (FlushlabError, OSError) as error:  # of ours, of the machine's, or of the file system
            told = error if isinstance(error, OSError) else error.__cause__
            damaged = isinstance(error, NotMounted) or (isinstance(told, OSError) and told.errno in _DAMAGED)
            # An honest disk's file system is always whole.
            if damaged and (self._fail.lying_flushes or run.faulty or run.fault):
                return judge.not_started(point, notes, str(error))
            return judge.unknown(point, notes, str(error))
        found = judge.judge(point, notes, crashed_ns, recovered, statements)
        return msgspec.structs.replace(found, replica=old, new_replica=new)

    def _moment(self, point: CrashPoint) -> int:
        """When it crashes, in ns of CLOCK_MONOTONIC.

        Between two records the disk stays as it is, while commits go on to be acknowledged. A random moment
        lies anywhere in between, drawn by the point's seed; a chosen one at the end, where most is at stake.
        """
        first = max(point.at, 1)
        near = [one.time_ns for one in self._recording.records(first=first, last=point.at + 1)]
        end = near.pop() if len(near) > min(point.at, 1) else self.run.ended_ns
        if not self._is_drawn(point):
            return end
        begin = near[0] if near else min((note.time_ns for note in self._notes), default=end)
        return begin + round(max(0, end - begin) * random.Random(point.seed).random())

    def _is_drawn(self, point: CrashPoint) -> bool:
        return self._fail.kind != "torn" and point.kind in ("random", "in_recovery")

    def _by_then(self, notes: Sequence[Note], point: CrashPoint) -> list[Note]:
        """What was acknowledged before it crashed."""
        found = before(notes, point.at)
        if not self._is_drawn(point):
            return list(found)
        moment = self._moment(point)
        return [note for note in found if note.time_ns <= moment]

    def _unflushed(self, point: CrashPoint) -> int:
        """Commits acknowledged before it crashed, and since the last flush before that."""
        earlier = bisect_right(self._flushed, point.at)
        last = self._flushed[earlier - 1] if earlier else 0
        return sum(last <= note.position for note in self._by_then(self._notes, point))

    def _left(self, point: CrashPoint) -> AbstractContextManager[tuple[FaultImage, Path]]:
        """What the crash has left, and the data directory on it."""
        run = self.run
        opened = partial(self._open, point.seed)
        if point.kind == "in_recovery":
            return cut_recovery(self._folder, point, run.datadir, self._work, opened, self._start)
        return _whole(opened(self._folder, point.at, self._work, False), run.datadir)

    @contextmanager
    def _left_of(
        self, point: CrashPoint, among: Collection[int], parts: Sequence[Part]
    ) -> Iterator[tuple[FaultImage, Path]]:
        with passing_folder(self._work, "parts", mode=0o711) as folder:
            record = folder / "record"
            last = with_parts(self._folder, point.at, among, parts, record)
            image = FaultImage(record, last, _ALL_KEPT, 0, self._work, self.run.fs)
            with _whole(image, self.run.datadir) as left:
                yield left

    def _open(self, seed: int, record: Path, at: int, folder: Path, records: bool) -> FaultImage:
        return FaultImage(record, at, self._fail, seed, folder, self.run.fs, own_record=records)

    def _start(self, image: FaultImage, datadir: Path) -> Sandbox:
        (image.mount / _FILLER).unlink(missing_ok=True)
        return Sandbox.start(
            self._build,
            settings={
                name: value for name, value in self.run.settings.items() if name != "performance_schema"
            },
            arguments=(*self.run.arguments, _CHEAPER),
            data=DataDirectory(DataRoot.open(image.mount), adopt=datadir),
            startup=Startup(
                idle_s=IDLE_S, check=image.require_served
            ),  # some wait for room for ever, and say so all the time
        )


@contextmanager
def _whole(image: FaultImage, datadir: str) -> Iterator[tuple[FaultImage, Path]]:
    with image, trusted(image):
        yield image, image.mount / datadir


def _large(recording: Recording, first: int, last: int, page_bytes: int) -> list[int]:
    """Writes of pages, one or several, but not of the redo log, which is written in small pieces."""
    return [one.number for one in recording.records("write", first, last) if one.length >= page_bytes]


def _waiting(recording: Recording) -> dict[int, int]:
    """Flushes, each with the bytes that were written since the one before."""
    found: dict[int, int] = {}
    written = 0
    for one in recording.records():
        if one.kind == "flush":
            found[one.number], written = written, 0
        written += one.length
    return found
