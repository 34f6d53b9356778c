"""`bench`: one workload on one configuration, one record.

Sits in `campaign`, without a loop: nothing is stored. The command line, `probe --server` and callers from
Python call the same function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from flushlab.campaign.data import warnings_of
from flushlab.campaign.loop import check_other_load
from flushlab.campaign.pool.protocol import Once
from flushlab.campaign.pool.settings import co_located
from flushlab.campaign.pool.work import Composed, RunTrial, Work, root_for
from flushlab.campaign.request import BenchRequest
from flushlab.campaign.target import (
    FLEET,
    NewServers,
    Target,
    fleet_unless,
    named_fleet,
    target_of,
    told_alone,
)
from flushlab.campaign.watcher import Watcher, watching
from flushlab.errors import MeasurementError, UsageError
from flushlab.machine import home_path
from flushlab.progress import Progress, silent
from flushlab.record import FleetBench, MachineMean, MachineRun, Trial, Warning
from flushlab.redact import without_passwords
from flushlab.server import Sandbox
from flushlab.server.sandbox.log import refusal
from flushlab.server.start import attach, is_kept
from flushlab.settings.admission import parse_settings
from flushlab.settings.configuration import Configuration
from flushlab.spec import fields
from flushlab.spec.build import build, names_given, taking
from flushlab.spec.kinds import BenchSpec
from flushlab.workload.options import EngineOptions, seeded
from flushlab.workload.parse import all_options, parse_timing, parse_workload, settled


def require_running(spec: BenchSpec) -> None:
    name = spec.server.build
    for key in names_given(spec) - {"server"}:
        field = fields(BenchSpec)[key]
        if field.option.started or key == "database":
            raise UsageError(f"{field.flag} needs a fresh server, but {name} runs already", hint="remove it")
    if spec.workload.options.get("reset") == "each":
        kind, _, own = name.partition(":")
        reset = f"; flushlab server reset {own} makes the data pristine" if kind == "sandbox" else ""
        raise UsageError(
            f"--reset each needs a fresh server for each run, but {name} runs already",
            hint=f"remove it{reset}",
        )


def once_on_kept(asked: Once, watcher: Watcher) -> Trial:
    spec, workload, name = asked.spec, seeded(asked.workload, asked.spec.seed), asked.spec.server.build
    if spec.wait_for_quiet:
        check_other_load(home_path(), watcher, wait=True)
    server = attach(name)
    if spec.base.settings and isinstance(server, Sandbox) and server.membership is not None:
        cluster = server.membership.cluster
        raise UsageError(
            f"{server.name} is a node of the cluster {cluster}: settings go to every node",
            hint=f"use --server cluster:{cluster}",
        )
    nodes, build = server.identity.nodes, server.build
    given = parse_settings(spec.base.settings, build.flavor, build.version, nodes=nodes)
    for refused in server.apply(given).refused:
        raise refusal(f"{refused.name}={refused.value}: {refused.reason}", build)
    workload.prepare(server)
    watcher.say(f"running the workload {workload.name} on {name}")
    trial = asked.measured(server, workload, given, name)
    if trial.lost_nodes:
        again = name.partition(":")[2]
        watcher.say(
            f"{name} runs without some of its nodes: flushlab server start --name {again} brings them back"
        )
    caveats = (co_located(nodes, 0.0),) if nodes > 1 else ()
    return msgspec.structs.replace(trial, warnings=(*caveats, *trial.warnings))


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
    on_kept = is_kept(spec.server.build) and not spec.remote.named_by
    if on_kept:
        require_running(spec)
    timing = parse_timing(spec.duration)
    workload = parse_workload(spec.workload.name, settled(spec.workload).options, folder=folder)
    if spec.hdr_log or spec.per_second:
        if not isinstance(workload, EngineOptions):
            raise UsageError(
                f"{workload.name} has no latencies per second", hint="remove --hdr-log and --per-second"
            )
        workload = msgspec.structs.replace(
            workload, hdr_log=spec.hdr_log or "", per_second=spec.per_second or ""
        )
    data = None
    if on_kept:
        trial = once_on_kept(Once(spec, workload, timing), watcher)
    else:
        target.require_files(spec.base.memory, spec.base.base, spec.data.dataset)
        target.require_load(workload)
        data = target.open_data(spec.data, (workload.name,), watcher.say)
        target = target.fitting(data, [spec.base.base], watcher.say)
        with target.open(watcher.say) as pool:
            trial = pool.once(Once(spec, workload, timing, data), watcher)
    if trial.result is None:
        why = "" if trial.outcome == "failed" else f"{trial.outcome}: "
        raise MeasurementError(f"{why}{trial.reason.rstrip()}", hint=trial.hint or None)
    facts = data.facts if data is not None else None
    warnings = [*warnings_of(facts, trial.stand_in), *trial.warnings]
    if trial.server is not None:
        server = Configuration(trial.arm.settings, trial.server, trial.settings)
        warnings += [
            Warning("without-effect", f"{name}: {why}", name)
            for name in spec.base.settings
            if (why := server.without_effect(name))
        ]
    return msgspec.structs.replace(
        trial, workload=without_passwords(workload.name), data=facts, warnings=tuple(warnings)
    )


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
    for unspread in _not_spread(spec):
        raise unspread
    with NewServers(spec.server, spec.storage, fleet).open(watcher.say) as pool:
        assert pool.fleet is not None, "it was opened on one"
        base, workload = spec.base, settled(spec.workload)
        if base.base is not None:  # absolute: workers run in other folders
            base = msgspec.structs.replace(base, base=str(Path(base.base).expanduser().absolute()))
        workload = msgspec.structs.replace(spec.workload, options=workload.options)
        spec = msgspec.structs.replace(spec, workload=workload, base=base)
        request = BenchRequest(spec=spec, build_id=pool.build.id, folder=str(Path.cwd()))
        work = Work(request, on_machine, watcher, root_for(spec.server, spec.storage))
        found = compared(pool.fleet.each(work))
    if all(one.trial is None for one in found.runs):
        raise MeasurementError("; ".join(f"machine {one.machine}: {one.problem}" for one in found.runs))
    return found


def is_for_each(given: Mapping[str, Any], progress: Progress) -> bool:
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
def on_machine(asked: BenchRequest, composed: Composed, progress: Progress) -> Iterator[RunTrial]:
    target = NewServers(asked.spec.server, asked.spec.storage)
    yield lambda _: run_once(asked.spec, target, Watcher(progress), Path(asked.folder))


def compared(results: Mapping[str, Trial | str]) -> FleetBench:
    # Loads scipy, which a run on one machine does not need.
    from flushlab.statistics.machines import mean_over

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
