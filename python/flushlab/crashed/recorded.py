"""Recorded: crash images of a recorded run, and the outcomes of crashes at its records. Sits in `crashed`.

A single server is cut at a record of its disk, a cluster at a moment of one clock: the disks' records and the
notes have CLOCK_MONOTONIC. A record has its time before its answer goes out, and a note has its time
after the server's answer came. So whatever a node had synced for a commit that is noted by then is in that
node's record by then.
"""

from __future__ import annotations

import errno
import random
import secrets
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import msgspec

from flushlab.build import Build
from flushlab.build.galera import galera_for
from flushlab.crashed import judge, replica
from flushlab.crashed.judge import AckNote, acknowledged_before, read_notes
from flushlab.crashed.killed import bring_back, node_on
from flushlab.crashed.recording import FILLER, NOTES, RecordedRun
from flushlab.crashed.recovered_server import IDLE_S, NotBack, as_one, ask, not_ready, see
from flushlab.crashed.replica import Received
from flushlab.datadir import DataRoot
from flushlab.datadir.fault_disk import FaultImage, NotMounted, trusted
from flushlab.datadir.recording import Extents, Record, Recording
from flushlab.errors import FlushlabError, StartFailed
from flushlab.process.run_record import passing_folder
from flushlab.record import Crash, CrashNode, CrashPoint, Failure, NodeAlone, PointKind
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.galera.cluster import Cluster
from flushlab.server.sandbox.node import Membership, free_places
from flushlab.server.sandbox.option_files import new_password

_ADVERSARIAL = 4
"""One point in so many is where a promise is most likely to break; the others are random moments."""


_LARGEST = 20
"""One flush in so many has most to write out."""


class Moments(NamedTuple):
    """Positions are numbers of records. Random points are moments in `times` (ascending, one more than
    records); without it, each record is as likely."""

    first: int
    last: int
    acknowledged: Sequence[int] = ()
    flushes: Mapping[int, int] = {}
    among: Sequence[int] = ()
    times: Sequence[int] = ()
    writes: Mapping[str, Sequence[int]] | None = None
    recovery: bool = False


def choose_points(run: Moments, crashes: int, seed: int) -> list[CrashPoint]:
    """A bound holds for points that are drawn at random from this run, so all other points are marked."""
    first, last, times, flushes = run.first, run.last, run.times, run.flushes
    assert 0 <= first <= last, f"{first} to {last} is no range"
    draws = random.Random(seed)
    after = sorted({position for position in run.acknowledged if first <= position <= last})
    in_front = sorted({number - 1 for number in flushes if first <= number - 1 <= last})
    largest = sorted(in_front, key=lambda at: (-flushes[at + 1], at))[: -(-len(in_front) // _LARGEST)]
    assert len(times) in (0, last - first + 2), f"{len(times)} times of {last - first + 1} records"
    anywhere = run.among or range(first, last + 1)

    def moment() -> int:
        if run.among or not times:
            return draws.choice(anywhere)
        place = bisect_right(times, draws.randint(times[0], times[-1])) - 1
        return min(first + place, last)

    by_file = [
        inside
        for _, numbers in sorted((run.writes or {}).items())
        if (inside := [number for number in numbers if first <= number <= last])
    ]
    kinds: list[tuple[PointKind, Sequence[Sequence[int]]]] = [
        ("after_ack", [after]),
        ("before_flush", [in_front]),
        ("most_unsynced", [largest]),
        ("after_write", by_file),
        ("in_recovery", [anywhere] if run.recovery else []),
    ]
    kinds = [(kind, groups) for kind, groups in kinds if any(groups)]
    points = []
    for number in range(crashes):
        kind: PointKind = "random"
        at = moment()
        if kinds and number % _ADVERSARIAL == _ADVERSARIAL - 1:
            kind, groups = kinds[number // _ADVERSARIAL % len(kinds)]
            at = moment() if kind == "in_recovery" else draws.choice(draws.choice(groups))
        points.append(CrashPoint(at=at, kind=kind, seed=draws.getrandbits(32)))
    return points


def kill_points(number: int, seed: int, *, recovery: bool) -> list[CrashPoint]:
    """Each point's seed, counted up from the first, draws its moment; every fourth is of the recovery, if
    asked for."""
    return [
        CrashPoint(
            at=0,
            kind="in_recovery" if recovery and one % _ADVERSARIAL == _ADVERSARIAL - 1 else "random",
            seed=seed + one,
        )
        for one in range(number)
    ]


_CHEAPER = "--loose-performance-schema=OFF"
"""On images: it takes a sixth of an image's time on MySQL 9.7, and nothing of what a crash has left. Some
servers are built without it."""

_DAMAGED = {errno.EIO, errno.ENOENT, errno.ENOTDIR, errno.EROFS, errno.EUCLEAN, errno.EBADMSG}
"""Of a file system that is not whole; the last one of checksums, ext4's and XFS's EFSBADCRC."""

PAGE_BYTES = 16384
"""`innodb_page_size`, unless it is set."""
_ALL_KEPT = Failure(kind="os", tear=None, lying_flushes=0)


Left = tuple[FaultImage, Path]


class CrashImages:
    def __init__(self, folder: Path, fail: Failure, build: Build, work: Path) -> None:
        self._folder, self._fail, self._build, self._work = folder, fail, build, work
        self._notes: Sequence[AckNote] = read_notes(folder / NOTES)
        found = RecordedRun.read(folder)
        self.run = found.completed(folder, self._notes)
        self._recordings = found.recordings(folder)
        self._recording = self._recordings[0]
        self._flushed = self._recording.flushes()
        self.is_cluster = len(self.run.nodes) > 1
        self._times = [
            [one.time_ns for one in record.records()] for record in self._recordings if self.is_cluster
        ]
        self.received = Received.find(folder)

    @property
    def records(self) -> int:
        if self.is_cluster:
            return sum(one.last for one in self._recordings)
        return self.run.last - self.run.first + 1

    @property
    def end(self) -> int:
        return self.run.last - self.run.first if self.is_cluster else self._recording.last

    def points(self, crashes: int, seed: int) -> list[CrashPoint]:
        return choose_points(self._moments(), crashes, seed)

    def positions(self, point: CrashPoint) -> list[int]:
        if not self.is_cluster:
            return [point.at]
        return [bisect_right(times, self._moment(point)) for times in self._times]

    def _moments(self) -> Moments:
        """Records of the only disk, or nanoseconds from a cluster's first commit."""
        run, first, last = self.run, self.run.first, self.run.last
        if self.is_cluster:
            flushes = {
                flush.time_ns - first: size for record in self._recordings for flush, size in waiting(record)
            }
            return Moments(0, self.end, [note.time_ns - first for note in self._notes], flushes)
        flushes = {flush.number: size for flush, size in waiting(self._recording)}
        if self._fail.kind == "torn":
            page_bytes = int(run.settings.get("innodb_page_size", PAGE_BYTES))
            # The last record is a write of pages, not of the redo log, which is written in small pieces.
            writes = self._recording.records("write", first, last)
            among = [write.number for write in writes if write.length >= page_bytes]
            return Moments(first, last, flushes=flushes, among=among, recovery=True)
        ends = [one.time_ns for one in self._recording.records(first=max(first, 1), last=last)]
        if first == 0:  # before anything was recorded
            ends.insert(0, min((note.time_ns for note in self._notes), default=(ends or [0])[0]))
        return Moments(
            first,
            last,
            acknowledged=[note.position for note in self._notes],
            flushes=flushes,
            times=list(accumulate([*ends, run.ended_ns], max)),
            writes=self._writes_by_file(),
            recovery=not self._fail.lying_flushes,  # which may have undone the very move of the data
        )

    def _writes_by_file(self) -> Mapping[str, Sequence[int]] | None:
        run = self.run
        if run.fs == "btrfs":
            return None
        try:
            disk = FaultImage(self._disk(0), run.last, _ALL_KEPT, 0, self._work, run.fs)
            with disk as image, trusted(image):
                extents = Extents(image.mount)
        except NotMounted:  # its disk had failed
            return None
        found: dict[str, list[int]] = {}
        for one in self._recording.records("write", run.first or 1, run.last):
            place = extents.file_at(one.offset)
            found.setdefault(place[0] if place else "", []).append(one.number)
        return found

    def judge(self, point: CrashPoint) -> Crash:
        """Each node of a cluster is judged by itself first, without Galera."""
        began = time.monotonic()
        try:
            if self.is_cluster:
                found = self._judge_nodes(point)
            else:
                found = self._judge_node(point, 0, self.received)
        except (FlushlabError, OSError) as error:  # of ours, of the machine's, or of the file system
            notes = self._by_then(point)
            cause = error if isinstance(error, OSError) else error.__cause__
            damaged = isinstance(error, NotMounted) or getattr(cause, "errno", None) in _DAMAGED
            # The file system of a disk that honors flushes is whole; a cluster's nodes are judged together.
            faulty = self._fail.lying_flushes or self.run.faulty or self.run.fault
            became = judge.not_started if damaged and faulty and not self.is_cluster else judge.unknown
            found = became(point, notes, str(error))
        unflushed = None
        if self.run.acks and not self.is_cluster:  # acknowledged since the last flush
            earlier = bisect_right(self._flushed, point.at)
            last = self._flushed[earlier - 1] if earlier else 0
            unflushed = sum(last <= note.position for note in self._by_then(point))
        return msgspec.structs.replace(found, seconds=time.monotonic() - began, unflushed=unflushed)

    def _judge_node(self, point: CrashPoint, number: int = 0, received: Received | None = None) -> Crash:
        notes, acks = self._by_then(point), self.run.acks
        try:
            with self._left(point, number) as (image, datadir), self._start(image, datadir) as server:
                recovered = ask(server, acks)
                moment_ns = self._moment(point) if self._is_drawn(point) else None
                old, new = replica.of_crash_image(server, acks, received, point.at, self._work, moment_ns)
        except StartFailed as error:
            return not_ready(point, notes, error)
        found = judge.judge(point, notes, self._moment(point), recovered)
        return msgspec.structs.replace(found, replica=old, new_replica=new)

    def _judge_nodes(self, point: CrashPoint) -> Crash:
        run, size, notes = self.run, len(self.run.nodes), self._by_then(point)
        acks = run.acks
        assert acks is not None, "a cluster is judged by its acknowledgement table"
        alone = [self._judge_node(point, number) for number in range(size)]
        crashed = [
            CrashNode(
                number=number,
                crashed=True,
                way="none",
                outcome="unknown",
                alone=NodeAlone(outcome=one.outcome, lost=one.lost, binlog=one.binlog, reasons=one.reasons),
            )
            for number, one in enumerate(alone, 1)
        ]
        name, galera = f"c{secrets.token_hex(4)}", galera_for(self._build)
        places, password = free_places(size), new_password()
        with ExitStack() as stack:
            nodes = []
            for number in range(1, size + 1):
                image, datadir = stack.enter_context(self._left(point, number - 1))
                member = Membership(cluster=name, number=number, places=places, galera=galera)
                spec = SandboxSpec(
                    self._build,
                    settings=run.settings,
                    arguments=run.arguments,
                    password=password,
                    membership=member,
                )
                nodes.append(node_on(image, datadir, spec, stack))
            cluster = Cluster(name, nodes)
            try:
                ways = bring_back(cluster, range(1, size + 1))
                seen = see(cluster, acks)
            except NotBack as error:
                return msgspec.structs.replace(
                    judge.not_started(point, notes, str(error)), nodes=tuple(crashed)
                )
            back = [
                msgspec.structs.replace(one, way=ways[one.number], position=cluster.positions.get(one.number))
                for one in crashed
            ]
            return as_one(point, notes, self._moment(point), seen, back)

    def _moment(self, point: CrashPoint) -> int:
        """In ns of CLOCK_MONOTONIC. Between two records the disk stays as it is, while commits are
        acknowledged."""
        if self.is_cluster:
            return self.run.first + point.at
        first = max(point.at, 1)
        near = [one.time_ns for one in self._recording.records(first=first, last=point.at + 1)]
        end = near.pop() if len(near) > min(point.at, 1) else self.run.ended_ns
        if not self._is_drawn(point):
            return end
        begin = near[0] if near else min((note.time_ns for note in self._notes), default=end)
        return begin + round(max(0, end - begin) * random.Random(point.seed).random())

    def _is_drawn(self, point: CrashPoint) -> bool:
        return self._fail.kind != "torn" and point.kind in ("random", "in_recovery")

    def _by_then(self, point: CrashPoint) -> list[AckNote]:
        found = list(self._notes) if self.is_cluster else acknowledged_before(self._notes, point.at)
        if not self.is_cluster and not self._is_drawn(point):
            return found
        moment = self._moment(point)
        return [note for note in found if note.time_ns <= moment]

    @contextmanager
    def _left(self, point: CrashPoint, number: int = 0) -> Iterator[Left]:
        record, at = self._disk(number), self.positions(point)[number]
        datadirs = [self.run.nodes[number].datadir]
        with ExitStack() as stack:
            if point.kind == "in_recovery":
                record, at, moved = stack.enter_context(self._recovery_of(point))
                datadirs.insert(0, moved)  # unless the second crash came before that was on the disk
            image = FaultImage(record, at, self._fail, point.seed + number, self._work, self.run.fs)
            yield stack.enter_context(_mounted(image, *datadirs))

    @contextmanager
    def _recovery_of(self, point: CrashPoint) -> Iterator[tuple[Path, int, str]]:
        with passing_folder(self._work, "recovery", mode=0o711) as folder:
            disk = FaultImage(
                self._disk(0), point.at, self._fail, point.seed, folder, self.run.fs, own_record=True
            )
            with _mounted(disk, self.run.nodes[0].datadir) as (_, datadir):
                began = disk.position()
                with self._start(disk, datadir) as server:
                    ended = disk.position()
                    server.kill()
                    moved = server.datadir.relative_to(disk.mount)
            yield disk.record, random.Random(point.seed).randint(began, ended), str(moved)

    def _disk(self, number: int) -> Path:
        return self._folder / self.run.nodes[number].disk

    def _start(self, image: FaultImage, datadir: Path) -> Sandbox:
        (image.mount / FILLER).unlink(missing_ok=True)
        settings = {name: one for name, one in self.run.settings.items() if name != "performance_schema"}
        return Sandbox.start(
            SandboxSpec(
                self._build,
                settings=settings,
                arguments=(*self.run.arguments, _CHEAPER),
                data_root=DataRoot.open(image.mount),
                adopt=datadir,
                idle_s=IDLE_S,
                check=image.require_served,
            )
        )


@contextmanager
def _mounted(image: FaultImage, *datadirs: str) -> Iterator[Left]:
    with image as mounted, trusted(mounted):
        *others, last = (mounted.mount / datadir for datadir in datadirs)
        yield mounted, next((one for one in others if one.exists()), last)


def waiting(recording: Recording) -> Iterator[tuple[Record, int]]:
    written = 0
    for one in recording.records():
        if one.kind == "flush":
            yield one, written
            written = 0
        written += one.length
