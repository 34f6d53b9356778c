"""Trials of arms on a build, as several files of tests run them."""

from __future__ import annotations

from flushlab.build import Build
from flushlab.datadir import DataRoot, Snapshots
from flushlab.settings.catalog import load_catalog
from flushlab.trial import Preparation, TrialRunner
from flushlab.workload import Timing, Workload


def trial_runner(
    build: Build,
    *workloads: Workload,
    timing: Timing,
    data_root: DataRoot | None = None,
    arguments: tuple[str, ...] = (),
) -> TrialRunner:
    """A runner on data without a dataset."""
    root, catalog = data_root or DataRoot.open(), load_catalog()
    preparation = Preparation(
        build=build,
        catalog=catalog,
        data_root=root,
        dataset=None,
        snapshots=Snapshots(),
        progress=lambda text: None,
    )
    return TrialRunner(
        build=build,
        catalog=catalog,
        workloads=workloads,
        timing=timing,
        progress=preparation.progress,
        preparation=preparation,
        data_root=root,
        arguments=arguments,
    )
