"""Runners of trials: `TrialRunner` runs one arm on one fresh server: one window, one record.

    restore snapshot -> start with the arm's settings -> READ BACK every setting -> warm up
        -> window (workload, telemetry around it) -> record -> kill and delete

Every arm starts alike: from the same snapshot, by the same restore, with a fresh server process. A workload
whose `reset` is `none` has a snapshot restored once; then each trial starts on what the last one left.
An act of the arm or the server is a fact in the record. Only a condition that stops the whole campaign
raises: no space, no build, a root that cannot be written. `RemoteRunner` has a server that runs already;
`sliced.SlicedRunner` drives the servers of either in slices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import msgspec

from flushlab.build.build import Build
from flushlab.datadir import DataRoot, Snapshot, SnapshotKey, Snapshots, Volume
from flushlab.dataset import Dataset, analyze, loaded
from flushlab.errors import FlushlabError, MeasurementError, ServerError
from flushlab.progress import Progress
from flushlab.record import Arm, Outcome, ServerIdentity, Stage, Trial, Value
from flushlab.server import Sandbox, SandboxSpec, Server
from flushlab.server.galera.cluster import Cluster, start_server
from flushlab.server.protocol import Refusal
from flushlab.server.remote.put_back import require_kept
from flushlab.server.remote.server import RemoteGroup
from flushlab.server.sandbox.reconfigure import switch
from flushlab.settings.configuration import Configuration, layout_of
from flushlab.trial.measurement import NOT_STARTED, Draft, compare_settings, measure, on_node
from flushlab.workload.options import drawing
from flushlab.workload.protocol import Timing, Workload
from flushlab.workload.sliced import Sliceable, SlicedLoad


def restart_settings(settings: Mapping[str, Value], identity: ServerIdentity) -> dict[str, Value]:
    configuration = Configuration({}, identity)
    found = {}
    for name, value in settings.items():
        here = configuration.here(name)
        if here is None or not here.dynamic or here.partly_dynamic:
            found[name] = value
    return found


_Switched = tuple[tuple[Refusal, ...], dict[str, Value]]


class NotSwitched(NamedTuple):
    outcome: Outcome
    reason: str


@dataclass
class ArmSwitching:
    server: Server
    started: Mapping[str, Value]
    initial: dict[str, Value] = field(default_factory=dict)
    now: dict[str, Value | None] = field(default_factory=dict)

    def become(self, arm: Arm) -> NotSwitched | None:
        """Returns why not, if the server refuses it or a node reads back something else."""
        self.require_kept()
        if new := arm.settings.keys() - self.initial.keys():
            self.initial |= self.server.read_back(new)
        wanted = {name: self.initial[name] for name in self.now if name in self.initial}
        wanted |= {
            name: value
            for name, value in arm.settings.items()
            if name in self.now or self.started.get(name, self.initial.get(name)) != value
        }
        changed = {name: value for name, value in wanted.items() if self.now.get(name) != value}
        self.now |= changed
        for number, node in enumerate(self.server.nodes if changed else (), 1):
            refused, got = self._switched(node, changed)
            if refused:
                words = "; ".join(f"{one.name}={one.value}: {one.reason}" for one in refused)
                return NotSwitched("refused", on_node(self.server, number, words))
            _, broken = compare_settings(changed, got, node.identity)
            if broken:
                return NotSwitched("invalid", on_node(self.server, number, broken))
        return None

    def require_kept(self) -> None:
        pass

    def _switched(self, node: Server, changed: Mapping[str, Value]) -> _Switched:
        return switch(node, changed), node.read_back(changed)


@dataclass
class RemoteSwitching(ArmSwitching):
    """Somebody else may set them meanwhile; `taken`: names and values that read back as they were set."""

    server: RemoteGroup
    taken: set[tuple[str, Value]] = field(default_factory=set)

    def require_kept(self) -> None:
        for node in self.server.nodes:
            require_kept(node)

    def _switched(self, node: Server, changed: Mapping[str, Value]) -> _Switched:
        remote = next(one for one in self.server.nodes if one is node)
        made = remote.made
        made |= dict.fromkeys(changed)
        refusals, got = super()._switched(node, changed)
        made |= got
        same, refused = Configuration({}, node.identity).same, {refusal.name for refusal in refusals}
        taken = {name for name, value in changed.items() if same(name, value, got.get(name))}
        # What the server took before it takes again: another value is of somebody who was quicker.
        theirs = {
            name: value
            for name, value in changed.items()
            if name not in taken | refused
            and ((name, value) in self.taken or same(name, value, self.initial.get(name)))
        }
        self.taken |= {(name, changed[name]) for name in taken}
        if theirs:
            made |= theirs
            require_kept(remote)
        return refusals, got


_LOADING: Mapping[str, Value] = {"innodb_flush_log_at_trx_commit": 0}
"""How the server runs while data are loaded; it is stopped in an orderly way before the snapshot."""

SNAPSHOT_FORMAT = "4"
"""Raise this when the way snapshots are filled changes."""


@dataclass(frozen=True)
class Preparation:
    build: Build
    data_root: DataRoot
    dataset: Dataset | None
    snapshots: Snapshots
    progress: Progress
    database: str = ""

    def load(self, settings: Mapping[str, Value]) -> Snapshot | None:
        if self.dataset is None:
            return None
        return loaded(
            self.build,
            self.dataset,
            database=self.database,
            layout=layout_of(settings),
            data_root=self.data_root,
            snapshots=self.snapshots,
            progress=self.progress,
        )

    def snapshot(self, workload: Workload, settings: Mapping[str, Value]) -> Snapshot:
        start = self.load(settings)
        if start is not None and not workload.data_key:
            return start
        layout = layout_of(settings)
        key = SnapshotKey(
            {
                "format": SNAPSHOT_FORMAT,
                "build": self.build.id,
                **{f"set:{name}": str(value) for name, value in layout.items()},
                **({"data": start.key.digest, **start.key.parts} if start else {}),
                **workload.data_key,
            }
        )
        found = self.snapshots.find(key)
        if found is not None:
            return found
        self.progress(f"preparing the workload {workload.name} on {self.build.name}")

        def fill(target: Path) -> None:
            with Sandbox.start(
                SandboxSpec(
                    self.build,
                    settings={**layout, **_LOADING},
                    data_root=self.data_root,
                    snapshot=start,
                    snapshots=self.snapshots,
                )
            ) as server:
                workload.prepare(server)
                analyze(server)
                server.stop()
                server.move_datadir(target)

        return self.snapshots.make(key, fill)


Running = Sandbox | Cluster | RemoteGroup


@dataclass(frozen=True)
class ArmRunner:
    workloads: tuple[Workload, ...]
    timing: Timing
    progress: Progress
    outlast_redo: bool = False
    has_telemetry: ClassVar[bool] = True

    def with_arm(self, workload: Workload, timing: Timing, volume: Volume | None) -> Self:
        assert volume is None, "a running server stays where it is"
        return replace(self, workloads=(workload,), timing=timing)

    def load(self, settings: Mapping[str, Value]) -> None:
        pass

    def prepare(self, arm: Arm, *, variant: int = 0) -> None:
        pass

    def start(self, arm: Arm, *, variant: int = 0) -> Running:
        raise NotImplementedError

    def switching(self, server: Running, started: Mapping[str, Value]) -> ArmSwitching:
        return ArmSwitching(server, started)

    def sliceable(self, workload: Workload, server: Running, number: int) -> Sliceable:
        driving = drawing(workload, number).driving(server)
        assert driving is not None, "who cannot pause is measured on fresh servers"
        return SlicedLoad(driving, server, self.timing)

    def is_lost(self) -> bool:
        return False

    def run(self, arm: Arm, *, stage: Stage, block: int, variant: int = 0) -> Trial:
        raise AssertionError("arms of a running server alternate in slices")

    def recovery_s(self, arm: Arm) -> float:
        """From SIGKILL under load to the first answered query; a MeasurementError if it was not killed
        under load."""
        raise NotImplementedError

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, kw_only=True)
class RemoteRunner(ArmRunner):
    server: RemoteGroup

    def start(self, arm: Arm, *, variant: int = 0) -> Running:
        return self.server

    def switching(self, server: Running, started: Mapping[str, Value]) -> ArmSwitching:
        before = self.server.before
        return RemoteSwitching(self.server, {}, dict(before), dict.fromkeys(before))

    def is_lost(self) -> bool:
        return not self.server.alive()

    def recovery_s(self, arm: Arm) -> float:
        raise MeasurementError(f"{self.server.name} is not flushlab's own, and is never killed")


@dataclass(frozen=True, kw_only=True)
class TrialRunner(ArmRunner):
    """Copies share `held`: stopped servers that the next trial takes."""

    spec: SandboxSpec
    preparation: Preparation
    volume: Volume
    held: dict[tuple[Path, Path], Sandbox] = field(default_factory=dict)

    def with_arm(self, workload: Workload, timing: Timing, volume: Volume | None) -> Self:
        return replace(self, workloads=(workload,), timing=timing, volume=volume or self.volume)

    def load(self, settings: Mapping[str, Value]) -> None:
        self.preparation.load(settings)

    def run(self, arm: Arm, *, stage: Stage, block: int, variant: int = 0) -> Trial:
        workload = self.workloads[variant]
        draft = Draft(arm=arm, stage=stage, block=block, variant=variant)
        goes_on = workload.reset == "none"
        try:
            began = time.monotonic()
            snapshot = self.preparation.snapshot(workload, arm.settings)
            draft.seconds["prepare"] = time.monotonic() - began
            server: Sandbox | Cluster = (
                self._go_on(arm, snapshot)
                if goes_on
                else start_server(self._spec_of(arm, snapshot), self.progress)
            )
        except NOT_STARTED as error:
            return draft.not_started(error)
        with nullcontext(server) if goes_on else server:
            draft.seconds.update(server.seconds)
            trial = measure(draft, server, workload, self.timing, outlast_redo=self.outlast_redo)
            stopping = time.monotonic()
            if goes_on:
                server.stop()
            else:
                server.kill()  # its data directory is thrown away: an orderly stop would be time lost
        seconds = {**trial.seconds, "stop": time.monotonic() - stopping}
        return msgspec.structs.replace(trial, seconds=seconds)

    def close(self) -> None:
        while self.held:
            self.held.popitem()[1].close()

    def recovery_s(self, arm: Arm) -> float:
        workload = self.workloads[-1]
        try:
            started = self.start(arm, variant=-1)
        except ServerError as error:
            raise MeasurementError(f"the server to be killed did not start: {error.message}") from error

        @contextmanager
        def ending_in(kill: Callable[[], None]) -> Iterator[None]:
            yield
            kill()  # while the load still runs

        with started as server:
            return recovered_s(server, lambda kill: workload.run(server, self.timing, ending_in(kill)))

    def _go_on(self, arm: Arm, snapshot: Snapshot) -> Sandbox:
        assert self.spec.nodes == 1, "a cluster does not go on with another trial's data"
        place = (snapshot.path, self.volume.data_root.path)
        server = self.held.get(place)
        if server is None:
            server = self.held[place] = Sandbox.start(self._spec_of(arm, snapshot))
        else:
            server.seconds.clear()
            server.stop()
            server.set_before_start(arm.settings, self.spec.arguments)
            server.start_again()
        return server

    def prepare(self, arm: Arm, *, variant: int = 0) -> None:
        self.preparation.snapshot(self.workloads[variant], arm.settings)

    def start(self, arm: Arm, *, variant: int = 0) -> Sandbox | Cluster:
        snapshot = self.preparation.snapshot(self.workloads[variant], arm.settings)
        return start_server(self._spec_of(arm, snapshot), self.progress)

    def _spec_of(self, arm: Arm, snapshot: Snapshot) -> SandboxSpec:
        # A server alone is on the slow disk of the volume; each node of a cluster gets one of its own.
        return replace(
            self.spec,
            settings=arm.settings,
            snapshot=snapshot,
            data_root=self.volume.data_root,
            slow_disk=self.volume.slow_disk if self.spec.nodes > 1 else None,
        )


@dataclass
class AlternatingRunner:
    """Costs no restart, and measures none. The state that one window leaves (dirty pages, checkpoint age)
    is there in the next; as the order is random, this affects every arm alike."""

    trials: ArmRunner
    base: Mapping[str, Value]
    _server: Running | None = None
    _switching: ArmSwitching | None = None
    _windows: int = 0

    def run(self, arm: Arm, *, stage: Stage, block: int, variant: int = 0) -> Trial:
        draft = Draft(arm=arm, stage=stage, block=block, variant=variant)
        try:
            if self._switching is None:
                self._server = self.trials.start(Arm(name="base", settings=self.base))
                self._switching = self.trials.switching(self._server, self.base)
            switching = self._switching
            refused = switching.become(arm)
        except NOT_STARTED as error:
            self.close()
            return draft.not_started(error)
        if refused is not None:
            return draft.ended(*refused)
        trials = self.trials
        self._windows += 1
        trial = measure(
            draft,
            switching.server,
            drawing(trials.workloads[variant], self._windows),
            trials.timing,
            outlast_redo=trials.outlast_redo,
        )
        if not switching.server.alive():
            self.close()
        return trial

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = self._switching = None


def recovered_s(server: Sandbox | Cluster, drive: Callable[[Callable[[], None]], object]) -> float:
    """From SIGKILL to the first answered query; `drive` calls its argument while its load still runs."""
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
