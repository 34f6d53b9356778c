"""`tune`: from what was asked to the facts of a tuning.

    tune(…) -> decide: everything that must not change while the campaign runs -> carry_out: run and conclude

Sits in `campaign`; the command line and callers from Python call the same function.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from flushlab.campaign.crash.check import UNCRASHED, disk_mib, failure_mode, require_crashable
from flushlab.campaign.crash.crash import crash_settings
from flushlab.campaign.crash.plan import CrashLoad, CrashPlan
from flushlab.campaign.data import Data, data_of, settled_data
from flushlab.campaign.dry_run import of_tune
from flushlab.campaign.facts import STEADY_MINUTES, CampaignFacts, CampaignRun
from flushlab.campaign.loop import (
    Budget,
    Ending,
    Run,
    Session,
    require_same_build,
    require_same_values,
    run_campaign,
    run_or_resume,
)
from flushlab.campaign.objective import objective_of
from flushlab.campaign.pool.protocol import RunnerInput, Search, ServerPool, Use, Work
from flushlab.campaign.pool.user_settings import texts_of
from flushlab.campaign.pool.work import Composed, RunTrial, root_for
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.scheduling import BESIDE_MOST
from flushlab.campaign.target import NewServers, Target, target_of
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.campaign.watcher import Watcher, watching
from flushlab.errors import BudgetTooSmall, UsageError
from flushlab.experiment.protocol import Objective, Request
from flushlab.progress import Progress, silent
from flushlab.record import BASE, Arm, CrashFacts, Launch, Trial, Value, Warning
from flushlab.settings.candidates import Candidate
from flushlab.settings.catalog import load_catalog
from flushlab.settings.fit import Scaled, names_fixed
from flushlab.settings.floor import Floor, aims
from flushlab.spec.build import build, stored, taking
from flushlab.spec.kinds import CrashSpec, TuneSpec
from flushlab.spec.parts import CrashWorkloadSpec, ServerSpec
from flushlab.trial.runner import ArmRunner, restart_settings
from flushlab.trial.sliced import SlicedRunner
from flushlab.units import counted
from flushlab.workload.engine import require_cluster
from flushlab.workload.options import EngineOptions
from flushlab.workload.parse import (
    all_options,
    fingerprint,
    parse_timing,
    parse_workload,
    settled,
    sources_of,
    workload_options,
)
from flushlab.workload.protocol import Timing, Workload

DEFAULT_MINUTES, DEFAULT_MINUTES_FRESH = 5.0, 10.0
SIDE_BY_SIDE = Timing(warm_up_s=1.5, max_warm_up_s=4.0, seconds=1.0)
SHORT = Timing(warm_up_s=1.5, max_warm_up_s=4.0, seconds=4.0)
STEADY = Timing(warm_up_s=5.0, max_warm_up_s=30.0, seconds=20.0, max_seconds=180.0)


class TuneInput(NamedTuple):
    """A tuning, before a server is looked for.

    Attributes:
        spec: what was asked for.
        objective: what is compared.
        data: the user's.
        fleet, clients: address of the fleet that is needed, and the machines of it that drive the load.
    """

    spec: TuneSpec
    objective: Objective = "throughput"
    data: Data | None = None
    fleet: str = ""
    clients: tuple[str, ...] = ()


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
    workload, asked = spec.workload, TuneInput(spec)
    target = target_of(spec, workload)
    if spec.run.resume is None:
        objective = objective_of(spec.objective, workload.name, workload.options)
        require_sensible(spec, target)
        data = target.open_data(spec.data, (workload.name,), watcher.say)
        target = target.fitting(data, [spec.base.base], watcher.say)
        spec = msgspec.structs.replace(spec, server=target.server)
        asked = TuneInput(spec, objective, data, target.needed_fleet, target.driven_by)

    def go(earlier: TuneRequest | None, pool: ServerPool, session: Session) -> CampaignFacts:
        if earlier is not None:
            require_same_values(earlier, earlier.has, pool)
        return carry_out(earlier or decide(asked, pool, watcher), pool, session)

    def foresee(pool: ServerPool) -> CampaignFacts:
        return _foresee(asked, pool, watcher)

    status = {"workload": workload.name, "floor": spec.floor.value}
    return run_or_resume(spec, target, TuneRequest, watcher, began, foresee, go, **status)


def require_sensible(spec: TuneSpec, target: Target) -> None:
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
        target.require_load(workload)
    if spec.crash:
        require_crashable(
            _workloads_of(spec, Path.cwd())[0],
            dataset=spec.data.dataset is not None,
            disk=spec.storage.disk,
        )
    if spec.window is not None:
        parse_timing(spec.window)


def decide(asked: TuneInput, pool: ServerPool, watcher: Watcher) -> TuneRequest:
    """Everything that must not change while the campaign runs.

    Raises:
        UsageError and its kin: what the server does not take.
    """
    spec, data = asked.spec, asked.data
    minutes = DEFAULT_MINUTES_FRESH if spec.minutes is None and spec.trials is None else spec.minutes
    steady = pool.restarts and minutes is not None and minutes >= STEADY_MINUTES
    workload = _workloads_of(spec, Path.cwd())[0]
    if isinstance(workload, EngineOptions):
        require_cluster(workload.cluster_load, pool.identity.nodes)
    start = _start(asked, pool, watcher, steady=steady)
    timing = STEADY if steady else SHORT
    if spec.window is not None:
        seconds = parse_timing(spec.window).seconds
        timing = msgspec.structs.replace(timing, seconds=seconds) if steady else timing.with_window(seconds)
    crash_fail, caveat = failure_mode(pool.storage) if spec.crash else UNCRASHED
    request = TuneRequest(
        spec=_settled(asked, pool, start, minutes),
        build=pool.identity.name,
        build_id=pool.key,
        machine=pool.machine(),
        fleet=asked.fleet,
        clients=asked.clients,
        persisted=pool.persisted(),
        folder=str(Path.cwd()),
        workload_digest=fingerprint(workload),
        sources=(*texts_of([Path(spec.base.base) if spec.base.base else None]), *sources_of(workload)),
        **start._replace(notes=(*start.notes, *([caveat] if caveat else [])))._asdict(),
        timing=timing,
        steady_state=steady,
        objective=asked.objective,
        dataset=data.facts if data else None,
        dataset_key=data.dataset.key if data else {},
        crash_fail=crash_fail,
    )
    if not spec.fresh:
        request = _scheduled(request, asked, pool, watcher)
    return (
        request
        if steady
        else msgspec.structs.replace(request, notes=(*request.notes, _short_measurement(pool)))
    )


def _short_measurement(pool: ServerPool) -> Warning:
    longer = (
        f"--minutes {STEADY_MINUTES:.0f} or more"
        if pool.restarts
        else "longer windows than slices on your own server"
    )
    text = (
        "short measurement, not steady state: commit-path settings only; redo size, buffer pool, flushing and"
        f" doublewrite need {longer}"
    )
    return Warning("short-measurement", text)


def _settled(asked: TuneInput, pool: ServerPool, start: _Start, minutes: float | None) -> TuneSpec:
    """What was asked for, as it repeats the campaign on another machine and another day."""
    spec = asked.spec
    here = {one.name: start.base[one.name] for one in start.scaled}  # as it runs, whatever a machine holds
    settings = {name: value for name, value in {**start.original, **here}.items() if name not in start.has}
    return msgspec.structs.replace(
        stored(spec),
        server=pool.settled(spec.server),
        remote=pool.access,
        workload=settled(spec.workload),
        minutes=minutes,
        base=msgspec.structs.replace(spec.base, base=None, no_scale=False, settings=settings),
        data=settled_data(spec.data, asked.data, pool.database),
        objective=asked.objective if asked.objective != "throughput" else spec.objective,
        seed=spec.seed if spec.seed is not None else secrets.randbelow(1 << 31),
        crashes=(spec.crashes or pool.crashable().crashes) if spec.crash else None,
    )


class _Start(NamedTuple):
    """What a tuning starts from; see `TuneRequest`."""

    lowest: Floor
    base: Mapping[str, Value]
    original: Mapping[str, Value]
    raised_why: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    scaled: tuple[Scaled, ...] = ()
    notes: tuple[Warning, ...] = ()
    has: Mapping[str, Value] = {}
    yours: Mapping[str, Value] | None = None


def _start(asked: TuneInput, pool: ServerPool, watcher: Watcher, *, steady: bool) -> _Start:
    """The base that meets the floor, and what may be tried against it."""
    spec, launch = asked.spec, _launch(asked.spec, pool)
    lowest = pool.lowest(spec.floor, spec.offer)
    given = pool.parse(spec.base.settings)
    pool.require_taken(given)
    kept = [load_catalog().setting(name.replace("-", "_")).name for name in spec.fixed]
    user = pool.user_settings(spec.base, asked.data, max(spec.threads), watcher)
    has = pool.guarding(given)
    original, runs = {**has, **user.original, **given}, {**has, **user.here, **given}
    kept += names_fixed(user.scaled)
    changes, reasons = pool.raise_to_floor(runs, spec.floor, kept, launch)
    base = {**runs, **changes}
    seen = pool.settings(base, launch, watcher, also=base)
    search = Search(base, seen, lowest, kept, spec.base.memory, steady, launch)
    candidates, notes = pool.candidates(search)
    return _Start(
        lowest,
        base,
        original,
        reasons,
        candidates,
        user.scaled,
        notes=(*pool.warnings(), *user.warnings, *notes),
        has=has,
        yours=runs if changes and pool.may_be_below(given) else None,
    )


def _scheduled(request: TuneRequest, asked: TuneInput, pool: ServerPool, watcher: Watcher) -> TuneRequest:
    """The request with its arms in slices, if possible; reports how the arms will be measured."""
    workloads = _workloads(request)
    for note in () if pool.restarts else request.notes:  # the server's owner may rather stop now
        watcher.say(note.text)
    if not request.candidates and not request.raised:
        return request
    servers, why = pool.capacity(request, workloads)
    if not servers:
        if workloads[0].slice_s is not None:
            watcher.say(f"each trial gets a fresh server: {why}")
        return msgspec.structs.replace(request, why_fresh=why)
    some = f", {servers} at a time against the base ({why})" if why else ""
    who = "servers" if pool.restarts and pool.identity.nodes == 1 else "arms"
    watcher.say(f"{who} {pool.in_slices()}{some}")
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
        _tuning(shorter, pool).experiment()
    except BudgetTooSmall:
        return request
    return shorter


def _tuning(request: TuneRequest, pool: ServerPool) -> TuneAnalysis:
    return TuneAnalysis(request, pool.identity, pool.storage, _launch(request.spec, pool))


def _foresee(asked: TuneInput, pool: ServerPool, watcher: Watcher) -> CampaignFacts:
    request = decide(asked, pool, watcher)
    tuning = _tuning(request, pool)
    if tuning.experiment().ask() is not None:
        pool.require_usable(_use(request), watcher.say)
    run = CampaignRun(campaign_id="", ending="dry run", machine=pool.machine())
    found = tuning.retold((), run)
    return msgspec.structs.replace(found, forecast=of_tune(tuning, pool))


def _use(request: TuneRequest) -> Use:
    return Use(
        workloads=_workloads(request)[:1],
        database=request.spec.data.database,
        arms=request.run,
        connections=request.side_by_side * sum(request.spec.threads),
        lasts_s=request.budget_s,
    )


def carry_out(request: TuneRequest, pool: ServerPool, session: Session) -> CampaignFacts:
    """Runs the campaign and gathers its facts; see `stored.run_campaign`."""
    tuning, watcher = _tuning(request, pool), session.watcher
    experiment = tuning.experiment()
    candidates = counted(len(request.candidates), "candidate")
    by = "p99 latency" if request.objective == "p99" else "throughput"

    def crash_winner(campaign_id: str, name: str, settings: Mapping[str, Value]) -> CrashFacts:
        here.end_servers()
        watcher.say(f"{name}: {request.crashes} crashes before it is handed over")
        plan = _crash_plan(request, settings, pool, watcher)
        return crash_settings(plan, {name: settings}, session.store, campaign_id)

    def conclude(campaign_id: str, ending: Ending) -> CampaignFacts:
        recovers, result = ran and ending != "interrupted" and pool.restarts, experiment.result()
        last = {BASE, *(point.arm for point in result.frontier)}
        if not recovers:
            here.end_servers()
        else:
            pool.rest()
            if result.proposed and not here.open().keeps_running(last):
                here.end_servers()  # else the servers that ran equally long recover
        if recovers and result.proposed:
            watcher.say("measuring how long the base and the proposed settings take to recover after SIGKILL")
        return tuning.conclude(
            experiment,
            session.store.trials(campaign_id),
            CampaignRun(campaign_id=campaign_id, ending=ending, machine=pool.machine(), others=others),
            here.open() if recovers and result.proposed else None,
            partial(crash_winner, campaign_id) if request.crashes and recovers else None,
        )

    def whole(run_trial: RunTrial) -> CampaignFacts:
        on = f" on {counted(len(pool.machines), 'machine')}" if pool.machines else ""
        campaign = Run(
            about=f"{candidates} {aims(request.spec.floor, request.lowest)}, compared by {by}{on}",
            experiment=experiment,
            known=session.store.trials,
            run_trial=run_trial,
            conclude=conclude,
            access=pool.access,
            budget=Budget(seconds=request.budget_s, trials=request.spec.trials),
        )
        return run_campaign(request, pool.key, session.after(others), campaign)

    ran, others = experiment.ask() is not None, None
    with _Here(request, pool, watcher) as here:
        if not ran:  # nothing is left to try, which takes no server
            return whole(here.run)
        watcher.spreads(len(pool.machines))
        work = Work(
            request=request,
            here=here.trials,
            there=on_machine,
            ahead=experiment.ahead,
            best_of=tuple,
            store=session.store,
            campaign_id=session.campaign_id,
            watcher=watcher,
            root_for=root_for(request.spec.server, request.spec.storage),
        )
        with pool.trials(work) as run_trial:
            others = pool.other_load(watcher, wait=session.wait_for_quiet)
            return whole(run_trial)


@contextmanager
def on_machine(plan: bytes, composed: Composed, progress: Progress) -> Iterator[RunTrial]:
    """Everything that trials need on a machine of a fleet, which has the build and the data.

    Args:
        plan: JSON of the `TuneRequest`.
        composed: not used: a tuning has no `best`.
        progress: takes a line at a time.
    """
    request, watcher = msgspec.json.decode(plan, type=TuneRequest), Watcher(progress)
    with NewServers(request.spec.server, request.spec.storage).open(progress) as pool:
        require_same_build(request, pool.key)
        with _Here(request, pool, watcher) as here, here.trials() as run_trial:
            yield run_trial


class _Here:
    """A tuning's servers on this machine, open from when they are first needed until the context ends."""

    def __init__(self, request: TuneRequest, pool: ServerPool, watcher: Watcher) -> None:
        self._request = request
        self._pool = pool
        self._watcher = watcher
        self._stack = ExitStack()
        self._runner: ArmRunner | None = None
        self._sliced: SlicedRunner | None = None

    def run(self, asked: Request) -> Trial:
        """Runs one trial."""
        sliced = self.open()
        if self._request.side_by_side:
            return sliced.run(asked)
        assert self._runner is not None
        return self._runner.run(asked.arm, stage=asked.stage, block=asked.block, variant=asked.variant)

    @contextmanager
    def trials(self) -> Iterator[RunTrial]:
        """What runs trials, with everything open."""
        self.open()
        yield self.run

    def open(self) -> SlicedRunner:
        """Makes the data and opens the servers, once."""
        if self._sliced is None:
            request, pool, watcher = self._request, self._pool, self._watcher
            self._stack.enter_context(pool.used(_use(request), watcher.say))
            runner = self._stack.enter_context(_runner(request, pool, watcher))
            sliced = pool.sliced(lambda _: runner, request.seed, self._place)
            self._sliced = self._stack.enter_context(sliced)
            runner.load(request.base)
            self._runner = runner
        return self._sliced

    def end_servers(self) -> None:
        """Ends the servers that were kept running."""
        if self._sliced is not None:
            self._sliced.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _place(self, arm: Arm) -> str:
        return repr(sorted(restart_settings(arm.settings, self._pool.identity).items()))


def _crash_plan(
    request: TuneRequest, settings: Mapping[str, Value], pool: ServerPool, watcher: Watcher
) -> CrashPlan:
    most = max(request.spec.threads)
    workload = _workloads(request)[request.spec.threads.index(most)]
    crashable = pool.crashable()
    spec = CrashSpec(
        server=ServerSpec(cluster=request.spec.server.cluster),
        workload=CrashWorkloadSpec(name=workload.name),
        failure=request.crash_fail,
        crashes=request.crashes,
        threads=most,
        disk_size=disk_mib(settings, pool.identity),
        seed=request.seed,
        nodes=crashable.crash_nodes,
    )
    return CrashPlan(target=crashable, watcher=watcher, load=CrashLoad(workload=workload), spec=spec)


def _launch(spec: TuneSpec, pool: ServerPool) -> Launch:
    return pool.launch(max(spec.threads), BESIDE_MOST * sum(spec.threads))


def _workloads(request: TuneRequest) -> tuple[Workload, ...]:
    return _workloads_of(request.spec, Path(request.folder))


def _workloads_of(spec: TuneSpec, folder: Path) -> tuple[Workload, ...]:
    """One for each number of connections."""
    asked = settled(spec.workload)
    takes_threads = "threads" in workload_options(asked.name)
    return tuple(
        parse_workload(asked.name, {**asked.options, **({"threads": count} if takes_threads else {})}, folder)
        for count in spec.threads
    )


def _runner(request: TuneRequest, pool: ServerPool, watcher: Watcher) -> ArmRunner:
    workloads = _workloads(request)
    if request.workload_digest and fingerprint(workloads[0], request.root) != request.workload_digest:
        raise UsageError(
            f"the workload {request.workload} has changed since the campaign began",
            hint="restore its file, or start a new campaign: results of two workloads are not comparable",
        )
    asked = RunnerInput(
        workloads=workloads,
        timing=request.timing,
        launch=_launch(request.spec, pool),
        database=request.spec.data.database,
        data=data_of(request, watcher.say),
        outlast_redo=request.steady_state,
    )
    return pool.runner(asked, watcher.say)
