"""Candidates: what `tune` may try on top of a base, and what raises a base that is below its floor.

Sits in `settings`, pure. `propose` never yields:

- a fixed setting or a setting in `keep`;
- a value that the base has already;
- a change that is below the floor, alone or together with any others that `propose` yields.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from flushlab.errors import BelowFloor, ValueOutOfRange
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.settings.catalog import CandidateEntry, SettingEntry, SettingHere, canonical, load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import Failure, Guarantees, guarantees, level, meets
from flushlab.settings.floor import Floor


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A change to the base that `tune` may try.

    Attributes:
        group: the mechanism that it works on: `commit`, `redo`, `binlog`, `flushing`, `pool`,
            `doublewrite`, `ddl`; screening merges by group when the budget is short.
        needs_steady_state: its effect can only be credited in windows that outlast the redo log.
    """

    settings: Mapping[str, Value]
    group: str
    why: str
    needs_steady_state: bool = False


MEMORY_SHARE_OF_BUFFERS = 0.25
"""No buffer outside the pool is proposed above this share of the machine's usable memory."""

_FAILURES_OF_FLOORS: tuple[Failure, ...] = ("process_crash", "os_crash", "power_loss", "torn_page")

_HOW_FILES_ARE_OPENED = {
    "innodb_flush_method",
    "innodb_data_file_buffering",
    "innodb_data_file_write_through",
    "innodb_log_file_buffering",
    "innodb_log_file_write_through",
    "innodb_log_write_ahead_size",
    "innodb_use_fdatasync",
}
"""Without effect where the data directory lies in memory."""

_SAFER: tuple[tuple[str, tuple[Value, ...], str], ...] = (
    ("innodb_flush_log_at_trx_commit", (2, 1), "so that a crash loses no more commits than the floor allows"),
    ("innodb_flush_log_at_timeout", (1,), "so that at most about a second of commits is not yet synced"),
    ("sync_binlog", (1,), "so that recovery never rolls back commits that the binary log lost"),
    ("innodb_doublewrite", ("ON",), "so that torn pages can be repaired"),
    (
        "innodb_flush_method",
        ("O_DIRECT", "fsync"),
        "so that pages and their doublewrite copies are synced in time",
    ),
    ("innodb_data_file_buffering", ("OFF",), "so that no checkpoint passes pages that are in the page cache"),
)
"""Changes that raise a base: names, values from the least change on, and why."""


def propose(
    identity: ServerIdentity,
    *,
    base: Mapping[str, Value],
    floor: Floor,
    storage: Storage,
    launch: Launch,
    memory_bytes: int,
    keep: Iterable[str] = (),
    steady_state: bool = True,
) -> tuple[Candidate, ...]:
    """Changes in the catalog's order, all safe at the floor alone and in any combination. BelowFloor if the
    base is not."""
    there = _Base(base, identity, storage, launch)
    if not meets(there.changed({}), floor):
        raise there.below(floor)
    catalog = load_catalog()
    kept = {catalog.setting(name).name for name in keep if name in catalog}
    accepted: list[Candidate] = []
    for entry in catalog.settings():
        if entry.fixed or entry.name in kept or (entry.needs_steady_state and not steady_state):
            continue
        if entry.cluster and identity.nodes == 1:
            continue
        for one in entry.candidate:
            if not one.holds(identity.flavor, identity.version) or floor.rank < one.floor.rank:
                continue
            candidate = _candidate(there, entry, one, memory_bytes, kept)
            if candidate is None or any(other.settings == candidate.settings for other in accepted):
                continue
            if _safe([*accepted, candidate], there, floor):
                accepted.append(candidate)
    return tuple(accepted)


def raise_to_floor(
    base: Mapping[str, Value],
    floor: Floor,
    *,
    identity: ServerIdentity,
    storage: Storage,
    launch: Launch,
    keep: Iterable[str] = (),
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """The fewest safer values that bring a base up to the floor, and the reasons; two empty values if none is
    needed."""
    catalog, there = load_catalog(), _Base(base, identity, storage, launch)
    kept = {canonical(name) for name in keep}
    steps = [
        (here, [value for value in values if _allows(here, value)], why)
        for name, values, why in _SAFER
        if name not in kept and (here := catalog.here(name, identity.flavor, identity.version)) is not None
    ]
    choices = [[None, *values] for _, values, _ in steps]
    for choice in sorted(
        itertools.product(*choices), key=lambda one: sum(value is not None for value in one)
    ):
        changes: dict[str, Value] = {}
        reasons: list[str] = []
        for (here, _, why), value in zip(steps, choice, strict=True):
            if value is not None:
                changes[here.name] = here.parse(value)
                reasons.append(f"{here.name} = {here.render(value)} {why}")
        if meets(there.changed(changes), floor):
            return changes, tuple(reasons)
    raise there.below(floor)


class _Base(NamedTuple):
    settings: Mapping[str, Value]
    identity: ServerIdentity
    storage: Storage
    launch: Launch

    def changed(self, changes: Mapping[str, Value]) -> Guarantees:
        return guarantees({**self.settings, **changes}, self.identity, self.storage, self.launch)

    def below(self, floor: Floor) -> BelowFloor:
        found = self.changed({})
        worst = [
            f"{failure.replace('_', ' ')}: {found.under(failure).text}"
            for failure in _FAILURES_OF_FLOORS
            if found.under(failure).level != "nothing_lost"
        ]
        if floor is Floor.STRICT and found.binlog.level != "nothing_lost":
            worst.append(f"binary log: {found.binlog.text}")
        reached, way_out = level(found), "change these settings"
        if self.storage.in_memory:
            way_out = "choose a folder on a disk with --data-root"
        return BelowFloor(
            f"the base is below the floor {floor}; it meets only {reached} ({'; '.join(worst)})",
            hint=f"{way_out}, or use --floor {reached}",
        )


def _candidate(
    there: _Base, entry: SettingEntry, one: CandidateEntry, memory_bytes: int, kept: set[str]
) -> Candidate | None:
    catalog, server = load_catalog(), (there.identity.flavor, there.identity.version)
    here = catalog.here(entry.name, *server)
    if here is None or (there.storage.in_memory and here.name in _HOW_FILES_ARE_OPENED):
        return None
    given = one.value
    if one.memory_share is not None:
        given = int(memory_bytes * one.memory_share) // one.multiple * one.multiple
    if given is None or not _allows(here, given):
        return None
    value, configuration = here.parse(given), Configuration(there.settings, there.identity)
    is_buffer = here.type == "size" and entry.group not in ("redo", "pool")
    if is_buffer and isinstance(value, int) and value > memory_bytes * MEMORY_SHARE_OF_BUFFERS:
        return None
    now = here.parse(configuration.value(here.name))
    if value == now or (one.replaces is not None and now != one.replaces):
        return None
    if one.raise_only and not isinstance(value, str) and not isinstance(now, str) and now >= value:
        return None
    if one.lower_only and not isinstance(value, str) and not isinstance(now, str) and now <= value:
        return None
    if configuration.without_effect(here.name):
        return None
    settings: dict[str, Value] = {}
    for name, with_value in one.settings_with.items():  # first: io_capacity is cut to io_capacity_max
        other = catalog.here(name, *server)
        if other is None or other.entry.fixed or other.name in kept or not _allows(other, with_value):
            return None
        settings[other.name] = other.parse(with_value)
    settings[here.name] = value
    return Candidate(
        settings=settings, group=entry.group, why=one.why, needs_steady_state=entry.needs_steady_state
    )


def _allows(here: SettingHere, value: Value) -> bool:
    try:
        here.parse(value)
    except ValueOutOfRange:
        return False
    return True


def _safe(candidates: Sequence[Candidate], there: _Base, floor: Floor) -> bool:
    if floor is Floor.THROWAWAY:
        return True
    values: dict[str, list[Value]] = {}
    for candidate in candidates:
        for name, value in candidate.settings.items():
            if load_catalog().setting(name).durability:
                values.setdefault(name, []).append(value)
    names = list(values)
    for mixture in itertools.product(*([None, *values[name]] for name in names)):
        changes = {name: value for name, value in zip(names, mixture, strict=True) if value is not None}
        if not meets(there.changed(changes), floor):
            return False
    return True
