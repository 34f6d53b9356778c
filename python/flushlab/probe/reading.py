"""Reading: the meaning of a probe's results, in plain words. Pure: every word follows from the record.

Probe layer. A gain counts only if it exceeds the noise of both results and `LEAST_GAIN`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

from flushlab.probe.sync_settings import SyncSettings
from flushlab.record import BinlogStrategy, Ceiling, DiskResult, ProbeRecord
from flushlab.units import format_size

LEAST_GAIN = 1.05
"""Windows of a second cannot distinguish smaller gains from none."""

BOUND_SHARE = 0.6
"""A part that is busy for this share of its time bounds the result; waking up takes the rest."""

Bound = Literal["fsync", "cpu", "order", "waiting"]
"""What a ceiling is made of: the disk's syncs; all processors; the section that one thread passes at a time;
none of them alone: threads wait for each other."""


def read(record: ProbeRecord) -> tuple[str, ...]:
    """The sentences."""
    return (*_of_disk(record), *_of_ceilings(record), *_of_shares(record))


def headline(record: ProbeRecord) -> str:
    """The ceilings of the safest and the fastest sync settings in one line."""
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


def most_threads(ceilings: Iterable[Ceiling]) -> int:
    """The largest number of threads that was measured."""
    return max((one.threads for one in ceilings), default=0)


def by_sync_settings(ceilings: Iterable[Ceiling]) -> dict[SyncSettings, list[Ceiling]]:
    """Ceilings by sync settings, in the order of the record."""
    found: dict[SyncSettings, list[Ceiling]] = {}
    for one in ceilings:
        found.setdefault(SyncSettings(one.trx_commit, one.sync_binlog), []).append(one)
    return found


def bound(ceiling: Ceiling, record: ProbeRecord) -> Bound:
    """What keeps a ceiling from being higher."""
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


def is_gain(faster: Ceiling, slower: Ceiling) -> bool:
    """Whether the one is faster than the other beyond their noise."""
    if not slower.commits_per_s:
        return False
    ratio = faster.commits_per_s / slower.commits_per_s
    noise = math.hypot(faster.noise or 0.0, slower.noise or 0.0)
    return ratio > max(LEAST_GAIN, 1 + 2 * noise)


def duration(us: float) -> str:
    """`950 ns`, `51 µs`, `2.3 ms`, `12 s`: at most seven characters up to an hour."""
    scales = ((1e-3, "ns"), (1.0, "µs"), (1e3, "ms"), (1e6, "s"))
    scale, unit = next((one for one in scales if us / one[0] < 999.5), scales[-1])
    value = us / scale
    whole = unit == "ns" or value >= (9.95 if unit == "µs" else 99.95)
    return f"{value:.0f} {unit}" if whole else f"{value:.1f} {unit}"


def rate(value: float) -> str:
    """`21,000`: three digits count."""
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
        words += (
            f"; a commit with a binlog needs two, so a single connection gets"
            f" {rate(pair.operations_per_s)} commits/s at most"
        )
    yield f"{words}."
    extending = _disk(record, "fdatasync", layout="extending")
    if extending is not None and extending.operations_per_s and plain.operations_per_s:
        ratio = plain.operations_per_s / extending.operations_per_s
        if ratio > 1.2:
            yield f"A growing file, such as a binlog, syncs {ratio:.1f}× slower than one that is overwritten."


def _of_ceilings(record: ProbeRecord) -> Iterator[str]:
    most = most_threads(record.ceilings)
    for settings, cells in by_sync_settings(record.ceilings).items():
        top = [one for one in cells if one.threads == most]
        base = _cell(cells, "serial", most)
        if base is None:
            continue
        alone = next(
            (one for one in cells if one.binlog_strategy == "serial" and one.threads == 1 != most), None
        )
        reached = f"{rate(base.commits_per_s)} commits/s with {threads_words(most)}"
        words = f"At {settings.name} this disk allows {reached}"
        if alone is not None:
            words += f" and {rate(alone.commits_per_s)} with one"
        words += f": {_BOUNDS[bound(base, record)]}."
        yield " ".join([words, *_others(base, top, record, settings), *_risk(base, settings)])


def _others(base: Ceiling, top: list[Ceiling], record: ProbeRecord, settings: SyncSettings) -> Iterator[str]:
    for one in top:
        if one is base:
            continue
        ratio = one.commits_per_s / base.commits_per_s if base.commits_per_s else 0.0
        if is_gain(one, base):
            yield f"Binlog strategy {one.binlog_strategy} gains {ratio:.1f}× there."
        elif is_gain(base, one):
            yield f"Binlog strategy {one.binlog_strategy} loses there ({ratio:.2f}×)."
        else:
            because = f", because {_BECAUSE[bound(one, record)]}" if bound(one, record) != "waiting" else ""
            noise = " beyond the noise" if not 1 / LEAST_GAIN <= ratio <= LEAST_GAIN else ""
            yield f"Binlog strategy {one.binlog_strategy} gains nothing{noise} there ({ratio:.2f}×){because}."
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


_BECAUSE = {
    "fsync": "fsync is the limit",
    "cpu": "the processors are the limit",
    "order": "the part that commits pass one at a time is the limit",
}
_BOUNDS = {**_BECAUSE, "waiting": "threads wait for each other"}


def _cell(cells: Iterable[Ceiling], strategy: BinlogStrategy, threads: int) -> Ceiling | None:
    return next((one for one in cells if one.binlog_strategy == strategy and one.threads == threads), None)


def threads_words(count: int) -> str:
    """`one thread`, `64 threads`."""
    return "one thread" if count == 1 else f"{count} threads"


def _disk(record: ProbeRecord, way: str, *, layout: str = "written") -> DiskResult | None:
    """The result of one thread that writes in order; of 4 KiB if there are several sizes."""
    for one in record.disk:
        plain = one.layout == layout and one.order == "sequential" and one.depth == 1
        if one.way == way and plain and (one.bytes == 4096 or way == "pair"):
            return one
    return None
