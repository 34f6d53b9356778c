"""Scheduling: arms in slices on servers kept running, arms on fresh servers, and the length of trials.

Sits in `campaign`; pure. Decided once, before the first trial, and kept with the request. `campaign.pool`
gives the number of servers that may run at once; docs/decisions/0018-servers-kept-running.md the limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from flushlab.campaign.arms import BoundArm
from flushlab.campaign.request import ArmGroup, SeriesRequest, TuneRequest
from flushlab.record import ServerIdentity
from flushlab.trial.runner import restart_settings
from flushlab.trial.sliced import SLICE_S
from flushlab.units import counted
from flushlab.workload import protocol
from flushlab.workload.protocol import Timing, Workload

LEAST_ROUNDS, MOST_ROUNDS, ENOUGH_BLOCKS = 2, 10, 30
"""Rounds of a block on servers kept running: neighbouring rounds have a little in common, so one alone is no
block. More than two rounds, if that leaves enough blocks for the intervals."""
MOST_BLOCKS = 1_000
INTERIM_BLOCKS = 10
"""From this many blocks on, a comparison has interim analyses; with fewer, each costs too much."""

LEAST_SERVERS = 3
"""Of a series: base, control and one arm."""
BESIDE_MOST = 8
"""Servers of a tuning that run at once at most: in a round of more the machine has time to change."""


OVERHEAD_S = 2.5
"""Seconds of a trial beside warm-up and window: restore, start, reading back, stop (measured: 2 to 4 s)."""
NODE_S = 3.0
"""As many for each further node of a cluster: its copy, its start, its stop (three nodes took 8.7 s in all on
two busy processors)."""

_ENDS_BY_ITSELF = ("sql:", "command:")
"""Workloads whose windows are as long as they take."""


def ends_by_itself(workload: str) -> bool:
    return workload.startswith(_ENDS_BY_ITSELF)


SLICE_FACTOR, SLICE_LEAD_S = 1.1, 0.15
"""Of a trial on a server kept running: overhead of its slices, and telemetry (measured)."""
START_S = 8.0
"""Until the first trial: the server's settings are read, the machine is watched."""
STARTUP_S = 4.5
"""Until a server takes slices: restore, start, warm-up (measured on two busy processors)."""


SWITCH_S = 0.3
"""Of each slice on a cluster: the switch of every node, the lead, and until all nodes have applied it
(docs/decisions/0026-slices-on-clusters.md)."""


def trial_s(
    workload: str, timing: Timing, *, kept_running: bool = False, cluster: int | None = None
) -> float:
    if kept_running and workload == protocol.OWN_LOAD:
        return timing.seconds * (1 + protocol.OWN_LOAD_LEAD_S / protocol.OWN_LOAD_SLICE_S) + SLICE_LEAD_S
    if kept_running:
        return SLICE_FACTOR * timing.seconds + SLICE_LEAD_S
    beside_s = OVERHEAD_S + NODE_S * ((cluster or 1) - 1)
    return beside_s if ends_by_itself(workload) else beside_s + timing.warm_up_s + timing.seconds


def trial_s_of(request: TuneRequest | SeriesRequest, group: ArmGroup) -> float:
    timing, cluster = group.timing(request.timing), request.spec.server.cluster
    return trial_s(request.workload, timing, kept_running=group.kept_running, cluster=cluster)


class Capacity(NamedTuple):
    """`servers`: at once; 0: each trial has a fresh one. `why`: they are fresh, or so few."""

    servers: int
    why: str = ""


def in_slices(restarts: bool, identity: ServerIdentity, places: int = 0) -> str:
    if not restarts:
        return "alternate in slices on your server"
    if identity.nodes > 1:
        return f"alternate in slices on {counted(places, 'cluster') if places else 'clusters'}"
    return "run side by side and alternate in slices"


def slices_of(
    request: SeriesRequest,
    base: Workload,
    workloads: Mapping[str, Workload],
    arms: Sequence[str],
    least_s: float,
) -> dict[str, float]:
    slices = {name: max(least_s, base.slice_s or 0.0, workloads[name].slice_s or 0.0) for name in arms}
    together = [name for name in request.together if name in slices]
    return slices | {name: max(slices[one] for one in together) for name in together}


def kept_running_group(
    request: SeriesRequest, arms: tuple[str, ...], seconds: float, slice_s: float, places: int
) -> ArmGroup:
    blocks, seconds_each = blocks_of(request.blocks, seconds, slice_s)
    return ArmGroup(arms=arms, kept_running=True, blocks=blocks, seconds=seconds_each, places=places)


def shared_s(request: SeriesRequest, arms: int, groups: int) -> float:
    seconds = request.timing.seconds
    return seconds if request.measured_s is None else seconds * (arms + 2) / (arms + 2 * groups)


def place_of(arm: BoundArm, workload: Workload, identity: ServerIdentity) -> str:
    settings = restart_settings(arm.settings, identity)
    parts = [
        arm.build,
        arm.data_root,
        arm.disk,
        dict(workload.data_key),
        sorted(settings.items()),
    ]
    return repr(parts)


def on_places(
    slices: Mapping[str, float], together: Sequence[str], places: Mapping[str, str], own: str, most: int
) -> Iterator[tuple[str, ...]]:
    for slice_s in sorted(set(slices.values())):
        names = [name for name in slices if slices[name] == slice_s]
        first = {own, *(places[name] for name in together if name in names)}
        others = list(dict.fromkeys(places[name] for name in names if places[name] not in first))
        fit = max(most - (len(first) - 1), 0)
        for some in ([*first, *others[:fit]], *(portions(others[fit:], most) if others[fit:] else ())):
            if arms := tuple(name for name in names if places[name] in some):
                yield arms


def grouped(slices: Mapping[str, float], together: Sequence[str], most: int) -> Iterator[tuple[str, ...]]:
    for slice_s in sorted(set(slices.values())):
        names = [name for name in slices if slices[name] == slice_s]
        kept = tuple(name for name in names if name in together)
        if kept and len(names) > most:
            yield kept
            names = [name for name in names if name not in kept]
        yield from portions(names, most)


def portions(names: Sequence[str], most: int) -> list[tuple[str, ...]]:
    count = math.ceil(len(names) / most)
    return [tuple(names[len(names) * n // count : len(names) * (n + 1) // count]) for n in range(count)]


def blocks_of(blocks: int, seconds: float, slice_s: float = SLICE_S) -> tuple[int, float]:
    """The total of an arm is that of the given blocks and windows, but never less than a slice in a
    block."""
    total_s = blocks * seconds
    rounds = max(1, round(total_s / slice_s))
    least = LEAST_ROUNDS if rounds >= LEAST_ROUNDS * INTERIM_BLOCKS else 1
    of_block = min(MOST_ROUNDS, max(least, rounds // ENOUGH_BLOCKS))
    count = min(max(blocks, round(rounds / of_block)), MOST_BLOCKS)
    return count, max(total_s / count, slice_s)
