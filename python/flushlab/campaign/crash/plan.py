"""Plan: what all arms of a crash campaign share, and what it means for one. Sits in `campaign.crash`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.campaign.base import file_settings, fitted
from flushlab.campaign.configurations import Given
from flushlab.campaign.crash.cluster import failure_of
from flushlab.campaign.crash.load import CrashLoad
from flushlab.campaign.crash.request import FAILURES
from flushlab.campaign.target import Target, connection_arguments
from flushlab.campaign.watcher import Watcher
from flushlab.crashed.cluster_killed import ClusterSpec, Disks
from flushlab.crashed.cluster_recorded import ClusterImages
from flushlab.crashed.live import Load
from flushlab.crashed.recorded import Images
from flushlab.datadir.fault_disk import FileSystemName
from flushlab.errors import MeasurementError
from flushlab.record import (
    CrashArm,
    CrashKind,
    DiskProfile,
    Failure,
    Launch,
    LoadSpec,
    NodesKind,
    Storage,
    Value,
    Warning,
)
from flushlab.server import Sandbox
from flushlab.server.sandbox.base_file import require_taken
from flushlab.settings import durability
from flushlab.settings.fit import as_warnings
from flushlab.settings.given import parse_settings
from flushlab.trial.measurement import compare_settings


class CrashPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What crashes, how, how often, and under which load.

    Attributes:
        target: the server; where its data root is, disks and records are made.
        watcher: told what happens.
        load: what servers are under.
        kind: what crashes.
        which: of a cluster's nodes; empty for a server alone.
        failure: what a crash leaves of a disk.
        images: crashes of each arm.
        seconds: of load that are recorded, or before each kill at most.
        threads: connections.
        rows: of each of the ledger's transactions.
        fs: file system of the disk.
        disk_bytes: its size.
        emulate: how slow it is.
        seed: of the points.
        keep: folder that records are made in; None: they go.
        replica: replicas of servers are judged, too.
    """

    target: Target
    watcher: Watcher
    load: CrashLoad
    kind: CrashKind
    which: NodesKind | Literal[""]
    failure: Failure
    images: int
    seconds: float
    threads: int
    rows: int
    fs: FileSystemName
    disk_bytes: int
    emulate: DiskProfile | None
    seed: int
    keep: Path | None
    replica: bool = False

    def settings_of(
        self, one: Given, common: Mapping[str, Value], warnings: list[Warning]
    ) -> dict[str, Value]:
        """All settings of a configuration.

        Args:
            one: the configuration.
            common: settings of all.
            warnings: takes what was changed of its option file.

        Raises:
            UsageError: settings that the server does not take.
        """
        target = self.target
        asked = parse_settings(
            {**common, **one.settings},
            target.build.flavor,
            target.build.version,
            target.catalog,
            nodes=target.nodes,
        )
        require_taken(target.build, asked)
        theirs = file_settings(one.file, target, self.watcher) if one.file else {}
        if not theirs:
            return dict(asked)
        fit = fitted(
            theirs, target, self.watcher, memory=None, exact=False, connections=self.threads, data=None
        )
        warnings += as_warnings(fit)
        return {**fit.settings, **asked}

    def spec_on(self, arm: CrashArm, server: Sandbox) -> LoadSpec:
        """Makes the load's tables on a server that runs with the arm's settings; how it is driven.

        Raises:
            MeasurementError: it runs with others: what it loses would be told of the wrong ones.
        """
        self._require_set(arm, server, set())
        return self.load.spec_on(server, self.threads, self.seed)

    def load_on(self, arm: CrashArm, told: set[str], server: Sandbox) -> Load:
        """Makes the load's tables on a server that runs with the arm's settings; what it is to be under.

        Args:
            arm: whose settings.
            told: what has been said of its servers, and need not be said again; more is added.
            server: one of them.

        Raises:
            MeasurementError: it runs with others.
        """
        self._require_set(arm, server, told)
        return self.load.on(server, self.threads, self.rows, self.seed)

    def _require_set(self, arm: CrashArm, server: Sandbox, told: set[str]) -> None:
        doubts, broken = compare_settings(arm.settings, server.read_back(arm.settings), server.identity)
        if broken:
            raise MeasurementError(f"{arm.name}: {broken}", hint="remove the setting, or name another value")
        for text in [doubt.text for doubt in doubts if doubt.text not in told]:
            self.watcher.warn(f"{arm.name}: {text}")
            told.add(text)

    def images_in(self, folder: Path) -> Images | ClusterImages:
        """The images of a record."""
        build, work = self.target.build, self.target.volume.data_root.path
        if self.which:
            return ClusterImages(folder, self.failure, build, work)
        return Images(folder, self.failure, build, work)

    def cluster_of(self, arm: CrashArm) -> ClusterSpec:
        """The cluster that an arm's nodes make."""
        return ClusterSpec(
            build=self.target.build,
            size=self.target.nodes,
            settings=arm.settings,
            arguments=connection_arguments(self.threads),
            data_root=self.target.volume.data_root,
            rows=self.rows,
            seconds=self.seconds,
            latency_s=self.target.latency_s,
        )

    def disks(self) -> Disks:
        """Those of a cluster's nodes."""
        return Disks(
            fail=self.failure,
            fs=self.fs,
            size=self.disk_bytes,
            folder=self.target.volume.data_root.path,
            emulate=self.emulate,
        )

    def which_of(self, arm: CrashArm) -> NodesKind | Literal[""]:
        """Which nodes of an arm's cluster crash: of a control, which must lose, all."""
        return "all" if self.which and arm.control else self.which

    def judged(self, arm: CrashArm, storage: Storage | None) -> CrashArm:
        """The arm with its floor and what the durability model says of its crashes; as it is where the
        storage is not known."""
        if storage is None:
            return arm
        situation = arm.settings, self.target.identity, storage, Launch()
        which = self.which_of(arm)
        failure = failure_of(which) if which else FAILURES[self.kind]
        return msgspec.structs.replace(
            arm,
            floor=str(durability.verdict(*situation)),
            guarantee=durability.described(*situation)[failure],
        )
