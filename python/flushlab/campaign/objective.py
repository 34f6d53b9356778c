"""Objective: what a campaign compares, which follows from whether its load has a fixed rate.

Sits in `campaign`; pure. `compare`, `series` and `tune` ask the same function before anything starts. At a
fixed rate, every arm that can keep up has the same throughput, so p99 latency is compared. Without one, the
fastest arm is also the most loaded, so throughput is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from flushlab.campaign.binding import workloads_of
from flushlab.campaign.scheduling import ends_by_itself
from flushlab.errors import UsageError
from flushlab.experiment.protocol import OBJECTIVES, Objective
from flushlab.plan.plan import Plan
from flushlab.record import BASE
from flushlab.spec.parts import NAME, SAME_WORKLOAD, WorkloadSpec, difference
from flushlab.workload.parse import workload_options

SCHEDULE: Final = ("rate", "profile", "rate_kind")
"""Options of a workload that say when its events are due."""


def objective_of(asked: str | None, workload: str, options: Mapping[str, object]) -> Objective:
    if asked is not None and asked not in OBJECTIVES:
        raise UsageError(f"unknown objective {asked!r}", hint=f"it takes {' or '.join(OBJECTIVES)}")
    fixed = next(iter(_schedule(workload, options)), None)
    if asked == "p99" and "rate" not in workload_options(workload):
        raise UsageError(
            f"--objective p99 needs a fixed rate, and {_short(workload)} takes none",
            hint="use --objective throughput",
        )
    if asked == "p99" and fixed is None:
        raise UsageError(
            "--objective p99 needs a fixed rate: without one, the fastest arm is also the most loaded",
            hint="give your service's transactions/s: --rate 2000, or rate = 2000 for the workload of a plan",
        )
    if asked == "throughput" and fixed is not None:
        raise UsageError(
            f"--objective throughput has nothing to compare: the {fixed} of the load fixes the throughput",
            hint=f"use --objective p99, or remove the {fixed}",
        )
    return "throughput" if fixed is None else "p99"


def objective_of_plan(asked: str | None, plan: Plan, only: Collection[str] = ()) -> Objective:
    workloads = workloads_of(plan)
    places = dict[str, str]()
    for arm in plan.arms:
        named = next(
            (name for name in (NAME, *SCHEDULE) if name in difference(arm.workload, SAME_WORKLOAD)), ""
        )
        places[arm.name] = plan.at(f"{arm.place}.workload.{named}") if named else ""
    running = {name: one for name, one in workloads.items() if name == BASE or not only or name in only}
    require_comparable(running, places)
    return objective_of(asked, plan.workload.name, plan.workload.options)


def require_comparable(workloads: Mapping[str, WorkloadSpec], places: Mapping[str, str] = {}) -> None:
    (_, base), *arms = workloads.items()
    wanted = _schedule(base.name, base.options)
    for name, workload in arms:
        at = places.get(name, "")
        if ends_by_itself(workload.name) != ends_by_itself(base.name):
            raise UsageError(
                f"{at}arm {name!r} runs {_short(workload.name)}, the base {_short(base.name)}: one is timed"
                " until it ends, the other counted in a window, so their results have no common unit",
                hint="write both as 'command: …', or both as txn:FILE",
            )
        own = _schedule(workload.name, workload.options)
        if own != wanted:
            raise UsageError(
                f"{at}arm {name!r} runs {_words(own)}, the base {_words(wanted)}: neither throughput nor p99"
                " latency could be compared",
                hint="give base and arms the same rate, or none, and run a series for each rate",
            )


def _schedule(workload: str, options: Mapping[str, object]) -> dict[str, object]:
    known = workload_options(workload)
    asked = {name: options.get(name) or known[name].default for name in SCHEDULE if name in known}
    found = {name: value for name, value in asked.items() if value}
    return found if found.keys() & {"rate", "profile"} else {}


def _words(schedule: Mapping[str, object]) -> str:
    if not schedule:
        return "as fast as it can"
    plain = {name: f"{value:g}" if isinstance(value, float) else value for name, value in schedule.items()}
    return "at " + ", ".join(f"{name} {value}" for name, value in plain.items())


def _short(workload: str) -> str:
    """A workload's name, without what a command may hold."""
    kind, colon, _ = workload.partition(":")
    return f"{kind}{colon}"
