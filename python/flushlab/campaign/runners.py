"""Runners: which trial runner an arm of a series has.

Sits in `campaign`. Arms may have a workload, a server, a data root and a disk of their own; all else is
shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from flushlab.campaign.bound_series import BoundSeries
from flushlab.campaign.pool.protocol import ServerPool
from flushlab.campaign.request import ArmGroup, BoundArm, SeriesRequest
from flushlab.campaign.scheduling import place_of
from flushlab.campaign.volumes import Volumes
from flushlab.errors import UsageError
from flushlab.experiment.protocol import Request
from flushlab.experiment.series import Series
from flushlab.record import Arm, Trial
from flushlab.redact import without_passwords
from flushlab.trial import AlternatingRunner, ArmRunner, StandingRunner
from flushlab.undo import undo_all
from flushlab.workload import Workload, build_workload, fingerprint


class ArmRunners:
    """Runs what a series asks for; a context manager, as servers that alternate or stand live through it.

    Args:
        series: the bound request.
        experiment: knows what `best` is composed of.
        pool: the servers of the base.
        runners: of the base by an empty name; by the name of its build, of arms on another server.
        volumes: where arms with a place of their own run.
    """

    def __init__(
        self,
        series: BoundSeries,
        experiment: Series,
        pool: ServerPool,
        runners: Mapping[str, ArmRunner],
        volumes: Volumes,
    ) -> None:
        self._series = series
        self._experiment = experiment
        self._pool = pool
        self._bases = runners
        self._volumes = volumes
        self._runners: dict[tuple[str, float], ArmRunner] = {}
        self._alternating = (
            AlternatingRunner(runners[""], series.request.base.settings) if series.request.alternate else None
        )
        self._group: ArmGroup | None = None
        self._standing: StandingRunner | None = None

    def run(self, request: Request) -> Trial:
        """Runs one trial.

        Raises:
            NoSpace, StorageError: what no record can hold.
        """
        self._enter(request)
        if self._standing is not None:
            return self._standing.run(request)
        runner = self._alternating or self._of(request.arm)
        return runner.run(request.arm, stage=request.stage, block=request.block, variant=request.variant)

    def open(self) -> None:
        """Opens the places and reads the workloads of all arms that run, before anything is measured.

        Raises:
            UsageError: a file of the workload has changed since the series began.
            StorageError, HarnessError: a place that was there when the series began is gone.
        """
        request = self._series.request
        for arm in (request.base, *request.running):
            if fingerprint(workload_of(request, arm)) != arm.workload_digest:
                raise UsageError(
                    f"the workload {without_passwords(arm.workload.name)} has changed since the series began",
                    hint="restore its file, or start a new series: figures of two workloads are not"
                    " comparable",
                )
        for group in request.groups:
            for arm in (one for one in request.running if one.name in group.arms):
                self._runner(arm, group)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        runners = (self._alternating, self._standing, *self._bases.values())
        undo_all(runner.close for runner in runners if runner is not None)

    def _enter(self, request: Request) -> None:
        """Ends the servers of the last group where another begins."""
        wanted, best = self._series.request, request.stage == "best"
        group = wanted.group_of_best(self._experiment.best_of) if best else wanted.group_of(request.block)
        if group == self._group:
            return
        if self._standing is not None:
            self._standing.close()
        self._group = group
        seed = self._series.request.seed
        self._standing = self._pool.standing(self._of, seed, self._place) if group.standing else None

    def _place(self, arm: Arm) -> str:
        bound = self._series.arm(arm.name, self._experiment.best_of)
        return place_of(bound, self._of(arm).workloads[0], self._series.identity)

    def _of(self, arm: Arm) -> ArmRunner:
        assert self._group is not None, "a request was entered"
        return self._runner(self._series.arm(arm.name, self._experiment.best_of), self._group)

    def _runner(self, arm: BoundArm, group: ArmGroup) -> ArmRunner:
        if (arm.name, group.seconds) not in self._runners:
            base = self._bases[arm.build]
            self._runners[arm.name, group.seconds] = base.with_arm(
                self._workload(arm),
                group.timing(base.timing),
                self._volumes.open(arm.data_root, arm.disk_iops, arm.disk),
            )
        return self._runners[arm.name, group.seconds]

    def _workload(self, arm: BoundArm) -> Workload:
        request = self._series.request
        return self._pool.reaching(workload_of(request, arm), request.spec.data.database)


def workload_of(request: SeriesRequest, arm: BoundArm) -> Workload:
    """The workload of an arm; reads its file."""
    return build_workload(arm.workload.name, arm.workload.options, folder=Path(request.folder))
