"""Cluster, recorded: what a failure of all nodes of a recorded cluster at the same moment has left.

The moment is one of a clock that all share: the disks' records and the ledger's notes have CLOCK_MONOTONIC.
A record has its time before its answer goes out, and a note has its time after the server's answer came. So
whatever a node had synced for a commit that is noted by then is in that node's record by then.
"""

from __future__ import annotations

import secrets
import time
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from flushlab.build import Build
from flushlab.build.galera import galera_for
from flushlab.crashed import judge, points
from flushlab.crashed.cluster_killed import bring_back, node_on
from flushlab.crashed.ledger import Note
from flushlab.crashed.nodes import NotBack, as_one, see
from flushlab.crashed.recorded import RecordedImages, waiting
from flushlab.crashed.recovered_server import Ledger, ask, not_ready
from flushlab.datadir.fault_disk import FaultImage, trusted
from flushlab.errors import FlushlabError, StartFailed
from flushlab.record import CrashImage, CrashNode, CrashPoint, Failure, NodeAlone
from flushlab.server import Instance
from flushlab.server.galera import addresses
from flushlab.server.galera.cluster import Cluster
from flushlab.server.sandbox import account
from flushlab.server.sandbox.membership import Membership
from flushlab.server.sandbox.spec import Node, SandboxSpec


class ClusterImages(RecordedImages):
    """The images of a cluster's recorded run; arguments: as of `RecordedImages`."""

    def __init__(self, folder: Path, fail: Failure, build: Build, work: Path) -> None:
        super().__init__(folder, fail, build, work)
        self._times = [[one.time_ns for one in record.records()] for record in self._recordings]
        self._galera = galera_for(build)

    @property
    def end(self) -> int:
        """The last point of the run, as `CrashPoint.at`."""
        return self.run.last - self.run.first

    def points(self, images: int, seed: int) -> list[CrashPoint]:
        """Moments, in nanoseconds from the load's first commit; see `points.choose`."""
        first = self.run.first
        flushes = {one.time_ns - first: size for record in self._recordings for one, size in waiting(record)}
        acknowledged = [note.time_ns - first for note in self._notes]
        return points.choose(points.Moments(0, self.end, acknowledged, flushes), images, seed)

    def positions(self, point: CrashPoint) -> list[int]:
        """Which record is the last one of each disk at that moment."""
        moment = self.run.first + point.at
        return [bisect_right(times, moment) for times in self._times]

    def judge(self, point: CrashPoint) -> CrashImage:
        """Looks at what each node has by itself; starts the cluster on it; throws it away."""
        began = time.monotonic()
        moment = self.run.first + point.at
        notes = [note for note in self._notes if note.time_ns <= moment]
        try:
            alone = [self._alone(point, number, notes, moment) for number in range(len(self.run.nodes))]
            found = self._as_one(point, notes, moment, alone)
        except (FlushlabError, OSError) as error:
            found = CrashImage(point=point, outcome="unknown", acknowledged=len(notes), reasons=(str(error),))
        return msgspec.structs.replace(found, seconds=time.monotonic() - began)

    def _image(self, point: CrashPoint, number: int) -> FaultImage:
        at = self.positions(point)[number]
        seed = point.seed + number
        return FaultImage(self._disk(number), at, self._fail, seed, self._work, self.run.fs)

    def _trusted(self, point: CrashPoint, number: int, stack: ExitStack) -> FaultImage:
        image = stack.enter_context(self._image(point, number))
        stack.enter_context(trusted(image))
        return image

    def _alone(self, point: CrashPoint, number: int, notes: Sequence[Note], moment: int) -> NodeAlone:
        """A server without Galera on one node's data."""
        datadir = Path(self.run.nodes[number].datadir)
        with self._image(point, number) as image, trusted(image):
            try:
                with self._start(image, image.mount / datadir) as server:
                    recovered = ask(server, self.run.ledger)
                found = judge.judge(point, notes, moment, recovered)
            except StartFailed as error:
                found = not_ready(point, notes, error)
        return NodeAlone(outcome=found.outcome, lost=found.lost, binlog=found.binlog, reasons=found.reasons)

    def _as_one(
        self, point: CrashPoint, notes: Sequence[Note], moment: int, alone: Sequence[NodeAlone]
    ) -> CrashImage:
        run, size = self.run, len(self.run.nodes)
        name = f"c{secrets.token_hex(4)}"
        places, password = addresses.free_places(size), account.new_password()
        with ExitStack() as stack:
            nodes = [
                node_on(
                    self._trusted(point, number, stack),
                    Path(run.nodes[number].datadir),
                    SandboxSpec(
                        build=self._build,
                        settings=run.settings,
                        arguments=run.arguments,
                        instance=Instance(password=password),
                        node=Node(
                            membership=Membership(
                                cluster=name, number=number + 1, places=places, galera=self._galera
                            )
                        ),
                    ),
                    stack,
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
