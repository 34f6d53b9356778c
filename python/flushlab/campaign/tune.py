"""`tune`: from what was asked to the facts of a tuning.

    tune(…) -> decide: everything that must not change while the campaign runs -> carry_out: run and conclude

Sits in `campaign`; the command line and callers from Python call the same function.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign.base import file_settings, fitted, persisted_settings, read_base, texts_of
from flushlab.campaign.crash.check import UNCRASHED, disk_mib, failure_mode, require_crashable
from flushlab.campaign.crash.crash import crash_settings
from flushlab.campaign.crash.load import CrashLoad
from flushlab.campaign.crash.plan import CrashPlan
from flushlab.campaign.data import Data, data_of, open_data, settled_data
from flushlab.campaign.external import Load, Own, doubts, driving, own_server, settled_access
from flushlab.campaign.external_use import differing, used
from flushlab.campaign.facts import FIRST_LOOK_MINUTES, CampaignFacts, CampaignRun
from flushlab.campaign.loop import Budget, Ending
from flushlab.campaign.objective import objective_of
from flushlab.campaign.outlook import of_tune, require_new
from flushlab.campaign.quiet import look_around
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.running_server import guarding, has_all, lifted, tried
from flushlab.campaign.stored import run_campaign, stored_request
from flushlab.campaign.target import (
    Target,
    co_located,
    connection_arguments,
    external_target,
    paper_target,
    target_of,
    trial_runner,
)
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.campaign.watcher import Watcher, watching
from flushlab.campaign.way import BESIDE_MOST, beside
from flushlab.errors import BudgetTooSmall, UsageError
from flushlab.experiment.blocks import BASE
from flushlab.experiment.objective import Objective
from flushlab.experiment.protocol import Request
from flushlab.machine import available_memory_bytes
from flushlab.process.running import publish_status
from flushlab.record import Arm, CrashFacts, Launch, OtherLoad, Trial, Value, Warning
from flushlab.server.remote.group import RemoteGroup
from flushlab.server.sandbox.base_file import require_taken
from flushlab.server.variables import persisted
from flushlab.settings.candidate import Candidate
from flushlab.settings.candidates import lift, propose
from flushlab.settings.catalog import Catalog
from flushlab.settings.fit import Scaled, as_warnings, names_fixed
from flushlab.settings.floor import Floor
from flushlab.settings.given import parse_settings
from flushlab.spec.build import build, stored
from flushlab.spec.kinds import CrashSpec, TuneSpec
from flushlab.spec.parts import LedgerWorkloadSpec, ServerSpec
from flushlab.spec.sugar import taking
from flushlab.store import Store, open_store
from flushlab.trial import StandingRunner, TrialRunner
from flushlab.trial.standing import CLUSTER_SLICE_S
from flushlab.trial.switching import restart_settings
from flushlab.units import counted, parse_size
from flushlab.workload import (
    Timing,
    Workload,
    all_options,
    fingerprint,
    parse_timing,
    parse_workload,
    settled,
    sources_of,
    workload_options,
)
from flushlab.workload.driven import EngineOptions, require_cluster

DEFAULT_MINUTES, DEFAULT_MINUTES_FRESH = 5.0, 10.0
CRASH_IMAGES, CLUSTER_CRASH_IMAGES = 30, 8
SIDE_BY_SIDE = Timing(warm_up_s=1.5, max_warm_up_s=4.0, seconds=1.0)
FIRST_LOOK = Timing(warm_up_s=1.5, max_warm_up_s=4.0, seconds=4.0)
STEADY = Timing(warm_up_s=5.0, max_warm_up_s=30.0, seconds=20.0, max_seconds=180.0)


class Asked(NamedTuple):
    """What a tuning was asked for, and what is known of it before a server is looked for."""

    spec: TuneSpec
    objective: Objective
    data: Data | None = None
    own: Own | None = None


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
    resume, workload = spec.run.resume, spec.workload
    own = own_server(spec.remote, spec.data.database, workload)
    if resume is not None:
        asked = Asked(spec, "throughput", own=own)
    else:
        objective = objective_of(spec.objective, workload.name, workload.options)
        require_sensible(spec)
        data = open_data(spec.data, workload.name, watcher.say) if own is None else None
        asked = Asked(spec, objective, data, own)
    if spec.run.dry_run:
        require_new(resume)
        if own is not None:
            with external_target(own) as theirs:  # which is only read
                return _foresee(asked, theirs, watcher)
        return _foresee(asked, paper_target(spec.server, spec.storage), watcher)
    with (
        publish_status("tune", server=spec.server.build, workload=workload.name, floor=spec.floor),
        open_store() as store,
    ):
        earlier = stored_request(store, resume, "tune", TuneRequest) if resume else None
        with target_of(earlier, spec, own, watcher.say) as target:
            request = earlier or decide(asked, target, watcher)
            return carry_out(request, target, store, resume, watcher, spec.run.wait_for_quiet, began)


def require_sensible(spec: TuneSpec) -> None:
    """Finds out what makes no sense before a server is looked for.

    Raises:
        UsageError and its kin: what makes no sense, alone or together.
    """
    threads, name = spec.threads, spec.workload.name
    if not threads or len(set(threads)) != len(threads):
        raise UsageError(
            f"--threads {','.join(map(str, threads))} repeats a number" if threads else "--threads is empty",
            hint="for example --threads 1,16,64",
        )
    taken = workload_options(name)
    if len(threads) > 1 and "threads" not in taken:
        raise UsageError(f"--threads has several numbers, but {name} opens no connections itself")
    if spec.minutes is None and spec.trials is not None and spec.trials <= 0:
        raise UsageError("the budget must be above 0", hint="give --minutes or --trials")
    for workload in _workloads_of(spec, Path.cwd()):
        if isinstance(workload, EngineOptions):
            require_cluster(workload.cluster_load, spec.server.cluster or 1)
    if spec.crash:
        require_crashable(
            _crash_images(spec),
            _workloads_of(spec, Path.cwd())[0],
            dataset=spec.data.dataset is not None,
            disk=spec.storage.disk,
        )
    if spec.seconds is not None:
        parse_timing(spec.seconds)


def decide(asked: Asked, target: Target, watcher: Watcher) -> TuneRequest:
    """Everything that must not change while the campaign runs.

    Raises:
        UsageError and its kin: what the server does not take.
    """
    spec, data, own = asked.spec, asked.data, asked.own
    minutes = DEFAULT_MINUTES_FRESH if spec.minutes is None and spec.trials is None else spec.minutes
    steady = own is None and minutes is not None and minutes >= FIRST_LOOK_MINUTES
    build, launch = target.build, Launch(arguments=_connections(spec.threads, spec.server.cluster))
    given = parse_settings(
        spec.base.settings, build.flavor, build.version, target.catalog, nodes=target.nodes
    )
    if target.external is None:
        require_taken(build, given)
    kept = [target.catalog.setting(name.replace("-", "_")).name for name in spec.keep]
    if target.external is not None:
        start = _start_there(spec.floor, target.external, target.catalog, given, kept)
    else:
        start = _start_here(asked, target, watcher, launch, given, kept, steady=steady)
    timing = STEADY if steady else FIRST_LOOK
    if spec.seconds is not None:
        seconds = parse_timing(spec.seconds).seconds
        timing = msgspec.structs.replace(timing, seconds=seconds) if steady else timing.with_window(seconds)
    storage = target.volume.data_root.storage
    crash_fail, doubt = failure_mode(storage) if spec.crash else UNCRASHED
    workload = _workloads_of(spec, Path.cwd())[0]
    request = TuneRequest(
        spec=_settled(asked, target, start, minutes),
        build=build.name,
        build_id=build.id,
        external=target.external.name if target.external else "",
        persisted=persisted(target.external.query, target.identity) if target.external else None,
        folder=str(Path.cwd()),
        workload_digest=fingerprint(workload),
        sources=(*texts_of([Path(spec.base.base) if spec.base.base else None]), *sources_of(workload)),
        base=start.base,
        original=start.original,
        yours=start.yours,
        has=start.has,
        raised_why=start.raised_why,
        scaled=start.scaled,
        notes=(*start.notes, *([doubt] if doubt else [])),
        candidates=start.candidates,
        timing=timing,
        steady_state=steady,
        objective=asked.objective,
        dataset_key=data.dataset.key if data else {},
        crash_fail=crash_fail,
    )
    return request if spec.fresh else _by_the_way(request, asked, target, watcher)


def _settled(asked: Asked, target: Target, start: _Start, minutes: float | None) -> TuneSpec:
    """What was asked for, as it repeats the campaign on another machine and another day."""
    spec, own = asked.spec, asked.own
    here = {one.name: start.base[one.name] for one in start.scaled}  # as it runs, whatever a machine holds
    settings = {name: value for name, value in {**start.original, **here}.items() if name not in start.has}
    server = spec.server if own else msgspec.structs.replace(spec.server, server=target.build.name)
    return msgspec.structs.replace(
        stored(spec),
        server=server,
        remote=settled_access(own, target.external.name if target.external else ""),
        workload=settled(spec.workload),
        minutes=minutes,
        base=msgspec.structs.replace(spec.base, base=None, exact=False, settings=settings),
        data=settled_data(spec.data, asked.data, own.database if own else None),
        objective=asked.objective if asked.objective != "throughput" else spec.objective,
        seed=spec.seed if spec.seed is not None else secrets.randbelow(1 << 31),
        crash_images=_crash_images(spec) if spec.crash else None,
    )


class _Start(NamedTuple):
    """What a tuning starts from; see `TuneRequest`."""

    base: Mapping[str, Value]
    original: Mapping[str, Value]
    raised_why: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    scaled: tuple[Scaled, ...] = ()
    notes: tuple[Warning, ...] = ()
    has: Mapping[str, Value] = {}
    yours: Mapping[str, Value] | None = None


def _start_here(
    asked: Asked,
    target: Target,
    watcher: Watcher,
    launch: Launch,
    given: Mapping[str, Value],
    kept: Sequence[str],
    *,
    steady: bool,
) -> _Start:
    """On servers that flushlab starts: the user's option file, as this machine can hold it."""
    spec = asked.spec
    identity, storage = target.identity, target.volume.data_root.storage
    theirs = {
        **file_settings(Path(spec.base.base) if spec.base.base else None, target, watcher),
        **persisted_settings(asked.data, target, watcher),
    }
    fit = fitted(
        theirs,
        target,
        watcher,
        memory=spec.base.memory,
        exact=spec.base.exact,
        connections=max(spec.threads),
        data=asked.data,
    )
    original, runs = {**theirs, **given}, {**fit.settings, **given}
    kept = [*kept, *names_fixed(fit.scaled)]
    changes, reasons = lift(runs, spec.floor, identity=identity, storage=storage, launch=launch, keep=kept)
    base = {**runs, **changes}
    seen = read_base(base, target, launch, watcher, also=base)
    memory = (
        available_memory_bytes()
        if spec.base.memory is None
        else min(parse_size(spec.base.memory), available_memory_bytes())
    )
    candidates = propose(
        target.catalog,
        identity,
        base={**base, **seen},
        floor=spec.floor,
        storage=storage,
        launch=launch,
        memory_bytes=memory,
        keep=kept,
        steady_state=steady,
    )
    notes = (*co_located(target.nodes, target.latency_s), *as_warnings(fit))
    return _Start(base, original, reasons, candidates, fit.scaled, notes, yours=runs if changes else None)


def _start_there(
    floor: Floor,
    server: RemoteGroup,
    catalog: Catalog,
    given: Mapping[str, Value],
    kept: Sequence[str],
) -> _Start:
    """On somebody's own server: how it is. How much memory it may have, only its pool tells."""
    identity = server.identity
    seen = server.read_back({*catalog.names(identity.flavor, identity.version), *given})
    has = {name: value for name, value in guarding(seen, catalog).items() if name not in given}
    original = {**has, **given}
    changes, reasons = lifted(original, seen, floor, identity, kept)
    base = {**original, **changes}
    pool = seen.get("innodb_buffer_pool_size")

    def proposed(keep: Iterable[str]) -> tuple[Candidate, ...]:
        return propose(
            catalog,
            identity,
            base={**seen, **base},
            floor=floor,
            storage=server.storage,
            launch=Launch(),
            memory_bytes=pool if isinstance(pool, int) else 0,
            keep=keep,
        )

    every = proposed(kept)
    unlike = differing(server, {name for one in every for name in one.settings})
    possible, notes = tried(every, seen, identity, unlike)
    out = {name for one in every if one not in possible for name in one.settings}
    candidates, _ = tried(proposed([*kept, *out]), seen, identity, unlike)  # what is out keeps nothing out
    yours = original if changes and has_all(given, seen, identity) else None  # nothing below a floor is set
    return _Start(base, original, reasons, candidates, notes=(*doubts(), *notes), has=has, yours=yours)


def _by_the_way(request: TuneRequest, asked: Asked, target: Target, watcher: Watcher) -> TuneRequest:
    """The request with its servers side by side, where they can stand so; says how it will be measured."""
    workloads = _workloads(request)
    if target.external is not None:
        for note in request.notes:
            watcher.say(note.text)
    if not request.candidates and not request.raised:
        return request
    servers, why = beside(request, workloads, target)
    if not servers:
        if workloads[0].slice_s is not None:
            watcher.say(f"each trial gets a fresh server: {why}")
        return msgspec.structs.replace(request, why_fresh=why)
    some = f", {servers} at a time against the base ({why})" if why else ""
    where = "arms take turns on clusters" if target.nodes > 1 else "servers stand side by side and take turns"
    if target.external is not None:
        where = "arms take turns on your server"
    watcher.say(f"{where}{some}")
    slice_s = max(workload.slice_s or 0.0 for workload in workloads)
    each_s = asked.spec.seconds or max(SIDE_BY_SIDE.seconds, slice_s)
    timing = msgspec.structs.replace(SIDE_BY_SIDE, seconds=each_s)
    request = msgspec.structs.replace(request, side_by_side=servers, timing=timing)
    if asked.spec.minutes is not None or asked.spec.trials is not None:
        return request
    shorter = msgspec.structs.replace(
        request, spec=msgspec.structs.replace(request.spec, minutes=DEFAULT_MINUTES)
    )
    try:
        _tuning(shorter, target).experiment()
    except BudgetTooSmall:
        return request
    return shorter


def _tuning(request: TuneRequest, target: Target) -> TuneAnalysis:
    return TuneAnalysis(request, target.identity, target.volume.data_root.storage, _launch(request))


def _foresee(asked: Asked, target: Target, watcher: Watcher) -> CampaignFacts:
    """The outlook as facts; see `outlook`."""
    request = decide(asked, target, watcher)
    tuning = _tuning(request, target)
    run = CampaignRun(campaign_id="", ending="dry run", machine=target.volume.machine())
    found = tuning.conclude(tuning.experiment(), (), run)
    return msgspec.structs.replace(found, outlook=of_tune(tuning, target))


def carry_out(
    request: TuneRequest,
    target: Target,
    store: Store,
    resumed: str | None,
    watcher: Watcher,
    wait_for_quiet: bool,
    began: float,
) -> CampaignFacts:
    """Runs the campaign and gathers its facts; see `stored.run_campaign`."""
    tuning = _tuning(request, target)
    experiment = tuning.experiment()

    def run_trial(asked: Request) -> Trial:
        if request.side_by_side:
            return standing.run(asked)
        return runner.run(asked.arm, stage=asked.stage, block=asked.block, variant=asked.variant)

    def crash_winner(campaign_id: str, name: str, settings: Mapping[str, Value]) -> CrashFacts:
        standing.close()
        watcher.say(f"{name}: {request.crash_images} crashes before it is handed over")
        plan = _crash_plan(request, settings, target, watcher)
        return crash_settings(plan, {name: settings}, store, campaign_id)

    def conclude(campaign_id: str, ending: Ending, others: OtherLoad | None, *, ran: bool) -> CampaignFacts:
        ours = ran and ending != "interrupted" and not request.external
        result = experiment.result()
        if ran and (not ours or not standing.stand_for({BASE, *(point.arm for point in result.frontier)})):
            standing.close()  # else the servers that stood alike recover
        if ours and result.winner is not None:
            watcher.say("measuring how long the winner and the base take to recover after SIGKILL")
        return tuning.conclude(
            experiment,
            store.trials(campaign_id),
            CampaignRun(
                campaign_id=campaign_id, ending=ending, machine=target.volume.machine(), others=others
            ),
            standing if ours else None,
            partial(crash_winner, campaign_id) if request.crash_images and ours else None,
        )

    def whole(others: OtherLoad | None = None, *, ran: bool) -> CampaignFacts:
        return run_campaign(
            request,
            target,
            store,
            resumed,
            watcher,
            about=_about(request),
            experiment=experiment,
            known=store.trials,
            run_trial=run_trial,
            budget=Budget(seconds=request.budget_s, trials=request.spec.trials),
            budget_s=request.budget_s,
            began=began + (others.waited_s if others else 0.0),
            conclude=lambda campaign_id, ending: conclude(campaign_id, ending, others, ran=ran),
        )

    if experiment.ask() is None:
        return whole(ran=False)  # nothing is left to try, which takes no server
    with (
        _used(request, target, watcher),
        _runner(request, target, watcher) as runner,
        _turns(runner, request, target) as standing,
    ):
        runner.preparation.load(request.base)
        return whole(look_around(target.volume.data_root.path, watcher, wait=wait_for_quiet), ran=True)


def _crash_plan(
    request: TuneRequest, settings: Mapping[str, Value], target: Target, watcher: Watcher
) -> CrashPlan:
    """How settings crash before they are handed over."""
    most = max(request.spec.threads)
    workload = _workloads(request)[request.spec.threads.index(most)]
    nodes = target.nodes if target.nodes > 1 else None
    spec = CrashSpec(
        server=ServerSpec(cluster=nodes),
        workload=LedgerWorkloadSpec(name=workload.name),
        fail=request.crash_fail,
        images=request.crash_images,
        threads=most,
        disk_size=disk_mib(settings, target.identity),
        seed=request.seed,
        nodes="all" if nodes else None,  # the nodes that stay would make good what the settings lose
    )
    return CrashPlan(target=target, watcher=watcher, load=CrashLoad(workload=workload), spec=spec)


def _about(request: TuneRequest) -> str:
    candidates = counted(len(request.candidates), "candidate")
    by = "p99 latency" if request.objective == "p99" else "throughput"
    return f"{candidates} down to the floor {request.spec.floor}, compared by {by}"


@contextmanager
def _used(request: TuneRequest, target: Target, watcher: Watcher) -> Iterator[None]:
    """What the campaign needs and changes of somebody's own server; undone behind it."""
    if target.external is None or target.own is None:
        yield
        return
    load, *_ = _driven(request, target)
    with used(
        target.external,
        target.own,
        load,
        request.run,
        watcher.say,
        connections=request.side_by_side * sum(request.spec.threads),
        lasts_s=request.budget_s,
    ):
        yield


def _driven(request: TuneRequest, target: Target) -> tuple[Load, ...]:
    """The workloads as they reach somebody's own server."""
    assert target.external is not None, "there is one"
    return tuple(driving(one, target.external, request.spec.data.database) for one in _workloads(request))


def _turns(runner: TrialRunner, request: TuneRequest, target: Target) -> StandingRunner:
    if (server := target.external) is not None:
        return StandingRunner(lambda _: runner, request.seed, lambda _: server.name, slice_s=CLUSTER_SLICE_S)
    if target.nodes == 1:
        return StandingRunner(lambda _: runner, request.seed)

    def place_of(arm: Arm) -> str:
        return repr(sorted(restart_settings(arm.settings, target.identity).items()))

    return StandingRunner(lambda _: runner, request.seed, place_of, slice_s=CLUSTER_SLICE_S)


def _launch(request: TuneRequest) -> Launch:
    return (
        Launch()
        if request.external
        else Launch(arguments=_connections(request.spec.threads, request.spec.server.cluster))
    )


def _connections(threads: Sequence[int], cluster: int | None) -> tuple[str, ...]:
    """Arguments for the connections; each arm on a cluster keeps its own."""
    return connection_arguments(max(threads) if cluster is None else BESIDE_MOST * sum(threads))


def _workloads(request: TuneRequest) -> tuple[Workload, ...]:
    return _workloads_of(request.spec, Path(request.folder))


def _workloads_of(spec: TuneSpec, folder: Path) -> tuple[Workload, ...]:
    """One for each number of connections.

    Raises:
        UsageError: no such workload, or options that make no sense.
    """
    asked = settled(spec.workload)
    takes_threads = "threads" in workload_options(asked.name)
    return tuple(
        parse_workload(asked.name, {**asked.options, **({"threads": count} if takes_threads else {})}, folder)
        for count in spec.threads
    )


def _runner(request: TuneRequest, target: Target, watcher: Watcher) -> TrialRunner:
    workloads = _workloads(request)
    if request.workload_digest and fingerprint(workloads[0]) != request.workload_digest:
        raise UsageError(
            f"the workload {request.workload} has changed since the campaign began",
            hint="restore its file, or start a new campaign: figures of two workloads are not comparable",
        )
    return trial_runner(
        target,
        workloads if target.external is None else _driven(request, target),
        request.timing,
        arguments=_launch(request).arguments,
        data=data_of(request, watcher.say),
        outlast_redo=request.steady_state,
        progress=watcher.say,
    )


def _crash_images(spec: TuneSpec) -> int:
    """Crashes of the winner before it is handed over."""
    usual = CRASH_IMAGES if spec.server.cluster is None else CLUSTER_CRASH_IMAGES
    return usual if spec.crash_images is None else spec.crash_images
