"""Dry run: what a campaign would try, take and write, told without starting or writing anything.

Sits in `campaign`, above the planners: the number of a tuning's trials comes from the planner itself, run
against simulated trials. What only the first run can tell stays unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from flushlab.campaign.facts import ArmResult, Forecast
from flushlab.campaign.pool.protocol import ServerPool
from flushlab.campaign.pool.room import data_bytes_of, data_bytes_of_arms
from flushlab.campaign.request import ArmGroup, SeriesRequest
from flushlab.campaign.scheduling import NODE_S, START_S, STARTUP_S, SWITCH_S, ends_by_itself, trial_s_of
from flushlab.campaign.series_analysis import SeriesAnalysis
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.experiment.simulated import Noise, SimulatedTrials, run_to_end
from flushlab.experiment.tune import Tune
from flushlab.experiment.tune.budget import END_S, END_TRIALS
from flushlab.machine import state_path
from flushlab.record import Value
from flushlab.spec.parts import as_told
from flushlab.trial.sliced import CLUSTER_SLICE_S
from flushlab.units import value_words
from flushlab.workload import protocol

CALM, USUAL = 0.001, 0.05
"""Standard deviations of simulated trials, in log units; with the first, the first interim
analysis decides everything."""


def forecast(bound: TuneAnalysis | SeriesAnalysis, pool: ServerPool) -> Forecast:
    request, machines = bound.request, pool.fleet.names if pool.fleet else ()
    if isinstance(bound, TuneAnalysis):
        parts = _of_tune(bound)
        options, dataset = bound.request.spec.workload.options, bound.request.spec.data.dataset
        data_bytes, at_once = (
            data_bytes_of(request.workload, options, dataset),
            bound.request.side_by_side or 1,
        )
    else:
        groups = bound.request.groups if bound.request.running else ()
        parts = _of_series(bound.request, groups, max(1, len(machines)))
        data_bytes = data_bytes_of_arms(bound.request)
        servers = [group.places or 2 + len(group.arms) for group in groups if group.kept_running]
        at_once = max(servers, default=1)
    resources, writes = pool.takes(request.spec, request.arm_settings, data_bytes, at_once)
    stored = {str(state_path() / "store.sqlite"): "every trial, and the result"}
    return Forecast(**parts, machines=machines, resources=resources, writes=stored | writes)


def _of_tune(tuning: TuneAnalysis) -> dict[str, Any]:
    request = tuning.request
    known = not ends_by_itself(request.workload)
    least_s = likely_s = None
    if known or request.spec.trials is not None:
        (least, calm_s), (most, usual_s) = (_simulated(tuning, noise) for noise in (CALM, USUAL))
        if known:
            least_s, likely_s = calm_s, min(usual_s, request.budget_s or usual_s)
    else:
        least, most = tuning.experiment().least_trials, None
    return {
        "arms": tuple(
            ArmResult(
                name=_changes(candidate.settings),
                text=candidate.why,
                floor="" if meets.at_least(request.spec.floor) else meets.value,
            )
            for candidate in request.candidates
            for meets in (tuning.level_of({**request.base, **candidate.settings}),)
        ),
        "trials_least": least,
        "trials_most": most,
        "trial_s": tuning.plan().trial_s if known else None,
        "least_s": least_s,
        "likely_s": likely_s,
        "most_s": request.budget_s,
    }


def _of_series(request: SeriesRequest, groups: Sequence[ArmGroup], machines: int) -> dict[str, Any]:
    known = not ends_by_itself(request.workload)
    least = sum(group.blocks * (2 + len(group.arms)) for group in groups)
    trial_s = None
    if known and len(groups) == 1:
        trial_s = _group_s(request, groups[0]) / (groups[0].blocks * (2 + len(groups[0].arms)))
    return {
        "arms": tuple(
            ArmResult(
                name=arm.name,
                text=arm.text or _changes({**arm.changes, **as_told(arm.workload_changes)}),
                outcome=arm.outcome,
                reason=arm.reason,
            )
            for arm in request.arms
        ),
        "trials_least": least,
        "trials_most": least + (3 * groups[-1].blocks if request.best and groups else 0),
        "trial_s": trial_s,
        "least_s": START_S + sum(_group_s(request, group, machines) for group in groups) if known else None,
        "likely_s": START_S + most_s(request, machines) if known else None,
        "most_s": None,
    }


def most_s(request: SeriesRequest, machines: int = 1) -> float:
    groups = request.groups if request.running else ()
    seconds = sum(_group_s(request, group, machines) for group in groups)
    if request.best and groups:
        seconds += _group_s(request, msgspec.structs.replace(groups[-1], arms=("best",)), machines)
    return seconds


def _group_s(request: SeriesRequest, group: ArmGroup, machines: int = 1) -> float:
    cells, blocks = 2 + len(group.arms), math.ceil(group.blocks / machines)
    trials_s = blocks * cells * trial_s_of(request, group)
    if not group.kept_running or request.workload == protocol.OWN_LOAD:
        return trials_s
    if group.places:  # clusters, on which arms alternate in slices; the user's own runs already
        trials_s += SWITCH_S * blocks * cells * max(1, round(group.seconds / CLUSTER_SLICE_S))
        trials_s += NODE_S * (request.spec.server.cluster or 0) * group.places
    return trials_s + STARTUP_S * cells


def _simulated(tuning: TuneAnalysis, noise: float) -> tuple[int, float]:
    plan = tuning.plan()
    trials = SimulatedTrials(
        lambda _: 0.0,
        plan.base,
        noise=Noise(trial=noise),
        seed=plan.seed,
        trial_s=plan.trial_s,
        startup_s=plan.startup_s,
    )
    count = run_to_end(Tune(plan), trials)
    return count, START_S + trials.spent_s + END_TRIALS * (plan.startup_s or plan.trial_s) + END_S


def _changes(settings: Mapping[str, Value | None]) -> str:
    return ", ".join(
        f"{name}={'default' if value is None else value_words(value)}" for name, value in settings.items()
    )
