"""`series`: from a plan to the facts of a series.

    series(…) -> decide: bind the plan to this server and this machine -> carry_out: run and conclude

Sits in `campaign`; the command line and callers from Python call the same function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from flushlab.campaign.arms import BoundArm
from flushlab.campaign.binding import (
    ServerHere,
    base_settings,
    bind,
    names_of,
    with_other_tables,
    workloads_of,
)
from flushlab.campaign.data import Data, data_of, settled_data
from flushlab.campaign.dry_run import most_s, of_series
from flushlab.campaign.facts import CampaignFacts, CampaignRun
from flushlab.campaign.loop import (
    Ending,
    Run,
    Session,
    require_same_build,
    require_same_values,
    run_campaign,
    run_or_resume,
)
from flushlab.campaign.objective import objective_of_plan
from flushlab.campaign.observed import require_permitted
from flushlab.campaign.pool.protocol import RunnerInput, ServerPool, Use, UserSettings, Work
from flushlab.campaign.pool.room import Volumes
from flushlab.campaign.pool.user_settings import texts_of
from flushlab.campaign.pool.work import Composed, RunTrial, root_for
from flushlab.campaign.request import ArmGroup, SeriesRequest
from flushlab.campaign.scheduling import INTERIM_BLOCKS, ends_by_itself, place_of
from flushlab.campaign.series_analysis import SeriesAnalysis
from flushlab.campaign.several_servers import joined, require_same
from flushlab.campaign.target import NewServers, Target, target_of
from flushlab.campaign.watcher import Watcher, watching
from flushlab.errors import UsageError
from flushlab.experiment.protocol import LATENCIES, Objective, Request
from flushlab.plan.parse import PIPED, find_plan, read_plan, shipped
from flushlab.plan.plan import Plan, chosen, crossed
from flushlab.progress import Progress, silent
from flushlab.record import BASE, BEST, CONTROL, Arm, Launch, SourceText, Trial, Value, Warning
from flushlab.redact import without_passwords
from flushlab.settings.catalog import canonical
from flushlab.settings.option_names import load_option_names
from flushlab.spec.build import build, stored, taking
from flushlab.spec.kinds import CompareSpec, SeriesSpec
from flushlab.spec.parts import RemoteAccess, ServersSpec
from flushlab.trial.runner import AlternatingRunner, ArmRunner
from flushlab.trial.sliced import SlicedRunner
from flushlab.undo import undo_all
from flushlab.units import counted, format_seconds
from flushlab.workload import protocol
from flushlab.workload.engine import require_cluster
from flushlab.workload.options import EngineOptions
from flushlab.workload.parse import (
    build_workload,
    fingerprint,
    parse_timing,
    settled,
    source_text,
    sources_of,
    workload_options,
)
from flushlab.workload.protocol import Workload


class SeriesInput(NamedTuple):
    """A series or a comparison, before a server is looked for.

    Attributes:
        spec: as it was asked for.
        target: the servers that were named.
        data: the user's data, or None.
        only: arms that run, by their whole names; none: all.
        interim: it may end before the last block.
        objective: what is compared.
        blocks: rounds, instead of the plan's, or None.
        window_s: of a window, instead of the plan's, or None.
        measured_s: of a comparison, measured seconds in all; None where its workload ends by itself.
    """

    spec: SeriesSpec | CompareSpec
    target: Target
    data: Data | None = None
    only: tuple[str, ...] = ()
    interim: bool = False
    objective: Objective = "throughput"
    blocks: int | None = None
    window_s: float | None = None
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
    target, watcher = target_of(spec), watching(progress)
    if spec.plan is None:
        return run(None, SeriesInput(spec, target), watcher)
    target.require_files(spec.base.memory, spec.base.base, spec.data.dataset)
    loaded = _load(spec.plan)
    arms = chosen(spec.only, [arm.name for arm in loaded.plan.arms])
    target = target.planned(loaded.plan.server, loaded.plan.cluster)
    if spec.window is not None:
        parse_timing(spec.window)
    data = target.open_data(spec.data, names_of(workloads_of(loaded.plan)), watcher.say)
    target = target.fitting(data, [spec.base.base], watcher.say)
    asked = SeriesInput(
        msgspec.structs.replace(spec, server=target.server),
        target,
        data=data,
        only=arms,
        interim=spec.precision is not None,
        objective=objective_of_plan(spec.objective, loaded.plan, loaded.path, arms),
        blocks=spec.blocks,
        window_s=spec.window,
    )
    return run(lambda _: loaded, asked, watcher)


def run(load: Callable[[ServerPool], Loaded] | None, asked: SeriesInput, watcher: Watcher) -> CampaignFacts:
    """Runs a plan on servers, or resumes a campaign.

    Args:
        load: the plan for a pool; None where the specification names a campaign to resume.
        asked: what was asked for.
        watcher: told what happens.
    """

    def go(earlier: SeriesRequest | None, pool: ServerPool, session: Session) -> CampaignFacts:
        with pool.volumes(watcher.say) as volumes:
            request = _decided(load, asked, pool, volumes, watcher) if load else earlier
            assert request is not None
            changed = [name for arm in (request.base, *request.running) for name in arm.changes]
            require_same_values(request, changed, pool)
            return carry_out(request, pool, volumes, session)

    def foresee(pool: ServerPool) -> CampaignFacts:
        assert load is not None, "what is new has a plan"
        return _foresee(load, asked, pool, watcher)

    return run_or_resume(asked.spec, asked.target, SeriesRequest, watcher, time.monotonic(), foresee, go)


def _decided(
    load: Callable[[ServerPool], Loaded],
    asked: SeriesInput,
    pool: ServerPool,
    volumes: Volumes,
    watcher: Watcher,
) -> SeriesRequest:
    spec = asked.spec
    others = spec.server.others if isinstance(spec.server, ServersSpec) else ()
    pools = (pool, *(pool.other(name, watcher.say) for name in others))
    requests = [decide(load(one), asked, one, volumes, watcher) for one in pools]
    for one, its in zip(requests, pools, strict=True):
        require_permitted(one, its.identity, its.storage)
    request = joined(requests, (spec.server.build, *others), [one.identity for one in pools])
    if request.kind == "compare" and not request.running:
        raise UsageError(
            f"{request.base_name} has nothing to be compared with: "
            + "; ".join(f"{arm.name}: {arm.reason}" for arm in request.arms),
            hint="correct the configurations, or name a server that has them",
        )
    return request if spec.fresh or request.alternate else _scheduled(request, pool, watcher)


def _load(name: str) -> Loaded:
    path = find_plan(name)
    folder = Path.cwd() if path.is_fifo() else path.absolute().parent
    plan = read_plan(path)
    workloads = workloads_of(plan, str(path))  # refuses names that are no workload's
    if protocol.OWN_LOAD in {one.name for one in workloads.values()}:
        raise protocol.only_compared()
    return Loaded(plan, str(path), folder)


def _file(loaded: Loaded) -> str:
    """The plan's file; empty for one that is shipped or comes from no file."""
    path = Path(loaded.path)
    return str(path.absolute()) if path.is_file() and path != shipped(loaded.plan.name) else ""


def _plan_text(loaded: Loaded) -> tuple[SourceText, ...]:
    """The plan as it was written; none for a comparison, which its command says all of."""
    source = loaded.plan.source
    return (source_text("plan", _file(loaded) or loaded.plan.name, source.encode()),) if source else ()


def decide(
    loaded: Loaded, asked: SeriesInput, pool: ServerPool, volumes: Volumes, watcher: Watcher
) -> SeriesRequest:
    """Everything that must not change while the campaign runs.

    Raises:
        UsageError: the plan does not fit the workload, or the server refuses the base.
    """
    spec = asked.spec
    threads = spec.threads if isinstance(spec, SeriesSpec) else None
    plan, identity = loaded.plan, pool.identity
    if threads is not None:
        options = {**plan.workload.options, "threads": threads}
        workload = msgspec.structs.replace(plan.workload, options=options)
        plan = msgspec.structs.replace(plan, workload=workload)
    for one in workloads_of(plan, loaded.path).values():
        require_cluster(one.options.get("cluster_load", "one"), identity.nodes)
    connections = _threads(plan)
    launch = pool.launch(connections, connections * (len(plan.arms) + 3))
    base, _ = base_settings(plan, identity, path=loaded.path)
    _require_taken(plan, pool)
    compared = isinstance(spec, CompareSpec)  # its configurations are whole
    file = None if compared or not spec.base.base else Path(spec.base.base)
    user = UserSettings() if compared else pool.user_settings(spec.base, asked.data, connections, watcher)
    plan = msgspec.structs.replace(plan, base={**user.here, **plan.base})
    names = _names(plan)
    values = pool.settings({**user.here, **base}, launch, watcher, also=names)
    plan, left_out = (plan, ()) if compared else pool.reduced(plan, values)
    here = ServerHere(
        identity=identity,
        values=values,
        launch=launch,
        storage=pool.storage,
        folder=pool.folder,
        has={} if pool.restarts else values,
        shares=not pool.restarts and not compared,
        options=pool.hidden_options(names, values),
    )
    answerable = {*asked.only, BASE, *((BEST,) if len(asked.only) > 1 else ())}
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
    workloads = {
        arm.name: build_workload(arm.workload.name, arm.workload.options, folder=loaded.folder)
        for arm in (bound.base, *bound.arms)
    }
    for each in workloads.values():
        asked.target.require_load(each)
    if compared and not pool.restarts:
        _require_same_tables(workloads)
    texts = (source for workload in workloads.values() for source in sources_of(workload))
    changed = dict.fromkeys(name for arm in bound.arms for name in arm.changes)
    return SeriesRequest(
        spec=_settled(asked, loaded, pool),
        build=pool.identity.name,
        build_id=pool.key,
        machine=pool.machine(),
        fleet=asked.target.needed_fleet,
        clients=asked.target.driven_by,
        has=here.has,
        persisted=pool.persisted(),
        plan=plan.name,
        title=plan.title,
        folder=str(loaded.folder),
        sources=(*_plan_text(loaded), *texts_of((file, *loaded.files)), *dict.fromkeys(texts)),
        base=bound.base,
        arms=bound.arms,
        factors=plan.factors if of_factors <= {*(asked.only or of_factors)} else (),
        claims=tuple(one for one in plan.claims if not asked.only or {one.arm, one.against} <= answerable),
        floor=spec.floor or plan.floor,
        blocks=asked.blocks or plan.blocks,
        interim=asked.interim and not asked.target.on_fleet,
        objective=asked.objective,
        timing=parse_timing(asked.window_s or plan.window),
        best=plan.best and len(asked.only) != 1,  # of one arm it would be that arm once more
        alternate=plan.alternate,
        arguments=launch.arguments,
        dataset=asked.data.facts if asked.data else None,
        dataset_key=asked.data.dataset.key if asked.data else {},
        seed=plan.seed if spec.seed is None else spec.seed,
        notes=(*pool.warnings(changed), *user.warnings, *loaded.notes, *left_out, *bound.notes),
        base_name=plan.base_name,
        measured_s=asked.measured_s,
    )


def _require_same_tables(workloads: Mapping[str, Workload]) -> None:
    """Refuses configurations that need different tables on a server that all of them share."""
    for name, workload in workloads.items():
        if other := with_other_tables(workload, workloads):
            names = " and ".join(sorted({name, other}))
            raise UsageError(
                f"{names} need different tables, and configurations share theirs on your own server",
                hint="give both the same tables (for txn:FILE, the same setup_file), or compare them on"
                " --server, where each has its own",
            )


def _settled(asked: SeriesInput, loaded: Loaded, pool: ServerPool) -> SeriesSpec | CompareSpec:
    """What was asked for, as it repeats the campaign on another machine and another day."""
    spec, plan = stored(asked.spec), loaded.plan
    shared: dict[str, Any] = {
        "server": pool.settled(spec.server),
        "remote": _permitted(spec, pool),
        "data": settled_data(spec.data, asked.data, pool.database),
        "objective": asked.objective if asked.objective == "p99" else spec.objective,
        "base": msgspec.structs.replace(spec.base, no_scale=False),
    }
    if isinstance(spec, CompareSpec):
        return msgspec.structs.replace(spec, workload=settled(spec.workload), **shared)
    return msgspec.structs.replace(
        spec,
        plan=_file(loaded) or (f"{PIPED}.toml" if plan.name == PIPED else plan.name),
        only=asked.only,
        seed=plan.seed if spec.seed is None else spec.seed,
        **shared,
    )


def _permitted(spec: SeriesSpec | CompareSpec, pool: ServerPool) -> RemoteAccess:
    """The access with the permissions that the campaign takes."""
    adds_load = not (isinstance(spec, CompareSpec) and spec.own_load)
    return msgspec.structs.replace(pool.access, allow_writes=pool.access.allow_writes and adds_load)


def _scheduled(request: SeriesRequest, pool: ServerPool, watcher: Watcher) -> SeriesRequest:
    """The request with its arms in slices, as far as possible; reports how the arms will be measured."""
    base, *others = [workload_of(request, arm) for arm in (request.base, *request.running)]
    workloads = {arm.name: workload for arm, workload in zip(request.running, others, strict=True)}
    groups = pool.groups(request, base, workloads)
    if base.slice_s is not None:
        for line in _schedule_words(groups, pool):
            watcher.say(line)
    return msgspec.structs.replace(request, asked_groups=groups, interim=judged_meanwhile(request, groups))


def judged_meanwhile(request: SeriesRequest, groups: Sequence[ArmGroup]) -> bool:
    """Whether interim analyses judge the arms; blocks of a fleet are judged once, over its machines."""
    if request.fleet and not request.clients:
        return False
    has_many = any(group.kept_running and group.blocks >= INTERIM_BLOCKS for group in groups)
    return request.interim or (request.kind == "compare" and has_many)


def _schedule_words(groups: Sequence[ArmGroup], pool: ServerPool) -> Iterator[str]:
    sliced = [group for group in groups if group.kept_running]
    for group in sliced:
        arms = f"{', '.join(group.arms)}: " if len(sliced) > 1 else ""
        seconds = format_seconds(group.seconds)
        blocks = f"{counted(group.blocks, 'block')}, at least {seconds} of each arm in each"
        yield f"{arms}arms {pool.in_slices(group.places)}: {blocks}"
    for group in groups:
        for why in dict.fromkeys(group.why.values()):
            arms = ", ".join(name for name in group.arms if group.why[name] == why)
            yield f"{f'{arms}: ' if sliced else ''}each window gets a fresh server: {why}"


def _foresee(
    load: Callable[[ServerPool], Loaded], asked: SeriesInput, pool: ServerPool, watcher: Watcher
) -> CampaignFacts:
    with pool.volumes(watcher.say) as volumes:
        request = _decided(load, asked, pool, volumes, watcher)
    if request.running:
        pool.require_usable(_use(request), watcher.say)
    bound = SeriesAnalysis(request, pool.identity, pool.storage)
    run = CampaignRun(campaign_id="", ending="dry run", machine=pool.machine())
    found = bound.retold((), run)
    return msgspec.structs.replace(found, forecast=of_series(request, pool))


class ArmRunners:
    """Runs what a series asks for; a context manager, as servers that are kept running live as long as it.

    Args:
        series: the bound request.
        composed: knows what `best` is composed of.
        pool: the servers of the base.
        runners: of the base by an empty name; by the name of its build, of arms on another server.
        volumes: where arms with a place of their own run.
    """

    def __init__(
        self,
        series: SeriesAnalysis,
        composed: Composed,
        pool: ServerPool,
        runners: Mapping[str, ArmRunner],
        volumes: Volumes,
    ) -> None:
        self._series = series
        self._composed = composed
        self._pool = pool
        self._bases = runners
        self._volumes = volumes
        self._runners: dict[tuple[str, float], ArmRunner] = {}
        self._alternating = (
            AlternatingRunner(runners[""], series.request.base.settings) if series.request.alternate else None
        )
        self._group: ArmGroup | None = None
        self._sliced: SlicedRunner | None = None

    def run(self, request: Request) -> Trial:
        """Runs one trial.

        Raises:
            NoSpace, StorageError: what no record can hold.
        """
        self._enter(request)
        if self._sliced is not None:
            return self._sliced.run(request)
        runner = self._alternating or self._of(request.arm)
        return runner.run(request.arm, stage=request.stage, block=request.block, variant=request.variant)

    def open(self) -> None:
        """Opens the places and reads the workloads of all arms that run, before anything is measured.

        Raises:
            UsageError: a file of the workload has changed since the series began.
            StorageError, HarnessError: a place that was there when the series began is gone.
        """
        request = self._series.request
        for arm in (request.base, *request.running):
            found = fingerprint(workload_of(request, arm), request.root)
            if arm.workload_digest and found != arm.workload_digest:
                raise UsageError(
                    f"the workload {without_passwords(arm.workload.name)} has changed since the series began",
                    hint="restore its file, or start a new series: results of two workloads are not"
                    " comparable",
                )
        for group in request.groups:
            for arm in (one for one in request.running if one.name in group.arms):
                self._runner(arm, group)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        runners = (self._alternating, self._sliced, *self._bases.values())
        undo_all(runner.close for runner in runners if runner is not None)

    def _enter(self, request: Request) -> None:
        """Ends the servers of the last group where another begins."""
        wanted, best = self._series.request, request.stage == "best"
        group = wanted.group_of_best(self._composed.best_of) if best else wanted.group_of(request.block)
        if group == self._group:
            return
        if self._sliced is not None:
            self._sliced.close()
        self._group = group
        seed = self._series.request.seed
        self._sliced = self._pool.sliced(self._of, seed, self._place) if group.kept_running else None

    def _place(self, arm: Arm) -> str:
        bound = self._series.arm(arm.name, self._composed.best_of)
        return place_of(bound, self._of(arm).workloads[0], self._series.identity)

    def _of(self, arm: Arm) -> ArmRunner:
        assert self._group is not None, "a request was entered"
        return self._runner(self._series.arm(arm.name, self._composed.best_of), self._group)

    def _runner(self, arm: BoundArm, group: ArmGroup) -> ArmRunner:
        if (arm.name, group.seconds) not in self._runners:
            base, request = self._bases[arm.build], self._series.request
            self._runners[arm.name, group.seconds] = base.with_arm(
                self._pool.reaching(workload_of(request, arm), request.spec.data.database),
                group.timing(base.timing),
                self._volumes.open(arm.data_root, arm.disk),
            )
        return self._runners[arm.name, group.seconds]


def workload_of(request: SeriesRequest, arm: BoundArm) -> Workload:
    """The workload of an arm; reads its file."""
    return build_workload(arm.workload.name, arm.workload.options, folder=Path(request.folder))


def carry_out(request: SeriesRequest, pool: ServerPool, volumes: Volumes, session: Session) -> CampaignFacts:
    """Runs the campaign and gathers its facts; see `stored.run_campaign`."""
    watcher = session.watcher
    bound = SeriesAnalysis(request, pool.identity, pool.storage)
    experiment = bound.experiment()

    def conclude(campaign_id: str, ending: Ending) -> CampaignFacts:
        run = CampaignRun(campaign_id=campaign_id, ending=ending, machine=pool.machine(), others=others)
        return bound.conclude(experiment, session.store.trials(campaign_id), run)

    arms = {arm.name: arm.name for arm in request.running}
    watcher.names({BASE: request.base_name, **arms, CONTROL: CONTROL})
    watcher.spreads(len(pool.machines))
    work = Work(
        request=request,
        here=lambda: _serving(bound, experiment, pool, volumes, watcher),
        there=on_machine,
        ahead=experiment.ahead,
        best_of=lambda: experiment.best_of,
        store=session.store,
        campaign_id=session.campaign_id,
        watcher=watcher,
        root_for=root_for(request.spec.server, request.spec.storage, request.base, *request.running),
    )
    with pool.trials(work) as run_trial:
        others = pool.other_load(watcher, wait=session.wait_for_quiet)
        access = _permitted(request.spec, pool)
        campaign = Run(
            _about(request, len(pool.machines)), experiment, session.store.trials, run_trial, conclude, access
        )
        return run_campaign(request, pool.key, session.after(others), campaign)


@contextmanager
def _serving(
    bound: SeriesAnalysis, composed: Composed, pool: ServerPool, volumes: Volumes, watcher: Watcher
) -> Iterator[RunTrial]:
    """Everything that trials need on this machine."""
    request = bound.request
    builds = dict.fromkeys(arm.build for arm in request.arms if arm.build)
    pools = {name: pool.other(name, watcher.say) for name in builds}
    require_same(request, pools)
    with _used(request, pool, watcher):
        runners = {name: _runner(request, one, watcher) for name, one in {"": pool, **pools}.items()}
        with ArmRunners(bound, composed, pool, runners, volumes) as of_arms:
            runners[""].load(request.base.settings)
            of_arms.open()
            yield of_arms.run


@contextmanager
def on_machine(plan: bytes, composed: Composed, progress: Progress) -> Iterator[RunTrial]:
    """Everything that trials need on a machine of a fleet, which has the builds and the data.

    Args:
        plan: JSON of the `SeriesRequest`.
        composed: knows what `best` is composed of.
        progress: takes a line at a time.
    """
    request, watcher = msgspec.json.decode(plan, type=SeriesRequest), Watcher(progress)
    with (
        NewServers(request.spec.server, request.spec.storage).open(progress) as pool,
        pool.volumes(progress) as volumes,
    ):
        require_same_build(request, pool.key)
        bound = SeriesAnalysis(request, pool.identity, pool.storage)
        with _serving(bound, composed, pool, volumes, watcher) as run_trial:
            yield run_trial


def _used(request: SeriesRequest, pool: ServerPool, watcher: Watcher) -> AbstractContextManager[None]:
    """What the campaign does on its servers; undone behind it."""
    return pool.used(_use(request), watcher.say) if request.running else nullcontext()


def _use(request: SeriesRequest) -> Use:
    workloads = {arm.name: workload_of(request, arm) for arm in (request.base, *request.running)}
    threads = {
        name: workload.threads if isinstance(workload, EngineOptions) else 1
        for name, workload in workloads.items()
    }
    distinct = {(one.name, *sorted(one.data_key.items())): one for one in workloads.values()}
    return Use(
        workloads=list(distinct.values()),
        database=request.spec.data.database,
        arms=[arm.settings for arm in (request.base, *request.running)],
        connections=2 * threads[BASE]  # base and control
        + max((sum(threads[name] for name in group.arms) for group in request.groups), default=0),
        lasts_s=most_s(request),
    )


def _require_taken(plan: Plan, pool: ServerPool) -> None:
    names, release = load_option_names(), (pool.identity.flavor, pool.identity.version)
    for settings in (plan.base, *(arm.settings for arm in plan.arms)):
        known = {name: value for name, value in settings.items() if names.knows(canonical(name), *release)}
        pool.require_taken(known)


def _about(request: SeriesRequest, machines: int) -> str:
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
    if (latency := LATENCIES.get(request.objective)) is not None:
        words += f", compared by {latency}"
    some = f" on {counted(machines, 'machine')}" if machines else ""
    return f"{words}{some}, about {format_seconds(most_s(request, machines or 1))}"


def _threads(plan: Plan) -> int:
    """The most connections that any arm makes."""
    counts: list[Value] = [1]
    for workload in workloads_of(plan).values():
        known = workload_options(workload.name).get("threads")
        counts.append(workload.options.get("threads", known.default if known else 1))
    return max(count for count in counts if isinstance(count, int))


def _names(plan: Plan) -> set[str]:
    names = {*plan.base, *(requirement.setting for requirement in plan.requires)}
    for arm in plan.arms:
        names |= {*arm.settings, *(name for settings in arm.instead for name in settings)}
    return names


def _runner(request: SeriesRequest, pool: ServerPool, watcher: Watcher) -> ArmRunner:
    asked = RunnerInput(
        workloads=(workload_of(request, request.base),),
        timing=request.timing,
        launch=Launch(arguments=request.arguments),
        database=request.spec.data.database,
        data=data_of(request, watcher.say),
    )
    return pool.runner(asked, watcher.say)
