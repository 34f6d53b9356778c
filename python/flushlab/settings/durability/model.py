"""The model: all rules applied to one situation; the worst effect on each failure is the guarantee. Pure.

A verdict is the floor that the guarantees meet on the given disk. If the disk's write cache is unknown (a
file for another machine, a remote server), the verdict names both cases. If the host is not visible, the
verdict also requires a disk that honors flushes. Callers that need one floor assume a disk that honors
flushes and has a protected cache: the disk's owner answers for the disk.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import msgspec

from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.settings.durability import commits, files
from flushlab.settings.durability.guarantee import (
    FAILURES,
    Effect,
    Guarantee,
    Guarantees,
    Replication,
    Rule,
    Situation,
    badness,
    describe,
    level,
)
from flushlab.settings.floor import Floor

RULES = (
    commits.flush_policy,
    commits.binlog_sync,
    files.doublewrite,
    files.unsynced_copy,
    files.aria_pages,
    files.checkpoint,
    files.checksums,
    files.unsynced,
    files.no_fsync_unfixed,
    files.no_fsync,
    commits.redo_disabled,
    files.storage,
    files.in_memory,
    files.debug_no_sync,
    files.preload,
    commits.cluster,
    commits.engine,
)


def guarantees(
    settings: Mapping[str, Value], identity: ServerIdentity, storage: Storage, launch: Launch
) -> Guarantees:
    given = tuple((name, value, type(value)) for name, value in settings.items())  # 1, 1.0 and True are equal
    return _guarantees(given, identity, storage, launch)


@functools.lru_cache(maxsize=4096)
def _guarantees(
    given: tuple[tuple[str, Value, type], ...], identity: ServerIdentity, storage: Storage, launch: Launch
) -> Guarantees:
    situation = Situation({name: value for name, value, _ in given}, identity, storage, launch)
    found = [(rule, effect) for rule in RULES if rule.holds(identity) for effect in rule.find(situation)]
    kept: dict[str, Guarantee] = {on: _worst(on, found) for on in (*FAILURES, "binlog")}
    return Guarantees(**kept, replication=replication(situation, kept["os_crash"]))


def _worst(on: str, found: Sequence[tuple[Rule, Effect]]) -> Guarantee:
    """The worst effect; its text comes first, those of the other losses after it, remarks last.

    Of each failure a rule speaks in every situation.
    """
    remarks = [(rule, effect) for rule, effect in found if effect.on == on and effect.remark]
    here = [(rule, effect) for rule, effect in found if effect.on == on and not effect.remark]
    losses = [one for one in here if one[1].level != "nothing_lost"]
    told = [one for one in losses if one[1].whole] or losses or here
    told.sort(key=lambda one: badness(one[1].level, one[1].window_s), reverse=True)
    worst = told[0][1]
    told += remarks
    return Guarantee(
        level=worst.level,
        window_s=worst.window_s,
        text="; ".join(dict.fromkeys(effect.text for _, effect in told)),
        because=tuple(dict.fromkeys(f"{rule.name}: {rule.source}" for rule, _ in told)),
    )


_SOURCE: tuple[str, ...] = (
    "replication: https://bugs.mysql.com/bug.php?id=70659",
    "replication: https://mariadb.com/docs/server/server-usage/storage-engines/innodb/binary-log-group-commit-and-innodb-flushing-performance",
)
_ONE_LOG: tuple[str, ...] = ("replication: https://jira.mariadb.org/browse/MDEV-34705",)
_SEMI_SYNC = (
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_source_enabled",
)


def replication(situation: Situation, os_crash: Guarantee) -> Replication:
    """Replicas stay consistent only if engine and binary log are both synced at every commit: else they may
    have read commits that are gone after a crash. A sandbox without a binary log stands for a server that may
    have one."""
    is_kept = os_crash.level == "nothing_lost"
    when, after = "a crash of the operating system", "an OS crash"
    if situation.policy == 0:
        when, after = "even a killed server", "any crash"
    if not situation.has_binlog:
        if is_kept:
            text = "no binary log; with one, replicas stay consistent if sync_binlog = 1"
            return Replication("not_applicable", text)
        ahead = f"they may be ahead of this server after {after}, semi-synchronous ones too: rebuild them"
        return Replication("may_diverge", f"with a binary log, {ahead}", _SOURCE)
    is_synced, because = situation.value("sync_binlog") == 1, _SOURCE
    if situation.binlog_in_innodb:
        because, consistent = _ONE_LOG, "replicas stay consistent: binary log and engine share one log"
    elif situation.policy in (1, 3) and is_synced:
        consistent = "replicas stay consistent after any crash"
    else:
        ahead = "the binary log" if is_synced else "a replica"
        text = f"{when} may leave {ahead} ahead of this server: rebuild replicas after {after}"
        return Replication("may_diverge", text, _SOURCE)
    is_unknown = os_crash.level == "unknown" and not situation.binlog_in_innodb
    if not is_kept and not is_unknown:
        text = "this server can lose commits that replicas have: rebuild replicas after an OS crash"
        because = because if situation.binlog_in_innodb else ()
        return Replication("may_diverge", text, because)
    if any(situation.is_on(name) for name in _SEMI_SYNC):
        return Replication("unknown", "semi-synchronous replication: no rule covers it")
    if is_unknown:
        text = "what survives a crash is unknown, so replicas may diverge"
        return Replication("unknown", text)
    return Replication("consistent", consistent, because)


FLOOR = "floor"
"""Key of the verdict among the plain words on failures; only where it has a condition."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    floor: Floor
    condition: str = ""

    def __str__(self) -> str:
        return f"{self.floor}, {self.condition}" if self.condition else str(self.floor)


def verdict(
    settings: Mapping[str, Value], identity: ServerIdentity, storage: Storage, launch: Launch
) -> Verdict:

    def on(volatile_cache: bool | None) -> Floor:
        there = msgspec.structs.replace(storage, volatile_cache=volatile_cache)
        return level(guarantees(settings, identity, there, launch))

    floor, protected, volatile = on(storage.volatile_cache), on(False), on(True)
    if protected is volatile:
        unsure = not storage.visible and floor is not Floor.THROWAWAY
        return Verdict(floor=floor, condition="if the disk honors flushes" if unsure else "")
    if storage.volatile_cache is None:
        other = volatile if floor is protected else protected
        has, otherwise = ("has no", "with") if floor is protected else ("has a", "without")
        honors = "" if storage.visible else "honors flushes and "
        condition = f"if the disk {honors}{has} volatile write cache; {other} {otherwise} one"
    elif storage.volatile_cache:
        condition = f"as the disk has a volatile write cache; {protected} without one"
    else:
        condition = f"as the disk has no volatile write cache; {volatile} with one"
    return Verdict(floor=floor, condition=condition)


def described(
    settings: Mapping[str, Value], identity: ServerIdentity, storage: Storage, launch: Launch
) -> dict[str, str]:
    found = verdict(settings, identity, storage, launch)
    words = describe(guarantees(settings, identity, storage, launch))
    return words | ({FLOOR: str(found)} if found.condition else {})
