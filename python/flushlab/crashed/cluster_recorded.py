"""Cluster, recorded: one run of a cluster whose nodes each have a disk that records, and what a failure of
all of them at the same moment has left. Sits in `crashed`.

The moment is one of a clock that all share: the disks' records and the ledger's notes have CLOCK_MONOTONIC.
A record has its time before its answer goes out, and a note has its time after the server's answer came. So
whatever a node had synced for a commit that is noted by then is in that node's record by then.
"""

from __future__ import annotations

import secrets
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from flushlab.build import Build
from flushlab.build.galera import galera_for
from flushlab.crashed import judge, points
from flushlab.crashed.cluster_killed import ClusterSpec, Disks, bring_back, node_on
from flushlab.crashed.ledger import Note, read_notes
from flushlab.crashed.live import Loading, make_ledger
from flushlab.crashed.nodes import NotBack, as_one, require_alike, see
from flushlab.crashed.recovered_server import IDLE_S, Ledger, ask, said, unfinished
from flushlab.datadir import DataRoot
from flushlab.datadir.fault_disk import FaultDisk, FaultImage, FileSystemName, remove_record, trusted
from flushlab.datadir.recording import Recording
from flushlab.errors import FlushlabError, StartFailed, StorageError
from flushlab.process import make_lasting
from flushlab.record import (
    CrashImage,
    CrashNode,
    CrashPoint,
    Failure,
    LoadSpec,
    NodeAlone,
    Storage,
    Value,
)
from flushlab.server import DataDirectory, Sandbox, Startup
from flushlab.server.galera import addresses
from flushlab.server.galera.cluster import Cluster
from flushlab.server.sandbox import account
from flushlab.server.sandbox.membership import Membership

_NOTES, RUN = "notes", "cluster.json"


class ClusterRun(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run of a cluster, as it stands in the folder of its records.

    Attributes:
        build: id of the nodes' build.
        settings, arguments: what they ran with, and run with on the images.
        disks: names of the records, in the order of the nodes.
        datadirs: each on its disk, from the root.
        fs: file system.
        first_ns, last_ns: CLOCK_MONOTONIC, between which the load ran.
        rows: of each of the ledger's transactions.
        database: the ledger's.
        commits_per_s: acknowledged.
    """

    build: str
    settings: dict[str, Value]
    arguments: tuple[str, ...]
    disks: tuple[str, ...]
    datadirs: tuple[str, ...]
    fs: FileSystemName
    first_ns: int
    last_ns: int
    rows: int
    database: str
    commits_per_s: float

    @classmethod
    def read(cls, folder: Path) -> ClusterRun:
        """What stands in a folder.

        Raises:
            StorageError: nothing does.
        """
        try:
            return msgspec.json.decode((folder / RUN).read_bytes(), type=ClusterRun)
        except (OSError, msgspec.DecodeError) as error:
            why = f"{RUN} is missing" if isinstance(error, FileNotFoundError) else str(error)
            raise StorageError(
                f"{folder} is no recorded run of a cluster: {why}",
                hint="name a folder that --keep has written, and leave out --cluster for one server",
            ) from error


def record_cluster(
    spec: ClusterSpec, prepare: Callable[[Sandbox], LoadSpec], disks: Disks, where: Path, arm: str = ""
) -> tuple[Path, Storage]:
    """Runs a load on one node of a cluster whose disks record, and kills all nodes.

    Args:
        spec: the cluster.
        prepare: makes the load's tables and tells how it is driven.
        disks: of the nodes.
        where: an existing folder that the records are made in.
        arm: whose records they are, to be found again; empty: nobody's.

    Returns:
        The folder of the records, with the notes and the `ClusterRun` in it; what the data lay on.

    Raises:
        FlushlabError: the disks cannot be made, or the cluster does not run on them.
    """
    folder = where / f"flushlab-disk-{secrets.token_hex(4)}.record"
    make_lasting(folder, "disk-record", **({"arm": arm} if arm else {}))
    own: list[FaultDisk] = []
    try:
        with ExitStack() as stack:
            for _ in range(spec.size):
                disk = FaultDisk(
                    disks.folder,
                    disks.size,
                    disks.fs,
                    disks.emulate,
                    record=True,
                    record_in=where,
                    record_of=arm,
                )
                own.append(stack.enter_context(disk))
            roots = [DataRoot.open(disk.mount) for disk in own]
            run = _run(spec, prepare, own, roots, folder)
        for disk in own:
            disk.record.rename(folder / disk.record.name)
        (folder / RUN).write_bytes(msgspec.json.encode(run))
        return folder, roots[0].storage
    except BaseException:
        for disk in own:
            if disk.record.exists():
                remove_record(disk.record)
        remove_record(folder)
        raise


def _run(
    spec: ClusterSpec,
    prepare: Callable[[Sandbox], LoadSpec],
    own: Sequence[FaultDisk],
    roots: Sequence[DataRoot],
    folder: Path,
) -> ClusterRun:
    with Cluster.start(
        spec.build,
        size=spec.size,
        settings=spec.settings,
        arguments=spec.arguments,
        data=DataDirectory(spec.data_root, node_roots=roots, settle=False),
        latency_s=spec.latency_s,
    ) as cluster:
        load = prepare(cluster.first)
        require_alike(cluster, spec.settings)
        ledger = Ledger(load.database, spec.rows)
        make_ledger(cluster.first, ledger)
        cluster.settled()
        for node, disk in zip(cluster.nodes, own, strict=True):
            # Pages are written all the time, so that crashes meet them and not the redo log alone.
            node.query("SET GLOBAL innodb_max_dirty_pages_pct = 0")
            disk.start_recording()
        with Loading(cluster.first, load, ledger, folder) as loading:
            loading.let_run(spec.seconds)
            ended_ns = time.monotonic_ns()
            cluster.kill()
        for disk in own:
            disk.require_served()
        notes = loading.notes()
        return ClusterRun(
            build=spec.build.id,
            settings=dict(spec.settings),
            arguments=spec.arguments,
            disks=tuple(disk.record.name for disk in own),
            datadirs=tuple(
                str(node.datadir.relative_to(disk.mount))
                for node, disk in zip(cluster.nodes, own, strict=True)
            ),
            fs=own[0].fs,
            first_ns=min(note.time_ns for note in notes),
            last_ns=ended_ns,
            rows=ledger.rows,
            database=ledger.database,
            commits_per_s=len(notes) / spec.seconds,
        )


class ClusterImages:
    """The images of a cluster's recorded run.

    Args:
        folder: of the records.
        fail: what crashes on every node.
        build: that the nodes are started from.
        work: an existing folder for what is mounted.
    """

    def __init__(self, folder: Path, fail: Failure, build: Build, work: Path) -> None:
        self.run = ClusterRun.read(folder)
        self._folder, self._fail, self._build, self._work = folder, fail, build, work
        self._notes: Sequence[Note] = read_notes(folder / _NOTES)
        self._records = [Recording(folder / name) for name in self.run.disks]
        self._times = [[one.time_ns for one in record.records()] for record in self._records]
        self._galera = galera_for(build)

    @property
    def records(self) -> int:
        """How many were recorded, on all disks."""
        return sum(len(times) for times in self._times)

    @property
    def end(self) -> int:
        """The last point of the run, as `CrashPoint.at`."""
        return self.run.last_ns - self.run.first_ns

    def points(self, images: int, seed: int) -> list[CrashPoint]:
        """Moments, in nanoseconds from the load's first commit; see `points.choose`."""
        first = self.run.first_ns
        return points.choose(
            0,
            self.run.last_ns - first,
            [note.time_ns - first for note in self._notes],
            {at - first: size for record in self._records for at, size in _waiting(record)},
            images,
            seed,
        )

    def positions(self, point: CrashPoint) -> list[int]:
        """Which record is the last one of each disk at that moment."""
        moment = self.run.first_ns + point.at
        return [bisect_right(times, moment) for times in self._times]

    def judge(self, point: CrashPoint) -> CrashImage:
        """Looks at what each node has by itself; starts the cluster on it; throws it away."""
        began = time.monotonic()
        moment = self.run.first_ns + point.at
        notes = [note for note in self._notes if note.time_ns <= moment]
        try:
            alone = [self._alone(point, number, notes, moment) for number in range(len(self.run.disks))]
            found = self._as_one(point, notes, moment, alone)
        except (FlushlabError, OSError) as error:
            found = CrashImage(point=point, outcome="unknown", acknowledged=len(notes), reasons=(str(error),))
        return msgspec.structs.replace(found, seconds=time.monotonic() - began)

    def _image(self, point: CrashPoint, number: int) -> FaultImage:
        at = self.positions(point)[number]
        record = self._folder / self.run.disks[number]
        return FaultImage(record, at, self._fail, point.seed + number, self._work, self.run.fs)

    def _trusted(self, point: CrashPoint, number: int, stack: ExitStack) -> FaultImage:
        image = stack.enter_context(self._image(point, number))
        stack.enter_context(trusted(image))
        return image

    def _alone(self, point: CrashPoint, number: int, notes: Sequence[Note], moment: int) -> NodeAlone:
        """A server without Galera on one node's data."""
        run = self.run
        with self._image(point, number) as image, trusted(image):
            try:
                with Sandbox.start(
                    self._build,
                    settings=run.settings,
                    arguments=run.arguments,
                    data=DataDirectory(DataRoot.open(image.mount), adopt=image.mount / run.datadirs[number]),
                    startup=Startup(
                        idle_s=IDLE_S, check=image.require_served
                    ),  # some wait for room for ever, and say so all the time
                ) as server:
                    recovered = ask(server, Ledger(run.database, run.rows))
                found = judge.judge(point, notes, moment, recovered)
            except StartFailed as error:
                if error.unfinished:
                    return NodeAlone(outcome="unknown", reasons=(unfinished(error),))
                found = judge.not_started(point, notes, said(error.message))
        return NodeAlone(outcome=found.outcome, lost=found.lost, binlog=found.binlog, reasons=found.reasons)

    def _as_one(
        self, point: CrashPoint, notes: Sequence[Note], moment: int, alone: Sequence[NodeAlone]
    ) -> CrashImage:
        run, size = self.run, len(self.run.disks)
        name = f"c{secrets.token_hex(4)}"
        places, password = addresses.free_places(size), account.new_password()
        with ExitStack() as stack:
            nodes = [
                node_on(
                    self._trusted(point, number, stack),
                    Path(run.datadirs[number]),
                    build=self._build,
                    settings=run.settings,
                    arguments=run.arguments,
                    membership=Membership(
                        cluster=name, number=number + 1, places=places, galera=self._galera
                    ),
                    password=password,
                    stack=stack,
                )
                for number in range(size)
            ]
            cluster = Cluster(name, nodes)
            try:
                ways = bring_back(cluster, range(1, size + 1))
                seen = see(cluster, Ledger(run.database, run.rows))
            except NotBack as error:
                return msgspec.structs.replace(
                    judge.not_started(point, notes, str(error)),
                    nodes=tuple(
                        CrashNode(number=number, crashed=True, way="none", outcome="unknown", alone=one)
                        for number, one in enumerate(alone, 1)
                    ),
                )
            found = [
                CrashNode(
                    number=number,
                    crashed=True,
                    way=ways[number],
                    outcome="unknown",
                    position=cluster.positions.get(number),
                    alone=alone[number - 1],
                )
                for number in range(1, size + 1)
            ]
            return as_one(point, notes, moment, seen, found)


def _waiting(record: Recording) -> list[tuple[int, int]]:
    """When each flush was answered, and the bytes that were written since the one before."""
    found, written = [], 0
    for one in record.records():
        if one.kind == "flush":
            found.append((one.time_ns, written))
            written = 0
        written += one.length
    return found
