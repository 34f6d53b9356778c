"""`bench`: one workload on one configuration, one record.

Sits in `campaign`, without a loop: nothing is stored. The command line, `probe --server` and callers from
Python call the same function.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign import external, external_use
from flushlab.campaign.base import file_settings, fitted, persisted_settings, require_scalable
from flushlab.campaign.data import Data, open_data
from flushlab.campaign.external import Own, own_server
from flushlab.campaign.quiet import look_around
from flushlab.campaign.target import (
    Target,
    co_located,
    connection_arguments,
    open_target,
    trial_runner,
)
from flushlab.campaign.watcher import watching
from flushlab.errors import MeasurementError, NoMemory, UsageError
from flushlab.machine import home_path
from flushlab.process.running import publish_status
from flushlab.record import Arm, Trial, Value
from flushlab.server import Sandbox
from flushlab.server.sandbox.base_file import require_taken
from flushlab.server.sandbox.refusal import refusal
from flushlab.server.start import attach, is_kept
from flushlab.settings.catalog import load_catalog
from flushlab.settings.fit import as_warnings
from flushlab.settings.given import parse_settings
from flushlab.spec import fields
from flushlab.spec.build import build, names_given
from flushlab.spec.kinds import BenchSpec
from flushlab.spec.sugar import taking
from flushlab.trial import Draft, measure
from flushlab.workload import Timing, Workload, all_options, parse_timing, parse_workload, settled
from flushlab.workload.driven import EngineOptions, require_cluster, seeded


@taking(BenchSpec, progress="Takes a line at a time.")
def bench(*, progress: Progress = silent, **given: Any) -> Trial:
    """Runs one workload on one configuration.

    On what is kept (`sandbox:NAME`, `cluster:NAME`) the settings are applied and stay.

    Returns:
        The record; it has a figure.

    Raises:
        UsageError: what makes no sense, or settings that the server refuses.
        MeasurementError: nothing was measured.
        LoadInterrupted: Ctrl-C in the window; it has what was measured until then.
    """
    spec = build(BenchSpec, given, all_options())
    own = own_server(spec.remote, spec.data.database, spec.workload)
    kept = is_kept(spec.server.build)
    if kept:
        _require_kept(spec)
    timing = parse_timing(spec.seconds)
    workload = parse_workload(spec.workload.name, settled(spec.workload).options)
    if spec.hdr_log or spec.per_second:
        workload = _with_seconds(workload, hdr_log=spec.hdr_log or "", per_second=spec.per_second or "")
    if own is not None:
        if spec.wait_for_quiet:
            look_around(home_path(), watching(progress), wait=True)
        return _counted(_on_external(own, workload, timing, spec.base.settings, spec.seed, progress))
    if spec.seed is not None or kept:
        workload = seeded(workload, spec.seed)
    if kept:
        if spec.wait_for_quiet:
            look_around(home_path(), watching(progress), wait=True)
        return _counted(_on_kept(spec.server.build, workload, timing, spec.base.settings, progress))
    require_scalable(spec.base.memory, spec.base.base, spec.data.dataset)
    if isinstance(workload, EngineOptions):
        require_cluster(workload.cluster_load, spec.server.cluster or 1)
    data = open_data(spec.data, workload.name, progress)
    with open_target(spec.server, spec.storage, progress) as target:
        return _counted(_on_fresh(spec, target, workload, timing, data, progress))


def _require_kept(spec: BenchSpec) -> None:
    """Refuses what has no effect on a server that runs already.

    Raises:
        UsageError: something has none.
    """
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


def _on_fresh(
    spec: BenchSpec,
    target: Target,
    workload: Workload,
    timing: Timing,
    data: Data | None,
    progress: Progress,
) -> Trial:
    """A server that is started for the run, on prepared data."""
    watcher, base = watching(progress), spec.base
    asked_for = parse_settings(
        base.settings,
        target.build.flavor,
        target.build.version,
        target.catalog,
        nodes=target.nodes,
    )
    require_taken(target.build, asked_for)
    theirs = {
        **file_settings(Path(base.base) if base.base else None, target, watcher),
        **persisted_settings(data, target, watcher),
    }
    connections = workload.threads if isinstance(workload, EngineOptions) else 1
    fit = fitted(
        theirs,
        target,
        watcher,
        memory=base.memory,
        exact=base.exact,
        connections=connections,
        data=data,
    )
    given = {**fit.settings, **asked_for}
    arguments = connection_arguments(connections)
    with trial_runner(
        target, (workload,), timing, arguments=arguments, data=data, progress=progress
    ) as runner:
        runner.preparation.load(given)
        if spec.wait_for_quiet:
            look_around(target.volume.data_root.path, watching(progress), wait=True)
        progress(f"running {workload.name} on {target.identity.title}")
        with publish_status("bench", server=target.identity.title, workload=workload.name):
            trial = runner.run(Arm(name="bench", settings=given), stage="bench", block=1)
    if trial.lacked_memory:
        raise NoMemory(trial.reason, hint=trial.hint)
    if trial.outcome == "refused":
        raise refusal(trial.reason, target.build)
    warnings = (*co_located(target.nodes, target.latency_s), *as_warnings(fit), *trial.warnings)
    slow = target.volume.slow_disk
    return msgspec.structs.replace(trial, warnings=warnings, disk=slow.record if slow else None)


def _on_kept(
    name: str, workload: Workload, timing: Timing, settings: Mapping[str, Value], progress: Progress
) -> Trial:
    """A kept sandbox or cluster, as it is; settings are applied to it and stay."""
    server, catalog = attach(name), load_catalog()
    if settings and isinstance(server, Sandbox) and server.membership is not None:
        cluster = server.membership.cluster
        raise UsageError(
            f"{server.name} is a node of the cluster {cluster}: settings go to every node",
            hint=f"use --server cluster:{cluster}",
        )
    given = parse_settings(
        settings, server.build.flavor, server.build.version, catalog, nodes=server.identity.nodes
    )
    for refused in server.apply(given).refused:
        raise refusal(f"{refused.name}={refused.value}: {refused.reason}", server.build)
    workload.prepare(server)
    progress(f"running {workload.name} on {name}")
    draft = Draft(arm=Arm(name="bench", settings=given), stage="bench", block=1, variant=0)
    with publish_status("bench", server=name, workload=workload.name):
        trial = measure(draft, server, workload, timing, catalog)
    if trial.lost_nodes:
        again = name.partition(":")[2]
        progress(
            f"{name} runs without some of its nodes: flushlab server start --name {again} brings them back"
        )
    return msgspec.structs.replace(trial, warnings=(*co_located(server.identity.nodes), *trial.warnings))


def _on_external(
    own: Own,
    workload: Workload,
    timing: Timing,
    settings: Mapping[str, Value],
    seed: int | None,
    progress: Progress,
) -> Trial:
    """Somebody's own server or cluster, as it is; what is changed of it is put back."""
    catalog = load_catalog()
    with external.opened(own) as server:
        identity = server.identity
        given = parse_settings(settings, identity.flavor, identity.version, catalog, nodes=identity.nodes)
        load = external.driving(workload, server, own.database, seed)
        external_use.require_connections(server, load.threads)
        external_use.require_permitted(server, own, load, [given], progress)
        with (
            external_use.changed(server, [given], progress) as changes,
            external_use.tables(load, server, own, progress),
        ):
            for one in changes:
                one.make()
            progress(f"running {workload.name} on {identity.title} at {server.name}")
            draft = Draft(arm=Arm(name="bench", settings=given), stage="bench", block=1, variant=0)
            with publish_status("bench", server=server.name, workload=workload.name):
                trial = measure(draft, server, load, timing, catalog)
        return msgspec.structs.replace(trial, warnings=(*external.doubts(), *trial.warnings))


def _with_seconds(workload: Workload, **files: str) -> Workload:
    if not isinstance(workload, EngineOptions):
        raise UsageError(
            f"{workload.name} has no latencies per second", hint="remove --hdr-log and --per-second"
        )
    return msgspec.structs.replace(workload, **files)


def _counted(trial: Trial) -> Trial:
    if trial.figure is None:
        why = "" if trial.outcome == "failed" else f"{trial.outcome}: "
        raise MeasurementError(f"{why}{trial.reason.rstrip()}", hint=trial.hint or None)
    return trial
