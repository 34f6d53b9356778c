"""`tune`: from what was asked to the facts of a tuning.

    tune(…) -> decide: everything that must not change while the campaign runs -> carry_out: run and conclude

Sits in `campaign`; the command line and callers from Python call the same function.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign.base import file_settings, fitted, persisted_settings, read_base
from flushlab.campaign.crash.check import UNCRASHED, disk_bytes, require_crashable, way_of
from flushlab.campaign.crash.crash import crash_settings
from flushlab.campaign.data import Data, data_of, open_data
from flushlab.campaign.external import Load, Own, doubts, driving, own_server
from flushlab.campaign.external_use import differing, used
from flushlab.campaign.facts import FIRST_LOOK_MINUTES, TuneFacts
from flushlab.campaign.loop import Budget, Ending
from flushlab.campaign.objective import objective_of
from flushlab.campaign.outlook import of_tune, require_new
from flushlab.campaign.quiet import look_around
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.running_server import guarding, has_all, lifted, tried
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
from flushlab.campaign.tuning import Tuning
from flushlab.campaign.watcher import Watcher, watching
from flushlab.campaign.way import BESIDE_MOST, beside
from flushlab.errors import BudgetTooSmall, UsageError
from flushlab.experiment.blocks import BASE
from flushlab.experiment.objective import Objective
from flushlab.experiment.protocol import Request
from flushlab.machine import available_memory_bytes
from flushlab.process.running import on_board
from flushlab.record import Arm, CrashFacts, Launch, Trial, Value, Warning
from flushlab.server.base_file import require_taken
from flushlab.server.external import External
from flushlab.settings.candidate import Candidate
from flushlab.settings.candidates import lift, propose
from flushlab.settings.catalog import Catalog
from flushlab.settings.fit import Scaled, as_warnings, names_fixed
from flushlab.settings.floor import Floor, parse_floor
from flushlab.settings.given import parse_settings
from flushlab.store import Store, open_store
from flushlab.trial import StandingRunner, TrialRunner
from flushlab.trial.standing import CLUSTER_SLICE_S
from flushlab.trial.switching import restart_settings
from flushlab.units import counted, parse_size
from flushlab.workload import (
    Timing,
    Workload,
    fingerprint,
    parse_timing,
    parse_workload,
    settled_name,
    shape_of,
    sources_of,
    workload_options,
)
from flushlab.workload.driven import Driven, require_cluster

SERVER = "mariadb"
DEFAULT_MINUTES, DEFAULT_MINUTES_FRESH = 5.0, 10.0
CRASH_IMAGES, CLUSTER_CRASH_IMAGES = 30, 8
SIDE_BY_SIDE = Timing(warm_up_s=1.5, max_warm_up_s=4.0, seconds=1.0)
FIRST_LOOK = Timing(warm_up_s=1.5, max_warm_up_s=4.0, seconds=4.0)
STEADY = Timing(warm_up_s=5.0, max_warm_up_s=30.0, seconds=20.0, max_seconds=180.0)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a tuning was asked for; see `tune`."""

    workload: str
    floor: Floor
    minutes: float | None
    trials: int | None
    base: Path | None
    settings: Mapping[str, Value]
    keep: tuple[str, ...]
    data: Data | None
    threads: tuple[int, ...]
    memory: str | None
    exact: bool
    objective: Objective
    p99_limit: float
    standalone: bool
    seconds: float | None
    basedir: str | None
    data_root: str | None
    disk_iops: int | None
    disk: str | None
    cluster: int | None
    latency_s: float | None
    seed: int | None
    fresh: bool
    crash_images: int
    options: Mapping[str, object]
    own: Own | None = None


def tune(
    *,
    server: str = SERVER,
    dsn: str | None = None,
    defaults_file: Path | str | None = None,
    allow_writes: bool = False,
    tune_server: bool = False,
    workload: str = "oltp_update_non_index",
    floor: Floor | str = Floor.SECOND,
    minutes: float | None = None,
    trials: int | None = None,
    base: Path | str | None = None,
    settings: Mapping[str, Value] | None = None,
    keep: Sequence[str] = (),
    dataset: Path | str | None = None,
    database: str | None = None,
    threads: int | Sequence[int] = 16,
    memory: str | None = None,
    exact: bool = False,
    objective: str | None = None,
    p99_limit: float = 2.0,
    standalone: bool = False,
    seconds: float | None = None,
    basedir: Path | str | None = None,
    data_root: Path | str | None = None,
    disk_iops: int | None = None,
    disk: str | None = None,
    cluster: int | None = None,
    network_latency: str | None = None,
    seed: int | None = None,
    fresh: bool = False,
    crash: bool = False,
    crash_images: int | None = None,
    wait_for_quiet: bool = False,
    dry_run: bool = False,
    resume: str | None = None,
    progress: Progress | Watcher = silent,
    **options: Value | None,
) -> TuneFacts:
    """Finds the fastest settings at a durability floor and proves them.

    The arguments are those of `flushlab tune` under the same names. The campaign is stored; `resume`
    resumes an interrupted one.

    Args:
        server: a build (`mariadb`, `mysql@5.7`), a tarball or a URL.
        dsn: your own server instead, or a node of your Galera cluster, whose other nodes are found, or all of
            them: `mysql://USER:PASSWORD@NODE1,NODE2,NODE3`. What takes a restart is not tried there, and the
            result is handed over, not set.
        defaults_file: the same, by an option file's group `[client]`.
        allow_writes: the load may write to your own server; tables that it makes are dropped at the end.
        tune_server: settings of your own server may be changed; they are put back at the end.
        workload: one of sysbench's, `upsert`, `txn:FILE`, `sql:FILE` or `command: …`.
        floor: the least guarantees that you accept.
        minutes, trials: the budget in time, in trials; if neither is given 5 minutes, 10 on fresh servers.
        base: your option file, which everything is compared with.
        settings: on top of the base (`--set`).
        keep: settings that must stay as they are.
        dataset: your data: a dump, a dump folder or a stopped server's data directory.
        database: the workload's, of those in the data.
        threads: connections; several counts are all measured.
        memory: that the server may use, like `2G`; a base that needs more is scaled (to half of the
            machine's if None).
        exact: refuse a base that this machine cannot hold, instead of scaling it.
        objective: `throughput` or, at a fixed `rate`, `p99` latency; None: whichever it is.
        p99_limit: a winner's p99 may be at most this many times the base's.
        standalone: there are no replicas to care for.
        seconds: measured window of a trial; chosen by the budget if None.
        basedir: use the server installed there.
        data_root: where data directories go.
        disk_iops: make a slow disk: at most this many writes/s (root, cgroups).
        disk: run on a disk of its own, as slow as this one, such as `gp3` (root).
        cluster: start a Galera cluster of this many nodes in the server's place.
        network_latency: put a network between a cluster's nodes, like `1ms` there and back (root).
        seed: of every random order.
        fresh: start a fresh server for every trial, also where servers could stand side by side.
        crash: crash the winner before it is handed over (see `crash`), and reject it if it breaks its floor:
            the power fails, or without root the server is killed.
        crash_images: how often; if None 30 times, a cluster 8 times.
        wait_for_quiet: wait until other programs leave the machine alone, for half an hour at most.
        dry_run: only say what would be done, in `outlook`; nothing is started or written.
        resume: id of a campaign to resume; everything else is as it was, then.
        progress: takes a line at a time.
        **options: of the workload, like `tables=8` or `rand_type="uniform"`.

    Returns:
        What was found; its `ending` tells whether Ctrl-C ended it.

    Raises:
        FlushlabError: what no record can hold; what was measured is safe.
    """
    began, watcher = time.monotonic(), watching(progress)
    own = own_server(
        dsn,
        defaults_file,
        database=database,
        allow_writes=allow_writes,
        tune_server=tune_server,
        server=server != SERVER,
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
        crash=crash,
        ssl_mode=options.get("ssl_mode"),
        ssl_ca=options.get("ssl_ca"),
    )
    compared: Objective = "throughput" if resume else objective_of(objective, workload, options)
    asked = Asked(
        workload=workload,
        floor=parse_floor(floor),
        minutes=minutes,
        trials=trials,
        base=Path(base) if base else None,
        settings=settings or {},
        keep=tuple(keep),
        data=open_data(dataset, database, workload, watcher.say) if resume is None and own is None else None,
        threads=(threads,) if isinstance(threads, int) else tuple(threads),
        memory=memory,
        exact=exact,
        objective=compared,
        p99_limit=p99_limit,
        standalone=standalone,
        seconds=seconds,
        basedir=absolute(basedir),
        data_root=absolute(data_root),
        disk_iops=disk_iops,
        disk=disk,
        cluster=cluster,
        latency_s=latency_of(network_latency, cluster),
        seed=seed,
        fresh=fresh,
        crash_images=_crash_images(crash, crash_images, cluster),
        options=options,
        own=own,
    )
    if dry_run:
        require_new(resume)
        if own is not None:
            with external_target(own) as theirs:  # which is only read
                return _foresee(asked, theirs, watcher)
        target = paper_target(
            server, basedir=basedir, data_root=data_root, cluster=cluster, latency_s=asked.latency_s
        )
        return _foresee(asked, target, watcher)
    with on_board("tune", server=server, workload=asked.workload, floor=asked.floor), open_store() as store:
        earlier = stored_request(store, resume, "tune", TuneRequest) if resume else None
        with target_of(earlier, asked, own, server, watcher.say) as target:
            request = earlier or decide(asked, target, watcher)
            return carry_out(request, target, store, resume, watcher, wait_for_quiet, began)


def decide(asked: Asked, target: Target, watcher: Watcher) -> TuneRequest:
    """Everything that must not change while the campaign runs.

    Raises:
        UsageError and its kin: what makes no sense, alone or together.
    """
    threads = asked.threads
    if not threads or len(set(threads)) != len(threads):
        raise UsageError(
            f"--threads {','.join(map(str, threads))} repeats a number" if threads else "--threads is empty",
            hint="for example --threads 1,16,64",
        )
    shape = shape_of({**asked.options, "threads": threads[0]})
    for count in threads:
        workload = parse_workload(asked.workload, msgspec.structs.replace(shape, threads=count))
        if isinstance(workload, Driven):
            require_cluster(workload.cluster_load, target.nodes)
    taken = workload_options(asked.workload)
    if len(threads) > 1 and "threads" not in taken:
        raise UsageError(f"--threads has several numbers, but {asked.workload} opens no connections itself")
    if shape.rate and "rate" not in taken:
        raise UsageError(f"--rate {shape.rate:g}: {asked.workload} runs to its end and takes no rate")
    minutes = DEFAULT_MINUTES_FRESH if asked.minutes is None and asked.trials is None else asked.minutes
    if (minutes is not None and minutes <= 0) or (asked.trials is not None and asked.trials <= 0):
        raise UsageError("the budget must be above 0", hint="give --minutes or --trials")
    if asked.crash_images:
        require_crashable(
            asked.crash_images,
            parse_workload(asked.workload, shape),
            dataset=asked.data is not None,
            disk=asked.disk,
        )
    if not asked.p99_limit >= 1:
        raise UsageError(
            f"--p99-limit {asked.p99_limit:g} is below 1",
            hint="it is the limit for a winner's p99, as a multiple of the base's",
        )
    steady = asked.own is None and minutes is not None and minutes >= FIRST_LOOK_MINUTES
    build, launch = target.build, Launch(arguments=_connections(threads, asked.cluster))
    given = parse_settings(asked.settings, build.flavor, build.version, target.catalog, nodes=target.nodes)
    if target.external is None:
        require_taken(build, given)
    kept = [target.catalog.setting(name.replace("-", "_")).name for name in asked.keep]
    if target.external is not None:
        start = _start_there(asked.floor, target.external, target.catalog, given, kept)
    else:
        start = _start_here(asked, target, watcher, launch, given, kept, steady=steady)
    timing = STEADY if steady else FIRST_LOOK
    if asked.seconds is not None:
        seconds = parse_timing(asked.seconds).seconds
        timing = msgspec.structs.replace(timing, seconds=seconds) if steady else timing.with_window(seconds)
    storage = target.volume.data_root.storage
    crash_fail, doubt = way_of(storage) if asked.crash_images else UNCRASHED
    workload = parse_workload(settled_name(asked.workload), shape, Path.cwd())
    request = TuneRequest(
        build=build.name,
        build_id=build.id,
        basedir=asked.basedir,
        external=target.external.name if target.external else "",
        workload=settled_name(asked.workload),
        folder=str(Path.cwd()),
        workload_digest=fingerprint(workload),
        sources=sources_of(workload),
        shape=shape,
        threads=threads,
        floor=asked.floor,
        minutes=minutes,
        trials=asked.trials,
        base=start.base,
        original=start.original,
        yours=start.yours,
        has=start.has,
        lifted=start.lifted,
        scaled=start.scaled,
        notes=(*start.notes, *([doubt] if doubt else [])),
        candidates=start.candidates,
        timing=timing,
        steady_state=steady,
        objective=asked.objective,
        p99_limit=asked.p99_limit,
        standalone=asked.standalone,
        dataset=asked.data.dataset.path if asked.data else None,
        dataset_key=asked.data.dataset.key if asked.data else {},
        database=asked.own.database if asked.own else asked.data.database if asked.data else None,
        fresh=asked.fresh,
        keep=asked.keep,
        memory=asked.memory,
        data_root=asked.data_root,
        disk_iops=asked.disk_iops,
        disk=asked.disk,
        cluster=asked.cluster,
        latency_s=asked.latency_s,
        seed=asked.seed if asked.seed is not None else secrets.randbelow(1 << 31),
        crash_images=asked.crash_images,
        crash_fail=crash_fail,
    )
    return request if asked.fresh else _by_the_way(request, asked, target, watcher)


class _Start(NamedTuple):
    """What a tuning starts from; see `TuneRequest`."""

    base: Mapping[str, Value]
    original: Mapping[str, Value]
    lifted: tuple[str, ...]
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
    identity, storage = target.identity, target.volume.data_root.storage
    theirs = {
        **file_settings(asked.base, target, watcher),
        **persisted_settings(asked.data, target, watcher),
    }
    fit = fitted(
        theirs,
        target,
        watcher,
        memory=asked.memory,
        exact=asked.exact,
        connections=max(asked.threads),
        data=asked.data,
    )
    original, runs = {**theirs, **given}, {**fit.settings, **given}
    kept = [*kept, *names_fixed(fit.scaled)]
    changes, reasons = lift(runs, asked.floor, identity=identity, storage=storage, launch=launch, keep=kept)
    base = {**runs, **changes}
    seen = read_base(base, target, launch, watcher, also=base)
    memory = (
        available_memory_bytes()
        if asked.memory is None
        else min(parse_size(asked.memory), available_memory_bytes())
    )
    candidates = propose(
        target.catalog,
        identity,
        base={**base, **seen},
        floor=asked.floor,
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
    server: External,
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
    servers, why = beside(request, workloads, target)
    if not servers:
        if workloads[0].slice_s is not None:
            watcher.say(f"each trial gets a fresh server: {why}")
        return msgspec.structs.replace(request, why_fresh=why)
    some = f", {servers} at a time against the base ({why})" if why else ""
    where = "arms take turns on clusters" if target.nodes > 1 else "servers stand side by side and take turns"
    if target.external is not None:
        where = "arms take turns on your server"
        for note in request.notes:
            watcher.say(note.text)
    watcher.say(f"{where}{some}")
    slice_s = max(workload.slice_s or 0.0 for workload in workloads)
    each_s = asked.seconds or max(SIDE_BY_SIDE.seconds, slice_s)
    timing = msgspec.structs.replace(SIDE_BY_SIDE, seconds=each_s)
    request = msgspec.structs.replace(request, side_by_side=servers, timing=timing)
    if asked.minutes is not None or asked.trials is not None:
        return request
    shorter = msgspec.structs.replace(request, minutes=DEFAULT_MINUTES)
    try:
        _tuning(shorter, target).experiment()
    except BudgetTooSmall:
        return request
    return shorter


def _tuning(request: TuneRequest, target: Target) -> Tuning:
    return Tuning(request, target.identity, target.volume.data_root.storage, _launch(request))


def _foresee(asked: Asked, target: Target, watcher: Watcher) -> TuneFacts:
    """The outlook as facts; see `outlook`."""
    request = decide(asked, target, watcher)
    tuning = _tuning(request, target)
    found = tuning.conclude(
        tuning.experiment(), (), "dry run", "", target.volume.machine(), target.catalog, None
    )
    return msgspec.structs.replace(found, outlook=of_tune(tuning, target))


def carry_out(
    request: TuneRequest,
    target: Target,
    store: Store,
    resumed: str | None,
    watcher: Watcher,
    wait_for_quiet: bool,
    began: float,
) -> TuneFacts:
    """Runs the campaign and gathers its facts; see `stored.carry_out`."""
    tuning = _tuning(request, target)
    experiment = tuning.experiment()

    def run_trial(asked: Request) -> Trial:
        if request.side_by_side:
            return standing.run(asked)
        return runner.run(asked.arm, stage=asked.stage, block=asked.block, variant=asked.variant)

    def crash_winner(name: str, settings: Mapping[str, Value]) -> CrashFacts:
        standing.close()
        watcher.say(f"{name}: {request.crash_images} crashes before it is handed over")
        most = _workloads(request)[request.threads.index(max(request.threads))]
        return crash_settings(
            target,
            watcher,
            {name: settings},
            fail=request.crash_fail,
            images=request.crash_images,
            workload=most,
            threads=max(request.threads),
            disk_bytes=disk_bytes(settings, target.identity),
            seed=request.seed,
        )

    def conclude(campaign_id: str, ending: Ending) -> TuneFacts:
        ours, result = ending != "interrupted" and not request.external, experiment.result()
        if not ours or not standing.stand_for({BASE, *(point.arm for point in result.frontier)}):
            standing.close()  # else the servers that stood alike recover
        if ours and result.winner is not None:
            watcher.say("measuring how long the winner and the base take to recover after SIGKILL")
        return tuning.conclude(
            experiment,
            store.trials(campaign_id),
            ending,
            campaign_id,
            target.volume.machine(),
            target.catalog,
            standing if ours else None,
            others,
            crash_winner if request.crash_images and ours else None,
        )

    with (
        _used(request, target, watcher),
        _runner(request, target, watcher) as runner,
        _turns(runner, request, target) as standing,
    ):
        runner.preparation.load(request.base)
        others = look_around(target.volume.data_root.path, watcher, wait=wait_for_quiet)
        return carry_out_stored(
            request,
            target,
            store,
            resumed,
            watcher,
            about=_about(request),
            experiment=experiment,
            run_trial=run_trial,
            budget=Budget(seconds=request.budget_s, trials=request.trials),
            budget_s=request.budget_s,
            began=began + (others.waited_s if others else 0.0),
            conclude=conclude,
        )


def _about(request: TuneRequest) -> str:
    candidates = counted(len(request.candidates), "candidate")
    by = "p99 latency" if request.objective == "p99" else "throughput"
    return f"{candidates} down to the floor {request.floor}, compared by {by}"


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
        connections=request.side_by_side * sum(request.threads),
        lasts_s=request.budget_s,
    ):
        yield


def _driven(request: TuneRequest, target: Target) -> tuple[Load, ...]:
    """The workloads as they reach somebody's own server."""
    assert target.external is not None, "there is one"
    return tuple(driving(one, target.external, request.database) for one in _workloads(request))


def _turns(runner: TrialRunner, request: TuneRequest, target: Target) -> StandingRunner:
    if (server := target.external) is not None:
        return StandingRunner(lambda _: runner, request.seed, lambda _: server.name, slice_s=CLUSTER_SLICE_S)
    if target.nodes == 1:
        return StandingRunner(lambda _: runner, request.seed)

    def place_of(arm: Arm) -> str:
        return repr(sorted(restart_settings(arm.settings, target.identity).items()))

    return StandingRunner(lambda _: runner, request.seed, place_of, slice_s=CLUSTER_SLICE_S)


def _launch(request: TuneRequest) -> Launch:
    return Launch() if request.external else Launch(arguments=_connections(request.threads, request.cluster))


def _connections(threads: Sequence[int], cluster: int | None) -> tuple[str, ...]:
    """Arguments for the connections; each arm on a cluster keeps its own."""
    return connection_arguments(max(threads) if cluster is None else BESIDE_MOST * sum(threads))


def _workloads(request: TuneRequest) -> tuple[Workload, ...]:
    shape, folder = request.shape, Path(request.folder)
    return tuple(
        parse_workload(request.workload, msgspec.structs.replace(shape, threads=count), folder)
        for count in request.threads
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


def _crash_images(crash: bool, images: int | None, cluster: int | None) -> int:
    if images is not None and not crash:
        raise UsageError(f"--crash-images {images} crashes nothing", hint="add --crash")
    if not crash:
        return 0
    if images is None:
        return CRASH_IMAGES if cluster is None else CLUSTER_CRASH_IMAGES
    return images
