"""Campaign: the way of every campaign that compares arms.

    run -> a planner's decide: everything that must not change -> carry_out: the loop -> conclude: the facts

Sits in `campaign`. The planners are `tune.py` and `series.py`. A machine of a fleet enters by `on_machine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import msgspec

from flushlab.campaign.arms import BoundArm
from flushlab.campaign.data import Data, data_of
from flushlab.campaign.dry_run import forecast, most_s
from flushlab.campaign.facts import CampaignFacts, CampaignRun
from flushlab.campaign.loop import (
    Budget,
    CampaignSession,
    Ending,
    Run,
    check_other_load,
    require_same_build,
    run_campaign,
    stored_request,
)
from flushlab.campaign.pool.protocol import RunnerInput, S, ServerPool, Use
from flushlab.campaign.pool.room import Volumes
from flushlab.campaign.pool.settings import ServerSettings
from flushlab.campaign.pool.work import Composed, RunTrial, Work, root_for
from flushlab.campaign.request import ArmGroup, SeriesRequest, TuneRequest
from flushlab.campaign.scheduling import ends_by_itself, place_of
from flushlab.campaign.series_analysis import SeriesAnalysis
from flushlab.campaign.target import NewServers, Target
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.campaign.watcher import Watcher
from flushlab.errors import UsageError
from flushlab.experiment.protocol import LATENCIES, Objective, Request
from flushlab.process.running import publish_status
from flushlab.progress import Progress
from flushlab.record import BASE, Arm, ServerIdentity, Storage, Trial
from flushlab.redact import without_passwords
from flushlab.settings.floor import aims
from flushlab.spec.build import stored
from flushlab.store import new_id, open_store
from flushlab.trial.runner import AlternatingRunner, ArmRunner, restart_settings
from flushlab.trial.sliced import SlicedRunner
from flushlab.units import counted, format_seconds
from flushlab.workload.options import threads_of
from flushlab.workload.parse import fingerprint

AnyRequest = TuneRequest | SeriesRequest
R = TypeVar("R", TuneRequest, SeriesRequest)
Finish = Callable[["ArmServers", Any, CampaignSession, Ending], tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Asked(Generic[S]):
    spec: S
    target: Target
    objective: Objective = "throughput"
    data: Data | None = None

    def on_data(
        self, workloads: Iterable[str], files: Iterable[Path | str | None], progress: Progress
    ) -> Self:
        data = self.target.open_data(self.spec.data, workloads, progress)
        target = self.target.fitting(data, files, progress)
        spec = msgspec.structs.replace(self.spec, server=target.server)
        return replace(self, spec=spec, target=target, data=data)

    def settled(self, pool: ServerPool, **changes: Any) -> S:
        spec = pool.settled(stored(self.spec))
        if self.data is not None:
            data = msgspec.structs.replace(spec.data, database=self.data.database or None)
            spec = msgspec.structs.replace(spec, data=data)
        base = msgspec.structs.replace(spec.base, no_scale=False)
        objective = "p99" if self.objective == "p99" else self.spec.objective
        return msgspec.structs.replace(spec, **{"base": base, "objective": objective, **changes})

    def shared(self, pool: ServerPool) -> dict[str, Any]:
        return {
            "build": pool.settings.identity.name,
            "build_id": pool.settings.key,
            "machine": pool.machine(),
            "fleet": self.target.fleet,
            "clients": self.target.clients,
            "persisted": pool.settings.persisted(),
            "dataset": self.data.facts if self.data else None,
            "dataset_key": self.data.dataset.key if self.data else {},
            "objective": self.objective,
        }


def run(
    asked: Asked[Any],
    stored_as: type[R],
    decide: Callable[[ServerPool, Volumes], R],
    watcher: Watcher,
    began: float,
    finish: Finish | None = None,
    **status: str,
) -> CampaignFacts:
    spec, target = asked.spec, asked.target
    resume = spec.run.resume
    if spec.run.dry_run:
        if resume is not None:
            raise UsageError("--dry-run cannot be combined with --resume", hint="remove one of the two")
        with target.open(watcher.say, dry_run=True) as pool, pool.volumes(watcher.say) as volumes:
            return _foreseen(decide(pool, volumes), pool, watcher)
    with publish_status(spec.kind, server=spec.server.build, **status), open_store() as store:
        earlier = stored_request(store, resume, spec.kind, stored_as) if resume else None
        if earlier is not None:
            target = target.resuming(earlier.spec, earlier.fleet, earlier.clients)
        with target.open(watcher.say) as pool, pool.volumes(watcher.say) as volumes:
            if earlier is not None:
                require_same_values(earlier, pool.settings)
            session = CampaignSession(
                store,
                watcher,
                resume or new_id(spec.kind),
                began,
                resumes=resume is not None,
                wait_for_quiet=spec.run.wait_for_quiet,
            )
            return carry_out(earlier or decide(pool, volumes), pool, volumes, session, finish)


def require_same_values(request: AnyRequest, settings: ServerSettings) -> None:
    began = {name: request.has[name] for name in request.depends_on if name in request.has}
    has = settings.has(began) if began else {}
    if others := [
        f"{name} is {has[name]}, and was {value}" for name, value in began.items() if has[name] != value
    ]:
        raise UsageError(
            f"the campaign began with other settings: {', '.join(others)}",
            hint="set them back, or start a new campaign: results of two bases are not comparable",
        )


def analysis_of(
    request: AnyRequest, identity: ServerIdentity, storage: Storage
) -> TuneAnalysis | SeriesAnalysis:
    if isinstance(request, TuneRequest):
        return TuneAnalysis(request, identity, storage)
    return SeriesAnalysis(request, identity, storage)


def _analysis_here(request: AnyRequest, pool: ServerPool) -> TuneAnalysis | SeriesAnalysis:
    return analysis_of(request, pool.settings.identity, pool.settings.storage)


def _foreseen(request: AnyRequest, pool: ServerPool, watcher: Watcher) -> CampaignFacts:
    bound = _analysis_here(request, pool)
    if bound.experiment().ask() is not None:
        with pool.used(_use(request), watcher.say):
            pass
    facts = bound.retold((), CampaignRun(campaign_id="", ending="dry run", machine=pool.machine()))
    return msgspec.structs.replace(facts, forecast=forecast(bound, pool))


def carry_out(
    request: AnyRequest,
    pool: ServerPool,
    volumes: Volumes,
    session: CampaignSession,
    finish: Finish | None = None,
) -> CampaignFacts:
    watcher, machines = session.watcher, pool.fleet.names if pool.fleet else ()
    bound = _analysis_here(request, pool)
    experiment: Any = bound.experiment()
    runs, others = experiment.ask() is not None, None

    def conclude(campaign_id: str, ending: Ending) -> CampaignFacts:
        run = CampaignRun(campaign_id=campaign_id, ending=ending, machine=pool.machine(), others=others)
        more = finish(servers, experiment, session, ending) if finish is not None and runs else ()
        return bound.conclude(experiment, session.store.trials(campaign_id), run, *more)

    def whole(run_trial: RunTrial) -> CampaignFacts:
        campaign = Run(
            about=_about(request, len(machines)),
            experiment=experiment,
            known=session.store.trials,
            run_trial=run_trial,
            conclude=conclude,
            access=request.spec.remote,
            budget=Budget(seconds=request.budget_s, trials=request.budget_trials),
        )
        return run_campaign(request, pool.settings.key, session.after(others), campaign)

    watcher.names(request.names)
    watcher.spreads(len(machines))
    with ArmServers(bound, experiment, pool, volumes, watcher) as servers:
        if not runs:  # nothing is left to try, which takes no server
            return whole(servers.run)
        with _trials(request, servers, experiment, session) as run_trial:
            if pool.fleet is None:  # each machine of a fleet finds that out for itself
                others = check_other_load(pool.settings.folder, watcher, wait=session.wait_for_quiet)
            return whole(run_trial)


def _trials(
    request: AnyRequest, servers: ArmServers, experiment: Any, session: CampaignSession
) -> AbstractContextManager[RunTrial]:
    if servers.pool.fleet is None:
        servers.open()
        return nullcontext(servers.run)
    arms = (request.base, *request.running) if isinstance(request, SeriesRequest) else ()
    return servers.pool.fleet.trials(
        Work(
            request=request,
            there=on_machine,
            watcher=session.watcher,
            root_for=root_for(request.spec.server, request.spec.storage, *arms),
            ahead=experiment.ahead,
            best_of=lambda: getattr(experiment, "best_of", ()),
            store=session.store,
            campaign_id=session.campaign_id,
        )
    )


@contextmanager
def on_machine(request: AnyRequest, composed: Composed, progress: Progress) -> Iterator[RunTrial]:
    with (
        NewServers(request.spec.server, request.spec.storage).open(progress) as pool,
        pool.volumes(progress) as volumes,
        ArmServers(_analysis_here(request, pool), composed, pool, volumes, Watcher(progress)) as servers,
    ):
        require_same_build(request, pool.settings.key)
        servers.open()
        yield servers.run


class ArmServers:
    def __init__(
        self,
        bound: TuneAnalysis | SeriesAnalysis,
        composed: Composed,
        pool: ServerPool,
        volumes: Volumes,
        watcher: Watcher,
    ) -> None:
        self.pool = pool
        self._bound = bound
        self.request: AnyRequest = bound.request
        self._composed = composed
        self._volumes = volumes
        self._watcher = watcher
        self._stack = ExitStack()
        self._bases: dict[str, ArmRunner] = {}
        self._runners: dict[tuple[str, float], ArmRunner] = {}
        self._alternating: AlternatingRunner | None = None
        self._group: ArmGroup | None = None
        self._sliced: SlicedRunner | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self) -> None:
        if self._bases:
            return
        request, say = self.request, self._watcher.say
        _require_same_workloads(request)
        arms = request.running if isinstance(request, SeriesRequest) else ()
        builds = dict.fromkeys(arm.build for arm in arms if arm.build)
        pools = {name: self.pool.other(name, say) for name in builds}
        for arm in arms:
            if arm.build:
                require_same_build(arm, pools[arm.build].settings.key)
        self._stack.enter_context(self.pool.used(_use(request), say))
        asked = RunnerInput(
            workloads=request.workloads,
            timing=request.timing,
            launch=request.launch,
            database=request.spec.data.database,
            data=data_of(request, say),
            outlast_redo=isinstance(request, TuneRequest) and request.steady_state,
        )
        bases = {
            name: self._stack.enter_context(pool.runner(asked, say))
            for name, pool in {"": self.pool, **pools}.items()
        }
        self._stack.callback(self.end)
        bases[""].load(request.base_settings)
        self._bases = bases
        if isinstance(request, SeriesRequest) and request.alternate:
            self._alternating = AlternatingRunner(bases[""], request.base.settings)
            self._stack.callback(self._alternating.close)
        for group in request.groups:
            for arm in (one for one in arms if one.name in group.arms):
                self._runner(arm, group)

    def run(self, request: Request) -> Trial:
        self.open()
        asked = self.request
        if request.stage == "best" and isinstance(asked, SeriesRequest):
            group = asked.group_of_best(self._composed.best_of)
        else:
            group = asked.group_of(request.block)
        if group != self._group:
            self.end()
            self._group, self._sliced = group, None
        if group.kept_running:
            return self.sliced.run(request)
        runner = self._alternating or self._of(request.arm)
        return runner.run(request.arm, stage=request.stage, block=request.block, variant=request.variant)

    @property
    def sliced(self) -> SlicedRunner:
        self.open()
        if self._sliced is None:
            self._sliced = self.pool.sliced(self._of, self.request.seed, self._place)
        return self._sliced

    def end(self) -> None:
        if self._sliced is not None:
            self._sliced.close()

    def _place(self, arm: Arm) -> str:
        identity = self.pool.settings.identity
        if isinstance(self._bound, TuneAnalysis):
            return repr(sorted(restart_settings(arm.settings, identity).items()))
        bound = self._bound.arm(arm.name, self._composed.best_of)
        return place_of(bound, self._of(arm).workloads[0], identity)

    def _of(self, arm: Arm) -> ArmRunner:
        if isinstance(self._bound, TuneAnalysis):
            return self._bases[""]
        assert self._group is not None, "a request was entered"
        return self._runner(self._bound.arm(arm.name, self._composed.best_of), self._group)

    def _runner(self, arm: BoundArm, group: ArmGroup) -> ArmRunner:
        if (arm.name, group.seconds) not in self._runners:
            base, database = self._bases[arm.build], self.request.spec.data.database
            self._runners[arm.name, group.seconds] = base.with_arm(
                self.pool.reaching(self.request.workload_of(arm), database),
                group.timing(base.timing),
                self._volumes.open(arm.data_root, arm.disk),
            )
        return self._runners[arm.name, group.seconds]


def _require_same_workloads(request: AnyRequest) -> None:
    digests = (
        [(request.workloads[0], request.workload_digest)]
        if isinstance(request, TuneRequest)
        else [(request.workload_of(arm), arm.workload_digest) for arm in (request.base, *request.running)]
    )
    for workload, digest in digests:
        if digest and fingerprint(workload) != digest:
            raise UsageError(
                f"the workload {without_passwords(workload.name)} has changed since the campaign began",
                hint="restore its file, or start a new campaign: results of two workloads are not comparable",
            )


def _use(request: AnyRequest) -> Use:
    if isinstance(request, TuneRequest):
        connections = request.side_by_side * sum(request.spec.threads)
        lasts_s, workloads = request.budget_s, list(request.workloads[:1])
    else:
        of_arms = {arm.name: request.workload_of(arm) for arm in (request.base, *request.running)}
        threads = {name: threads_of(workload) for name, workload in of_arms.items()}
        connections = 2 * threads[BASE]  # base and control
        connections += max((sum(threads[name] for name in group.arms) for group in request.groups), default=0)
        distinct = {(one.name, *sorted(one.data_key.items())): one for one in of_arms.values()}
        lasts_s, workloads = most_s(request), list(distinct.values())
    return Use(workloads, request.spec.data.database, request.arm_settings, connections, lasts_s)


def _about(request: AnyRequest, machines: int) -> str:
    some = f" on {counted(machines, 'machine')}" if machines else ""
    if isinstance(request, TuneRequest):
        by = "p99 latency" if request.objective == "p99" else "throughput"
        candidates = counted(len(request.candidates), "candidate")
        return f"{candidates} {aims(request.spec.floor, request.lowest)}, compared by {by}{some}"
    arms = len(request.running)
    if not arms:
        return f"{request.plan}: none of its arms can run here"
    blocks = counted(sum(group.blocks for group in request.groups), "block")
    words = f"{request.plan}: {arms} of {len(request.arms)} arms in {blocks}"
    if request.kind == "compare":
        words = f"{counted(arms + 1, 'configuration')} and the control in {blocks}"
    if ends_by_itself(request.workload):
        return words
    if (latency := LATENCIES.get(request.objective)) is not None:
        words += f", compared by {latency}"
    return f"{words}{some}, about {format_seconds(most_s(request, machines or 1))}"
