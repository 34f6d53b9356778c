"""`series`: plans a series, which takes one change at a time against a base, then all that proved faster.

    series(…) -> campaign.run -> decide: the plan, bound to this server and this machine -> …

Sits in `campaign`; the command line and callers from Python call the same function. `compare` is a series of
one plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from flushlab.campaign.binding import ServerHere, base_settings, bind, with_other_tables, workloads_of
from flushlab.campaign.campaign import Asked, run
from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.objective import objective_of_plan
from flushlab.campaign.pool.protocol import ServerPool
from flushlab.campaign.pool.room import Volumes
from flushlab.campaign.pool.settings import ServerSettings, texts_of
from flushlab.campaign.request import ArmGroup, SeriesRequest
from flushlab.campaign.scheduling import INTERIM_BLOCKS, in_slices
from flushlab.campaign.several_servers import joined
from flushlab.campaign.target import target_of
from flushlab.campaign.watcher import Watcher, watching
from flushlab.errors import BelowFloor, UsageError
from flushlab.plan.parse import PIPED, find_plan, read_plan, shipped
from flushlab.plan.plan import Plan, chosen, crossed
from flushlab.progress import Progress, silent
from flushlab.record import BASE, BEST, ServerIdentity, SourceText, Storage, Value, Warning
from flushlab.settings.catalog import canonical
from flushlab.settings.durability import Guarantees, guarantees, keeps, level
from flushlab.settings.durability.guarantee import FAILURES
from flushlab.settings.floor import Floor
from flushlab.settings.option_names import load_option_names
from flushlab.spec.build import build, taking
from flushlab.spec.kinds import CompareSpec, SeriesSpec
from flushlab.spec.parts import ServersSpec, WorkloadSpec
from flushlab.units import counted, format_seconds
from flushlab.workload import protocol
from flushlab.workload.engine import require_cluster
from flushlab.workload.parse import (
    build_workload,
    parse_timing,
    source_text,
    sources_of,
    workload_options,
)
from flushlab.workload.protocol import Workload

TABLE_SIZE = "table_size"


@dataclass(frozen=True, kw_only=True)
class SeriesAsked(Asked[SeriesSpec | CompareSpec]):
    """`plan`: on a server; `files`: of the base and of arms, whose settings lie above those of their option
    file; `measured_s`: of a comparison, None where its workload ends by itself."""

    plan: Callable[[ServerPool], Plan] | None = None
    files: Mapping[str, Path | None] = field(default_factory=dict)
    measured_s: float | None = None


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
    if (spec.plan is None) == (spec.run.resume is None):
        raise UsageError(
            "give either a plan or --resume ID",
            hint="`flushlab series --init` writes a plan to start from",
        )
    target, watcher = target_of(spec), watching(progress)
    if spec.plan is None:
        return run_plan(SeriesAsked(spec=spec, target=target), watcher)
    target.require_files(spec.base.memory, spec.base.base, spec.data.dataset)
    read = _as_asked(_load(spec.plan), spec)
    only = chosen(spec.only, [arm.name for arm in read.arms])
    name = f"{PIPED}.toml" if read.name == PIPED else read.name
    files = {BASE: Path(spec.base.base) if spec.base.base else None}
    asked = SeriesAsked(
        spec=msgspec.structs.replace(spec, plan=_file_of(read) or name, only=only, seed=read.seed),
        target=target.planned(read.server, read.cluster),
        plan=lambda _: read,
        files=files,
        objective=objective_of_plan(spec.objective, read, only),
    )
    workloads = [one.name for one in workloads_of(read).values()]
    return run_plan(asked.on_data(workloads, files.values(), watcher.say), watcher)


def run_plan(asked: SeriesAsked, watcher: Watcher) -> CampaignFacts:
    def decided(pool: ServerPool, volumes: Volumes) -> SeriesRequest:
        server = asked.spec.server
        others = server.others if isinstance(server, ServersSpec) else ()
        pools = (pool, *(pool.other(name, watcher.say) for name in others))
        requests = [decide(asked, one, volumes, watcher) for one in pools]
        for one, its in zip(requests, pools, strict=True):
            require_permitted(one, its.settings.identity, its.settings.storage)
        request = joined(requests, (server.build, *others), [one.settings.identity for one in pools])
        if request.kind == "compare" and not request.running:
            raise UsageError(
                f"{request.base_name} has nothing to be compared with: "
                + "; ".join(f"{arm.name}: {arm.reason}" for arm in request.arms),
                hint="correct the configurations, or name a server that has them",
            )
        return request if asked.spec.fresh or request.alternate else _scheduled(request, pool, watcher)

    return run(asked, SeriesRequest, decided, watcher, time.monotonic())


def _load(name: str) -> Plan:
    plan = read_plan(find_plan(name))
    workloads = workloads_of(plan)  # refuses names that are no workload's
    if protocol.OWN_LOAD in {one.name for one in workloads.values()}:
        raise protocol.only_compared()
    return plan


def _file_of(plan: Plan) -> str:
    path = Path(plan.path)
    return str(path.absolute()) if path.is_file() and path != shipped(plan.name) else ""


def _as_asked(plan: Plan, spec: SeriesSpec) -> Plan:
    if spec.threads is not None:
        options = {**plan.workload.options, "threads": spec.threads}
        plan = msgspec.structs.replace(plan, workload=msgspec.structs.replace(plan.workload, options=options))
    return msgspec.structs.replace(
        plan if spec.scale == 1 else scaled(plan, spec.scale),
        blocks=spec.blocks or plan.blocks,
        window=spec.window or plan.window,
        seed=plan.seed if spec.seed is None else spec.seed,
    )


def scaled(plan: Plan, factor: float) -> Plan:
    known = workload_options(plan.workload.name)
    if TABLE_SIZE not in known:
        message = f"{plan.workload.name} has no {TABLE_SIZE} for --scale to multiply"
        raise UsageError(message, hint="remove --scale")

    def multiplied(workload: WorkloadSpec, size: Value | None) -> WorkloadSpec:
        if not isinstance(size, int):
            return workload
        return msgspec.structs.replace(
            workload, options={**workload.options, TABLE_SIZE: max(1, round(size * factor))}
        )

    sizes = {TABLE_SIZE: known[TABLE_SIZE].default, **plan.workload.options}
    arms = [(arm, arm.workload.options.get(TABLE_SIZE)) for arm in plan.arms]
    return msgspec.structs.replace(
        plan,
        workload=multiplied(plan.workload, sizes[TABLE_SIZE]),
        arms=tuple(
            msgspec.structs.replace(arm, workload=multiplied(arm.workload, size)) for arm, size in arms
        ),
    )


def decide(asked: SeriesAsked, pool: ServerPool, volumes: Volumes, watcher: Watcher) -> SeriesRequest:
    assert asked.plan is not None, "what is new has a plan"
    spec, settings, plan = asked.spec, pool.settings, asked.plan(pool)
    identity, compared = settings.identity, isinstance(spec, CompareSpec)
    only = spec.only if isinstance(spec, SeriesSpec) else ()
    for one in workloads_of(plan).values():
        require_cluster(one.options.get("cluster_load", "one"), identity.nodes)
    connections = _threads(plan)
    launch = settings.launch(connections, connections * (len(plan.arms) + 3))
    base, _ = base_settings(plan, identity)
    known_names = load_option_names()
    for own in (plan.base, *(arm.settings for arm in plan.arms)):
        settings.require_taken(
            {
                name: value
                for name, value in own.items()
                if known_names.knows(canonical(name), identity.flavor, identity.version)
            }
        )
    beneath, notes = _of_files(asked, settings, connections, watcher)
    plan = msgspec.structs.replace(
        plan,
        base={**beneath[BASE], **plan.base},
        arms=tuple(
            msgspec.structs.replace(arm, settings={**beneath.get(arm.name, {}), **arm.settings})
            for arm in plan.arms
        ),
    )
    names = {*plan.base, *(requirement.setting for requirement in plan.requires)}
    for arm in plan.arms:
        names |= {*arm.settings, *(name for instead in arm.instead for name in instead)}
    values = settings.read({**beneath[BASE], **base}, launch, watcher, also=names)
    plan, left_out = (plan, ()) if compared else settings.reduced(plan, values)  # configurations are whole
    here = ServerHere(
        identity=identity,
        values=values,
        launch=launch,
        storage=settings.storage,
        folder=settings.folder,
        has={} if settings.restarts else values,
        shares=not settings.restarts and not compared,
        options=settings.hidden_options(names, values),
    )
    bound = bind(plan, here, volumes, only or None)
    workloads = {
        arm.name: build_workload(arm.workload.name, arm.workload.options, folder=plan.folder)
        for arm in (bound.base, *bound.arms)
    }
    for each in workloads.values():
        asked.target.require_load(each)
    if compared and not settings.restarts:
        _require_same_tables(workloads)
    texts = (source for workload in workloads.values() for source in sources_of(workload))
    changed = dict.fromkeys(name for arm in bound.arms for name in arm.changes)
    answerable = {*only, BASE, *((BEST,) if len(only) > 1 else ())}
    of_factors = {*crossed(plan.factors).values()} - {BASE}
    plan_text = list[SourceText]()
    if plan.source:
        plan_text.append(source_text("plan", _file_of(plan) or plan.name, plan.source.encode()))
    return SeriesRequest(
        spec=asked.settled(pool),
        **asked.shared(pool),
        has=here.has,
        plan=plan.name,
        title=plan.title,
        folder=str(plan.folder or Path.cwd()),
        sources=(*plan_text, *texts_of(asked.files.values()), *dict.fromkeys(texts)),
        base=bound.base,
        arms=bound.arms,
        factors=plan.factors if of_factors <= {*(only or of_factors)} else (),
        claims=tuple(one for one in plan.claims if not only or {one.arm, one.against} <= answerable),
        floor=spec.floor or plan.floor,
        blocks=plan.blocks,
        interim=not asked.target.on_fleet
        and (spec.precision is not None or (compared and plan.blocks >= INTERIM_BLOCKS)),
        timing=parse_timing(plan.window),
        best=plan.best and len(only) != 1,  # of one arm it would be that arm once more
        alternate=plan.alternate,
        arguments=launch.arguments,
        seed=plan.seed,
        notes=(*settings.warnings(changed), *notes, *left_out, *bound.notes),
        base_name=plan.base_name,
        measured_s=asked.measured_s,
    )


def _of_files(
    asked: SeriesAsked, settings: ServerSettings, connections: int, watcher: Watcher
) -> tuple[dict[str, Mapping[str, Value]], tuple[Warning, ...]]:
    """By the names of arms. A comparison has several files, so it names them."""
    spec, server = asked.spec, None
    if isinstance(spec, CompareSpec):
        server = settings.identity.name if spec.server.others else ""
    files = [*dict.fromkeys(asked.files.values())]
    users = settings.of_files(files, spec.base, asked.data, connections, watcher, server)
    notes = (
        note if server is None or file is None else msgspec.structs.replace(note, text=f"{file}: {note.text}")
        for file, user in users.items()
        for note in user.warnings
    )
    return {name: users[file].here for name, file in asked.files.items()}, tuple(notes)


def _require_same_tables(workloads: Mapping[str, Workload]) -> None:
    for name, workload in workloads.items():
        if other := with_other_tables(workload, workloads):
            names = " and ".join(sorted({name, other}))
            raise UsageError(
                f"{names} need different tables, and configurations share theirs on your own server",
                hint="give both the same tables (for txn:FILE, the same setup_file), or compare them on"
                " --server, where each has its own",
            )


def _threads(plan: Plan) -> int:
    counts: list[Value] = [1]
    for workload in workloads_of(plan).values():
        known = workload_options(workload.name).get("threads")
        counts.append(workload.options.get("threads", known.default if known else 1))
    return max(count for count in counts if isinstance(count, int))


def _scheduled(request: SeriesRequest, pool: ServerPool, watcher: Watcher) -> SeriesRequest:
    base = request.workload_of(request.base)
    groups = pool.groups(request, base, {arm.name: request.workload_of(arm) for arm in request.running})
    if base.slice_s is not None:
        for line in _schedule_words(groups, pool):
            watcher.say(line)
    return msgspec.structs.replace(request, asked_groups=groups, interim=judged_meanwhile(request, groups))


def judged_meanwhile(request: SeriesRequest, groups: Sequence[ArmGroup]) -> bool:
    """Blocks of a fleet are judged once, over its machines."""
    if request.fleet and not request.clients:
        return False
    has_many = any(group.kept_running and group.blocks >= INTERIM_BLOCKS for group in groups)
    return request.interim or (request.kind == "compare" and has_many)


def _schedule_words(groups: Sequence[ArmGroup], pool: ServerPool) -> Iterator[str]:
    sliced = [group for group in groups if group.kept_running]
    for group in sliced:
        arms = f"{', '.join(group.arms)}: " if len(sliced) > 1 else ""
        how = in_slices(pool.settings.restarts, pool.settings.identity, group.places)
        blocks = (
            f"{counted(group.blocks, 'block')}, at least {format_seconds(group.seconds)} of each arm in each"
        )
        yield f"{arms}arms {how}: {blocks}"
    for group in groups:
        for why in dict.fromkeys(group.why.values()):
            arms = ", ".join(name for name in group.arms if group.why[name] == why)
            yield f"{f'{arms}: ' if sliced else ''}each window gets a fresh server: {why}"


def require_permitted(request: SeriesRequest, identity: ServerIdentity, storage: Storage) -> None:
    """The commits of the server's users run under them: none may guarantee less than the floor and than
    now."""
    if request.base.workload.name != protocol.OWN_LOAD:
        return
    launch = request.launch
    has = guarantees(request.has, identity, storage, launch)
    now = level(has)
    for arm in (request.base, *request.running):
        then = guarantees({**request.has, **arm.settings}, identity, storage, launch)
        floor = level(then)
        if request.floor and floor.at_least(request.floor):
            continue
        if not _loses_more(then, has) or (floor.at_least(now) and now is not Floor.THROWAWAY):
            continue
        name = request.base_name if arm is request.base else arm.name
        below = request.floor or now
        raise BelowFloor(
            f"{name} would keep less in a crash than your server does now"
            if below is Floor.THROWAWAY
            else f"{name} is below the floor {below}: your application's commits would be no safer than"
            f" {floor} while it runs",
            hint=f"--floor {floor} allows it",
        )


def _loses_more(then: Guarantees, has: Guarantees) -> bool:
    """`throwaway` promises nothing, so a server there is held against what it keeps: with sync_binlog=0,
    its tables lose the last group of commits; with innodb_flush_log_at_trx_commit=2, a second of commits,
    too."""
    pairs = [(then.under(failure), has.under(failure)) for failure in FAILURES]
    more = any(own.level != "nothing_lost" and {*own.because} - {*other.because} for own, other in pairs)
    return more or not keeps(then, has)
