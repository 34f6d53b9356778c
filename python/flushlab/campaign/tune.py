"""`tune`: plans a tuning, which finds the fastest settings at a durability floor and proves them.

    tune(…) -> campaign.run -> decide: base, candidates, timing, seed -> … -> _finish: recovery and crashes

Sits in `campaign`; the command line and callers from Python call the same function.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from flushlab.campaign.campaign import ArmServers, Asked, run
from flushlab.campaign.crash.check import UNCRASHED, disk_mib, failure_mode, require_crashable
from flushlab.campaign.crash.crash import crash_settings
from flushlab.campaign.crash.plan import CrashLoad, CrashPlan
from flushlab.campaign.data import Data, bytes_of
from flushlab.campaign.facts import STEADY_MINUTES, CampaignFacts
from flushlab.campaign.loop import CampaignSession, Ending
from flushlab.campaign.objective import objective_of
from flushlab.campaign.pool.protocol import ServerPool
from flushlab.campaign.pool.room import Volumes, data_bytes_of
from flushlab.campaign.pool.sandboxes import crashable
from flushlab.campaign.pool.settings import texts_of
from flushlab.campaign.request import TuneRequest, workloads_of_tune
from flushlab.campaign.scheduling import BESIDE_MOST, in_slices
from flushlab.campaign.target import Target, target_of
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.campaign.watcher import Watcher, watching
from flushlab.errors import BudgetTooSmall, UsageError
from flushlab.experiment.tune import Tune
from flushlab.progress import Progress, silent
from flushlab.record import BASE, CrashFacts, Value, Warning
from flushlab.settings.candidates import propose
from flushlab.settings.catalog import canonical, load_catalog
from flushlab.settings.fit import names_fixed
from flushlab.spec.build import build, taking
from flushlab.spec.kinds import CrashSpec, TuneSpec
from flushlab.spec.parts import CrashWorkloadSpec, ServerSpec
from flushlab.units import format_size
from flushlab.workload.engine import require_cluster
from flushlab.workload.options import EngineOptions
from flushlab.workload.parse import (
    all_options,
    fingerprint,
    settled,
    sources_of,
    workload_options,
)
from flushlab.workload.protocol import Timing

DEFAULT_MINUTES, DEFAULT_MINUTES_FRESH = 5.0, 10.0
SIDE_BY_SIDE = Timing(warm_up_s=1.5, max_warm_up_s=4.0, seconds=1.0)
SHORT = Timing(warm_up_s=1.5, max_warm_up_s=4.0, seconds=4.0)
STEADY = Timing(warm_up_s=5.0, max_warm_up_s=30.0, seconds=20.0, max_seconds=180.0)


@taking(TuneSpec, progress="Takes a line at a time.")
def tune(*, progress: Progress | Watcher = silent, **given: Any) -> CampaignFacts:
    """Finds the fastest settings at a durability floor and proves them.

    The campaign is stored; `resume` resumes an interrupted one. On a server of your own, what takes a restart
    is not tried, and the result is handed over, not set.

    Returns:
        What was found; its `ending` tells whether Ctrl-C ended it.

    Raises:
        FlushlabError: what no record can hold; what was measured is safe.
    """
    began, watcher = time.monotonic(), watching(progress)
    spec = build(TuneSpec, given, all_options())
    workload = spec.workload
    target = target_of(spec, workload)
    objective = objective_of(spec.objective, workload.name, workload.options)
    asked = Asked(spec=spec, target=target, objective=objective)
    if spec.run.resume is None:
        require_sensible(spec, target)
        asked = asked.on_data((workload.name,), [spec.base.base], watcher.say)

    def decided(pool: ServerPool, volumes: Volumes) -> TuneRequest:
        return decide(asked, pool, watcher)

    status = {"workload": workload.name, "floor": spec.floor.value}
    return run(asked, TuneRequest, decided, watcher, began, _finish, **status)


def require_sensible(spec: TuneSpec, target: Target) -> None:
    threads, name = spec.threads, spec.workload.name
    if not threads or len(set(threads)) != len(threads):
        raise UsageError(
            f"--threads {','.join(map(str, threads))} repeats a number" if threads else "--threads is empty",
            hint="for example --threads 1,16,64",
        )
    if len(threads) > 1 and "threads" not in workload_options(name):
        raise UsageError(f"--threads has several numbers, but {name} opens no connections itself")
    workloads = workloads_of_tune(spec, Path.cwd())
    for workload in workloads:
        target.require_load(workload)
    if spec.crash:
        require_crashable(workloads[0], dataset=spec.data.dataset is not None, disk=spec.storage.disk)


def decide(asked: Asked[TuneSpec], pool: ServerPool, watcher: Watcher) -> TuneRequest:
    spec, settings, folder = asked.spec, pool.settings, Path.cwd()
    minutes = DEFAULT_MINUTES_FRESH if spec.minutes is None and spec.trials is None else spec.minutes
    steady = settings.restarts and minutes is not None and minutes >= STEADY_MINUTES
    workload = workloads_of_tune(spec, folder)[0]
    if isinstance(workload, EngineOptions):
        require_cluster(workload.cluster_load, settings.identity.nodes)
    launch = settings.launch(max(spec.threads), BESIDE_MOST * sum(spec.threads))
    lowest = settings.lowest(spec.floor, spec.offer)
    pool_size = _pool_size(spec, asked.data)
    given = settings.parse({**spec.base.settings, **pool_size})
    settings.require_taken(given)
    user = settings.of_base(spec.base, asked.data, max(spec.threads), watcher)
    has = settings.guarding(given)
    runs = {**has, **user.here, **given}
    kept = [load_catalog().setting(name.replace("-", "_")).name for name in (*spec.fixed, *pool_size)]
    kept += names_fixed(user.scaled)
    changes, reasons = settings.raise_to_floor(runs, spec.floor, kept, launch)
    base = {**runs, **changes}
    proposed = partial(
        propose,
        settings.identity,
        floor=lowest,
        storage=settings.storage,
        launch=launch,
        steady_state=steady,
    )
    seen = settings.read(base, launch, watcher, also=base)
    candidates, notes = settings.candidates(proposed, base, seen, kept, spec.base.memory)
    timing = STEADY if steady else SHORT
    if spec.window is not None:
        timing = (
            msgspec.structs.replace(STEADY, seconds=spec.window) if steady else SHORT.with_window(spec.window)
        )
    crash_fail, caveat = failure_mode(settings.storage) if spec.crash else UNCRASHED
    original = {**has, **user.original, **given}
    here = {one.name: base[one.name] for one in user.scaled}  # as it runs, whatever a machine holds
    to_repeat = {name: value for name, value in {**original, **here}.items() if name not in has}
    request = TuneRequest(
        spec=asked.settled(
            pool,
            workload=settled(spec.workload),
            minutes=minutes,
            fixed=(*spec.fixed, *pool_size),
            pool_ratio=None,
            base=msgspec.structs.replace(spec.base, base=None, no_scale=False, settings=to_repeat),
            seed=spec.seed if spec.seed is not None else secrets.randbelow(1 << 31),
            crashes=(spec.crashes or crashable(pool).crashes) if spec.crash else None,
        ),
        **asked.shared(pool),
        folder=str(folder),
        arguments=launch.arguments,
        has=has,
        workload_digest=fingerprint(workload),
        sources=(*texts_of([Path(spec.base.base) if spec.base.base else None]), *sources_of(workload)),
        base=base,
        original=original,
        yours=runs if changes and settings.may_be_below(given) else None,
        raised_why=reasons,
        scaled=user.scaled,
        candidates=candidates,
        lowest=lowest,
        notes=(*settings.warnings(), *user.warnings, *notes, *([caveat] if caveat else [])),
        timing=timing,
        steady_state=steady,
        crash_fail=crash_fail,
    )
    if not spec.fresh:
        request = _scheduled(request, asked, pool, watcher)
    if steady:
        return request
    longer = (
        f"--minutes {STEADY_MINUTES:.0f} or more"
        if settings.restarts
        else "longer windows than slices on your own server"
    )
    text = (
        "short measurement, not steady state: commit-path settings only; redo size, buffer pool, flushing and"
        f" doublewrite need {longer}"
    )
    return msgspec.structs.replace(request, notes=(*request.notes, Warning("short-measurement", text)))


_POOL = "innodb_buffer_pool_size"
_LEAST_POOL = 8 << 20
"""MySQL takes 5 MiB, but then the pages of its own work fill most of it."""


def _pool_size(spec: TuneSpec, data: Data | None) -> dict[str, Value]:
    if spec.pool_ratio is None:
        return {}
    if _POOL in map(canonical, spec.base.settings):
        raise UsageError(
            f"--pool-ratio and --set {_POOL} both size the buffer pool", hint="remove one of them"
        )
    size = bytes_of(data) if data else data_bytes_of(spec.workload.name, spec.workload.options, None)
    if size is None:
        raise UsageError(
            f"--pool-ratio needs data of a known size, and {spec.workload.name} makes its own",
            hint=f"give the size itself: --set {_POOL}=1G",
        )
    pool = round(spec.pool_ratio * size) >> 20 << 20
    if pool < _LEAST_POOL:
        raise UsageError(
            f"{spec.pool_ratio:g} of {format_size(size)} of data is a buffer pool of"
            f" {format_size(spec.pool_ratio * size)}, and it takes {format_size(_LEAST_POOL)}",
            hint="give more data: a larger --table-size",
        )
    return {_POOL: pool}


def _scheduled(
    request: TuneRequest, asked: Asked[TuneSpec], pool: ServerPool, watcher: Watcher
) -> TuneRequest:
    workloads, settings = request.workloads, pool.settings
    for note in () if settings.restarts else request.notes:  # the server's owner may rather stop now
        watcher.say(note.text)
    if not request.candidates and not request.raised:
        return request
    servers, why = pool.capacity(request, workloads)
    if not servers:
        if workloads[0].slice_s is not None:
            watcher.say(f"each trial gets a fresh server: {why}")
        return msgspec.structs.replace(request, why_fresh=why)
    some = f", {servers} at a time against the base ({why})" if why else ""
    who = "servers" if settings.restarts and settings.identity.nodes == 1 else "arms"
    watcher.say(f"{who} {in_slices(settings.restarts, settings.identity)}{some}")
    if asked.spec.window is not None:
        timing = SIDE_BY_SIDE.with_window(asked.spec.window)
    else:
        slice_s = max(workload.slice_s or 0.0 for workload in workloads)
        timing = msgspec.structs.replace(SIDE_BY_SIDE, seconds=max(SIDE_BY_SIDE.seconds, slice_s))
    request = msgspec.structs.replace(request, side_by_side=servers, timing=timing)
    if asked.spec.minutes is not None or asked.spec.trials is not None:
        return request
    shorter = msgspec.structs.replace(
        request, spec=msgspec.structs.replace(request.spec, minutes=DEFAULT_MINUTES)
    )
    try:
        TuneAnalysis(shorter, settings.identity, settings.storage).experiment()
    except BudgetTooSmall:
        return request
    return shorter


def _finish(
    servers: ArmServers, experiment: Tune, session: CampaignSession, ending: Ending
) -> tuple[Any, ...]:
    """Neither where there is no time for it (Ctrl-C), or on the user's own server."""
    request, pool, watcher = servers.request, servers.pool, session.watcher
    assert isinstance(request, TuneRequest)
    result = experiment.result()
    if ending == "interrupted" or not pool.settings.restarts:
        servers.end()
        return ()
    if pool.fleet is not None:
        pool.fleet.rest()
    last = {BASE, *(point.arm for point in result.frontier)}
    if result.proposed and not servers.sliced.keeps_running(last):
        servers.end()  # else the servers that ran equally long recover
    if result.proposed:
        watcher.say("measuring how long the base and the proposed settings take to recover after SIGKILL")

    def crash_winner(name: str, settings: Mapping[str, Value]) -> CrashFacts:
        servers.end()
        watcher.say(f"{name}: {request.spec.crashes} crashes before it is handed over")
        plan = _crash_plan(request, settings, pool, watcher)
        return crash_settings(plan, {name: settings}, session.store, session.campaign_id)

    return servers.sliced if result.proposed else None, crash_winner if request.spec.crashes else None


def _crash_plan(
    request: TuneRequest, settings: Mapping[str, Value], pool: ServerPool, watcher: Watcher
) -> CrashPlan:
    most, target = max(request.spec.threads), crashable(pool)
    workload = request.workloads[request.spec.threads.index(most)]
    spec = CrashSpec(
        server=ServerSpec(cluster=request.spec.server.cluster),
        workload=CrashWorkloadSpec(name=workload.name),
        failure=request.crash_fail,
        crashes=request.spec.crashes or 0,
        threads=most,
        disk_size=disk_mib(settings, target.identity),
        seed=request.seed,
        nodes=target.crash_nodes,
    )
    return CrashPlan(target=target, watcher=watcher, load=CrashLoad(workload=workload), spec=spec)
