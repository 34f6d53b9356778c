"""Measured: what the crashes of a configuration came to, counted and in words. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from flushlab.record import CrashArm, CrashImage, CrashKind, ReplicaOutcome, ReplicaState
from flushlab.units import counted

OUTCOMES = ("kept", "sound", "lost", "inconsistent", "not_started", "unknown")
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


REPLICAS: Mapping[str, str] = {"replica": "replica", "new_replica": "new replica"}
"""Of an image, and in words: one that had followed the server before the crash; one that had not."""


def age(lost_s: float) -> str:
    """How old lost commits were when the crash came, in words; of the oldest, in seconds."""
    return f"at most {at_most(lost_s)} old"


def at_most(seconds: float) -> str:
    """A duration in words, rounded up; in milliseconds if it is less than a second."""
    ms = max(1, math.ceil(seconds * 1e3 - 1e-6))
    return f"{ms} ms" if ms < 1000 else f"{math.ceil(seconds * 100 - 1e-6) / 100:.2f} s"


def measured(arm: CrashArm) -> list[str]:
    """What an arm's crashes have left, with the bound of what may be expected, in words."""
    at_random = [image for image in arm.images if image.point.kind == "random"]
    chosen = [image for image in arm.images if image.point.kind != "random"]
    if not arm.images:
        return ["not crashed"]
    words = [f"{_tally(at_random)}{_bound(at_random)}"] if at_random else []
    if chosen:
        words.append(f"chosen: {_tally(chosen)}")
    found = counts(arm.images)
    if lost := found["lost_commits"]:
        words.append(f"up to {lost['max']:,.0f} commits lost, {age(found['lost_s']['max'])}")
    if binlog := found["binlog"]:
        words.append(f"binary log: {_of_the_binlog(binlog)}")
    if (gtid := found["gtid"]) and (gtid["behind"] or gtid["ahead"]):
        words.append(f"GTIDs: {gtid_in_words(gtid)}")
    if ddl := found["ddl"]:
        words.append(f"DDL: {ddl_in_words(ddl)}")
    for name, what in REPLICAS.items():
        if replicas := found[name]:
            words.append(f"{what}: {_tally_of_replicas(replicas)}")
    return words


def _of_the_binlog(binlog: Mapping[str, Any]) -> str:
    parts = []
    if binlog["lost"]:
        parts.append(f"lacks up to {binlog['lost_commits']['max']:,.0f} in {binlog['lost']:,}")
    for way in ("behind", "ahead"):
        if binlog[way]:
            parts.append(f"{way} in {binlog[way]:,}")
    if binlog["unread"]:
        parts.append(f"not read in {binlog['unread']:,}")
    return ", ".join(parts) or "complete"


def _tally(images: Sequence[CrashImage]) -> str:
    found = [(name, sum(image.outcome == name for image in images)) for name in OUTCOMES]
    of = f" of {len(images):,}"
    told = []
    for name, count in found:
        if count:
            told.append(f"{count:,}{of} {name.replace('_', ' ')}")
            of = ""
    return ", ".join(told)


def _bound(images: Sequence[CrashImage]) -> str:
    bound = counts(images)["bound_95"]
    return "" if bound is None or bound == 1 else f" (at most {bound:.1%} fail)"


def counts(images: Sequence[CrashImage]) -> dict[str, Any]:
    """Images by outcome; what the losing ones lost; the bound on the share of those that do not keep all."""
    from flushlab.statistics.proportion import upper_bound  # its folder takes seconds to load

    judged = [image for image in images if image.outcome != "unknown"]
    bad = [image for image in judged if image.outcome not in ("kept", "sound")]
    lost = [image.lost for image in bad if image.outcome == "lost" and image.lost]
    seconds = [image.lost_s for image in bad if image.outcome == "lost" and image.lost]
    gtids = [image.gtid for image in images if image.gtid is not None]
    ddl = [image.ddl for image in images if image.ddl is not None]
    binlogs = [image.binlog for image in images if image.binlog is not None]
    unread = sum(bool(image.binlog_unread) for image in images)
    unflushed = [image for image in judged if image.unflushed]
    return {
        "images": len(images),
        **{name: sum(image.outcome == name for image in images) for name in OUTCOMES},
        "lost_commits": spread(lost),
        "lost_s": spread(seconds),
        "bound_95": upper_bound(len(bad), len(judged)) if judged else None,
        "unflushed": {
            "images": len(unflushed),
            "bad": sum(image.outcome not in ("kept", "sound") for image in unflushed),
        }
        if any(image.unflushed is not None for image in images)
        else None,
        "binlog": None
        if not binlogs and not unread
        else {
            "images": len(binlogs),
            "unread": unread,
            "lost": sum(one.lost > 0 for one in binlogs),
            "behind": sum(one.behind > 0 for one in binlogs),
            "ahead": sum(one.ahead > 0 for one in binlogs),
            "lost_commits": spread([one.lost for one in binlogs if one.lost]),
        },
        "gtid": None
        if not gtids
        else {
            "images": len(gtids),
            "behind": sum(one.behind > 0 for one in gtids),
            "ahead": sum(one.ahead > 0 for one in gtids),
            "behind_commits": spread([one.behind for one in gtids if one.behind]),
            "ahead_commits": spread([one.ahead for one in gtids if one.ahead]),
        },
        **{name: _replicas(images, name) for name in REPLICAS},
        "ddl": None
        if not ddl
        else {
            "images": len(ddl),
            "lost": sum(one.lost > 0 for one in ddl),
            "lost_statements": spread([one.lost for one in ddl if one.lost]),
        },
    }


def _replicas(images: Sequence[CrashImage], name: str) -> dict[str, Any] | None:
    from flushlab.statistics.proportion import upper_bound  # its folder takes seconds to load

    found: list[ReplicaState] = [one for image in images if (one := getattr(image, name)) is not None]
    if not found:
        return None
    judged = [one for one in found if one.outcome != "unknown"]
    errors = Counter(str(one.error) for one in found if one.outcome == "stopped")
    return {
        "images": len(found),
        **{outcome: sum(one.outcome == outcome for one in found) for outcome in get_args(ReplicaOutcome)},
        "errors": dict(sorted(errors.items())),
        "ahead": sum(one.ahead > 0 for one in found),
        "ahead_commits": spread([one.ahead for one in found if one.ahead]),
        "lacks": sum(one.lacks > 0 for one in found),
        "lacks_commits": spread([one.lacks for one in found if one.lacks]),
        "bound_95": upper_bound(sum(one.outcome != "follows" for one in judged), len(judged))
        if judged
        else None,
    }


def replica_in_words(replica: dict[str, Any]) -> str:
    """Whether replicas could go on, and what they have too much or lack, of `counts`."""
    parts = [_tally_of_replicas(replica)]
    if replica["ahead"]:
        most = counted(int(replica["ahead_commits"]["max"]), "commit")
        parts.append(f"before that it had up to {most} that the server lacked, in {replica['ahead']:,}")
    if replica["lacks"]:
        most = counted(int(replica["lacks_commits"]["max"]), "commit")
        parts.append(f"in the end it lacks up to {most} of the server's, in {replica['lacks']:,}")
    return "; ".join(parts)


def _tally_of_replicas(replica: Mapping[str, Any]) -> str:
    """`follows in 3 of 30, stops in 27 (error 1236 in 27)`."""
    errors = ", ".join(f"error {number} in {count:,}" for number, count in replica["errors"].items())
    words = {
        "follows": "follows in",
        "diverged": "diverges silently in",
        "stopped": "stops in",
        "unknown": "not judged in",
    }
    told, of = [], f" of {replica['images']:,}"
    for outcome, word in words.items():
        if count := replica[outcome]:
            told.append(f"{word} {count:,}{of}{f' ({errors})' if outcome == 'stopped' else ''}")
            of = ""
    return ", ".join(told)


def binlog_in_words(binlog: dict[str, Any]) -> str:
    """What the binary logs lack or have too much, of `counts`."""
    parts = []
    if binlog["lost"]:
        most = binlog["lost_commits"]["max"]
        parts.append(f"lacks acknowledged commits in {binlog['lost']}, at most {most:,.0f}")
    if binlog["behind"]:
        parts.append(f"behind the tables in {binlog['behind']}")
    if binlog["ahead"]:
        parts.append(f"ahead of the tables in {binlog['ahead']}")
    if binlog["unread"]:
        parts.append(f"not read in {binlog['unread']}")
    of = counted(binlog["images"] + binlog["unread"], "image")
    return f"of {of}: {'; '.join(parts)}" if parts else f"complete in {of}"


def gtid_in_words(gtid: dict[str, Any]) -> str:
    """Whether the server counts the GTIDs of what its tables have, of `counts`."""
    parts = []
    if gtid["behind"]:
        most = gtid["behind_commits"]["max"]
        parts.append(f"up to {most:,.0f} will be given out a second time in {gtid['behind']}")
    if gtid["ahead"]:
        most = gtid["ahead_commits"]["max"]
        parts.append(f"up to {most:,.0f} belong to commits missing from the tables in {gtid['ahead']}")
    of = counted(gtid["images"], "image")
    return f"of {of}: {'; '.join(parts)}" if parts else f"as the tables in {of}"


def ddl_in_words(ddl: dict[str, Any]) -> str:
    """Acknowledged DDL statements that are undone, of `counts`."""
    of = counted(ddl["images"], "image")
    if not ddl["lost"]:
        return f"no statement lost in {of}"
    return f"statements lost in {ddl['lost']} of {of}, at most {ddl['lost_statements']['max']:,.0f}"


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Median and maximum; None of nothing."""
    if not values:
        return None
    return {"p50": statistics.median(values), "max": max(values)}
