"""Plan: what all arms of a crash campaign share, and what it means for one. Sits in `campaign.crash`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.campaign.configurations import Given
from flushlab.campaign.crash.experiment import (
    MODEL_FAILURES,
    CrashExperiment,
    CrashRequest,
    positive_control_of,
    tear_of,
    which_nodes,
)
from flushlab.campaign.pool.sandboxes import SandboxPool
from flushlab.campaign.pool.settings import connection_arguments
from flushlab.campaign.watcher import Watcher
from flushlab.crashed.recorded import CrashImages
from flushlab.crashed.recording import CrashedServer, CrashingLoad, SideWorkload
from flushlab.crashed.recovered_server import AcksTable
from flushlab.datadir import own_disk
from flushlab.errors import MeasurementError, UsageError
from flushlab.record import (
    CrashArm,
    Failure,
    Launch,
    LoadSpec,
    NodesKind,
    SourceText,
    Storage,
    Value,
    Warning,
)
from flushlab.server import Sandbox, SandboxSpec
from flushlab.settings import durability
from flushlab.spec.kinds import CrashSpec
from flushlab.spec.parts import FileSpec
from flushlab.trial.measurement import compare_settings
from flushlab.workload.command import CommandWorkload
from flushlab.workload.data import DataWorkload
from flushlab.workload.parse import fingerprint, parse_workload, sources_of, workload_options
from flushlab.workload.protocol import Workload
from flushlab.workload.sql import SqlWorkload

ACKED_INSERTS = "acked_inserts"
DATABASE = "flushlab_crash"
_LOADS = f"{ACKED_INSERTS}, a sysbench workload, upsert or txn:FILE"


class CrashLoad(msgspec.Struct, frozen=True, kw_only=True):
    """`workload`: driven by the engine or running by itself, None: acked_inserts; `beside`: runs by
    itself."""

    workload: Workload | None = None
    beside: SideWorkload | None = None

    @property
    def has_acks(self) -> bool:
        return not isinstance(self.workload, CommandWorkload | SqlWorkload)

    @property
    def runs_once(self) -> bool:
        return self.beside is not None or not self.has_acks

    @property
    def name(self) -> str:
        return ACKED_INSERTS if self.workload is None else self.workload.name

    @property
    def beside_name(self) -> str:
        return "" if self.beside is None else self.beside.name

    def digest(self) -> str:
        return " ".join(fingerprint(one) for one in (self.workload, self.beside) if one is not None)

    @property
    def sources(self) -> tuple[SourceText, ...]:
        parts = (self.workload, self.beside)
        return tuple(source for one in parts if one is not None for source in sources_of(one))

    def on(self, server: Sandbox, threads: int, rows: int, seed: int) -> CrashingLoad:
        if isinstance(self.workload, CommandWorkload | SqlWorkload):
            return CrashingLoad(None, None, self.workload, self.name)
        if self.workload is None:
            spec = LoadSpec(
                workload=ACKED_INSERTS,
                endpoint=server.endpoint,
                database=DATABASE,
                threads=threads,
                seed=seed,
            )
        else:
            self.workload.prepare(server)
            driving = self.workload.driving(server)
            assert driving is not None, "it was seen to be driven by the engine"
            spec = driving.spec
        alone = self.workload is None and self.beside is None and server.membership is None
        acks = AcksTable(spec.database, rows, alone=alone)
        return CrashingLoad(spec, acks, self.beside, self.name, self.beside_name)


def load_of(request: CrashRequest) -> CrashLoad:
    load = asked_load(request.spec, Path(request.folder))
    if request.workload_digest and request.workload_digest != load.digest():
        raise UsageError(
            f"the workload {request.workload} has changed since the campaign began",
            hint="restore its file, or start a new campaign: counts of two workloads are not comparable",
        )
    return load


def asked_load(spec: CrashSpec, folder: Path) -> CrashLoad:
    beside, rows, options = spec.background, spec.rows, spec.workload.options
    aside = None if beside is None else _beside(beside, folder)
    load: Workload | None = None
    if spec.workload.name == ACKED_INSERTS:
        for option in options:
            raise UsageError(f"the workload {ACKED_INSERTS} takes no option {option}", hint="remove it")
    else:
        takes_threads = "threads" in workload_options(spec.workload.name)
        threads = {"threads": spec.threads} if takes_threads else {}
        load = parse_workload(spec.workload.name, {**options, **threads}, folder)
    if isinstance(load, DataWorkload):
        raise UsageError(
            f"--workload {load.name} needs --dataset, and crash makes tables of its own",
            hint=f"--workload takes {_LOADS}",
        )
    if isinstance(load, CommandWorkload | SqlWorkload):
        if aside is not None:
            raise UsageError(
                f"--background {beside} needs a load with an acknowledgement table, and {load.name} has none",
                hint=f"--workload takes {_LOADS}; --background takes {load.name!r}",
            )
        if rows != 1:
            raise UsageError(
                f"--rows {rows} needs an acknowledgement table, and {load.name} has none", hint="remove it"
            )
        if isinstance(load, CommandWorkload) and (load.reset != "each" or load.warm_up_runs):
            what = "--warm-up-runs" if load.warm_up_runs else "--reset none"
            raise UsageError(
                f"{what} is for measuring: before a crash the workload runs once", hint="remove it"
            )
    asked, cluster = CrashLoad(workload=load, beside=aside), spec.server.cluster is not None
    if cluster:
        require_acked_inserts_alone(asked)
    if spec.replica:
        require_replicable(asked, cluster=cluster, replay=spec.replay is not None)
    return asked


def _beside(name: str, folder: Path) -> SideWorkload:
    takes = "it takes 'command: …' or sql:FILE"
    if name == ACKED_INSERTS:
        raise UsageError(f"--background {ACKED_INSERTS} is the load itself", hint=takes)
    try:
        workload_options(name)
    except UsageError as error:
        raise UsageError(error.message, hint=takes) from error
    found = parse_workload(name, folder=folder)
    if not isinstance(found, CommandWorkload | SqlWorkload):
        raise UsageError(
            f"--background does not take {name}",
            hint=f"{takes}; --workload {name} writes the acknowledgement table itself",
        )
    return found


def require_acked_inserts_alone(load: CrashLoad) -> None:
    if load.runs_once:
        what = f"--background {load.beside_name}" if load.beside else f"--workload {load.name!r}"
        raise UsageError(f"{what} is for one server, not for a cluster", hint="remove --cluster")


def require_replicable(load: CrashLoad, *, cluster: bool, replay: bool) -> None:
    if replay:
        raise UsageError(
            "--replica needs a run that is recorded now",
            hint="remove it: if a replica listened to that run, --replay judges it too",
        )
    if cluster:
        raise UsageError(
            "--replica is for one server, not for a cluster", hint="remove --replica or --cluster"
        )
    if load.workload is not None or load.beside is not None:
        what = f"--workload {load.name}" if load.workload is not None else f"--background {load.beside_name}"
        raise UsageError(
            f"--replica needs acked_inserts alone as the load, without {what}", hint=f"remove {what}"
        )


_OF_NODES: Mapping[NodesKind, durability.Failure] = {
    "one": "node_loss",
    "all": "cluster_loss",
    "cascade": "cluster_loss",
}


class CrashPlan(msgspec.Struct, frozen=True, kw_only=True):
    target: SandboxPool
    watcher: Watcher
    load: CrashLoad
    spec: CrashSpec

    @property
    def failure(self) -> Failure:
        kind = self.spec.failure
        return Failure(
            kind="power" if kind == "eio" or kind == "full" else kind,
            tear=tear_of(self.spec.tear),
            lying_flushes=self.spec.dropped_flushes if kind == "lying-disk" else 0,
        )

    @property
    def keep(self) -> Path | None:
        return Path(self.spec.save_recording) if self.spec.save_recording else None

    def experiment(self, planned: Mapping[str, Mapping[str, Value]]) -> CrashExperiment:
        acks = self.load.has_acks
        arms = [CrashArm(name=name, settings=one, checks_rows=acks) for name, one in planned.items()]
        control = positive_control_of(
            arms[0].settings, self.spec.failure, cluster=self.target.nodes > 1, acks=acks
        )
        return CrashExperiment(arms, self.spec.crashes, control if self.spec.positive_control else None)

    def settings_of(
        self, one: Given, common: Mapping[str, Value], warnings: list[Warning]
    ) -> dict[str, Value]:
        settings = self.target.settings
        asked = settings.parse({**common, **one.settings})
        settings.require_taken(asked)
        if one.file is not None:
            user = settings.of_base(FileSpec(base=str(one.file)), None, self.spec.threads, self.watcher)
            warnings += user.warnings
            asked = {**user.here, **asked}
        return asked

    def load_on(self, arm: CrashArm, told: set[str], server: Sandbox) -> CrashingLoad:
        warnings, broken = compare_settings(arm.settings, server.read_back(arm.settings), server.identity)
        if broken:
            raise MeasurementError(f"{arm.name}: {broken}", hint="remove the setting, or name another value")
        for text in [warning.text for warning in warnings if warning.text not in told]:
            self.watcher.warn(f"{arm.name}: {text}")
            told.add(text)
        return self.load.on(server, self.spec.threads, self.spec.rows, self.spec.seed)

    def crash_images_in(self, folder: Path) -> CrashImages:
        return CrashImages(folder, self.failure, self.target.build, self.target.volume.data_root.path)

    def server_of(self, arm: CrashArm) -> CrashedServer:
        return CrashedServer(
            spec=SandboxSpec(
                self.target.build,
                settings=arm.settings,
                arguments=connection_arguments(self.spec.threads),
                nodes=self.target.nodes,
                latency_s=self.target.latency_s,
            ),
            data_root=self.target.volume.data_root,
            seconds=self.spec.duration,
            fail=None if self.spec.failure == "process" else self.failure,
            fs=self.spec.fs,
            disk_bytes=self.spec.disk_size << 20,
            emulate=own_disk(self.spec.storage.disk),
        )

    def which_of(self, arm: CrashArm) -> NodesKind:
        return "all" if arm.positive_control else which_nodes(self.spec)

    def judged(self, arm: CrashArm, storage: Storage | None) -> CrashArm:
        if storage is None:
            return arm
        situation = arm.settings, self.target.identity, storage, Launch()
        alone = self.target.nodes == 1
        failure = MODEL_FAILURES[self.spec.failure] if alone else _OF_NODES[self.which_of(arm)]
        return msgspec.structs.replace(
            arm,
            floor=str(durability.verdict(*situation)),
            guarantee=durability.described(*situation)[failure],
        )
