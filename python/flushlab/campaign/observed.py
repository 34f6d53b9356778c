"""Observed load: which arms may run under it, and what it can show. Pure; sits in `campaign`.

Requests that come at the rate of the application's users come no faster if each takes less time (fixed
demand): latency alone shows a gain. Connections that send the next request when they have the answer do
(closed loop).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from flushlab.campaign.facts import ArmFacts, Demand
from flushlab.campaign.request import SeriesRequest
from flushlab.errors import BelowFloor
from flushlab.record import ObservedLoad, Trial, together
from flushlab.settings.floor import Floor
from flushlab.workload import own_load

FOLLOWS = 0.5
"""Throughput that gains less than this part of the latency's gain, in logarithms, does not follow it."""


def require_permitted(request: SeriesRequest) -> None:
    """Refuses arms that guarantee less than the floor and less than the server does now: its users' commits
    run under them.

    Raises:
        BelowFloor: there is one.
    """
    base = request.base
    if base.workload.name != own_load.NAME:
        return
    floor = request.floor or Floor(base.floor or Floor.THROWAWAY)
    for arm in request.running:
        own = Floor(arm.floor or Floor.THROWAWAY)
        if own.at_least(floor) or (base.floor and own.at_least(Floor(base.floor))):
            continue
        raise BelowFloor(
            f"{arm.name} is below the floor {floor}: your application's commits would be no safer than"
            f" {own} while it runs",
            hint=f"--floor {own} allows it",
        )


def demand_of(arms: Iterable[ArmFacts]) -> Demand:
    """The demand that arms with another latency show; `unknown` without such arms, or if they disagree."""
    found = {_demand_of(arm) for arm in arms} - {"unknown"}
    return found.pop() if len(found) == 1 else "unknown"


def _demand_of(arm: ArmFacts) -> Demand:
    latency, throughput = arm.comparison, arm.throughput
    if latency is None or throughput is None or latency.verdict == "no difference found":
        return "unknown"
    # Sizes come before verdicts: a narrow interval proves a gain of 1 %, beside a latency of half the time.
    side = 1.0 if latency.verdict == "faster" else -1.0
    most = max(side * math.log(throughput.ratio.low), side * math.log(throughput.ratio.high))
    if most < FOLLOWS * side * math.log(latency.ratio.estimate):
        return "fixed"
    return "closed loop" if throughput.verdict == latency.verdict else "unknown"


def observed_of(trials: Iterable[Trial]) -> ObservedLoad | None:
    """The load of several trials together; None where flushlab made it."""
    parts = [trial.observed for trial in trials if trial.observed is not None]
    return together(parts) if parts else None
