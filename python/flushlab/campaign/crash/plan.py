"""Plan: what all arms of a crash campaign share, and what it means for one. Sits in `campaign.crash`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.campaign.configurations import Given
from flushlab.campaign.crash.experiment import CrashExperiment, positive_control_of
from flushlab.campaign.crash.load import CrashLoad
from flushlab.campaign.crash.request import FAILURES, tear_of, which_nodes
from flushlab.campaign.pool.sandboxes import SandboxPool, connection_arguments
from flushlab.campaign.watcher import Watcher
from flushlab.crashed.live import Load
from flushlab.crashed.recorded import CrashImages
from flushlab.crashed.run import CrashedServer, Disks
from flushlab.datadir import own_disk
from flushlab.errors import MeasurementError
from flushlab.record import CrashArm, Failure, Launch, NodesKind, Storage, Value, Warning
from flushlab.server import Sandbox
from flushlab.settings import durability
from flushlab.spec.kinds import CrashSpec
from flushlab.spec.parts import FileSpec
from flushlab.trial.measurement import compare_settings

_OF_NODES: Mapping[NodesKind, durability.Failure] = {
    "one": "node_loss",
    "all": "cluster_loss",
    "cascade": "cluster_loss",
}


class CrashPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What crashes, how, how often, and under which load.

    Attributes:
        target: the server; where its data root is, disks and records are made.
        watcher: told what happens.
        load: what servers are under.
        spec: what was asked for.
    """

    target: SandboxPool
    watcher: Watcher
    load: CrashLoad
    spec: CrashSpec

    @property
    def failure(self) -> Failure:
        """What a crash leaves of a disk."""
        kind = self.spec.failure
        return Failure(
            kind="power" if kind == "eio" or kind == "full" else kind,
            tear=tear_of(self.spec.tear),
            lying_flushes=self.spec.dropped_flushes if kind == "lying-disk" else 0,
        )

    @property
    def disk_bytes(self) -> int:
        """Size of the disk."""
        return self.spec.disk_size << 20

    @property
    def keep(self) -> Path | None:
        """Folder that records are made in; None: they go."""
        return Path(self.spec.save_recording) if self.spec.save_recording else None

    def experiment(self, planned: Mapping[str, Mapping[str, Value]]) -> CrashExperiment:
        """The crashes of settings, by name, as a server takes them, and of the positive control."""
        acks = self.load.has_acks
        arms = [CrashArm(name=name, settings=one, checks_rows=acks) for name, one in planned.items()]
        control = positive_control_of(
            arms[0].settings, self.spec.failure, cluster=self.target.nodes > 1, acks=acks
        )
        return CrashExperiment(arms, self.spec.crashes, control if self.spec.positive_control else None)

    def settings_of(
        self, one: Given, common: Mapping[str, Value], warnings: list[Warning]
    ) -> dict[str, Value]:
        """All settings of a configuration, `common` ones included; `warnings` takes what was changed of its
        option file. Settings that the server does not take are a UsageError.
        """
        asked = self.target.parse({**common, **one.settings})
        self.target.require_taken(asked)
        if one.file is None:
            return dict(asked)
        file = FileSpec(base=str(one.file))
        user = self.target.user_settings(file, None, self.spec.threads, self.watcher)
        warnings += user.warnings
        return {**user.here, **asked}

    def load_on(self, arm: CrashArm, told: set[str], server: Sandbox) -> Load:
        """Makes the load's tables on a server that runs with the arm's settings; what it is to be under.

        Args:
            told: what has been said of its servers, and need not be said again; more is added.

        Raises:
            MeasurementError: it runs with others.
        """
        self._require_set(arm, server, told)
        return self.load.on(server, self.spec.threads, self.spec.rows, self.spec.seed)

    def _require_set(self, arm: CrashArm, server: Sandbox, told: set[str]) -> None:
        warnings, broken = compare_settings(arm.settings, server.read_back(arm.settings), server.identity)
        if broken:
            raise MeasurementError(f"{arm.name}: {broken}", hint="remove the setting, or name another value")
        for text in [one.text for one in warnings if one.text not in told]:
            self.watcher.warn(f"{arm.name}: {text}")
            told.add(text)

    def crash_images_in(self, folder: Path) -> CrashImages:
        """The crash images of a record; a StorageError if it cannot be read, or was cut short too soon."""
        return CrashImages(folder, self.failure, self.target.build, self.target.volume.data_root.path)

    def server_of(self, arm: CrashArm) -> CrashedServer:
        """The server that crashes with an arm's settings."""
        return CrashedServer(
            build=self.target.build,
            nodes=self.target.nodes,
            settings=arm.settings,
            arguments=connection_arguments(self.spec.threads),
            data_root=self.target.volume.data_root,
            seconds=self.spec.duration,
            latency_s=self.target.latency_s,
        )

    def disks(self) -> Disks:
        """Those of the server's nodes."""
        return Disks(
            fail=self.failure,
            fs=self.spec.fs,
            size=self.disk_bytes,
            folder=self.target.volume.data_root.path,
            emulate=own_disk(self.spec.storage.disk),
        )

    def which_of(self, arm: CrashArm) -> NodesKind:
        """Which nodes of an arm's server crash: of a positive control, which must lose, all."""
        return "all" if arm.positive_control else which_nodes(self.spec)

    def judged(self, arm: CrashArm, storage: Storage | None) -> CrashArm:
        """The arm with its floor and the durability model's promise for its crashes; unchanged if the storage
        is unknown."""
        if storage is None:
            return arm
        situation = arm.settings, self.target.identity, storage, Launch()
        alone = self.target.nodes == 1
        failure = FAILURES[self.spec.failure] if alone else _OF_NODES[self.which_of(arm)]
        return msgspec.structs.replace(
            arm,
            floor=str(durability.verdict(*situation)),
            guarantee=durability.described(*situation)[failure],
        )
