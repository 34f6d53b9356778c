"""The trial runner: one arm, one fresh server, one window, one record.

    restore snapshot -> start with the arm's settings -> READ BACK every setting -> warm up
        -> window (workload, telemetry around it) -> record -> kill and delete

Every arm starts alike: from the same snapshot, by the same restore, with a fresh server process. A workload
whose `reset` is `none` has a snapshot restored once; then each trial starts on what the last one left.
What the arm or the server does is a fact in the record; only what stops the whole campaign (no
space, no build, a root that cannot be written) is raised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import msgspec

from flushlab.build.build import Build
from flushlab.datadir import DataRoot, LimitedDisk, SlowDisk, Snapshot, Volume
from flushlab.errors import FlushlabError, MeasurementError, ServerError
from flushlab.record import Arm, Stage, Trial, Value
from flushlab.server import DataDirectory, Sandbox
from flushlab.server.galera.cluster import Cluster
from flushlab.settings.catalog import Catalog
from flushlab.trial.measurement import NOT_STARTED, Draft, measure
from flushlab.trial.preparation import Preparation
from flushlab.trial.protocol import Running
from flushlab.trial.switching import Switching
from flushlab.workload import Timing, Workload


@dataclass(frozen=True)
class TrialRunner:
    """Everything of a trial that is not its arm.

    Attributes:
        build: the server that every trial starts.
        catalog: types and meaning of settings.
        workloads: the variants that a block may run; usually one.
        timing: of warm-up and window.
        preparation: makes and finds the snapshot that an arm starts from.
        data_root: where its data directory lies.
        disk_limit: of the disk, or None.
        slow_disk: that the data root lies on, or None; each node of a cluster has one of its own.
        outlast_redo: windows go on until `REDO_WRAPS` times the redo capacity was written.
        arguments: of the server, alike for every arm.
        nodes: of the Galera cluster that every trial starts; 1: a server alone.
        latency_s: between them, there and back; 0: as on loopback.
        held: stopped servers whose data the next trial goes on with, by snapshot and place; runners that are
            replaced copies of one another share them.
    """

    build: Build
    catalog: Catalog
    workloads: tuple[Workload, ...]
    timing: Timing
    preparation: Preparation
    data_root: DataRoot
    disk_limit: LimitedDisk | None = None
    slow_disk: SlowDisk | None = None
    outlast_redo: bool = False
    arguments: tuple[str, ...] = ()
    nodes: int = 1
    latency_s: float = 0.0
    held: dict[tuple[Path, Path], Sandbox] = field(default_factory=dict)

    def with_arm(self, workload: Workload, timing: Timing, volume: Volume | None) -> Self:
        """The same runner for an arm with a workload, a timing and a volume of its own, unless None."""
        same = replace(self, workloads=(workload,), timing=timing)
        if volume is None:
            return same
        return replace(
            same,
            data_root=volume.data_root,
            disk_limit=volume.disk_limit,
            slow_disk=volume.slow_disk,
        )

    def say(self, line: str) -> None:
        """Reports progress."""
        self.preparation.progress(line)

    def load(self, settings: Mapping[str, Value]) -> None:
        """Loads the user's data, if any, unless they are loaded; raises as `Preparation.load`."""
        self.preparation.load(settings)

    def switching(self, server: Running, started: Mapping[str, Value]) -> Switching:
        """The settings of a server that `start` returned."""
        return Switching(server, started)

    def is_lost(self) -> bool:
        """Never: another server can be started."""
        return False

    def run(self, arm: Arm, *, stage: Stage, block: int, variant: int = 0) -> Trial:
        """Runs one trial; see the module's docstring.

        Raises:
            NoSpace: the data root or the snapshots are full.
            StorageError: a place cannot be read or written.
        """
        workload = self.workloads[variant]
        draft = Draft(arm=arm, stage=stage, block=block, variant=variant)
        goes_on = workload.reset == "none"
        try:
            began = time.monotonic()
            snapshot = self.preparation.snapshot(workload, arm.settings)
            draft.seconds["prepare"] = time.monotonic() - began
            server: Sandbox | Cluster = self._go_on(arm, snapshot) if goes_on else self._start(arm, snapshot)
        except NOT_STARTED as error:
            return draft.not_started(error)
        with nullcontext(server) if goes_on else server:
            draft.seconds.update(server.seconds)
            trial = measure(
                draft, server, workload, self.timing, self.catalog, outlast_redo=self.outlast_redo
            )
            stopping = time.monotonic()
            if goes_on:
                server.stop()
            else:
                server.kill()  # its data directory is thrown away: an orderly stop would be time lost
        seconds = {**trial.seconds, "stop": time.monotonic() - stopping}
        return msgspec.structs.replace(trial, seconds=seconds)

    def close(self) -> None:
        """Ends the servers whose data were gone on with, and removes their data."""
        while self.held:
            self.held.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def recovery_s(self, arm: Arm) -> float:
        """Seconds from SIGKILL under load to the first answered query, on a fresh data directory.

        Raises:
            ServerError: the server did not come back.
            MeasurementError: it was not killed under load, which says nothing of its recovery.
            NoSpace, StorageError: as `run`.
        """
        workload = self.workloads[-1]
        try:
            started = self.start(arm, variant=-1)
        except ServerError as error:
            raise MeasurementError(f"the server to be killed did not start: {error.message}") from error
        with started as server:
            return recovered_s(server, lambda kill: workload.run(server, self.timing, _ending_in(kill)))

    def _go_on(self, arm: Arm, snapshot: Snapshot) -> Sandbox:
        """A server with the arm's settings on what the last trial left; on a fresh copy the first time."""
        place = (snapshot.path, self.data_root.path)
        server = self.held.get(place)
        if server is None:
            server = self.held[place] = self._alone(arm, snapshot)
        else:
            server.seconds.clear()
            server.stop()
            server.set_before_start(arm.settings, self.arguments)
            server.start_again()
        return server

    def prepare(self, arm: Arm, *, variant: int = 0) -> None:
        """Makes what a server starts from, unless it is there.

        Raises:
            StartFailed, MeasurementError: the data could not be loaded.
            NoSpace, StorageError: as `run`.
        """
        self.preparation.snapshot(self.workloads[variant], arm.settings)

    def start(self, arm: Arm, *, variant: int = 0) -> Sandbox | Cluster:
        """A server, or a cluster, with the arm's settings on a fresh copy of the workload's data.

        Raises:
            StartFailed: it did not become ready.
            NoSpace, StorageError: as `run`.
        """
        return self._start(arm, self.preparation.snapshot(self.workloads[variant], arm.settings))

    def _start(self, arm: Arm, snapshot: Snapshot) -> Sandbox | Cluster:
        if self.nodes == 1:
            return self._alone(arm, snapshot)
        return Cluster.start(
            self.build,
            size=self.nodes,
            settings=arm.settings,
            arguments=self.arguments,
            data=DataDirectory(
                self.data_root, snapshot=snapshot, disk_limit=self.disk_limit, slow_disk=self.slow_disk
            ),
            latency_s=self.latency_s,
            progress=self.preparation.progress,
        )

    def _alone(self, arm: Arm, snapshot: Snapshot) -> Sandbox:
        assert self.nodes == 1, "a cluster does not go on with another trial's data"
        return Sandbox.start(
            self.build,
            settings=arm.settings,
            arguments=self.arguments,
            data=DataDirectory(self.data_root, snapshot=snapshot, disk_limit=self.disk_limit),
        )


def recovered_s(server: Sandbox | Cluster, drive: Callable[[Callable[[], None]], object]) -> float:
    """Seconds from SIGKILL to the first answered query.

    Args:
        server: that runs.
        drive: runs a load on it, and calls what it is given while the load still runs.

    Raises:
        ServerError: it did not come back.
        MeasurementError: the load ended before.
    """
    killed = list[bool]()

    def kill() -> None:
        killed.append(True)
        server.kill()

    try:
        drive(kill)
    except FlushlabError as error:
        if not killed:
            text = f"the load ended before the server was killed: {error.message}"
            raise MeasurementError(text) from error
    if not killed:
        raise MeasurementError("the load ended before the server was killed")
    began = time.monotonic()
    server.start_again()
    return time.monotonic() - began


@contextmanager
def _ending_in(what: Callable[[], None]) -> Iterator[None]:
    """A window at the end of which something is done while the load still runs."""
    yield
    what()
