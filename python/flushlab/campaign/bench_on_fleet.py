"""`bench --fleet`: the same run on every machine of a fleet at once. Sits in `campaign`; stores nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign.bench import run_once
from flushlab.campaign.fleet.machines import Composed, RunTrial
from flushlab.campaign.fleet.root import root_for
from flushlab.campaign.pool.protocol import OnEach
from flushlab.campaign.pool.target import (
    FLEET,
    NewServers,
    OnFleet,
    fleet_unless,
    named_fleet,
    told_alone,
)
from flushlab.campaign.request import BenchRequest
from flushlab.campaign.watcher import Watcher, watching
from flushlab.errors import MeasurementError, UsageError
from flushlab.record import FleetBench, MachineMean, MachineRun, Trial
from flushlab.server.start import is_kept
from flushlab.spec.build import build
from flushlab.spec.kinds import BenchSpec
from flushlab.spec.sugar import taking
from flushlab.statistics.machines import mean_over
from flushlab.workload import all_options, settled


@taking(BenchSpec, progress="Takes a line at a time.")
def bench_on_fleet(*, progress: Progress = silent, **given: Any) -> FleetBench:
    """Runs one workload on one configuration on every machine of a fleet, on all at once.

    Returns:
        The record of each machine, and how far the machines lie apart.

    Raises:
        UsageError: what makes no sense on several machines, or settings that the server refuses.
        MeasurementError: no machine measured anything.
        FleetError: the fleet does not answer.
    """
    spec, watcher = build(BenchSpec, given, all_options()), watching(progress)
    fleet = named_fleet(spec.fleet)
    if not fleet:
        raise UsageError("no fleet is named", hint=f"add --fleet ADDRESS or set {FLEET}")
    for refusal in _not_spread(spec):
        raise refusal
    with OnFleet(spec.server, spec.storage, fleet).open(watcher.say) as pool:
        assert pool.fleet is not None, "it was opened on one"
        request = BenchRequest(spec=_settled(spec), build_id=pool.build.id, folder=str(Path.cwd()))
        work = OnEach(request, on_machine, watcher, root_for(spec.server, spec.storage))
        found = compared(pool.fleet.each(work))
    if all(one.trial is None for one in found.runs):
        raise MeasurementError("; ".join(f"machine {one.machine}: {one.problem}" for one in found.runs))
    return found


def _settled(spec: BenchSpec) -> BenchSpec:
    """With files by their absolute paths: workers run in other folders."""
    workload = msgspec.structs.replace(spec.workload, options=settled(spec.workload).options)
    base = spec.base
    if base.base is not None:
        base = msgspec.structs.replace(base, base=str(Path(base.base).expanduser().absolute()))
    return msgspec.structs.replace(spec, workload=workload, base=base)


def is_for_each(given: Mapping[str, Any], progress: Progress) -> bool:
    """Whether a command is for every machine of a fleet.

    Args:
        given: to `bench`.
        progress: takes a line at a time.

    Raises:
        UsageError: what makes no sense.
    """
    if given.get("client"):
        return False
    spec = build(BenchSpec, given, all_options())
    if not spec.fleet and (spec.remote.named_by or is_kept(spec.server.build)):
        return False
    fleet = fleet_unless(spec.fleet, *_not_spread(spec))
    if fleet.why_not:
        progress(told_alone(fleet.why_not))
    return bool(fleet.address)


def _not_spread(spec: BenchSpec) -> Iterator[UsageError]:
    """What one machine alone can do, by name."""
    refused = {
        "-h and --dsn name one server, and each machine of a fleet starts its own": spec.remote.named_by,
        f"{spec.server.build} runs on this machine alone": is_kept(spec.server.build),
        "--hdr-log writes a file of one run, and each machine has a run": spec.hdr_log,
        "--per-second writes a file of one run, and each machine has a run": spec.per_second,
        "--wait-for-quiet looks at this machine alone": spec.wait_for_quiet,
        "--client drives the load of one server": spec.client,
    }
    for words, is_asked in refused.items():
        if is_asked:
            yield UsageError(words, hint="remove it, or run on one machine, without --fleet")


@contextmanager
def on_machine(plan: bytes, composed: Composed, progress: Progress) -> Iterator[RunTrial]:
    """What runs the one trial on a machine of a fleet.

    Args:
        plan: JSON of `BenchRequest`.
        composed: not used.
        progress: takes a line at a time.
    """
    asked = msgspec.json.decode(plan, type=BenchRequest)
    target = NewServers(asked.spec.server, asked.spec.storage)
    yield lambda _: run_once(asked.spec, target, Watcher(progress), Path(asked.folder))


def compared(results: Mapping[str, Trial | str]) -> FleetBench:
    """How far the machines lie apart.

    Args:
        results: by machine; a text says why there is none.
    """
    runs = tuple(
        MachineRun(machine=name, trial=one)
        if isinstance(one, Trial)
        else MachineRun(machine=name, problem=one)
        for name, one in sorted(results.items())
    )
    counted = {
        run.machine: run.trial
        for run in runs
        if run.trial is not None and run.trial.outcome == "measured" and (run.trial.result or 0.0) > 0
    }
    if not counted:
        return FleetBench(runs=runs)
    logs = {name: math.log(trial.result or 0.0) for name, trial in counted.items()}
    in_seconds = next(iter(counted.values())).unit == "s"
    ordered = sorted(logs, key=lambda name: logs[name], reverse=in_seconds)
    mean = mean_over(list(logs.values()))
    return FleetBench(
        runs=runs,
        fastest=ordered[-1],
        slowest=ordered[0],
        between=math.exp(max(logs.values()) - min(logs.values())) if len(logs) > 1 else None,
        mean=None if mean is None else MachineMean(estimate=mean.estimate, low=mean.low, high=mean.high),
    )
