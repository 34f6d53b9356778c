"""Observed load in words, for the terminal and the page. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.campaign.facts import CampaignFacts
from flushlab.diagnosis.evidence import commits_by_words
from flushlab.record import ObservedLoad
from flushlab.report.words import small
from flushlab.units import format_latency, format_size

PERCENTILES = (0.5, 0.95, 0.99)
_LEAST_COUNT = 100
"""Statements of which a 99th percentile says something."""


def observed_lines(load: ObservedLoad) -> Iterator[str]:
    """What the load did and how long its writes took, in lines of at most 80 columns."""
    if load.write_us is not None:
        parts = [f"write latency {format_latency(load.write_us)}"]
        if load.commit_us:
            parts.append(f"commit {format_latency(load.commit_us)}")
        if sum(load.histogram.values()) >= _LEAST_COUNT:
            parts += [
                f"p{share * 100:.0f} {format_latency(high)}"
                for share in PERCENTILES
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
    """Which of throughput and latency this load can show; empty where flushlab made the load."""
    return {
        "fixed": "Fixed demand: this load sends little more, or nothing, if commits are faster. Its gain is"
        " latency, not commits/s.",
        "closed loop": "Closed loop: this load sends more if commits are faster, so commits/s show the gain"
        " too. The ratio that your application measures lies between the two, within noise.",
        "unknown": "Whether this load sends more if commits are faster was not found out.",
    }.get(facts.demand, "")


def source_words(load: ObservedLoad) -> str:
    """Where the latency comes from."""
    counted = f"commits are {commits_by_words(load.commits_by)}"
    if load.source == "statements":
        return (
            f"write latency: performance_schema's time in write statements and COMMIT, per commit; {counted}"
        )
    return (
        "write latency: mean number of connections that write or commit, over commits/s"
        f" ({load.samples:,} samples); {counted}"
    )
