"""Trials of arms on a build, as several files of tests run them."""

from __future__ import annotations

from flushlab.build import Build
from flushlab.datadir import DataRoot, Snapshots, Volume
from flushlab.server import SandboxSpec
from flushlab.trial.runner import Preparation, TrialRunner
from flushlab.workload.protocol import Timing, Workload


def trial_runner(
    build: Build,
    *workloads: Workload,
    timing: Timing,
    data_root: DataRoot | None = None,
    arguments: tuple[str, ...] = (),
) -> TrialRunner:
    """A runner on data without a dataset."""
    root = data_root or DataRoot.open()
    preparation = Preparation(
        build=build,
        data_root=root,
        dataset=None,
        snapshots=Snapshots(),
        progress=lambda text: None,
    )
    return TrialRunner(
        spec=SandboxSpec(build, arguments=arguments),
        workloads=workloads,
        timing=timing,
        progress=preparation.progress,
        preparation=preparation,
        volume=Volume(root),
    )
