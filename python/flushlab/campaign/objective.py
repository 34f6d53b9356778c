"""Objective: what a campaign compares, which follows from whether its load has a fixed rate.

Sits in `campaign`; pure. `compare`, `series` and `tune` ask the same function before anything starts. At a
fixed rate, every arm that can keep up has the same throughput, so p99 latency is compared. Without one, the
fastest arm is also the most loaded, so throughput is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from flushlab.campaign.binding import place, with_keys
from flushlab.errors import UsageError
from flushlab.experiment.objective import OBJECTIVES, Objective
from flushlab.plan.plan import BASE, Plan
from flushlab.workload import workload_options

SCHEDULE: Final = ("rate", "profile", "rate_kind")
"""Options of a workload that say when its events are due."""


def objective_of(asked: str | None, workload: str, options: Mapping[str, object]) -> Objective:
    """What is compared: what was asked for, or else what the load's rate leaves to compare.

    Args:
        asked: `--objective`, or None.
        workload: its name.
        options: of the workload; one that it does not take has no effect.

    Raises:
        UsageError: there is no such objective, or the load has a rate for throughput or none for p99.
    """
    if asked is not None and asked not in OBJECTIVES:
        raise UsageError(f"unknown objective {asked!r}", hint=f"it takes {' or '.join(OBJECTIVES)}")
    fixed = next(iter(_schedule(workload, options)), None)
    if asked == "p99" and "rate" not in workload_options(workload):
        kind, colon, _ = workload.partition(":")
        raise UsageError(
            f"--objective p99 needs a fixed rate, and {kind}{colon} takes none",
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


def objective_of_plan(asked: str | None, plan: Plan, path: str, only: Collection[str] = ()) -> Objective:
    """The same for a plan, whose arms may have rates of their own.

    Args:
        asked: `--objective`, or None.
        plan: the plan.
        path: its file, for messages.
        only: arms that run; none: all.

    Raises:
        UsageError: as `objective_of`; or an arm has another rate than the base, so that neither its
            throughput nor its latency tells what its settings do.
    """
    workload, base = plan.workload.name, plan.workload.options
    options = {BASE: base}
    for arm, key in with_keys(plan.arms):
        options[arm.name] = {**options[arm.on], **arm.workload}
        own, wanted = (_schedule(workload, one) for one in (options[arm.name], base))
        if own == wanted or (only and arm.name not in only):
            continue
        named = next((name for name in SCHEDULE if name in arm.workload), "")
        at = place(plan, path, f"{key}.workload.{named}") if named else ""
        raise UsageError(
            f"{at}arm {arm.name!r} runs {_words(own)}, the base {_words(wanted)}: neither throughput nor p99"
            " latency could be compared",
            hint="give base and arms the same rate, or none, and run a series for each rate",
        )
    return objective_of(asked, workload, base)


def _schedule(workload: str, options: Mapping[str, object]) -> dict[str, object]:
    """Options that fix the load's rate; empty if it runs as fast as it can."""
    known = workload_options(workload)
    found = {name: options.get(name) or known[name].default for name in SCHEDULE if name in known}
    return (
        {name: value for name, value in found.items() if value}
        if found.get("rate") or found.get("profile")
        else {}
    )


def _words(schedule: Mapping[str, object]) -> str:
    if not schedule:
        return "as fast as it can"
    return "at " + ", ".join(f"{name} {value}" for name, value in schedule.items())
