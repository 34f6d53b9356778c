"""Measured: outcomes of the crashes of a configuration, as counts and in words. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import get_args

import msgspec

from flushlab.record import (
    Crash,
    CrashArm,
    CrashKind,
    CrashOutcome,
    NodeAlone,
    ReplicaOutcome,
    ReplicaState,
)
from flushlab.units import counted

OUTCOMES: tuple[CrashOutcome, ...] = get_args(CrashOutcome)
WHAT: Mapping[CrashKind, str] = {
    "process": "the server was killed",
    "os": "the operating system crashed",
    "power": "the power failed",
    "lying-disk": "the power failed on a disk that lies about flushes",
    "torn": "the last large write was torn",
    "eio": "a flush failed, then the power did",
    "full": "the disk was full, then the power failed",
}
"""What happened."""


class Spread(msgspec.Struct, frozen=True):
    """Median and maximum over several crashes.

    Attributes:
        p50: median.
        max: maximum.
    """

    p50: float
    max: float


class OutcomeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Crashes by outcome.

    Attributes:
        kept, sound, lost, inconsistent, not_started, unknown: number of crashes with this outcome.
        lost_commits: acknowledged commits that a crash lost, over the crashes that lost some; None: none did.
    """

    kept: int = 0
    sound: int = 0
    lost: int = 0
    inconsistent: int = 0
    not_started: int = 0
    unknown: int = 0
    lost_commits: Spread | None = None


class UnflushedCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Crashes between an acknowledgement and the disk's next flush: a server that syncs before it answers
    keeps such commits; a control with a relaxed flush policy should not.

    Attributes:
        crashes: number of such crashes.
        bad: number of them that did not keep everything.
    """

    crashes: int
    bad: int


class BinlogCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Binary logs after crashes.

    Attributes:
        crashes: binary logs that were read.
        unread: binary logs that could not be read.
        lost: binary logs that lack acknowledged commits.
        behind: binary logs that lack commits of the tables.
        ahead: binary logs with commits that the tables lack.
        lost_commits: acknowledged commits that a binary log lacks; None: none does.
    """

    crashes: int
    unread: int
    lost: int
    behind: int
    ahead: int
    lost_commits: Spread | None


class GtidCounts(msgspec.Struct, frozen=True, kw_only=True):
    """GTIDs of recovered servers.

    Attributes:
        crashes: servers whose GTIDs were counted.
        behind: servers with fewer GTIDs than commits in the tables.
        ahead: servers with more.
        behind_commits, ahead_commits: difference in commits; None: none differs so.
    """

    crashes: int
    behind: int
    ahead: int
    behind_commits: Spread | None
    ahead_commits: Spread | None


class ReplicaCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas of recovered servers.

    Attributes:
        crashes: crashes after which a replica was judged.
        follows, diverged, stopped, unknown: number of replicas with this outcome.
        errors: number of replicas that stopped, by the error's number.
        ahead: replicas with commits that the server lacked.
        ahead_commits: number of these commits; None: no replica had any.
        lacks: replicas that lack commits of the server in the end.
        lacks_commits: number of these commits; None: no replica lacks any.
        bound_95: as of `CrashCounts`, for the share of replicas that do not follow.
    """

    crashes: int
    follows: int
    diverged: int
    stopped: int
    unknown: int
    errors: Mapping[str, int]
    ahead: int
    ahead_commits: Spread | None
    lacks: int
    lacks_commits: Spread | None
    bound_95: float | None


class CrashCounts(OutcomeCounts, frozen=True, kw_only=True):
    """Crashes of one kind, counted.

    Attributes:
        crashes: number of crashes.
        lost_s: age of the oldest lost commit in seconds, over the crashes that lost some; None: none did.
        bound_95: upper end of the one-sided 95 % interval of Clopper and Pearson for the share of crashes
            that do not keep everything. It counts random crashes only and is valid for random moments of this
            recording.
        unflushed: None without an acknowledgement table or a recorded disk.
        binlog: None without a binary log.
        gtid: None without GTIDs, and if transactions without an acknowledgement have GTIDs.
        replica: with `--replica`, the result of a replica that had followed the server before the crash;
            else None.
        new_replica: with `--replica`, the result of a new replica; else None.
    """

    crashes: int
    lost_s: Spread | None
    bound_95: float | None
    unflushed: UnflushedCounts | None
    binlog: BinlogCounts | None
    gtid: GtidCounts | None
    replica: ReplicaCounts | None
    new_replica: ReplicaCounts | None

    @property
    def replicas(self) -> Iterator[tuple[str, ReplicaCounts]]:
        if self.replica:
            yield "replica", self.replica
        if self.new_replica:
            yield "new replica", self.new_replica


def age(lost_s: float) -> str:
    return f"at most {at_most(lost_s)} old"


def at_most(seconds: float) -> str:
    ms = max(1, math.ceil(seconds * 1e3 - 1e-6))
    return f"{ms} ms" if ms < 1000 else f"{math.ceil(seconds * 100 - 1e-6) / 100:.2f} s"


def measured(arm: CrashArm) -> list[str]:
    if not arm.crashes:
        return ["not crashed"]
    words = []
    if random := at_random(arm.crashes):
        found = counts(random)
        bound = found.bound_95
        fail = "" if bound is None or bound == 1 else f" (at most {bound:.1%} fail)"
        words.append(f"{_tally(found)}{fail}")
    if others := chosen(arm.crashes):
        words.append(f"chosen: {_tally(counts(others))}")
    found = counts(arm.crashes)
    if found.lost_commits and found.lost_s:
        words.append(f"up to {found.lost_commits.max:,.0f} commits lost, {age(found.lost_s.max)}")
    if found.binlog:
        words.append(f"binary log: {_of_the_binlog(found.binlog)}")
    if found.gtid and (found.gtid.behind or found.gtid.ahead):
        words.append(f"GTIDs: {gtid_in_words(found.gtid)}")
    words += [f"{what}: {_tally_of_replicas(replicas)}" for what, replicas in found.replicas]
    return words


def _of_the_binlog(binlog: BinlogCounts) -> str:
    parts = []
    if binlog.lost_commits:
        parts.append(f"lacks up to {binlog.lost_commits.max:,.0f} in {binlog.lost:,}")
    numbers = {"behind": binlog.behind, "ahead": binlog.ahead, "not read": binlog.unread}
    parts += [f"{what} in {number:,}" for what, number in numbers.items() if number]
    return ", ".join(parts) or "complete"


def _tally(found: CrashCounts) -> str:
    told = [(getattr(found, name), name.replace("_", " ")) for name in OUTCOMES if getattr(found, name)]
    (first, name), *others = told
    return ", ".join([f"{first:,} of {found.crashes:,} {name}", *(f"{n:,} {name}" for n, name in others)])


def at_random(crashes: Iterable[Crash]) -> list[Crash]:
    return [crash for crash in crashes if crash.point.kind == "random"]


def chosen(crashes: Iterable[Crash]) -> list[Crash]:
    return [crash for crash in crashes if crash.point.kind != "random"]


def counts(crashes: Sequence[Crash]) -> CrashCounts:
    judged = [crash for crash in crashes if crash.outcome != "unknown"]
    bad = [crash for crash in judged if crash.outcome not in ("kept", "sound")]
    lost = [crash for crash in bad if crash.outcome == "lost"]
    gtids = [crash.gtid for crash in crashes if crash.gtid is not None]
    binlogs = [crash.binlog for crash in crashes if crash.binlog is not None]
    unread = sum(bool(crash.binlog_unread) for crash in crashes)
    unflushed = [crash for crash in judged if crash.unflushed]
    return CrashCounts(
        crashes=len(crashes),
        **tally(crashes),
        lost_commits=spread(filter(None, (crash.lost for crash in lost))),
        lost_s=spread(crash.lost_s for crash in lost if crash.lost),
        bound_95=_bound(len(bad), len(judged)),
        unflushed=UnflushedCounts(
            crashes=len(unflushed), bad=sum(crash.outcome not in ("kept", "sound") for crash in unflushed)
        )
        if any(crash.unflushed is not None for crash in crashes)
        else None,
        binlog=BinlogCounts(
            crashes=len(binlogs),
            unread=unread,
            lost=sum(one.lost > 0 for one in binlogs),
            behind=sum(one.behind > 0 for one in binlogs),
            ahead=sum(one.ahead > 0 for one in binlogs),
            lost_commits=spread(filter(None, (one.lost for one in binlogs))),
        )
        if binlogs or unread
        else None,
        gtid=GtidCounts(
            crashes=len(gtids),
            behind=sum(one.behind > 0 for one in gtids),
            ahead=sum(one.ahead > 0 for one in gtids),
            behind_commits=spread(filter(None, (one.behind for one in gtids))),
            ahead_commits=spread(filter(None, (one.ahead for one in gtids))),
        )
        if gtids
        else None,
        replica=_replicas([crash.replica for crash in crashes if crash.replica is not None]),
        new_replica=_replicas([crash.new_replica for crash in crashes if crash.new_replica is not None]),
    )


def tally(found: Iterable[Crash | NodeAlone]) -> dict[str, int]:
    numbers = Counter(one.outcome for one in found)
    return {name: numbers[name] for name in OUTCOMES}


def _replicas(found: Sequence[ReplicaState]) -> ReplicaCounts | None:
    if not found:
        return None
    numbers = Counter(one.outcome for one in found)
    errors = Counter(str(one.error) for one in found if one.outcome == "stopped")
    judged = len(found) - numbers["unknown"]
    return ReplicaCounts(
        crashes=len(found),
        **{outcome: numbers[outcome] for outcome in get_args(ReplicaOutcome)},
        errors=dict(sorted(errors.items())),
        ahead=sum(one.ahead > 0 for one in found),
        ahead_commits=spread(filter(None, (one.ahead for one in found))),
        lacks=sum(one.lacks > 0 for one in found),
        lacks_commits=spread(filter(None, (one.lacks for one in found))),
        bound_95=_bound(judged - numbers["follows"], judged),
    )


def _bound(bad: int, judged: int) -> float | None:
    from flushlab.statistics.limits import upper_bound  # its folder takes seconds to load

    return upper_bound(bad, judged) if judged else None


def replica_in_words(replica: ReplicaCounts) -> str:
    parts = [_tally_of_replicas(replica)]
    if replica.ahead_commits:
        most = counted(int(replica.ahead_commits.max), "commit")
        parts.append(f"before that it had up to {most} that the server lacked, in {replica.ahead:,}")
    if replica.lacks_commits:
        most = counted(int(replica.lacks_commits.max), "commit")
        parts.append(f"in the end it lacks up to {most} of the server's, in {replica.lacks:,}")
    return "; ".join(parts)


def _tally_of_replicas(replica: ReplicaCounts) -> str:
    errors = ", ".join(f"error {number} in {count:,}" for number, count in replica.errors.items())
    words = {
        "follows in": (replica.follows, ""),
        "diverges silently in": (replica.diverged, ""),
        "stops in": (replica.stopped, f" ({errors})"),
        "not judged in": (replica.unknown, ""),
    }
    told, of = [], f" of {replica.crashes:,}"
    for word, (count, why) in words.items():
        if count:
            told.append(f"{word} {count:,}{of}{why}")
            of = ""
    return ", ".join(told)


def binlog_in_words(binlog: BinlogCounts) -> str:
    parts = []
    if binlog.lost_commits:
        most = binlog.lost_commits.max
        parts.append(f"lacks acknowledged commits in {binlog.lost}, at most {most:,.0f}")
    numbers = {
        "behind the tables": binlog.behind,
        "ahead of the tables": binlog.ahead,
        "not read": binlog.unread,
    }
    parts += [f"{what} in {number}" for what, number in numbers.items() if number]
    of = counted(binlog.crashes + binlog.unread, "crash")
    return f"of {of}: {'; '.join(parts)}" if parts else f"complete in {of}"


def gtid_in_words(gtid: GtidCounts) -> str:
    parts = []
    if most := gtid.behind_commits:
        parts.append(f"up to {most.max:,.0f} will be given out a second time in {gtid.behind}")
    if most := gtid.ahead_commits:
        parts.append(f"up to {most.max:,.0f} belong to commits missing from the tables in {gtid.ahead}")
    of = counted(gtid.crashes, "crash")
    return f"of {of}: {'; '.join(parts)}" if parts else f"as the tables in {of}"


def spread(values: Iterable[float]) -> Spread | None:
    some = list(values)
    return Spread(statistics.median(some), max(some)) if some else None
