"""`series`: from a plan to the facts of a series.

    series(…) -> decide: bind the plan to this server and this machine -> carry_out: run and conclude

Sits in `campaign`; the command line and callers from Python call the same function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from flushlab.build import Build, Progress, silent
from flushlab.campaign import external, external_use
from flushlab.campaign.base import (
    file_settings,
    fitted,
    hidden_options,
    persisted_settings,
    read_base,
    require_scalable,
    texts_of,
)
from flushlab.campaign.binding import ServerHere, base_settings, bind, place
from flushlab.campaign.bound_series import BoundSeries
from flushlab.campaign.data import Data, data_of, open_data, settled_data
from flushlab.campaign.duration import ends_by_itself
from flushlab.campaign.external import Own, own_server, settled_access
from flushlab.campaign.facts import CampaignFacts, CampaignRun
from flushlab.campaign.loop import Budget, Ending
from flushlab.campaign.objective import objective_of_plan
from flushlab.campaign.outlook import most_s, of_series, require_new
from flushlab.campaign.quiet import look_around
from flushlab.campaign.runners import ArmRunners, workload_of
from flushlab.campaign.running_server import without_restarts
from flushlab.campaign.series_request import ArmGroup, BoundArm, SeriesRequest
from flushlab.campaign.several_servers import in_full, joined, require_same, targets_of
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
from flushlab.campaign.volumes import PaperVolumes, Volumes
from flushlab.campaign.watcher import Watcher, watching
from flushlab.campaign.way import LOOKS_BLOCKS, groups_of, on_one_server
from flushlab.errors import UsageError
from flushlab.experiment.objective import Objective
from flushlab.plan.only import chosen
from flushlab.plan.plan import BASE, BEST, CONTROL, Claim, Plan, crossed
from flushlab.plan.shipped import PIPED, find_plan, read_plan, shipped
from flushlab.process.running import publish_status
from flushlab.record import Launch, SourceText, Warning
from flushlab.server.sandbox.base_file import require_taken
from flushlab.server.variables import persisted
from flushlab.settings.catalog import canonical
from flushlab.settings.fit import as_warnings
from flushlab.settings.option_names import load_option_names
from flushlab.spec.build import build, stored
from flushlab.spec.kinds import CompareSpec, SeriesSpec
from flushlab.spec.parts import DEFAULT_SERVER, ServersSpec
from flushlab.spec.sugar import taking
from flushlab.store import Store, open_store
from flushlab.trial import TrialRunner
from flushlab.units import counted, format_seconds
from flushlab.workload import (
    Workload,
    build_workload,
    fingerprint,
    parse_timing,
    settled,
    source_text,
    sources_of,
    workload_options,
)
from flushlab.workload.driven import EngineOptions, require_cluster


class Asked(NamedTuple):
    """What a series or a comparison was asked for, and what is known of it before a server is looked for.

    Attributes:
        spec: as it was asked for.
        own: somebody's own server, or None.
        data: the user's data, or None.
        only: arms that run, by their whole names; none: all.
        looks: it may end before the last block.
        objective: what is compared.
        blocks: rounds, instead of the plan's, or None.
        seconds: of a window, instead of the plan's, or None.
        measured_s: of a comparison, measured seconds in all; None where its workload ends by itself.
    """

    spec: SeriesSpec | CompareSpec
    own: Own | None = None
    data: Data | None = None
    only: tuple[str, ...] = ()
    looks: bool = False
    objective: Objective = "throughput"
    blocks: int | None = None
    seconds: float | None = None
    measured_s: float | None = None


class Loaded(NamedTuple):
    """A plan, where it stands, the folder that its files are relative to, what is to be said of it, and the
    option files that its arms are made from."""

    plan: Plan
    path: str
    folder: Path
    notes: tuple[Warning, ...] = ()
    files: Iterable[Path | None] = ()


@taking(SeriesSpec, progress="Takes a line at a time.")
def series(
    plan: Path | str | None = None, *, progress: Progress | Watcher = silent, **given: Any
) -> CampaignFacts:
    """Runs a plan: one change at a time against a base, then all that proved faster.

    The campaign is stored; `resume` resumes an interrupted one. On a server of your own, arms that take a
    restart, or tables of their own, are left out.

    Returns:
        What was found; its `ending` tells whether Ctrl-C ended it.

    Raises:
        FlushlabError: what no record can hold; what was measured is safe.
    """
    spec = build(SeriesSpec, {"plan": plan, **given})
    resume = spec.run.resume
    if (spec.plan is None) == (resume is None):
        raise UsageError(
            "give either a plan or --resume ID",
            hint="`flushlab series --init` writes a plan to start from",
        )
    own = own_server(spec.remote, spec.data.database)
    watcher = watching(progress)
    if spec.plan is None:
        return run(None, Asked(spec, own), watcher)
    if own is None:
        require_scalable(spec.base.memory, spec.base.base, spec.data.dataset)
    loaded = _load(spec.plan)
    arms = chosen(spec.only, [arm.name for arm in loaded.plan.arms])
    server = spec.server
    if own is None:
        wanted = server.server or loaded.plan.server or DEFAULT_SERVER
        nodes = server.cluster if server.cluster is not None else loaded.plan.cluster
        server = msgspec.structs.replace(server, server=wanted, cluster=nodes)
    if spec.seconds is not None:
        parse_timing(spec.seconds)
    asked = Asked(
        msgspec.structs.replace(spec, server=server),
        own=own,
        data=open_data(spec.data, loaded.plan.workload.name, watcher.say) if own is None else None,
        only=arms,
        looks=spec.precision is not None,
        objective=objective_of_plan(spec.objective, loaded.plan, loaded.path, arms),
        blocks=spec.blocks,
        seconds=spec.seconds,
    )
    return run(lambda _: loaded, asked, watcher)


def run(load: Callable[[Target], Loaded] | None, asked: Asked, watcher: Watcher) -> CampaignFacts:
    """Runs a plan on a server, or resumes a campaign.

    Args:
        load: the plan for a target; None where the specification names a campaign to resume.
        asked: what was asked for.
        watcher: told what happens.
    """
    began, spec = time.monotonic(), asked.spec
    resume = spec.run.resume
    if spec.run.dry_run:
        require_new(resume)
        assert load is not None, "what is new has a plan"
        if asked.own is not None:
            with external_target(asked.own) as theirs:  # which is only read
                return _foresee(load, asked, theirs, watcher)
        return _foresee(load, asked, paper_target(spec.server, spec.storage), watcher)
    with publish_status(spec.kind, server=spec.server.build), open_store() as store:
        earlier = stored_request(store, resume, spec.kind, SeriesRequest) if resume else None
        with (
            target_of(earlier, spec, asked.own, watcher.say) as target,
            Volumes(target.volume, watcher.say) as volumes,
        ):
            request = _decided(load, asked, target, volumes, watcher) if load else earlier
            assert request is not None
            return carry_out(request, target, volumes, store, resume, watcher, spec.run.wait_for_quiet, began)


def _decided(
    load: Callable[[Target], Loaded],
    asked: Asked,
    target: Target,
    volumes: Volumes,
    watcher: Watcher,
) -> SeriesRequest:
    """The request of all servers together."""
    spec = asked.spec
    others = spec.server.others if isinstance(spec.server, ServersSpec) else ()
    targets = (target, *targets_of(others, target, watcher))
    requests = [decide(load(one), asked, one, volumes, watcher) for one in targets]
    request = joined(requests, (spec.server.build, *others), [one.identity for one in targets])
    if request.kind == "compare" and not request.running:
        raise UsageError(
            f"{request.base_name} has nothing to be compared with: "
            + "; ".join(f"{arm.name}: {arm.reason}" for arm in request.arms),
            hint="correct the configurations, or name a server that has them",
        )
    return request if spec.fresh or request.alternate else _by_the_way(request, target, watcher)


def _load(name: str) -> Loaded:
    path = find_plan(name)
    folder = Path.cwd() if path.is_fifo() else path.absolute().parent
    plan = read_plan(path)
    try:
        workload_options(plan.workload.name)
    except UsageError as error:
        at = place(plan, str(path), "workload.name")
        raise UsageError(f"{at}{error.message}", hint=error.hint) from error
    return Loaded(plan, str(path), folder)


def _file(loaded: Loaded) -> str:
    """The plan's file; empty for one that is shipped or comes from no file."""
    path = Path(loaded.path)
    return str(path.absolute()) if path.is_file() and path != shipped(loaded.plan.name) else ""


def _plan_text(loaded: Loaded) -> tuple[SourceText, ...]:
    """The plan as it was written; none for a comparison, which its command says all of."""
    source = loaded.plan.source
    return (source_text("plan", _file(loaded) or loaded.plan.name, source.encode()),) if source else ()


def decide(loaded: Loaded, asked: Asked, target: Target, volumes: Volumes, watcher: Watcher) -> SeriesRequest:
    """Everything that must not change while the campaign runs.

    Raises:
        UsageError: the plan does not fit the workload, or the server refuses the base.
    """
    spec, own = asked.spec, asked.own
    compared = isinstance(spec, CompareSpec)
    threads = spec.threads if isinstance(spec, SeriesSpec) else None
    plan, build, catalog = _driven(loaded.plan, threads), target.build, target.catalog
    for options in (plan.workload.options, *(arm.workload for arm in plan.arms)):
        require_cluster(options.get("cluster_load", "one"), target.nodes)
    loads = len(plan.arms) + 3 if target.nodes > 1 else 1  # each arm on a cluster keeps its connections
    launch = Launch(arguments=connection_arguments(_threads(plan) * loads)) if own is None else Launch()
    identity = target.identity
    base, _ = base_settings(plan, identity, catalog, path=loaded.path)
    if own is None:
        _require_taken(plan, build)
    file = None if compared or not spec.base.base else Path(spec.base.base)
    theirs = {
        **file_settings(file, target, watcher),
        **({} if compared else persisted_settings(asked.data, target, watcher)),
    }
    fit = fitted(
        theirs,
        target,
        watcher,
        memory=spec.base.memory,
        exact=spec.base.exact,
        connections=_threads(plan),
        data=asked.data,
    )
    plan = msgspec.structs.replace(plan, base={**fit.settings, **plan.base})
    base = {**fit.settings, **base}
    names = _names(plan)
    values = read_base(base, target, launch, watcher, also=names)
    has = values if target.external else {}
    left_out: tuple[Warning, ...] = ()
    if target.external and not compared:
        plan, left_out = without_restarts(plan, has, identity)
    here = ServerHere(
        identity=identity,
        catalog=catalog,
        values=values,
        launch=launch,
        has=has,
        goes_on=target.external is not None and not compared,
        options=hidden_options(names, values, target),
    )
    of_factors = {*crossed(plan.factors).values()} - {BASE}
    bound = bind(
        plan,
        here,
        volumes,
        only=asked.only or None,
        scale=spec.scale if isinstance(spec, SeriesSpec) else 1.0,
        folder=loaded.folder,
        path=loaded.path,
    )
    workload = build_workload(plan.workload.name, bound.base.options, folder=loaded.folder)
    return SeriesRequest(
        spec=_settled(asked, loaded, target),
        build=build.name,
        build_id=build.id,
        external=target.external.name if target.external else "",
        persisted=persisted(target.external.query, identity) if target.external else None,
        plan=plan.name,
        title=plan.title,
        folder=str(loaded.folder),
        workload=plan.workload.name,
        workload_digest=fingerprint(workload),
        sources=(*_plan_text(loaded), *texts_of((file, *loaded.files)), *sources_of(workload)),
        base=bound.base,
        arms=bound.arms,
        factors=plan.factors if of_factors <= {*(asked.only or of_factors)} else (),
        claims=tuple(one for one in plan.claims if _can_be_answered(one, asked.only)),
        floor=spec.floor or plan.floor,
        blocks=asked.blocks or plan.blocks,
        looks=asked.looks,
        objective=asked.objective,
        timing=parse_timing(asked.seconds or plan.seconds),
        best=plan.best and len(asked.only) != 1,  # of one arm it would be that arm once more
        alternate=plan.alternate,
        arguments=launch.arguments,
        dataset_key=asked.data.dataset.key if asked.data else {},
        seed=plan.seed if spec.seed is None else spec.seed,
        notes=(*_of_place(target, bound.arms), *as_warnings(fit), *loaded.notes, *left_out, *bound.notes),
        base_name=plan.base_name,
        measured_s=asked.measured_s,
    )


def _settled(asked: Asked, loaded: Loaded, target: Target) -> SeriesSpec | CompareSpec:
    """What was asked for, as it repeats the campaign on another machine and another day."""
    spec, own, plan = stored(asked.spec), asked.own, loaded.plan
    data = settled_data(spec.data, asked.data, own.database if own else None)
    remote = settled_access(own, target.external.name if target.external else "")
    objective = asked.objective if asked.objective != "throughput" else spec.objective
    seed = plan.seed if spec.seed is None else spec.seed
    if isinstance(spec, CompareSpec):
        name = () if own else (in_full(spec.server.build, target.build.name), *spec.server.others)
        return msgspec.structs.replace(
            spec,
            server=msgspec.structs.replace(spec.server, servers=name),
            workload=settled(spec.workload),
            remote=remote,
            data=data,
            objective=objective,
            base=msgspec.structs.replace(spec.base, exact=False),
        )
    server = spec.server if own else msgspec.structs.replace(spec.server, server=target.build.name)
    return msgspec.structs.replace(
        spec,
        plan=_file(loaded) or (f"{PIPED}.toml" if plan.name == PIPED else plan.name),
        server=server,
        remote=remote,
        only=asked.only,
        data=data,
        objective=objective,
        seed=seed,
        base=msgspec.structs.replace(spec.base, exact=False),
    )


def _can_be_answered(claim: Claim, only: Sequence[str]) -> bool:
    """Whether the arms of a claim are among those that were asked for; none were: all run."""
    known = {*only, BASE, *((BEST,) if len(only) > 1 else ())}
    return not only or {claim.arm, claim.against} <= known


def _of_place(target: Target, arms: Sequence[BoundArm]) -> tuple[Warning, ...]:
    """What is to be said of where the campaign runs."""
    if target.external is None:
        return co_located(target.nodes, target.latency_s)
    changes, catalog = dict.fromkeys(name for arm in arms for name in arm.changes), target.catalog
    later = (name for name in changes if name in catalog and catalog.setting(name).needs_steady_state)
    return tuple(external.doubts(later))


def _by_the_way(request: SeriesRequest, target: Target, watcher: Watcher) -> SeriesRequest:
    """The request with as many of its arms side by side as can stand so; says how they will be measured."""
    base, *others = [workload_of(request, arm) for arm in (request.base, *request.running)]
    workloads = {arm.name: workload for arm, workload in zip(request.running, others, strict=True)}
    if target.external is None:
        groups = groups_of(request, base, workloads, target)
    else:
        loads = external_use.free_connections(target.external) // max(map(_threads_of, (base, *others)))
        groups = on_one_server(request, base, workloads, loads)
    if base.slice_s is not None:
        for line in _way_words(groups, own=target.external is not None):
            watcher.say(line)
    looks = request.looks or (
        request.kind == "compare" and any(group.standing and group.blocks >= LOOKS_BLOCKS for group in groups)
    )
    return msgspec.structs.replace(request, asked_groups=groups, looks=looks)


_SIDE_BY_SIDE = "stand side by side and take turns"


def _way_words(groups: Sequence[ArmGroup], *, own: bool) -> Iterator[str]:
    turns = [group for group in groups if group.standing]
    for group in turns:
        arms = f"{', '.join(group.arms)}: " if len(turns) > 1 else ""
        seconds = format_seconds(group.seconds)
        blocks = f"{counted(group.blocks, 'block')}, at least {seconds} of each arm in each"
        how = _SIDE_BY_SIDE
        if group.places:
            how = f"take turns on {'your server' if own else counted(group.places, 'cluster')}"
        yield f"{arms}arms {how}: {blocks}"
    for group in groups:
        for why in dict.fromkeys(group.why.values()):
            arms = ", ".join(name for name in group.arms if group.why[name] == why)
            yield f"{f'{arms}: ' if turns else ''}each window gets a fresh server: {why}"


def _foresee(
    load: Callable[[Target], Loaded], asked: Asked, target: Target, watcher: Watcher
) -> CampaignFacts:
    """The outlook as facts; see `outlook`."""
    with PaperVolumes(target.volume) as volumes:
        request = _decided(load, asked, target, volumes, watcher)
    storage = target.volume.data_root.storage
    bound = BoundSeries(request, target.identity, storage, target.catalog)
    run = CampaignRun(campaign_id="", ending="dry run", machine=target.volume.machine())
    found = bound.conclude(bound.experiment(), (), run)
    return msgspec.structs.replace(found, outlook=of_series(request, target))


def carry_out(
    request: SeriesRequest,
    target: Target,
    volumes: Volumes,
    store: Store,
    resumed: str | None,
    watcher: Watcher,
    wait_for_quiet: bool,
    began: float,
) -> CampaignFacts:
    """Runs the campaign and gathers its facts; see `stored.run_campaign`."""
    bound = BoundSeries(
        request=request,
        identity=target.identity,
        storage=target.volume.data_root.storage,
        catalog=target.catalog,
        has=read_base({}, target, Launch(), watcher) if target.external else {},
    )
    experiment = bound.experiment()

    def conclude(campaign_id: str, ending: Ending) -> CampaignFacts:
        machine = target.volume.machine()
        run = CampaignRun(campaign_id=campaign_id, ending=ending, machine=machine, others=others)
        return bound.conclude(experiment, store.trials(campaign_id), run)

    arms = {arm.name: arm.name for arm in request.running}
    watcher.names({BASE: request.base_name, **arms, CONTROL: CONTROL})
    builds = dict.fromkeys(arm.build for arm in request.arms if arm.build)
    targets = {one.build.name: one for one in targets_of(builds, target, watcher)}
    require_same(request, targets)
    with (
        _used(request, target, watcher),
        ArmRunners(bound, experiment, _runner(request, target, watcher), volumes, targets) as runners,
    ):
        runners.open()
        others = look_around(target.volume.data_root.path, watcher, wait=wait_for_quiet)
        return run_campaign(
            request,
            target,
            store,
            resumed,
            watcher,
            about=_about(request),
            experiment=experiment,
            known=store.trials,
            run_trial=runners.run,
            budget=Budget(),
            budget_s=None,
            began=began + (others.waited_s if others else 0.0),
            conclude=conclude,
        )


@contextmanager
def _used(request: SeriesRequest, target: Target, watcher: Watcher) -> Iterator[None]:
    """What the campaign needs and changes of somebody's own server; undone behind it."""
    server, own = target.external, target.own
    if server is None or own is None or not request.running:
        yield
        return
    load = external.driving(workload_of(request, request.base), server, request.spec.data.database)
    threads = {arm.name: _threads_of(workload_of(request, arm)) for arm in request.running}
    with external_use.used(
        server,
        own,
        load,
        [arm.settings for arm in (request.base, *request.running)],
        watcher.say,
        connections=2 * load.threads  # base and control
        + max((sum(threads[name] for name in group.arms) for group in request.groups), default=0),
        lasts_s=most_s(request),
    ):
        yield


def _require_taken(plan: Plan, build: Build) -> None:
    """Asks the binary about the values of settings that only it can judge."""
    names, release = load_option_names(), (build.flavor, build.version)
    for settings in (plan.base, *(arm.settings for arm in plan.arms)):
        known = {name: value for name, value in settings.items() if names.knows(canonical(name), *release)}
        require_taken(build, known)


def _about(request: SeriesRequest) -> str:
    arms = len(request.running)
    if not arms:
        return f"{request.plan}: none of its arms can run here"
    blocks = counted(sum(group.blocks for group in request.groups), "block")
    if request.kind == "compare":
        words = f"{counted(arms + 1, 'configuration')} and the control in {blocks}"
    else:
        words = f"{request.plan}: {arms} of {len(request.arms)} arms in {blocks}"
    if ends_by_itself(request.workload):
        return words
    if request.objective == "p99":
        words += ", compared by p99 latency"
    return f"{words}, about {format_seconds(most_s(request))}"


def _driven(plan: Plan, threads: int | None) -> Plan:
    """The plan with so many connections, where a number is asked for."""
    if threads is None:
        return plan
    options = {**plan.workload.options, "threads": threads}
    return msgspec.structs.replace(plan, workload=msgspec.structs.replace(plan.workload, options=options))


def _threads(plan: Plan) -> int:
    """The most connections that any arm makes."""
    known = workload_options(plan.workload.name).get("threads")
    counts = [plan.workload.options.get("threads"), *(arm.workload.get("threads") for arm in plan.arms)]
    counts.append(known.default if known else 1)
    return max(count for count in counts if isinstance(count, int))


def _names(plan: Plan) -> set[str]:
    """Every setting that the plan names."""
    names = {*plan.base, *(requirement.setting for requirement in plan.requires)}
    for arm in plan.arms:
        names |= {*arm.settings, *(name for settings in arm.instead for name in settings)}
    return names


def _threads_of(workload: Workload) -> int:
    return workload.threads if isinstance(workload, EngineOptions) else 1


def _runner(request: SeriesRequest, target: Target, watcher: Watcher) -> TrialRunner:
    workloads = (workload_of(request, request.base),)
    runner = trial_runner(
        target,
        workloads,
        request.timing,
        arguments=request.arguments,
        data=data_of(request, watcher.say),
        progress=watcher.say,
    )
    runner.preparation.load(request.base.settings)
    return runner
