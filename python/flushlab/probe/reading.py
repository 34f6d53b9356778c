"""Reading: the meaning of a probe's results, in plain words. Pure: every word follows from the record.

Probe layer. A pipeline helps a server only if the whole interval of its ratio to `serial` is above
`LEAST_GAIN`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar

from flushlab.probe.ceilings import SyncSettings
from flushlab.probe.servers import OWN_FACTORS, STORY_GAIN, STORY_PROCESSORS, Gain, gains
from flushlab.record import BinlogStrategy, Ceiling, DiskResult, ProbeRecord, ServerRate
from flushlab.units import format_size

LEAST_GAIN = 1.05
"""Smaller gains are not worth another server."""

BOUND_REACHED = 0.85
"""Share of fsync pairs/s × connections from which on a ceiling counts as the disk's bound. Above the inverse,
the machine disturbed one of both."""

BOUND_SHARE = 0.6
"""A part that is busy for this share of its time bounds the result; waking up takes the rest."""

Bound = Literal["fsync", "cpu", "order", "waiting"]
"""The limit of a ceiling: the disk's syncs; all processors; the section that one thread passes at a time;
none of them alone: connections wait for each other."""

SERVERS: dict[BinlogStrategy, str] = {
    "parallel": "Binlog Parallel Flush (AliSQL, ApsaraDB RDS for MySQL)",
    "redo": "a binlog that the redo log makes durable (MariaDB 12.3, binlog_storage_engine=innodb)",
    "two-syncs": "syncing both logs at the same time (the bound of TXSQL's overlap)",
}
"""Servers that have the pipeline."""


def read(record: ProbeRecord) -> tuple[str, ...]:
    return (*_of_disk(record), *_of_servers(record), *_of_ceilings(record), *_of_shares(record))


def headline(record: ProbeRecord) -> str:
    """Of each pair of sync settings the best pipeline as in a server, with its interval; else ceilings."""
    best = [
        f"{one.binlog_strategy} {ratio_words(one)} at {settings.name}"
        for settings, rates in by_sync_settings(record.servers).items()
        if (one := max(rates, key=lambda rate: rate.ratio)).binlog_strategy != "serial"
    ]
    if best:
        connections = record.servers[0].threads
        return f"Against serial: {', '.join(best)}, as in a server with {connections} connections"
    most = most_threads(record.ceilings)
    tops = [
        f"{rate(base.commits_per_s)} commits/s at {settings.name}"
        for settings, cells in by_sync_settings(record.ceilings).items()
        if (base := _cell(cells, "serial", most)) is not None and settings.name != settings.pair
    ]
    if not tops:
        return "What this disk allows"
    chosen = tops if len(tops) < 3 else [tops[0], tops[-1]]
    return f"{', '.join(chosen)} with {threads_words(most)}"


def ratio_words(one: ServerRate) -> str:
    if one.ratio_low is None or one.ratio_high is None:
        return f"{one.ratio:.2f}×"
    return f"{one.ratio:.2f}× [{one.ratio_low:.2f}, {one.ratio_high:.2f}]"


def most_threads(ceilings: Iterable[Ceiling]) -> int:
    return max((one.threads for one in ceilings), default=0)


C = TypeVar("C", bound=Ceiling)


def by_sync_settings(ceilings: Iterable[C]) -> dict[SyncSettings, list[C]]:
    found: dict[SyncSettings, list[C]] = {}
    for one in ceilings:
        found.setdefault(SyncSettings(one.trx_commit, one.sync_binlog), []).append(one)
    return found


def bound(ceiling: Ceiling, record: ProbeRecord) -> Bound:
    rate = ceiling.commits_per_s
    if ceiling.fsyncs_per_s * sync_us(record) / 1e6 >= BOUND_SHARE:
        return "fsync"
    if rate * (ceiling.ordered_ns_per_commit or 0.0) / 1e9 >= BOUND_SHARE:
        return "order"
    if rate * (ceiling.cpu_us_per_commit or 0.0) / 1e6 >= BOUND_SHARE * record.machine.cpu_count:
        return "cpu"
    return "waiting"


def sync_us(record: ProbeRecord) -> float:
    """Microseconds of one write with its fdatasync, from the pairs of a commit, else from 4 KiB writes."""
    pair = _disk(record, "pair")
    if pair is not None and pair.operations_per_s:
        return 1e6 / pair.operations_per_s / 2
    plain = _disk(record, "fdatasync")
    return 1e6 / plain.operations_per_s if plain is not None and plain.operations_per_s else 0.0


def duration(us: float) -> str:
    scales = ((1e-3, "ns"), (1.0, "µs"), (1e3, "ms"), (1e6, "s"))
    scale, unit = next((one for one in scales if us / one[0] < 999.5), scales[-1])
    value = us / scale
    whole = unit == "ns" or value >= (9.95 if unit == "µs" else 99.95)
    return f"{value:.0f} {unit}" if whole else f"{value:.1f} {unit}"


def rate(value: float) -> str:
    if value >= 1000:
        step = 10 ** (int(math.log10(value)) - 2)
        value = round(value / step) * step
    return f"{value:,.0f}"


def _of_disk(record: ProbeRecord) -> Iterator[str]:
    plain = _disk(record, "fdatasync")
    if plain is None or plain.latency_us is None:
        return
    words = (
        f"One 4 KiB write with fdatasync takes {duration(plain.latency_us.p50)} (p99"
        f" {duration(plain.latency_us.p99)}), {rate(plain.operations_per_s)}/s in sequence"
    )
    pair = _disk(record, "pair")
    if pair is not None and pair.operations_per_s:
        alone = [  # on a busy machine, the pipeline may be faster than the bare pairs were
            one.commits_per_s
            for one in record.ceilings
            if (one.trx_commit, one.sync_binlog, one.binlog_strategy, one.threads) == (1, 1, "serial", 1)
        ]
        words += (
            f"; a commit with a binlog needs two, the second on a growing file, so a single connection gets"
            f" {rate(max([pair.operations_per_s, *alone]))} commits/s at most"
        )
    yield f"{words}."
    extending = _disk(record, "fdatasync", layout="extending")
    if extending is not None and extending.operations_per_s and plain.operations_per_s:
        ratio = plain.operations_per_s / extending.operations_per_s
        if ratio > 1.2:
            yield f"A growing file, such as a binlog, syncs {ratio:.1f}× slower than one that is overwritten."


def _of_servers(record: ProbeRecord) -> Iterator[str]:
    for settings, rates in by_sync_settings(record.servers).items():
        serial = next(one for one in rates if one.binlog_strategy == "serial")
        words = [
            f"As in a server with {serial.threads} connections and {duration(serial.own_us)} of its own time"
            f" per commit, serial makes {rate(serial.commits_per_s)} commits/s at {settings.name}."
        ]
        for one in rates:
            if one is not serial:
                words.append(
                    f"Binlog strategy {one.binlog_strategy} makes {ratio_words(one)} of that:"
                    f" {SERVERS[one.binlog_strategy]} {_help(one)}."
                )
        yield " ".join(words)
        computed = [one for one in gains(record) if SyncSettings(one.trx_commit, one.sync_binlog) == settings]
        if computed:
            yield _of_gains(settings, computed, serial.own_us)


def _of_gains(settings: SyncSettings, computed: Iterable[Gain], own_us: float) -> str:
    by_strategy: dict[BinlogStrategy, list[Gain]] = {}
    for one in computed:
        by_strategy.setdefault(one.binlog_strategy, []).append(one)
    told = [
        f"{strategy} {' and '.join(dict.fromkeys(gain_words(one) for one in found))}"
        for strategy, found in by_strategy.items()
    ]
    words = (
        f"Computed upper bounds for {' and '.join(map(str, STORY_PROCESSORS))} processors at {settings.name}:"
        f" {', '.join(told)} of serial."
    )
    if any(one.limit != "disk" for found in by_strategy.values() for one in found):
        low, high = (duration(own_us * factor) for factor in (OWN_FACTORS[0], OWN_FACTORS[-1]))
        words += f" The intervals hold {low} to {high} of a server's own time."
    if "parallel" in by_strategy:
        words += (
            f" Published for Binlog Parallel Flush: {STORY_GAIN[0]:.2f}× to {STORY_GAIN[1]:.2f}× on"
            f" {' and '.join(map(str, STORY_PROCESSORS))} processors."
        )
    return words


def gain_words(one: Gain) -> str:
    if one.limit == "disk":
        return f"{one.ratio:.2f}× (the disk's limit)"
    return f"{one.ratio:.2f}× [{one.low:.2f}, {one.high:.2f}]"


def _help(one: ServerRate) -> str:
    low, high = one.ratio_low or one.ratio, one.ratio_high or one.ratio
    if low > LEAST_GAIN:
        return "would help here"
    if high < LEAST_GAIN:
        return "would not help here"
    return "may help here; longer windows would tell"


def _of_ceilings(record: ProbeRecord) -> Iterator[str]:
    most = most_threads(record.ceilings)
    for settings, cells in by_sync_settings(record.ceilings).items():
        base = _cell(cells, "serial", most)
        if base is None:
            continue
        alone = next(
            (one for one in cells if one.binlog_strategy == "serial" and one.threads == 1 != most), None
        )
        words = f"At {settings.name} the disk's ceiling is {rate(base.commits_per_s)} commits/s with"
        words += f" {threads_words(most)}"
        if alone is not None:
            words += f" and {rate(alone.commits_per_s)} with one"
        words += f": {_BOUNDS[bound(base, record)]}."
        if is_the_bound(base, record):
            words += " No setting with two fsyncs in a row gets above it."
        yield " ".join([words, *_not_permitted(record, settings), *_risk(base, settings)])


def is_the_bound(ceiling: Ceiling, record: ProbeRecord) -> bool:
    pair = _disk(record, "pair")
    settings = SyncSettings(ceiling.trx_commit, ceiling.sync_binlog)
    if pair is None or not settings.is_strict or ceiling.binlog_strategy != "serial":
        return False
    most = pair.operations_per_s * ceiling.threads
    return 0 < BOUND_REACHED * most <= ceiling.commits_per_s <= most / BOUND_REACHED


def _not_permitted(record: ProbeRecord, settings: SyncSettings) -> Iterator[str]:
    for refused in record.refused:
        if (
            SyncSettings(refused.trx_commit, refused.sync_binlog) == settings
            and refused.binlog_strategy == "parallel"
        ):
            yield f"Binlog strategy {refused.binlog_strategy} is not permitted there."


def _risk(base: Ceiling, settings: SyncSettings) -> Iterator[str]:
    if base.bytes_at_risk and not settings.is_strict:
        yield (
            f"An OS crash at the worst moment would have lost {format_size(base.bytes_at_risk)} of"
            " acknowledged commits."
        )


def _of_shares(record: ProbeRecord) -> Iterator[str]:
    for one in record.against:
        settings = SyncSettings(one.trx_commit, one.sync_binlog)
        words = (
            f"{one.server} ({one.trial}) reaches {one.share:.0%} of the ceiling at {settings.name} with"
            f" {threads_words(one.threads)}: {rate(one.commits_per_s)} of {rate(one.ceiling_per_s)}"
            " commits/s."
        )
        if one.best_strategy != "serial":
            words += f" With binlog strategy {one.best_strategy}, the ceiling is {rate(one.best_per_s)}."
        yield words


_BOUNDS = {
    "fsync": "fsync is the limit",
    "cpu": "the processors are the limit",
    "order": "the part that commits pass one at a time is the limit",
    "waiting": "connections wait for each other",
}


def _cell(cells: Iterable[Ceiling], strategy: BinlogStrategy, threads: int) -> Ceiling | None:
    return next((one for one in cells if one.binlog_strategy == strategy and one.threads == threads), None)


def threads_words(count: int) -> str:
    return "one connection" if count == 1 else f"{count} connections"


def _disk(record: ProbeRecord, way: str, *, layout: str = "written") -> DiskResult | None:
    for one in record.disk:
        plain = one.layout == layout and one.order == "sequential" and one.depth == 1
        if one.way == way and plain and (one.bytes == 4096 or way == "pair"):
            return one
    return None
