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
from flushlab.settings.durability.guarantee import (
    Effect,
    Guarantee,
    Guarantees,
    Kept,
    Replication,
    Rule,
    Situation,
    describe,
    level,
)
from flushlab.settings.durability.rules import RULES
from flushlab.settings.floor import Floor


def guarantees(
    settings: Mapping[str, Value], identity: ServerIdentity, storage: Storage, launch: Launch
) -> Guarantees:
    """What a server keeps under each failure.

    Args:
        settings: of the server; a durability setting that is left out counts as this version's default.
        launch: arguments, LD_PRELOAD, redo log switched off.

    Raises:
        ValueOutOfRange: a durability setting has a value that this version does not allow.
    """
    given = tuple((name, value, type(value)) for name, value in settings.items())  # 1, 1.0 and True are equal
    return _guarantees(given, identity, storage, launch)


@functools.lru_cache(maxsize=4096)
def _guarantees(
    given: tuple[tuple[str, Value, type], ...], identity: ServerIdentity, storage: Storage, launch: Launch
) -> Guarantees:
    """A campaign's planner asks again and again for the same settings."""
    situation = Situation({name: value for name, value, _ in given}, identity, storage, launch)
    found = [(rule, effect) for rule in RULES if rule.holds(identity) for effect in rule.find(situation)]
    os_crash = _worst("os_crash", found)
    return Guarantees(
        process_crash=_worst("process_crash", found),
        os_crash=os_crash,
        power_loss=_worst("power_loss", found),
        torn_page=_worst("torn_page", found),
        node_loss=_worst("node_loss", found),
        cluster_loss=_worst("cluster_loss", found),
        binlog=_worst("binlog", found),
        replication=replication(situation, os_crash),
    )


def _worst(on: Kept, found: Sequence[tuple[Rule, Effect]]) -> Guarantee:
    """The worst effect; its text comes first, those of the other losses after it, remarks last.

    Of each failure a rule speaks in every situation.
    """
    remarks = [(rule, effect) for rule, effect in found if effect.on == on and effect.remark]
    here = [
        (rule, effect, Guarantee(level=effect.level, text=effect.text, window_s=effect.window_s))
        for rule, effect in found
        if effect.on == on and not effect.remark
    ]
    losses = [one for one in here if one[1].level != "nothing_lost"]
    whole = [one for one in losses if one[1].whole]
    told = sorted(whole or losses or here, key=lambda one: one[2].badness, reverse=True)
    worst = told[0][2]
    texts = [effect.text for _, effect, _ in told]
    rules = [*(rule for rule, _, _ in told), *(rule for rule, _ in remarks)]
    return Guarantee(
        level=worst.level,
        window_s=worst.window_s,
        text="; ".join(dict.fromkeys((*texts, *(effect.text for _, effect in remarks)))),
        because=tuple(dict.fromkeys(f"{rule.name}: {rule.source}" for rule in rules)),
    )


_SOURCE = (
    "replication: https://bugs.mysql.com/bug.php?id=70659",
    "replication: https://mariadb.com/docs/server/server-usage/storage-engines/innodb/binary-log-group-commit-and-innodb-flushing-performance",
)
_SEMI_SYNC = (
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_source_enabled",
)


def replication(situation: Situation, os_crash: Guarantee) -> Replication:
    """Whether replicas of this server stay consistent after it crashed.

    Replicas stay consistent only if engine and binary log are both synced at every commit. Otherwise, one of
    the two can be ahead after a crash of the operating system: replicas have read commits that are gone. A
    sandbox without a binary log stands for a server that may have one.
    """
    flush = situation.value("innodb_flush_log_at_trx_commit")
    if not situation.has_binlog:
        return _without_binlog(flush, os_crash)
    semi_sync = any(situation.is_on(name) for name in _SEMI_SYNC)
    if situation.binlog_in_innodb:
        return _unless(semi_sync, _in_innodb(os_crash))
    if flush in (1, 3) and situation.value("sync_binlog") == 1:
        return _unless(semi_sync, _both_synced(os_crash))
    when = "even a killed server" if flush == 0 else "a crash of the operating system"
    after = "any crash" if flush == 0 else "an OS crash"
    ahead = "the binary log" if situation.value("sync_binlog") == 1 else "a replica"
    return Replication(
        level="may_diverge",
        text=f"{when} may leave {ahead} ahead of this server: rebuild replicas after {after}",
        because=_SOURCE,
    )


def _without_binlog(flush: Value | None, os_crash: Guarantee) -> Replication:
    if os_crash.level == "nothing_lost":
        text = "no binary log; with one, replicas stay consistent if sync_binlog = 1"
        return Replication(level="not_applicable", text=text)
    after = "any crash" if flush == 0 else "an OS crash"
    text = (
        f"with a binary log, they may be ahead of this server after {after}, semi-synchronous ones too:"
        " rebuild them"
    )
    return Replication(level="may_diverge", text=text, because=_SOURCE)


def _unless(semi_sync: bool, found: Replication) -> Replication:
    if not semi_sync or found.level == "may_diverge":
        return found
    return Replication(level="unknown", text="semi-synchronous replication: no rule covers it")


def _both_synced(os_crash: Guarantee) -> Replication:
    if os_crash.level == "nothing_lost":
        return Replication(
            level="consistent", text="replicas stay consistent after any crash", because=_SOURCE
        )
    if os_crash.level == "unknown":
        return Replication(level="unknown", text="what survives a crash is unknown, so replicas may diverge")
    return Replication(
        level="may_diverge",
        text="this server can lose commits that replicas have: rebuild replicas after an OS crash",
    )


def _in_innodb(os_crash: Guarantee) -> Replication:
    because = ("replication: https://jira.mariadb.org/browse/MDEV-34705",)
    if os_crash.level == "nothing_lost":
        return Replication(
            level="consistent",
            text="replicas stay consistent: binary log and engine share one log",
            because=because,
        )
    return Replication(
        level="may_diverge",
        text="this server can lose commits that replicas have: rebuild replicas after an OS crash",
        because=because,
    )


FLOOR = "floor"
"""Key of the verdict among the plain words on failures; only where it has a condition."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What settings meet.

    Attributes:
        floor: the safest that they meet.
        condition: of the disk, in words; empty: the disk is seen, and the floor holds on every disk that
            honors flushes.
    """

    floor: Floor
    condition: str = ""

    def __str__(self) -> str:
        return f"{self.floor}, {self.condition}" if self.condition else str(self.floor)


def verdict(
    settings: Mapping[str, Value], identity: ServerIdentity, storage: Storage, launch: Launch
) -> Verdict:
    """The floor that settings meet, and on which disk; see `guarantees` for arguments and errors."""

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
        return Verdict(
            floor=floor, condition=f"if the disk {honors}{has} volatile write cache; {other} {otherwise} one"
        )
    if storage.volatile_cache:
        return Verdict(
            floor=floor, condition=f"as the disk has a volatile write cache; {protected} without one"
        )
    return Verdict(floor=floor, condition=f"as the disk has no volatile write cache; {volatile} with one")


def described(
    settings: Mapping[str, Value], identity: ServerIdentity, storage: Storage, launch: Launch
) -> dict[str, str]:
    """Plain words for each failure, the binary log and replication, and the verdict if it has a condition."""
    found = verdict(settings, identity, storage, launch)
    words = describe(guarantees(settings, identity, storage, launch))
    return words | ({FLOOR: str(found)} if found.condition else {})
