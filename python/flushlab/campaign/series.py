"""`series`: from a plan to the facts of a series.

    series(…) -> decide: bind the plan to this server and this machine -> carry_out: run and conclude

Sits in `campaign`; the command line and callers from Python call the same function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

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
)
from flushlab.campaign.binding import ServerHere, base_settings, bind, place
from flushlab.campaign.bound_series import BoundSeries
from flushlab.campaign.data import Data, data_of, open_data
from flushlab.campaign.duration import ends_by_itself
from flushlab.campaign.external import Own, own_server
from flushlab.campaign.facts import SeriesFacts
from flushlab.campaign.loop import Budget, Ending
from flushlab.campaign.objective import objective_of_plan
from flushlab.campaign.outlook import most_s, of_series, require_new
from flushlab.campaign.quiet import look_around
from flushlab.campaign.runners import ArmRunners, workload_of
from flushlab.campaign.running_server import without_restarts
from flushlab.campaign.series_request import ArmGroup, BoundArm, SeriesRequest
from flushlab.campaign.several_servers import joined, require_same, targets_of
from flushlab.campaign.stored import carry_out as carry_out_stored
from flushlab.campaign.stored import stored_request
from flushlab.campaign.target import (
    Target,
    absolute,
    co_located,
    connection_arguments,
    external_target,
    latency_of,
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
from flushlab.plan.plan import BASE, BEST, CONTROL, MAX_BLOCKS, Claim, Plan, crossed
from flushlab.plan.shipped import find_plan, read_plan, shipped
from flushlab.process.running import on_board
from flushlab.record import Launch, SourceText, Warning
from flushlab.server.base_file import require_taken
from flushlab.settings.catalog import canonical
from flushlab.settings.fit import as_warnings
from flushlab.settings.floor import Floor, parse_floor
from flushlab.settings.option_names import load_option_names
from flushlab.store import Store, open_store
from flushlab.trial import TrialRunner
from flushlab.units import counted, format_seconds
from flushlab.workload import (
    Workload,
    build_workload,
    fingerprint,
    parse_timing,
    source_text,
    sources_of,
    workload_options,
)
from flushlab.workload.driven import Driven, require_cluster

DEFAULT_SERVER = "mariadb"
MAX_SCALE = 1e6


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a series was asked for besides its plan; see `series`."""

    base: str | None = None
    memory: str | None = None
    exact: bool = False
    blocks: int | None
    seconds: float | None
    scale: float
    threads: int | None = None
    basedir: str | None
    data_root: str | None
    disk_iops: int | None
    disk: str | None
    cluster: int | None = None
    latency_s: float | None = None
    seed: int | None
    fresh: bool = False
    wait_for_quiet: bool
    dry_run: bool
    data: Data | None = None
    servers: tuple[str, ...] = ()
    own: Own | None = None
    only: tuple[str, ...] = ()
    looks: bool = False
    precision: float | None = None
    floor: Floor | None = None
    objective: Objective = "throughput"


class Compared(NamedTuple):
    """What a comparison was asked for; see `SeriesRequest`. Its plan has all of it, for one server."""

    configurations: tuple[str, ...]
    base_file: str | None
    measured_s: float | None
    asked_blocks: int | None


class Loaded(NamedTuple):
    """A plan, where it stands, the folder that its files are relative to, and what a comparison was asked."""

    plan: Plan
    path: str
    folder: Path
    notes: tuple[Warning, ...] = ()
    compared: Compared | None = None


def series(
    plan: Path | str | None = None,
    *,
    server: str | None = None,
    dsn: str | None = None,
    defaults_file: Path | str | None = None,
    allow_writes: bool = False,
    tune_server: bool = False,
    base: Path | str | None = None,
    memory: str | None = None,
    exact: bool = False,
    blocks: int | None = None,
    seconds: float | None = None,
    only: Sequence[str] = (),
    precision: float | None = None,
    floor: Floor | str | None = None,
    objective: str | None = None,
    threads: int | None = None,
    scale: float = 1.0,
    dataset: Path | str | None = None,
    database: str | None = None,
    basedir: Path | str | None = None,
    data_root: Path | str | None = None,
    disk_iops: int | None = None,
    disk: str | None = None,
    cluster: int | None = None,
    network_latency: str | None = None,
    seed: int | None = None,
    fresh: bool = False,
    wait_for_quiet: bool = False,
    dry_run: bool = False,
    resume: str | None = None,
    progress: Progress | Watcher = silent,
) -> SeriesFacts:
    """Runs a plan: one change at a time against a base, then all that proved faster.

    The arguments are those of `flushlab series` under the same names. The campaign is stored; `resume`
    resumes an interrupted one.

    Args:
        plan: a plan's file, or the name of a shipped one.
        server: a build; the plan's own, or mariadb, if None.
        dsn: your own server instead, or a node of your Galera cluster, whose other nodes are found, or all of
            them: `mysql://USER:PASSWORD@NODE1,NODE2,NODE3`. Arms that take a restart, or tables of their own,
            are left out.
        defaults_file: the same, by an option file's group `[client]`.
        allow_writes: the load may write to your own server; tables that it makes are dropped at the end.
        tune_server: settings of your own server may be changed; they are put back at the end.
        base: your option file, below the plan's base; what this machine cannot hold of it is scaled.
        memory: that the server may use, like `2G`; half of the machine's if None.
        exact: refuse a base that this machine cannot hold, instead of scaling it.
        blocks: rounds, instead of the plan's.
        seconds: measured window, instead of the plan's.
        only: arms to run, by name or its beginning, instead of all.
        precision: stop measuring an arm once its interval is this narrow (0.02 is ± 2 %); the blocks are
            then a limit.
        floor: the weakest guarantees that may be recommended and be part of `best`, instead of the plan's or
            the base's own; arms below it are measured and shown.
        objective: what is compared: `throughput` or, at a fixed `rate` of the plan's workload, `p99` latency;
            None: whichever it is.
        threads: connections, instead of the plan's; arms with their own number keep it.
        scale: multiplies the size of the plan's tables.
        dataset: your data: a dump, a dump folder or a stopped server's data directory.
        database: the workload's, of those in the data.
        basedir: use the server installed there.
        data_root: where data directories go.
        disk_iops: make a slow disk: at most this many writes/s (root, cgroups).
        disk: run on a disk of its own, as slow as this one, such as `gp3` (root).
        cluster: start a Galera cluster of this many nodes in the server's place; the plan's if None.
        network_latency: put a network between a cluster's nodes, like `1ms` there and back (root).
        seed: of every random order, instead of the plan's.
        fresh: start a fresh server for every window, also where arms could stand side by side.
        wait_for_quiet: wait until other programs leave the machine alone, for half an hour at most.
        dry_run: only say what would be done, in `outlook`; nothing is started or written.
        resume: id of a campaign to resume, in place of a plan.
        progress: takes a line at a time.

    Returns:
        What was found; its `ending` tells whether Ctrl-C ended it.

    Raises:
        FlushlabError: what no record can hold; what was measured is safe.
    """
    if (plan is None) == (resume is None):
        raise UsageError(
            "give either a plan or --resume ID",
            hint="`flushlab series --init` writes a plan to start from",
        )
    if isinstance(only, str):
        only = (only,)
    own = own_server(
        dsn,
        defaults_file,
        database=database,
        allow_writes=allow_writes,
        tune_server=tune_server,
        server=server,
        base=base,
        memory=memory,
        exact=exact,
        dataset=dataset,
        basedir=basedir,
        data_root=data_root,
        disk_iops=disk_iops,
        disk=disk,
        cluster=cluster,
        network_latency=network_latency,
        fresh=fresh,
    )
    if own is None and resume is None:
        require_scalable(memory, base, dataset)
    loaded = _load(str(plan)) if plan is not None else None
    workload = loaded.plan.workload.name if loaded else ""
    arms = chosen(only, [arm.name for arm in loaded.plan.arms]) if loaded else ()
    compared: Objective = "throughput"
    if loaded is not None:
        compared = objective_of_plan(objective, loaded.plan, loaded.path, arms)
    data = open_data(dataset, database, workload, watching(progress).say) if loaded and not own else None
    nodes = cluster if cluster is not None or loaded is None or own is not None else loaded.plan.cluster
    asked = Asked(
        base=absolute(base),
        memory=memory,
        exact=exact,
        blocks=blocks,
        seconds=seconds,
        scale=scale,
        threads=threads,
        basedir=absolute(basedir),
        data_root=absolute(data_root),
        disk_iops=disk_iops,
        disk=disk,
        cluster=nodes,
        latency_s=latency_of(network_latency, nodes),
        seed=seed,
        fresh=fresh,
        wait_for_quiet=wait_for_quiet,
        dry_run=dry_run,
        data=data,
        own=own,
        only=arms,
        looks=precision is not None,
        precision=precision,
        floor=None if floor is None else parse_floor(floor),
        objective=compared,
    )
    check(asked)
    wanted = server or (loaded and loaded.plan.server) or DEFAULT_SERVER
    return run((lambda _: loaded) if loaded else None, asked, wanted, watching(progress), resume)


def run(
    load: Callable[[Target], Loaded] | None,
    asked: Asked,
    server: str,
    watcher: Watcher,
    resume: str | None = None,
    kind: Literal["series", "compare"] = "series",
) -> SeriesFacts:
    """Runs a plan on a server, or resumes a campaign.

    Args:
        load: the plan for a target; None where `resume` names a campaign.
        asked: what was asked for besides.
        server: a build.
        watcher: told what happens.
        resume: id of the campaign.
        kind: of the campaign.
    """
    began = time.monotonic()
    if asked.dry_run:
        require_new(resume)
        assert load is not None, "what is new has a plan"
        if asked.own is not None:
            with external_target(asked.own) as theirs:  # which is only read
                return _foresee(load, asked, server, theirs, watcher)
        target = paper_target(
            server,
            basedir=asked.basedir,
            data_root=asked.data_root,
            cluster=asked.cluster,
            latency_s=asked.latency_s,
        )
        return _foresee(load, asked, server, target, watcher)
    with on_board(kind, server=server), open_store() as store:
        earlier = stored_request(store, resume, kind, SeriesRequest) if resume else None
        with (
            target_of(earlier, asked, asked.own, server, watcher.say) as target,
            Volumes(target.volume, watcher.say) as volumes,
        ):
            request = _decided(load, asked, server, target, volumes, watcher) if load else earlier
            assert request is not None
            return carry_out(request, target, volumes, store, resume, watcher, asked.wait_for_quiet, began)


def _decided(
    load: Callable[[Target], Loaded],
    asked: Asked,
    server: str,
    target: Target,
    volumes: Volumes,
    watcher: Watcher,
) -> SeriesRequest:
    """The request of all servers together."""
    targets = (target, *targets_of(asked.servers, target, watcher))
    requests = [decide(load(one), asked, one, volumes, watcher) for one in targets]
    request = joined(requests, (server, *asked.servers), [one.identity for one in targets])
    if request.kind == "compare" and not request.running:
        raise UsageError(
            f"{request.base_name} has nothing to be compared with: "
            + "; ".join(f"{arm.name}: {arm.reason}" for arm in request.arms),
            hint="correct the configurations, or name a server that has them",
        )
    return request if request.fresh or request.alternate else _by_the_way(request, target, watcher)


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


def check(asked: Asked) -> None:
    """Finds out what makes no sense before anything is started.

    Raises:
        UsageError: a figure out of range.
    """
    check_blocks(asked.blocks)
    if asked.seconds is not None:
        parse_timing(asked.seconds)
    if asked.precision is not None and not 0 < asked.precision < 1:
        raise UsageError(
            f"--precision {asked.precision:g} is out of range",
            hint="it takes more than 0% and less than 100%, for example 2%",
        )
    if not 0 < asked.scale <= MAX_SCALE:
        raise UsageError(
            f"--scale {asked.scale:g} is out of range", hint=f"it takes more than 0, up to {MAX_SCALE:g}"
        )


def check_blocks(blocks: int | None) -> None:
    """Raises UsageError for a number of blocks that no series has."""
    if blocks is not None and not 2 <= blocks <= MAX_BLOCKS:
        raise UsageError(
            f"--blocks {blocks} is out of range",
            hint=f"it takes 2 to {MAX_BLOCKS}; an interval needs two blocks, a good one five",
        )


def decide(loaded: Loaded, asked: Asked, target: Target, volumes: Volumes, watcher: Watcher) -> SeriesRequest:
    """Everything that must not change while the campaign runs.

    Raises:
        UsageError: the plan does not fit the workload, or the server refuses the base.
    """
    plan, build, catalog = _driven(loaded.plan, asked.threads), target.build, target.catalog
    for options in (plan.workload.options, *(arm.workload for arm in plan.arms)):
        require_cluster(options.get("cluster_load", "one"), target.nodes)
    loads = len(plan.arms) + 3 if target.nodes > 1 else 1  # each arm on a cluster keeps its connections
    launch = Launch(arguments=connection_arguments(_threads(plan) * loads)) if not asked.own else Launch()
    identity = target.identity
    base, _ = base_settings(plan, identity, catalog, path=loaded.path)
    if asked.own is None:
        _require_taken(plan, build)
    compared = loaded.compared
    theirs = {
        **file_settings(Path(asked.base) if asked.base else None, target, watcher),
        **({} if compared else persisted_settings(asked.data, target, watcher)),
    }
    fit = fitted(
        theirs,
        target,
        watcher,
        memory=asked.memory,
        exact=asked.exact,
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
        scale=asked.scale,
        folder=loaded.folder,
        path=loaded.path,
    )
    workload = build_workload(plan.workload.name, bound.base.options, folder=loaded.folder)
    return SeriesRequest(
        build=build.name,
        build_id=build.id,
        basedir=asked.basedir,
        external=target.external.name if target.external else "",
        plan=plan.name,
        path=_file(loaded),
        title=plan.title,
        folder=str(loaded.folder),
        workload=plan.workload.name,
        workload_digest=fingerprint(workload),
        sources=(*_plan_text(loaded), *sources_of(workload)),
        base=bound.base,
        base_file=compared.base_file if compared else asked.base,
        memory=asked.memory,
        arms=bound.arms,
        only=asked.only,
        factors=plan.factors if of_factors <= {*(asked.only or of_factors)} else (),
        claims=tuple(one for one in plan.claims if _can_be_answered(one, asked.only)),
        floor=asked.floor or plan.floor,
        blocks=asked.blocks or plan.blocks,
        looks=asked.looks,
        precision=asked.precision,
        objective=asked.objective,
        timing=parse_timing(asked.seconds or plan.seconds),
        best=plan.best and len(asked.only) != 1,  # of one arm it would be that arm once more
        fresh=asked.fresh,
        alternate=plan.alternate,
        scale=asked.scale,
        asked_threads=asked.threads,
        arguments=launch.arguments,
        dataset=asked.data.dataset.path if asked.data else None,
        dataset_key=asked.data.dataset.key if asked.data else {},
        database=_database(asked),
        data_root=asked.data_root,
        disk_iops=asked.disk_iops,
        disk=asked.disk,
        cluster=asked.cluster,
        latency_s=asked.latency_s,
        seed=plan.seed if asked.seed is None else asked.seed,
        notes=(*_of_place(target, bound.arms), *as_warnings(fit), *loaded.notes, *left_out, *bound.notes),
        kind="compare" if compared else "series",
        base_name=plan.base_name,
        configurations=compared.configurations if compared else (),
        measured_s=compared.measured_s if compared else None,
        asked_blocks=compared.asked_blocks if compared else None,
    )


def _can_be_answered(claim: Claim, only: Sequence[str]) -> bool:
    """Whether the arms of a claim are among those that were asked for; none were: all run."""
    known = {*only, BASE, *((BEST,) if len(only) > 1 else ())}
    return not only or {claim.arm, claim.against} <= known


def _database(asked: Asked) -> str | None:
    if asked.own is not None:
        return asked.own.database
    return asked.data.database if asked.data else None


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
    load: Callable[[Target], Loaded], asked: Asked, server: str, target: Target, watcher: Watcher
) -> SeriesFacts:
    """The outlook as facts; see `outlook`."""
    with PaperVolumes(target.volume) as volumes:
        request = _decided(load, asked, server, target, volumes, watcher)
    storage = target.volume.data_root.storage
    bound = BoundSeries(request, target.identity, storage, target.catalog)
    found = bound.conclude(bound.experiment(), (), "dry run", "", target.volume.machine())
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
) -> SeriesFacts:
    """Runs the campaign and gathers its facts; see `stored.carry_out`."""
    bound = BoundSeries(
        request=request,
        identity=target.identity,
        storage=target.volume.data_root.storage,
        catalog=target.catalog,
        has=read_base({}, target, Launch(), watcher) if target.external else {},
    )
    experiment = bound.experiment()

    def conclude(campaign_id: str, ending: Ending) -> SeriesFacts:
        trials, machine = store.trials(campaign_id), target.volume.machine()
        return bound.conclude(experiment, trials, ending, campaign_id, machine, others)

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
        return carry_out_stored(
            request,
            target,
            store,
            resumed,
            watcher,
            about=_about(request),
            experiment=experiment,
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
    load = external.driving(workload_of(request, request.base), server, request.database)
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
    return workload.threads if isinstance(workload, Driven) else 1


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
