"""Way: whether a campaign is measured on standing servers, in turns, or on a fresh server for each window.

Sits in `campaign`; decided once, before the first trial, and kept with the request. `trial.standing` is the
way itself; docs/decisions/0018-standing-servers.md says what it must not be asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from flushlab.campaign.outlook import copy_bytes, data_bytes_of
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.series_request import BoundArm, SeriesRequest
from flushlab.campaign.target import Target
from flushlab.machine import available_memory_bytes
from flushlab.record import Value
from flushlab.settings.configuration import Configuration
from flushlab.settings.memory_use import number_of
from flushlab.trial.standing import SLICE_S
from flushlab.units import format_size
from flushlab.workload import Workload

LEAST_ROUNDS, MOST_ROUNDS, ENOUGH_BLOCKS = 2, 4, 30
"""Rounds of a block on standing servers: neighbouring rounds have a little in common, so one alone is no
block; more than two where that leaves so many blocks, on which the intervals rest."""
MOST_BLOCKS = 1_000
LOOKS_BLOCKS = 10
"""From so many blocks on a comparison is judged while it runs, too: of fewer, a look takes too much."""
BESIDE_BYTES = 300 << 20
"""Of a server, beside its buffer pool and log buffer (measured: 110 MiB to 250 MiB with 16 connections)."""
LIMITED_DISK = "servers that wait would write beyond the disk's limit"
"""With one limit for all they take writes from the one that is driven; with one for each they have theirs for
nothing while they wait."""
MEMORY_SHARE = 0.8
"""Servers that stand may take so much of the memory that is free."""

BESIDE_MOST = 8
"""Servers of a tuning that stand at once at most: in a round of more the machine has time to change."""


class Beside(NamedTuple):
    """How many servers of a tuning stand side by side.

    Attributes:
        servers: at once; 0: each trial has a fresh one.
        why: they are fresh, or so few; empty otherwise.
    """

    servers: int
    why: str = ""


def beside(request: TuneRequest, workloads: Sequence[Workload], target: Target) -> Beside:
    """How many servers of a tuning can stand side by side."""
    if any(workload.slice_s is None for workload in workloads):
        return Beside(0, f"{request.workload.split(':')[0]} cannot be paused")
    if request.disk_iops is not None:
        return Beside(0, LIMITED_DISK)
    if request.steady_state:
        return Beside(0, "some candidates show in what a server does later")
    settings = [request.base, *({**request.base, **one.settings} for one in request.candidates)]
    each, free = max(_server_bytes(one, target) for one in settings), available_memory_bytes()
    servers = int(MEMORY_SHARE * free // each)
    why = f"each may take {format_size(each)} of {format_size(free)} of memory"
    data_bytes = data_bytes_of(request.workload, msgspec.structs.asdict(request.shape), request.dataset)
    if copy := copy_bytes(settings, target, data_bytes):
        free = target.volume.data_root.free_bytes()
        if (room := free // copy - 1) < servers:
            servers, why = room, f"each may take {format_size(copy)} of {format_size(free)} on the disk"
    if servers >= BESIDE_MOST:
        return Beside(BESIDE_MOST)
    return Beside(servers, why) if servers >= 2 else Beside(0, why)


def why_fresh(request: SeriesRequest, workloads: Sequence[Workload], target: Target) -> str:
    """Why a series needs fresh servers; empty if its arms can stand side by side.

    Args:
        request: of the series.
        workloads: of the base and of the arms that run.
        target: where.
    """
    arms = (request.base, *request.running)
    if any(workload.slice_s is None for workload in workloads):
        return f"{request.workload.split(':')[0]} cannot be paused"
    if request.disk_iops is not None or any(arm.disk_iops is not None for arm in arms):
        return LIMITED_DISK
    if named := _in_the_background(request, target):
        return f"{named[1]} of {named[0]} shows in what a server does later"
    # The base and its control, and either all arms or, later, `best` alone.
    standing = (request.base, request.base, *request.running)
    return _too_little_memory(standing, target) or _too_little_disk(request, standing, target)


def blocks_of(blocks: int, seconds: float, slice_s: float = SLICE_S) -> tuple[int, float]:
    """The blocks of a series on standing servers, and their seconds of each arm: as much is measured of it as
    in so many blocks with a window of so many seconds; but never less than a slice in a block."""
    total_s = blocks * seconds
    rounds = max(1, round(total_s / slice_s))
    least = LEAST_ROUNDS if rounds >= LEAST_ROUNDS * LOOKS_BLOCKS else 1
    of_block = min(MOST_ROUNDS, max(least, rounds // ENOUGH_BLOCKS))
    count = min(max(blocks, round(rounds / of_block)), MOST_BLOCKS)
    return count, max(total_s / count, slice_s)


def _in_the_background(request: SeriesRequest, target: Target) -> tuple[str, str] | None:
    """An arm and its setting whose effect is in work that a server does later, in the turns of others."""
    data_bytes = data_bytes_of(request.workload, request.base.options, request.dataset)
    pool = number_of(Configuration(request.base.settings, target.identity), "innodb_buffer_pool_size")
    fits = data_bytes is not None and data_bytes < pool
    for arm in request.running:
        for name in arm.changes:
            setting = target.catalog.setting(name) if name in target.catalog else None
            if setting is None or not setting.needs_steady_state or (fits and setting.group == "doublewrite"):
                continue
            return arm.name, name
    return None


def _too_little_memory(arms: Sequence[BoundArm], target: Target) -> str:
    wanted = sum(_server_bytes(arm.settings, target) for arm in arms)
    free = available_memory_bytes()
    if wanted <= MEMORY_SHARE * free:
        return ""
    return f"{len(arms)} servers side by side may take {format_size(wanted)} of {format_size(free)} of memory"


def _server_bytes(settings: Mapping[str, Value], target: Target) -> int:
    """About what a server may take of the memory."""
    configuration = Configuration(settings, target.identity)
    buffers = ("innodb_buffer_pool_size", "innodb_log_buffer_size")
    return sum(number_of(configuration, name) for name in buffers) + BESIDE_BYTES


def _too_little_disk(request: SeriesRequest, arms: Sequence[BoundArm], target: Target) -> str:
    data_bytes = data_bytes_of(request.workload, request.base.options, request.dataset)
    each = copy_bytes([arm.settings for arm in arms], target, data_bytes)
    free = target.volume.data_root.free_bytes()
    if each is None or (wanted := (1 + len(arms)) * each) <= free:
        return ""
    return (
        f"{len(arms)} servers side by side may take {format_size(wanted)} of {format_size(free)} on the disk"
    )
