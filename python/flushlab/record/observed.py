"""Observed load: what the load of a running server wrote in a stretch of time, and how long that took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Self

import msgspec

LatencySource = Literal["statements", "samples"]
"""Statements: performance_schema's sums over write statements and COMMIT. Samples: by Little's law, the mean
number of connections that write or commit, over commits per second."""


class WrittenStatements(msgspec.Struct, frozen=True, kw_only=True):
    """Write statements of one kind that ended in a stretch.

    Attributes:
        count: statements.
        seconds: in all of them.
    """

    count: int
    seconds: float


class ObservedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a running server in a stretch of time, or in several together. All fields are sums.

    Attributes:
        seconds: length.
        commits: transactions that were committed.
        commits_by: status variable that counts them.
        source: of `write_s`.
        write_s: connections' seconds in write statements and commits.
        sampled_s: the same by samples, whatever the source; None if no connection can be seen.
        commit_s: connections' seconds in commits, by samples; None if no connection can be seen.
        samples: moments at which the connections were sampled.
        statements: by kind, from performance_schema; empty if it is off or counts them together with reads.
        histogram: number of write statements and commits by upper bound of their latency in microseconds,
            from the server's histograms; empty if it keeps none.
        syncs: by class of files; without classes that nobody counts.
        redo_bytes, binlog_bytes: written; None where the server does not tell.
        rollbacks: transactions that were rolled back.
        errors: write statements that failed; None where the server does not count them.
    """

    seconds: float
    commits: int
    commits_by: str
    source: LatencySource
    write_s: float
    sampled_s: float | None = None
    commit_s: float | None = None
    samples: int = 0
    statements: Mapping[str, WrittenStatements] = {}
    histogram: Mapping[float, int] = {}
    syncs: Mapping[str, float] = {}
    redo_bytes: float | None = None
    binlog_bytes: float | None = None
    rollbacks: int = 0
    errors: int | None = None

    @property
    def throughput(self) -> float:
        return self.commits / self.seconds if self.seconds else 0.0

    @property
    def write_us(self) -> float | None:
        """A stretch in which no sample met a writer counts as half a sample."""
        return self.write_us_of(self.commits) if self.commits else None

    def write_us_of(self, commits: float) -> float:
        if self.source == "statements" and self.write_s > 0:
            return self.write_s * 1e6 / commits
        least_s = self.seconds / (2 * self.samples) if self.samples else 1e-9
        spent_s = self.write_s if self.source == "samples" else self.sampled_s or 0.0
        return max(spent_s, least_s) * 1e6 / commits

    def by_samples(self) -> Self:
        if self.source == "samples":
            return self
        return msgspec.structs.replace(
            self, source="samples", write_s=self.sampled_s or 0.0, statements={}, histogram={}, errors=None
        )

    @property
    def commit_us(self) -> float | None:
        return None if self.commit_s is None or not self.commits else self.commit_s * 1e6 / self.commits

    def percentile_us(self, share: float) -> float | None:
        total, up_to = sum(self.histogram.values()), 0
        for high_us, count in sorted(self.histogram.items()):
            up_to += count
            if total and up_to >= share * total:
                return high_us
        return None

    def per_commit(self, amount: float | None) -> float | None:
        return None if amount is None or not self.commits else amount / self.commits


def together(parts: Sequence[ObservedLoad]) -> ObservedLoad:
    """Where one of them has no sums of statements, samples are the source of all."""
    first = parts[0]
    busy = [one for one in parts if one.commits or one.write_s] or parts
    whole = {one.source for one in busy} == {"statements"}
    sampled = [one.write_s if one.sampled_s is None else one.sampled_s for one in parts]
    return ObservedLoad(
        seconds=sum(one.seconds for one in parts),
        commits=sum(one.commits for one in parts),
        commits_by=first.commits_by,
        source="statements" if whole else "samples",
        write_s=sum(one.write_s for one in parts) if whole else sum(sampled),
        sampled_s=_sum([one.sampled_s for one in parts]),
        commit_s=_sum([one.commit_s for one in parts]),
        samples=sum(one.samples for one in parts),
        statements={
            kind: WrittenStatements(
                count=sum(one.statements[kind].count for one in parts if kind in one.statements),
                seconds=sum(one.statements[kind].seconds for one in parts if kind in one.statements),
            )
            for kind in dict.fromkeys(kind for one in parts for kind in one.statements)
        },
        histogram={
            high: sum(one.histogram.get(high, 0) for one in parts)
            for high in sorted({high for one in parts for high in one.histogram})
        },
        syncs={
            name: sum(one.syncs[name] for one in parts)
            for name in first.syncs
            if all(name in one.syncs for one in parts)
        },
        redo_bytes=_sum([one.redo_bytes for one in parts]),
        binlog_bytes=_sum([one.binlog_bytes for one in parts]),
        rollbacks=sum(one.rollbacks for one in parts),
        errors=_sum_whole([one.errors for one in parts]),
    )


def side_by_side(parts: Sequence[ObservedLoad]) -> ObservedLoad:
    whole = together(parts)
    return msgspec.structs.replace(whole, seconds=max(one.seconds for one in parts))


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [one for one in parts if one is not None]
    return sum(known) if len(known) == len(parts) else None


def _sum_whole(parts: Sequence[int | None]) -> int | None:
    known = [one for one in parts if one is not None]
    return sum(known) if len(known) == len(parts) else None
