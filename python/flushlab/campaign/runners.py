"""Runners: which trial runner an arm of a series has.

Sits in `campaign`. Arms may have a workload variant, a data root and a disk of their own; all else is shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from flushlab.campaign.bound_series import BoundSeries
from flushlab.campaign.external import driving
from flushlab.campaign.series_request import ArmGroup, BoundArm, SeriesRequest
from flushlab.campaign.several_servers import runner_on
from flushlab.campaign.target import Target
from flushlab.campaign.volumes import Volumes
from flushlab.campaign.way import place_of
from flushlab.errors import UsageError
from flushlab.experiment.protocol import Request
from flushlab.experiment.series import Series
from flushlab.record import Arm, Trial
from flushlab.trial import AlternatingRunner, StandingRunner, TrialRunner
from flushlab.trial.standing import CLUSTER_SLICE_S
from flushlab.undo import undo_all
from flushlab.workload import Workload, build_workload, fingerprint, on_data


class ArmRunners:
    """Runs what a series asks for; a context manager, as servers that alternate or stand live through it.

    Args:
        series: the bound request.
        experiment: knows what `best` is composed of.
        base: the runner of the base.
        volumes: where arms with a place of their own run.
        targets: by its name, the server of arms that have one of their own.
    """

    def __init__(
        self,
        series: BoundSeries,
        experiment: Series,
        base: TrialRunner,
        volumes: Volumes,
        targets: Mapping[str, Target],
    ) -> None:
        self._series = series
        self._experiment = experiment
        self._base = base
        self._volumes = volumes
        self._targets = targets
        self._runners: dict[tuple[str, float], TrialRunner] = {}
        self._alternating = (
            AlternatingRunner(base, series.request.base.settings) if series.request.alternate else None
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
        if fingerprint(workload_of(request, request.base)) != request.workload_digest:
            raise UsageError(
                f"the workload {request.workload} has changed since the series began",
                hint="restore its file, or start a new series: figures of two workloads are not comparable",
            )
        for group in request.groups:
            for arm in (one for one in request.running if one.name in group.arms):
                self._runner(arm, group)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        runners = (self._alternating, self._standing, self._base)
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
        self._standing = self._runner_of_turns() if group.standing else None

    def _runner_of_turns(self) -> StandingRunner:
        seed = self._series.request.seed
        if (server := self._base.external) is not None:
            return StandingRunner(self._of, seed, lambda _: server.name, slice_s=CLUSTER_SLICE_S)
        if self._base.nodes == 1:
            return StandingRunner(self._of, seed)
        return StandingRunner(self._of, seed, self._place, slice_s=CLUSTER_SLICE_S)

    def _place(self, arm: Arm) -> str:
        """What an arm's cluster is known by."""
        bound = self._series.arm(arm.name, self._experiment.best_of)
        return place_of(bound, self._of(arm).workloads[0], self._series.identity)

    def _of(self, arm: Arm) -> TrialRunner:
        assert self._group is not None, "a request was entered"
        return self._runner(self._series.arm(arm.name, self._experiment.best_of), self._group)

    def _runner(self, arm: BoundArm, group: ArmGroup) -> TrialRunner:
        if (arm.name, group.seconds) not in self._runners:
            volume = self._volumes.open(arm.data_root, arm.disk_iops, arm.disk)
            base = runner_on(self._targets[arm.build], self._base) if arm.build else self._base
            self._runners[arm.name, group.seconds] = replace(
                base,
                timing=group.timing(base.timing),
                workloads=(self._workload(arm),),
                data_root=volume.data_root,
                disk_limit=volume.disk_limit,
                slow_disk=volume.slow_disk,
            )
        return self._runners[arm.name, group.seconds]

    def _workload(self, arm: BoundArm) -> Workload:
        workload, database = workload_of(self._series.request, arm), self._series.request.spec.data.database
        if self._base.external is not None:
            return driving(workload, self._base.external, database)
        return on_data(workload, database) if database else workload


def workload_of(request: SeriesRequest, arm: BoundArm) -> Workload:
    """The workload of an arm; reads its file."""
    return build_workload(request.workload, arm.options, folder=Path(request.folder))
