"""Way: what of a campaign is measured on standing servers, in turns, and what on a fresh server each time.

Sits in `campaign`; decided once, before the first trial, and kept with the request. `trial.standing` is the
way itself; docs/decisions/0018-standing-servers.md says what it must not be asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from flushlab.campaign.external_use import free_connections, require_connections
from flushlab.campaign.outlook import copy_bytes, data_bytes_of
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.series_request import ArmGroup, BoundArm, SeriesRequest
from flushlab.campaign.target import Target
from flushlab.errors import UsageError
from flushlab.machine import available_memory_bytes
from flushlab.record import ServerIdentity, Value
from flushlab.server.remote.group import RemoteGroup
from flushlab.settings.configuration import Configuration
from flushlab.settings.memory_use import number_of
from flushlab.trial.standing import CLUSTER_SLICE_S, SLICE_S
from flushlab.trial.switching import restart_settings
from flushlab.units import format_size
from flushlab.workload import Workload
from flushlab.workload.driven import EngineOptions

LEAST_ROUNDS, MOST_ROUNDS, ENOUGH_BLOCKS = 2, 10, 30
"""Rounds of a block on standing servers: neighbouring rounds have a little in common, so one alone is no
block; more than two where that leaves so many blocks, on which the intervals rest."""
MOST_BLOCKS = 1_000
LOOKS_BLOCKS = 10
"""From so many blocks on a comparison is judged while it runs, too: of fewer, a look takes too much."""
BESIDE_BYTES = 300 << 20
"""Of a server, beside its buffer pool and log buffer (measured: 110 MiB to 250 MiB with 16 connections)."""
LIMITED_DISK = "waiting servers would write beyond the disk's limit"
"""With one limit for all they take writes from the one that is driven; with one for each they have theirs for
nothing while they wait."""
POOL_SHARE = 0.08
"""Of a pool's size that a server takes as it starts (measured: MySQL 5.7 and 8.0 8.1 %, MariaDB 1.9 %)."""
MADE_BYTES = 512 << 20
"""Of pages that a workload may add to its data while it is driven; a pool may fill up to them."""
MEMORY_SHARE = 0.8
"""Servers that stand may take so much of the memory that is free."""

LEAST_SERVERS = 3
"""Of a series: base, control and one arm."""
CLUSTERS_MOST = 3
"""Clusters of a tuning that stand at once at most, where candidates take a restart: their nodes do not only
wait, they talk to each other."""
BESIDE_MOST = 8
"""Servers of a tuning that stand at once at most: in a round of more the machine has time to change."""


class Beside(NamedTuple):
    """How many servers of a campaign stand side by side.

    Attributes:
        servers: at once; 0: each trial has a fresh one.
        why: they are fresh, or so few; empty otherwise.
    """

    servers: int
    why: str = ""


def beside(request: TuneRequest, workloads: Sequence[Workload], target: Target) -> Beside:
    """How many servers of a tuning can stand side by side; of somebody's own, how many loads it lets in.

    Raises:
        UsageError: somebody's own server cannot be used so.
    """
    if target.external is not None:
        return Beside(_loads_on(target.external, workloads))
    if any(workload.slice_s is None for workload in workloads):
        return Beside(0, f"{request.workload.split(':')[0]} cannot be paused")
    if (
        request.spec.storage.disk_iops is not None or request.spec.storage.disk is not None
    ) and target.nodes == 1:
        return Beside(0, LIMITED_DISK)
    if request.steady_state:
        return Beside(0, "some candidates take effect later, in background work")
    settings = request.run
    data_bytes = data_bytes_of(request.workload, request.spec.workload.options, request.spec.data.dataset)
    found = _room(settings, target, data_bytes)
    if target.nodes > 1:
        changed = [one.settings for one in request.candidates]
        changed += [request.raised] if request.yours is not None else []
        restarts = any(restart_settings(one, target.identity) for one in changed)
        room = min(found.servers, CLUSTERS_MOST) if restarts else BESIDE_MOST * min(found.servers, 1)
        return Beside(room) if room >= 2 else Beside(0, found.why)
    if found.servers >= BESIDE_MOST:
        return Beside(BESIDE_MOST)
    return found if found.servers >= 2 else Beside(0, found.why)


def _loads_on(server: RemoteGroup, workloads: Sequence[Workload]) -> int:
    if not all(
        workload.slice_s is not None and isinstance(workload, EngineOptions) for workload in workloads
    ):
        raise UsageError(
            f"{workloads[0].name} cannot be paused, and candidates take turns on your own server",
            hint="your own server takes sysbench's workloads, upsert and txn:FILE, without --profile",
        )
    each = sum(workload.threads for workload in workloads if isinstance(workload, EngineOptions))
    loads = min(BESIDE_MOST, free_connections(server) // each)
    if loads < LEAST_SERVERS:
        require_connections(server, LEAST_SERVERS * each)
    return loads


def groups_of(
    request: SeriesRequest, base: Workload, workloads: Mapping[str, Workload], target: Target
) -> tuple[ArmGroup, ...]:
    """How the arms of a series are measured: as many as can in turns, the others on fresh servers, last.

    Args:
        request: of the series.
        base: the base's workload.
        workloads: of the arms that run, by name.
        target: where.
    """
    data_bytes = data_bytes_of(request.workload, request.base.options, request.spec.data.dataset)
    why = {
        arm.name: _why_fresh(arm, request, base, workloads[arm.name], target, data_bytes)
        for arm in request.running
    }
    united = request.together
    if reason := next((why[name] for name in united if why[name]), ""):
        what = "combinations of factors" if request.factors else "configurations of all servers"
        why |= {name: why[name] or f"{reason}; all {what} run in the same blocks" for name in united}
    turns = [arm for arm in request.running if not why[arm.name]]
    room = _room([arm.settings for arm in (request.base, *turns)], target, data_bytes)
    identity, own = target.identity, place_of(request.base, base, target.identity)
    places = {arm.name: place_of(arm, workloads[arm.name], identity) for arm in turns}
    if target.nodes > 1:
        why |= _without_a_cluster(places, own, [name for name in united if name in places], room)
    elif room.servers < LEAST_SERVERS:
        why |= {arm.name: room.why for arm in turns}
    elif room.servers - 2 < len(united):
        why |= {name: why[name] or room.why for name in united}
    turns = [arm for arm in turns if not why[arm.name]]
    least_s = SLICE_S if target.nodes == 1 else CLUSTER_SLICE_S
    slices = {
        arm.name: max(least_s, base.slice_s or 0.0, workloads[arm.name].slice_s or 0.0) for arm in turns
    }
    together = [name for name in united if name in slices]
    slices |= {name: max(slices[one] for one in together) for name in together}
    if target.nodes == 1:
        groups = list(_grouped(slices, together, room.servers - 2))
    else:
        groups = list(_on_clusters(slices, together, places, own, room.servers - 1))
    fresh = tuple(name for name, reason in why.items() if reason)
    seconds = _shared_s(request, len(why), len(groups) + bool(fresh))
    found = []
    for names in groups:
        blocks, seconds_each = blocks_of(request.blocks, seconds, slices[names[0]])
        clusters = len({own, *(places[name] for name in names)}) if target.nodes > 1 else 0
        found.append(
            ArmGroup(arms=names, standing=True, blocks=blocks, seconds=seconds_each, places=clusters)
        )
    if fresh:
        reasons = {name: why[name] for name in fresh}
        found.append(
            ArmGroup(arms=fresh, standing=False, blocks=request.blocks, seconds=seconds, why=reasons)
        )
    return tuple(found)


def on_one_server(
    request: SeriesRequest, base: Workload, workloads: Mapping[str, Workload], loads: int
) -> tuple[ArmGroup, ...]:
    """How the arms of a series are measured on somebody's own server: in turns, as many in the same rounds as
    it has connections for.

    Args:
        request: of the series.
        base: the base's workload.
        workloads: of the arms that run, by name.
        loads: how many may be connected at once.

    Raises:
        UsageError: the load cannot be paused for another arm's turn.
    """
    if base.slice_s is None:
        raise UsageError(
            f"{base.name} cannot be paused, and arms take turns on your own server",
            hint="remove --profile, --hdr-log and --per-second",
        )
    names = [arm.name for arm in request.running]
    if not names:
        return ()
    slice_s = max(CLUSTER_SLICE_S, base.slice_s, *(workloads[name].slice_s or 0.0 for name in names))
    together = [name for name in request.together if name in names]
    groups = list(_grouped(dict.fromkeys(names, slice_s), together, max(loads - 2, 1)))
    seconds = _shared_s(request, len(names), len(groups))
    blocks, seconds_each = blocks_of(request.blocks, seconds, slice_s)
    return tuple(
        ArmGroup(arms=one, standing=True, blocks=blocks, seconds=seconds_each, places=1) for one in groups
    )


def _shared_s(request: SeriesRequest, arms: int, groups: int) -> float:
    """Seconds of a window: what is measured in all is shared by base and control of every group, too."""
    seconds = request.timing.seconds
    return seconds if request.measured_s is None else seconds * (arms + 2) / (arms + 2 * groups)


def place_of(arm: BoundArm, workload: Workload, identity: ServerIdentity) -> str:
    """What tells an arm's cluster from those of others: arms with the same place differ only in what every
    node can be given while it runs, or in how they are driven."""
    settings = restart_settings(arm.settings, identity)
    parts = [
        arm.build,
        arm.data_root,
        arm.disk_iops,
        arm.disk,
        dict(workload.data_key),
        sorted(settings.items()),
    ]
    return repr(parts)


def _without_a_cluster(
    places: Mapping[str, str], own: str, united: Sequence[str], room: Beside
) -> dict[str, str]:
    """Why arms cannot take turns where so many clusters fit: they need one besides the base's, or those that
    stay together need more."""
    too_many = len({own, *(places[name] for name in united)}) > room.servers
    return {
        name: room.why
        for name, place in places.items()
        if room.servers < (1 if place == own else 2) or (too_many and name in united)
    }


def _on_clusters(
    slices: Mapping[str, float], together: Sequence[str], places: Mapping[str, str], own: str, most: int
) -> Iterator[tuple[str, ...]]:
    """Arms whose slices are equally long, on the base's cluster and at most so many others; what is to stay
    together does."""
    for slice_s in sorted(set(slices.values())):
        names = [name for name in slices if slices[name] == slice_s]
        first = {own, *(places[name] for name in together if name in names)}
        others = list(dict.fromkeys(places[name] for name in names if places[name] not in first))
        fit = max(most - (len(first) - 1), 0)
        for some in ([*first, *others[:fit]], *(_portions(others[fit:], most) if others[fit:] else ())):
            if arms := tuple(name for name in names if places[name] in some):
                yield arms


def _grouped(slices: Mapping[str, float], together: Sequence[str], most: int) -> Iterator[tuple[str, ...]]:
    """Arms whose slices are equally long, as many as fit; what is to stay together does."""
    for slice_s in sorted(set(slices.values())):
        names = [name for name in slices if slices[name] == slice_s]
        kept = tuple(name for name in names if name in together)
        if kept and len(names) > most:
            yield kept
            names = [name for name in names if name not in kept]
        yield from _portions(names, most)


def _portions(names: Sequence[str], most: int) -> list[tuple[str, ...]]:
    """As few portions as there can be, of about the same size."""
    count = math.ceil(len(names) / most)
    return [tuple(names[len(names) * n // count : len(names) * (n + 1) // count]) for n in range(count)]


def _why_fresh(
    arm: BoundArm,
    request: SeriesRequest,
    base: Workload,
    workload: Workload,
    target: Target,
    data_bytes: int | None,
) -> str:
    """Why an arm needs fresh servers; empty if it can stand beside others."""
    if base.slice_s is None or workload.slice_s is None:
        return f"{request.workload.split(':')[0]} cannot be paused"
    slow = (request.spec.storage.disk_iops, request.spec.storage.disk, arm.disk_iops, arm.disk)
    if any(one is not None for one in slow) and target.nodes == 1:
        return LIMITED_DISK
    pool = number_of(Configuration(request.base.settings, target.identity), "innodb_buffer_pool_size")
    fits = data_bytes is not None and data_bytes < pool
    for name in arm.changes:
        setting = target.catalog.setting(name) if name in target.catalog else None
        if setting is None or not setting.needs_steady_state or (fits and setting.group == "doublewrite"):
            continue
        return f"{name} shows its effect later, in background work"
    return ""


def blocks_of(blocks: int, seconds: float, slice_s: float = SLICE_S) -> tuple[int, float]:
    """The blocks of a series on standing servers, and their seconds of each arm: as much is measured of it as
    in so many blocks with a window of so many seconds; but never less than a slice in a block."""
    total_s = blocks * seconds
    rounds = max(1, round(total_s / slice_s))
    least = LEAST_ROUNDS if rounds >= LEAST_ROUNDS * LOOKS_BLOCKS else 1
    of_block = min(MOST_ROUNDS, max(least, rounds // ENOUGH_BLOCKS))
    count = min(max(blocks, round(rounds / of_block)), MOST_BLOCKS)
    return count, max(total_s / count, slice_s)


def _room(settings: Sequence[Mapping[str, Value]], target: Target, data_bytes: int | None) -> Beside:
    """How many servers, or clusters, with any of these settings the memory and the disk hold; `why` not
    more."""
    free = available_memory_bytes()
    each = target.nodes * max(_server_bytes(one, target, data_bytes) for one in settings)
    found = Beside(int(MEMORY_SHARE * free // each), _each(each, free, "of memory"))
    if copy := target.nodes * (copy_bytes(settings, target, data_bytes) or 0):
        free = target.volume.data_root.free_bytes()
        if (room := max(free // copy - 1, 0)) < found.servers:  # the snapshot is one more
            return Beside(room, _each(copy, free, "on the disk"))
    return found


def _each(each: int, free: int, where: str) -> str:
    return f"each may take {format_size(each)} of {format_size(free)} {where}"


def _server_bytes(settings: Mapping[str, Value], target: Target, data_bytes: int | None) -> int:
    """About what a server may take of the memory. A pool takes it as pages come into it."""
    configuration = Configuration(settings, target.identity)
    pool = number_of(configuration, "innodb_buffer_pool_size")
    pages = pool if data_bytes is None else min(pool, data_bytes + MADE_BYTES)
    log_buffer = number_of(configuration, "innodb_log_buffer_size")
    return round(pages + POOL_SHARE * pool) + log_buffer + BESIDE_BYTES
