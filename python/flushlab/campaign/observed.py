"""Observed load: which arms may run under it, and what it can show. Pure; sits in `campaign`.

Requests that come at the rate of the application's users come no faster if each takes less time (fixed
demand): latency alone shows a gain. Connections that send the next request when they have the answer do
(closed loop).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from flushlab.campaign.facts import ArmResult, Demand
from flushlab.campaign.request import SeriesRequest
from flushlab.diagnosis.evidence import WITH_READS
from flushlab.errors import BelowFloor
from flushlab.record import ObservedLoad, ServerIdentity, Storage, Trial, Warning, together
from flushlab.settings.durability import Guarantees, guarantees, keeps, level
from flushlab.settings.durability.guarantee import FAILURES
from flushlab.settings.floor import Floor
from flushlab.workload import protocol

FOLLOWS = 0.5
"""Throughput that gains less than this part of the latency's gain, in logarithms, does not follow it."""


def require_permitted(request: SeriesRequest, identity: ServerIdentity, storage: Storage) -> None:
    """Refuses arms, the base among them, that guarantee less than the floor and less than the server does
    now: its users' commits run under them."""
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
    """Whether a failure costs more, or the same window of commits for one more reason.

    `throwaway` promises nothing, so a server there is held against what it keeps. With sync_binlog=0, its
    tables lose the last group of commits; with innodb_flush_log_at_trx_commit=2, a second of commits, too.
    """
    pairs = [(then.under(failure), has.under(failure)) for failure in FAILURES]
    more = any(own.level != "nothing_lost" and {*own.because} - {*other.because} for own, other in pairs)
    return more or not keeps(then, has)


def demand_of(arms: Iterable[ArmResult]) -> Demand:
    """The demand that arms with another latency show; `unknown` without such arms, or if they disagree."""
    found = {_demand_of(arm) for arm in arms} - {"unknown"}
    return found.pop() if len(found) == 1 else "unknown"


def _demand_of(arm: ArmResult) -> Demand:
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


def of_observed(load: ObservedLoad | None) -> Iterator[Warning]:
    """That a load which flushlab only observed was counted together with reads."""
    if load is not None and load.commits_by == WITH_READS:
        yield Warning(
            "reads-among-commits",
            "the server has no binary log, and Handler_commit counts reads, too: if the load reads much, its"
            " write latency is too low and the ratios are too near to 1",
        )
