"""Recorded: the images of a server's recorded run, and what crashes at its records have left."""

from __future__ import annotations

import errno
import random
import time
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path

import msgspec

from flushlab.build import Build
from flushlab.crashed import ddl_workload, judge, points, replicated
from flushlab.crashed.ledger import Note, before, read_notes
from flushlab.crashed.received import Received, there_is
from flushlab.crashed.recording import FILLER
from flushlab.crashed.recovered_server import IDLE_S, ask, not_ready
from flushlab.crashed.recovery import cut_recovery
from flushlab.crashed.run import NOTES, Run
from flushlab.datadir import DataRoot
from flushlab.datadir.extents import Extents
from flushlab.datadir.fault_disk import FaultImage, NotMounted, trusted
from flushlab.datadir.recording import Record, Recording
from flushlab.datadir.unsynced import Part, Unsynced, unsynced, with_parts
from flushlab.errors import FlushlabError, StartFailed
from flushlab.process.passing import passing_folder
from flushlab.record import CrashImage, CrashPoint, Failure
from flushlab.server import DataDirectory, Sandbox, Startup

_CHEAPER = "--loose-performance-schema=OFF"
"""On images: it takes a sixth of an image's time on MySQL 9.7, and nothing of what a crash has left. Some
servers are built without it."""

_DAMAGED = {errno.EIO, errno.ENOENT, errno.ENOTDIR, errno.EROFS, errno.EUCLEAN, errno.EBADMSG}
"""What a file system says that is not whole; the last one of checksums, ext4's and XFS's EFSBADCRC."""

PAGE_BYTES = 16384
"""`innodb_page_size`, unless it is set."""
_ALL_KEPT = Failure(kind="os", tear=None, lying_flushes=0)


class RecordedImages:
    """The images of a recorded run, whether its server had one node or several.

    Args:
        folder: of the records.
        fail: what crashes, on every node.
        build: that the server is started from.
        work: an existing folder for what is mounted.
    """

    received: Received | None = None
    """What the replica has received that listened; None if none did, or its recording was cut short."""

    def __init__(self, folder: Path, fail: Failure, build: Build, work: Path) -> None:
        self._folder, self._fail, self._build, self._work = folder, fail, build, work
        self._notes: Sequence[Note] = read_notes(folder / NOTES)
        found = Run.read(folder)
        self.run = found.completed(folder, self._notes)
        self._recordings = found.recordings(folder)

    @property
    def records(self) -> int:
        """How many were recorded under load, on all disks."""
        return sum(one.last for one in self._recordings)

    @property
    def end(self) -> int:
        """The last point of the run, as `CrashPoint.at`."""
        raise NotImplementedError

    def points(self, images: int, seed: int) -> list[CrashPoint]:
        """Where the run is cut; see `points.choose`."""
        raise NotImplementedError

    def judge(self, point: CrashPoint) -> CrashImage:
        """Mounts an image, starts the server on it, judges what it has, and throws it away."""
        raise NotImplementedError

    def _disk(self, number: int) -> Path:
        """Folder of the record of a node's disk; nodes from 0."""
        return self._folder / self.run.nodes[number].disk

    def _start(self, image: FaultImage, datadir: Path) -> Sandbox:
        """A server alone on one node's data."""
        (image.mount / FILLER).unlink(missing_ok=True)
        return Sandbox.start(
            self._build,
            settings={
                name: value for name, value in self.run.settings.items() if name != "performance_schema"
            },
            arguments=(*self.run.arguments, _CHEAPER),
            data=DataDirectory(DataRoot.open(image.mount), adopt=datadir),
            # Some wait for room for ever, and say so all the time.
            startup=Startup(idle_s=IDLE_S, check=image.require_served),
        )


class Images(RecordedImages):
    """The images of the recorded run of a server alone; arguments: as of `RecordedImages`."""

    def __init__(self, folder: Path, fail: Failure, build: Build, work: Path) -> None:
        super().__init__(folder, fail, build, work)
        self._record = self._disk(0)
        self._datadir = self.run.nodes[0].datadir
        (self._recording,) = self._recordings
        self._statements: Sequence[Note] = read_notes(folder / ddl_workload.NOTES)
        self._flushes = {one.number: size for one, size in waiting(self._recording)}
        self._flushed = sorted(self._flushes)
        self.received = Received(folder) if there_is(folder) else None

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
        page_bytes = int(self.run.settings.get("innodb_page_size", PAGE_BYTES))
        moments = points.Moments(
            first,
            last,
            acknowledged=() if torn else [note.position for note in self._notes],
            flushes=self._flushes,
            among=_large(self._recording, first, last, page_bytes) if torn else (),
            times=() if torn else self._times(),
            writes=None if torn else self._writes_by_file(),
            recovery=not self._fail.lying_flushes,  # which may have undone the very move of the data
        )
        return points.choose(moments, images, seed)

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
                FaultImage(self._record, run.last, _ALL_KEPT, 0, self._work, run.fs) as image,
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
        return unsynced(self._record, point.at, self._fail, point.seed)

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
            return not_ready(point, notes, error)
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
        opened = partial(self._open, point.seed)
        if point.kind == "in_recovery":
            return cut_recovery(self._record, point, self._datadir, self._work, opened, self._start)
        return _whole(opened(self._record, point.at, self._work, False), self._datadir)

    @contextmanager
    def _left_of(
        self, point: CrashPoint, among: Collection[int], parts: Sequence[Part]
    ) -> Iterator[tuple[FaultImage, Path]]:
        with passing_folder(self._work, "parts", mode=0o711) as folder:
            record = folder / "record"
            last = with_parts(self._record, point.at, among, parts, record)
            image = FaultImage(record, last, _ALL_KEPT, 0, self._work, self.run.fs)
            with _whole(image, self._datadir) as left:
                yield left

    def _open(self, seed: int, record: Path, at: int, folder: Path, records: bool) -> FaultImage:
        return FaultImage(record, at, self._fail, seed, folder, self.run.fs, own_record=records)


@contextmanager
def _whole(image: FaultImage, datadir: str) -> Iterator[tuple[FaultImage, Path]]:
    with image, trusted(image):
        yield image, image.mount / datadir


def _large(recording: Recording, first: int, last: int, page_bytes: int) -> list[int]:
    """Writes of pages, one or several, but not of the redo log, which is written in small pieces."""
    return [one.number for one in recording.records("write", first, last) if one.length >= page_bytes]


def waiting(recording: Recording) -> Iterator[tuple[Record, int]]:
    """Flushes, each with the bytes that were written since the one before."""
    written = 0
    for one in recording.records():
        if one.kind == "flush":
            yield one, written
            written = 0
        written += one.length
