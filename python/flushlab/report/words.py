"""Numbers, names and guarantees as the terminal and the page spell them. Pure.

Sits in `report`, below all that shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from flushlab.campaign import recommended
from flushlab.campaign.facts import ANSWERS, ArmResult, CampaignFacts, ClaimFacts
from flushlab.diagnosis.evidence import commits_by_words
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import (
    BASE,
    DataFacts,
    DiskEmulation,
    LoadClient,
    ObservedLoad,
    Ratio,
    TableRows,
    Trial,
    Value,
)
from flushlab.settings.durability import FLOOR
from flushlab.units import format_latency, format_size, value_words
from flushlab.workload.engine import PAGE_READS_PER_EVENT

OUTCOMES = {"measured": "too few blocks", "not_in_version": "not in this version"}
"""What stands for the verdict of an arm that has none, where the word itself would not do."""


S = TypeVar("S", bound=msgspec.Struct)


def extended(kind: type[S], facts: msgspec.Struct, **more: Any) -> S:
    known = {name: getattr(facts, name) for name in facts.__struct_fields__ if name in kind.__struct_fields__}
    return kind(**{**known, **more})


def changes(settings: Mapping[str, Value]) -> str:
    return ", ".join(
        f"{name} = the default" if value is None else f"{name}={value_words(value)}"
        for name, value in settings.items()
    )


def places(arm: ArmResult) -> Iterator[str]:
    if arm.data_root is not None:
        yield f"data in {arm.data_root}"
    if arm.disk is not None:
        yield f"emulated disk: {arm.disk}"


def times(value: float) -> str:
    return f"{value:.2f}×" if value < 100 else f"{value:.0f}×"


def interval(ratio: Ratio) -> str:
    return f"{ratio.low:.2f} – {ratio.high:.2f}"


def rounded(value: float) -> str:
    return f"{value:,.{2 if 0 < value < 100 else 0}f}"


def small(value: float) -> str:
    if 0 < value < 0.001:
        return "<0.001"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def unit_of_work(trial: Trial) -> tuple[str, int]:
    if trial.load is None or not trial.higher_is_better:
        return "run", 1
    if trial.load.rows is not None:
        return "row", trial.load.rows.committed
    return "transaction", trial.load.events


AA_CONTROL = "A/A control"


def durability_words(point: FrontierPoint) -> str:
    kept = point.free_ratio
    if kept is None:
        return "the part without durability loss could not be measured"
    if kept == point.ratio:
        return "no durability loss"
    if kept.estimate == kept.low == kept.high:
        return "weaker durability"
    return f"{kept.estimate:.2f}× of it without durability loss"


def absolute(arm: ArmResult, unit: str) -> str:
    if arm.result is None:
        return ""
    latency = "" if arm.p99_us is None else f", p99 {format_latency(arm.p99_us)}"
    return f"{rounded(arm.result)} {unit}{latency}"


def base_name(facts: CampaignFacts) -> str:
    return "raised" if facts.tuning is not None and facts.tuning.raised else facts.base.name


def the_base(facts: CampaignFacts) -> str:
    if facts.tuning is not None and facts.tuning.raised:
        return f"your settings raised to {facts.raised_to}"
    return "the base" if facts.base.name == BASE or len(facts.by_server) > 1 else facts.base.name


def servers(facts: CampaignFacts) -> str:
    return ", ".join(dict.fromkeys(one.title for one in facts.servers))


def sizes(facts: CampaignFacts) -> dict[str, str]:
    known = {"data": facts.data_bytes, "pool": facts.pool_bytes, "redo": facts.redo_bytes}
    return {name: format_size(size) for name, size in known.items() if size is not None}


def reads_words(facts: CampaignFacts) -> str:
    if facts.page_reads is None or not facts.unit.endswith("s/s"):
        return ""
    if facts.page_reads < PAGE_READS_PER_EVENT:
        return "hardly a page read from disk"
    return f"{facts.page_reads:.2g} pages read from disk per {facts.unit.removesuffix('s/s')}"


def data_words(data: DataFacts, tables: Sequence[TableRows]) -> str:
    largest = ", ".join(f"{one.name} {one.rows:,}" for one in tables)
    rows = f"; rows, about: {largest}" if largest else ""
    return f"{data.path} ({data.kind}, {format_size(data.size_bytes)}){rows}"


def ways(facts: CampaignFacts) -> Iterator[str]:
    if facts.interleaved:
        where = "side by side, in alternating slices, on servers that kept running"
        if facts.is_remote:
            where = "in alternating slices on your server, switched by SET GLOBAL"
        elif facts.server.nodes > 1:
            where = "in alternating slices on clusters that kept running, switched by SET GLOBAL"
        yield f"measured {where}"
        fresh = [arm for arm in facts.arms if arm.why_fresh]
        for why in dict.fromkeys(arm.why_fresh for arm in fresh):
            names = ", ".join(arm.name for arm in fresh if arm.why_fresh == why)
            yield f"{names}: on a fresh server for each window, as {why}"
    elif facts.why_fresh and facts.unit != "s":
        yield f"measured on a fresh server for each window: {facts.why_fresh}"


def count_answers(claims: Sequence[ClaimFacts]) -> str:
    found: Counter[str] = Counter(claim.answer for claim in claims)
    return ", ".join(f"{found[answer]} {answer}" for answer in ANSWERS if found[answer])


def disk_words(slow: DiskEmulation) -> str:
    asked, measured = format_latency(slow.asked_sync_us_p50), format_latency(slow.measured_sync_us_p50)
    return f"{slow.profile.name}: {asked} a sync, {measured} measured"


FAILURES = {**recommended.FAILURES, "replication": "replicas", FLOOR: "the floor"}


def grouped(guarantees: Mapping[str, str]) -> dict[str, str]:
    failures: dict[str, list[str]] = {}
    for failure, own in FAILURES.items():
        if failure in guarantees:
            failures.setdefault(guarantees[failure], []).append(own)
    return {", ".join(own): text for text, own in failures.items()}


def observed_lines(load: ObservedLoad) -> Iterator[str]:
    if load.write_us is not None:
        parts = [f"write latency {format_latency(load.write_us)}"]
        if load.commit_us:
            parts.append(f"commit {format_latency(load.commit_us)}")
        if sum(load.histogram.values()) >= 100:  # of fewer, a 99th percentile says nothing
            parts += [
                f"p{share * 100:.0f} {format_latency(high)}"
                for share in (0.5, 0.95, 0.99)
                if (high := load.percentile_us(share)) is not None
            ]
        yield ", ".join(parts)
    if load.syncs and load.commits:
        syncs = [f"{small(count / load.commits)} {name}" for name, count in load.syncs.items()]
        yield f"syncs per commit: {', '.join(syncs)}"
    amounts = {"redo": load.per_commit(load.redo_bytes), "binlog": load.per_commit(load.binlog_bytes)}
    written = [f"{format_size(round(each))} {name}" for name, each in amounts.items() if each is not None]
    if written:
        yield f"written per commit: {', '.join(written)}"
    if load.errors or load.rollbacks:
        failed = f", {load.errors:,} statements failed" if load.errors else ""
        yield f"{load.rollbacks:,} rollbacks{failed}"


def demand_words(facts: CampaignFacts) -> str:
    return {
        "fixed": "Fixed demand: this load sends little more, or nothing, if commits are faster. Its gain is"
        " latency, not commits/s.",
        "closed loop": "Closed loop: this load sends more if commits are faster, so commits/s show the gain"
        " too. The ratio that your application measures lies between the two, within noise.",
        "unknown": "Whether this load sends more if commits are faster was not found out.",
    }.get(facts.demand, "")


def source_words(load: ObservedLoad) -> str:
    counted = f"commits are {commits_by_words(load.commits_by)}"
    if load.source == "statements":
        return (
            f"write latency: performance_schema's time in write statements and COMMIT, per commit; {counted}"
        )
    return (
        "write latency: mean number of connections that write or commit, over commits/s"
        f" ({load.samples:,} samples); {counted}"
    )


def load_came_from(clients: Sequence[LoadClient], skew_us: int | None = None) -> str:
    """`skew_us` lies between the beginnings of the clients' windows, of one window."""
    trips = [
        f"{format_latency(one.round_trip_us.p50)} (p99 {format_latency(one.round_trip_us.p99)})"
        for one in clients
    ]
    if len(clients) == 1:
        return f"the load came from {clients[0].machine} over the network; round trip {trips[0]}"
    each = ", ".join(f"{one.machine} {trip}" for one, trip in zip(clients, trips, strict=True))
    began = "" if skew_us is None else f"; their windows began within {format_latency(skew_us)}"
    return f"the load came from {len(clients)} machines over the network; round trips: {each}{began}"
