"""Fit: a production server's settings as a smaller machine can hold them. Pure; sits in `settings`.

Only settings that do not fit are scaled, in this order:

0. `innodb_dedicated_server`, which would give each sandbox the whole machine: sizes take its place.
1. The buffer pool and the redo log by one factor: they stay in proportion to each other, and to data of the
   same scale. If the pool still holds all of the data, each is scaled by itself.
2. The buffers that all connections share, and those of each, only if they alone would fill the memory.
3. The number of connections.

Each change is a row `yours / here / why`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from flushlab.record import ServerIdentity, Value, Warning
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import Configuration, literal
from flushlab.settings.reading import pool_bytes
from flushlab.units import format_size, option_size, parse_size

POOL, INSTANCES, CHUNK = (f"innodb_buffer_pool_{part}" for part in ("size", "instances", "chunk_size"))
REDO = ("innodb_redo_log_capacity", "innodb_log_file_size")
_SPACES = {"innodb_data_file_path": "ibdata1", "innodb_temp_data_file_path": "ibtmp1"}

DEDICATED = "innodb_dedicated_server"
_DEDICATED_PART, _DEDICATED_REDO = 0.75, 1 << 30
"""Of the memory, what it takes for the pool; and a redo log, which each version derives in another way."""

SCALED = "scaled"
MEMORY_PART, DISK_PART = 2, 4
"""A server may use half of the machine's memory if nothing else is said, and its empty files a quarter of the
disk's free space."""
_BUFFERS_AT_MOST = 0.5
"""Of the memory, for everything but the buffer pool."""
REDO_IN_PARTS_SINCE = (8, 0, 30)
"""First MySQL that does not fill the whole redo log with zeros at the first start, which every trial has."""
_REDO_WRITTEN_AT_MOST = 512 << 20
"""Of redo log, for those that do: where sizes are scaled anyway, trials should not wait for it."""
_WIDTH, _VALUE_AT_MOST, _VALUE_SHOWN, _WHY_AT_LEAST = 80, 12, 24, 20
_SPARE_CONNECTIONS = 50
_G, _M = 1 << 30, 1 << 20
_POOL_LEAST = 8 * _M
_POOL_STEP, _REDO_STEP = 128 * _M, 4 * _M
_FILE_SIZE = re.compile(r":(\d+[KMG])", re.IGNORECASE)


class Scaled(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    yours: str
    here: str
    why: str


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """Settings as they fit.

    Attributes:
        factor: of the buffer pool and the redo log.
        short_bytes: of memory, for the smallest pool beside everything else; 0 where it holds one.
    """

    settings: Mapping[str, Value]
    memory_bytes: int = 0
    factor: float = 1.0
    short_bytes: int = 0
    scaled: tuple[Scaled, ...] = ()
    not_transferable: tuple[str, ...] = ()


class Shrunk(NamedTuple):
    """`factor` is the share of the pool and of the redo log that fits, 0 to 1."""

    file: str = ""
    factor: float = 1.0


def fit(
    settings: Mapping[str, Value],
    identity: ServerIdentity,
    *,
    memory_bytes: int,
    disk_bytes: int,
    connections: int,
    like: Shrunk = Shrunk(),
    data_bytes: int | None = None,
) -> Fit:
    given, scaled = Configuration(settings, identity), list[Scaled]()
    settings = dict(settings)
    if given.is_on(DEDICATED):  # what it would derive from this much memory takes its place
        why = "it would take the whole machine for each server"
        scaled.append(Scaled(name=DEDICATED, yours="ON", here="OFF", why=why))
        derived: dict[str, Value] = {POOL: int(memory_bytes * _DEDICATED_PART) // _POOL_STEP * _POOL_STEP}
        in_parts = identity.version >= REDO_IN_PARTS_SINCE
        if not given.is_set(*REDO):
            derived |= {REDO[0]: _DEDICATED_REDO} if in_parts else {REDO[1]: _REDO_WRITTEN_AT_MOST // 2}
        if (method := given.value("innodb_flush_method")) is not None:
            derived["innodb_flush_method"] = method
        settings = {**derived, **settings, DEDICATED: "OFF"}
        given = Configuration(settings, identity)
    fitting = _Fitting(
        given, settings, memory_bytes, disk_bytes, connections, data_bytes, like.factor, scaled=scaled
    )
    fitting.buffers()
    fitting.pool_and_redo(like)
    fitting.tablespaces()
    fitting.most_connections()
    return Fit(
        settings=fitting.settings,
        memory_bytes=memory_bytes,
        factor=fitting.factor,
        short_bytes=fitting.short,
        scaled=tuple(fitting.scaled),
        not_transferable=tuple(fitting.not_transferable()),
    )


@dataclass
class _Fitting:
    given: Configuration
    settings: dict[str, Value]
    memory: int
    disk: int
    connections: int
    data: int | None
    factor: float
    short: int = 0
    held: bool = False
    scaled: list[Scaled] = field(default_factory=list)

    def buffers(self) -> None:
        use = memory_use(self.given)
        shared = use.shared_bytes - number_of(self.given, POOL)
        own = use.connection_bytes * min(use.connections, self.connections)
        limit = self.memory * _BUFFERS_AT_MOST
        if shared + own <= limit:
            return
        share, stock = limit / (shared + own), Configuration({}, self.given.identity)
        for name in (*SHARED, *PER_CONNECTION):
            size = number_of(self.given, name)
            if name == POOL or name not in self.settings or size <= number_of(stock, name):
                continue
            here = max(number_of(stock, name), int(size * share) // _M * _M)
            self._change(name, size, here, f"buffers alone would take {format_size(shared + own)}")

    def pool_and_redo(self, like: Shrunk) -> None:
        pool, redo = number_of(self.given, POOL), self.given.redo_capacity_bytes
        use = memory_use(Configuration(self.settings, self.given.identity))
        beside = use.shared_bytes - pool + use.connection_bytes * min(use.connections, self.connections)
        room, disk = self.memory - beside, self.disk
        limits = [(like.factor, f"as that of {like.file} had to be")]
        memory = (room / pool, f"{format_size(room)} of memory are left for it") if pool else (1.0, "")
        if redo:
            limits.append((disk / redo, f"{format_size(disk)} of disk for the redo log"))
        if POOL in self.settings:
            limits.append(memory)
            self.short = max(0, min(pool, _POOL_LEAST) - room)
        if min(limits)[0] >= 1:
            return
        is_written = (
            self.given.identity.flavor == "mysql" and self.given.identity.version < REDO_IN_PARTS_SINCE
        )
        if redo and is_written:
            most = _REDO_WRITTEN_AT_MOST
            limits.append((most / redo, f"{format_size(most)} of redo, written at each start"))
        if self.data is not None and self.data <= min(room, pool * like.factor):
            self.held = True
            if memory[0] < 1:
                self._change(POOL, pool, self._pool(room), memory[1])
            self._redo(*min(limit for limit in limits if limit is not memory))
            return
        factor, why = min(limits)
        if POOL in self.settings:
            here = self._pool(pool * factor)
            self._change(POOL, pool, here, why)
            factor = here / pool
        self.factor = factor
        self._redo(factor, "in proportion to the pool" if POOL in self.settings else why)

    def _redo(self, factor: float, why: str) -> None:
        for name in REDO:
            if name in self.settings:
                size, here = number_of(self.given, name), self.given.here(name)
                least = int(here.minimum or 0) if here is not None else 0
                fitting = int(size * min(1.0, factor)) // _REDO_STEP * _REDO_STEP
                self._change(name, size, max(least, fitting), why)

    def _pool(self, wanted: float) -> int:
        step = _POOL_STEP if wanted >= _G else _M
        size = max(int(wanted) // step * step, _POOL_LEAST)
        here = self.given.here(POOL)
        instances = number_of(self.given, INSTANCES) if INSTANCES in self.settings else None
        chunk = number_of(self.given, CHUNK) if CHUNK in self.settings else None
        if here is None or pool_bytes(here, size, chunk, instances) == size:
            return size
        if instances is not None and instances > max(1, size // _G):
            fewer = max(1, size // _G)
            self.settings[INSTANCES] = fewer
            self._note(INSTANCES, str(instances), str(fewer), "an instance per GiB of the pool")
            instances = fewer
        unit = (chunk or _POOL_STEP) * ((instances or 8) if size >= _G else 1)
        return max(size // unit * unit, size if size < unit else unit)

    def tablespaces(self) -> None:
        for name, file in _SPACES.items():
            path = str(self.settings.get(name, ""))
            size = sum(parse_size(found) for found in _FILE_SIZE.findall(path))
            if size > self.disk:
                here = f"{file}:12M:autoextend"
                self.settings[name] = here
                self._note(name, path, here, f"{format_size(self.disk)} of disk for files without data")

    def most_connections(self) -> None:
        use = memory_use(Configuration(self.settings, self.given.identity))
        if CONNECTIONS not in self.settings or use.worst_bytes <= self.memory:
            return
        fitting = (self.memory - use.shared_bytes) // max(1, use.connection_bytes)
        stock = memory_use(Configuration({}, self.given.identity)).connections  # a command may open many
        most = max(self.connections + _SPARE_CONNECTIONS, stock, min(use.connections, fitting))
        if most < use.connections:
            worst = f"{use.connections} × {format_size(use.connection_bytes)}"
            self.settings[CONNECTIONS] = most
            self._note(CONNECTIONS, str(use.connections), str(most), f"at worst {worst} of buffers")

    def _change(self, name: str, yours: int, here: int, why: str) -> None:
        if here != yours:
            self.settings[name] = here
            self._note(name, option_size(yours), option_size(here), why)

    def _note(self, name: str, yours: str, here: str, why: str) -> None:
        self.scaled.append(Scaled(name=name, yours=yours, here=here, why=why))

    def not_transferable(self) -> Iterator[str]:
        names = {one.name for one in self.scaled}
        if POOL in names and self.held:
            yield (
                "Reads of data that your pool does not hold, if there are any: here the pool holds all of the"
                " data set."
            )
        elif POOL in names:
            part = int(str(self.settings[POOL])) / number_of(self.given, POOL)
            share = f"{part * 100:.2g}%"
            yield (
                f"How often reads find their page in the buffer pool, and how often pages are written to"
                f" make room. The pool is {share} of yours, so data should be {share} of yours too."
            )
        if names & set(REDO):
            yield "How long writes go on before a full redo log makes them wait: yours is larger."
        if names & {*SHARED, *PER_CONNECTION} - {POOL}:
            yield "Sorts, joins and transactions that need the buffers of your file: they are smaller here."
        if DEDICATED in names:
            yield f"Sizes that {DEDICATED} derives from your machine's memory: others are set here."
        if CONNECTIONS in names:
            yield f"What more than {self.settings[CONNECTIONS]} connections do at once."


def lines(fitted: Fit, way_out: str, *, file: str = "") -> list[str]:
    if not fitted.scaled:
        return []
    width = max(len(one.name) for one in fitted.scaled)
    values = max(len(text) for one in fitted.scaled for text in (one.yours, one.here, "yours"))
    values = min(values, _VALUE_AT_MOST)
    scaled = f"{file} is scaled" if file else "Scaled"
    found = [f"{scaled} to {format_size(fitted.memory_bytes)} of memory ({way_out}):"]
    rows = ((one.name, one.yours, one.here, one.why) for one in fitted.scaled)
    for name, yours, here, why in (("", "yours", "here", "why"), *rows):
        row = f"  {name:<{width}}  {_short(yours):>{values}}  {_short(here):>{values}}  "
        if len(row) > _WIDTH - _WHY_AT_LEAST:
            found.append(row.rstrip())
            row = " " * (width + 4)
        found += textwrap.wrap(why, _WIDTH, initial_indent=row, subsequent_indent=" " * len(row))
    if fitted.not_transferable:
        found.append("What does not transfer to your server:")
    for text in fitted.not_transferable:
        found += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    return found


def _short(value: str) -> str:
    return value if len(value) <= _VALUE_SHOWN else f"{value[: _VALUE_SHOWN - 1]}…"


def as_warnings(fitted: Fit) -> tuple[Warning, ...]:
    scaled = (
        Warning(SCALED, f"{one.name} was {one.here} here, {one.yours} in your file: {one.why}", one.name)
        for one in fitted.scaled
    )
    lost = [f"does not transfer: {text[0].lower()}{text[1:].rstrip('.')}" for text in fitted.not_transferable]
    return (*scaled, *(Warning("does-not-transfer", text) for text in lost))


def names_fixed(scaled: tuple[Scaled, ...]) -> tuple[str, ...]:
    names = [one.name for one in scaled]
    beside = [*REDO, "innodb_log_files_in_group"] if set(names) & {*REDO, DEDICATED} else []
    pool = [POOL, INSTANCES] if set(names) & {POOL, DEDICATED} else []
    catalog = load_catalog()
    return tuple(dict.fromkeys(name for name in (*names, *beside, *pool) if name in catalog))


SHARED = (
    POOL,
    "innodb_log_buffer_size",
    "key_buffer_size",
    "query_cache_size",
    "aria_pagecache_buffer_size",
)
PER_CONNECTION = (
    "sort_buffer_size",
    "join_buffer_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
    "binlog_cache_size",
    "net_buffer_length",
    "thread_stack",
)
CONNECTIONS = "max_connections"

_K, _M = 1 << 10, 1 << 20
_SAME_DEFAULTS = {
    "join_buffer_size": 256 * _K,
    "read_buffer_size": 128 * _K,
    "read_rnd_buffer_size": 256 * _K,
    "binlog_cache_size": 32 * _K,
    "net_buffer_length": 16 * _K,
    CONNECTIONS: 151,
}
_DEFAULTS = {
    "mysql": _SAME_DEFAULTS
    | {"key_buffer_size": 8 * _M, "sort_buffer_size": 256 * _K, "thread_stack": 280 * _K},
    "mariadb": _SAME_DEFAULTS
    | {"key_buffer_size": 128 * _M, "sort_buffer_size": 2 * _M, "thread_stack": 292 * _K}
    | {"aria_pagecache_buffer_size": 128 * _M},
}
"""Of what the catalog does not know: the manuals' pages of server system variables."""


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    shared_bytes: int
    connection_bytes: int
    connections: int

    @property
    def worst_bytes(self) -> int:
        return self.shared_bytes + self.connection_bytes * self.connections


def memory_use(configuration: Configuration) -> MemoryUse:
    return MemoryUse(
        shared_bytes=sum(number_of(configuration, name) for name in SHARED),
        connection_bytes=sum(number_of(configuration, name) for name in PER_CONNECTION),
        connections=number_of(configuration, CONNECTIONS),
    )


def number_of(configuration: Configuration, name: str) -> int:
    value = configuration.value(name)
    if value is None:
        return _DEFAULTS[configuration.identity.flavor].get(name, 0)
    number = literal(value, configuration.here(name))
    return 0 if isinstance(number, str) else int(number)
