"""`bench`: one workload on one configuration, one record.

Sits in `campaign`, without a loop: nothing is stored. The command line, `probe --server` and callers from
Python call the same function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign.data import warnings_of
from flushlab.campaign.pool.kept import once_on_kept, require_running
from flushlab.campaign.pool.protocol import Once
from flushlab.campaign.pool.target import Target, target_of
from flushlab.campaign.watcher import Watcher, watching
from flushlab.errors import MeasurementError, UsageError
from flushlab.record import Trial, Warning
from flushlab.redact import without_passwords
from flushlab.server.start import is_kept
from flushlab.settings.configuration import Configuration
from flushlab.spec.build import build
from flushlab.spec.kinds import BenchSpec
from flushlab.spec.sugar import taking
from flushlab.workload import Workload, all_options, parse_timing, parse_workload, settled
from flushlab.workload.engine_options import EngineOptions


@taking(BenchSpec, progress="Takes a line at a time.")
def bench(*, progress: Progress = silent, **given: Any) -> Trial:
    """Runs one workload on one configuration.

    On what is kept (`sandbox:NAME`, `cluster:NAME`) the settings are applied and stay.

    Returns:
        The record; it has a result.

    Raises:
        UsageError: what makes no sense, or settings that the server refuses.
        MeasurementError: nothing was measured.
        LoadInterrupted: Ctrl-C in the window; it has what was measured until then.
    """
    spec, watcher = build(BenchSpec, given, all_options()), watching(progress)
    target = target_of(spec, spec.workload)
    if spec.fleet and not spec.client:
        raise UsageError(
            "a run on every machine of a fleet has a record for each",
            hint="call flushlab.bench_on_fleet, or name machines that drive the load with client",
        )
    return run_once(spec, target, watcher)


def run_once(spec: BenchSpec, target: Target, watcher: Watcher, folder: Path | None = None) -> Trial:
    """The run that was asked for; errors as of `bench`.

    Args:
        target: the servers that the specification names.
        folder: that a workload's file is relative to; None: the present one.
    """
    on_kept = is_kept(spec.server.build) and not spec.remote.named_by
    if on_kept:
        require_running(spec)
    timing = parse_timing(spec.duration)
    workload = parse_workload(spec.workload.name, settled(spec.workload).options, folder=folder)
    if spec.hdr_log or spec.per_second:
        workload = _with_seconds(workload, hdr_log=spec.hdr_log or "", per_second=spec.per_second or "")
    data = None
    if on_kept:
        trial = _counted(once_on_kept(Once(spec, workload, timing), watcher))
    else:
        target.require_files(spec.base.memory, spec.base.base, spec.data.dataset)
        target.require_load(workload)
        data = target.open_data(spec.data, (workload.name,), watcher.say)
        target = target.fitting(data, [spec.base.base], watcher.say)
        with target.open(watcher.say) as pool:
            trial = _counted(pool.once(Once(spec, workload, timing, data), watcher))
    facts = data.facts if data is not None else None
    warnings = (*warnings_of(facts, trial.stand_in), *trial.warnings)
    without = _without_effect(trial, spec.base.settings)
    return msgspec.structs.replace(
        trial, workload=without_passwords(workload.name), data=facts, warnings=(*warnings, *without)
    )


def _with_seconds(workload: Workload, **files: str) -> Workload:
    if not isinstance(workload, EngineOptions):
        raise UsageError(
            f"{workload.name} has no latencies per second", hint="remove --hdr-log and --per-second"
        )
    return msgspec.structs.replace(workload, **files)


def _counted(trial: Trial) -> Trial:
    if trial.result is None:
        why = "" if trial.outcome == "failed" else f"{trial.outcome}: "
        raise MeasurementError(f"{why}{trial.reason.rstrip()}", hint=trial.hint or None)
    return trial


def _without_effect(trial: Trial, asked: Iterable[str]) -> Iterator[Warning]:
    """A caveat per setting that was asked for and can have no effect on the server."""
    if trial.server is None:
        return
    server = Configuration(trial.arm.settings, trial.server, trial.settings)
    for name in asked:
        if why := server.without_effect(name):
            yield Warning("without-effect", f"{name}: {why}", name)
