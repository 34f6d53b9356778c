"""Verdict: the floor that settings meet, with the condition on the disk. Pure.

One rule: a verdict is about the disk that is there. If its write cache is not known (a file for another
machine, somebody's own server), the verdict names both cases; if the host is not seen, the disk must be
honest, too. Wherever one floor is needed, the settings count as on an honest disk with a protected cache: the
disk is its owner's to answer for.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.settings.durability.guarantee import describe, level
from flushlab.settings.durability.model import guarantees
from flushlab.settings.floor import Floor

FLOOR = "floor"
"""Key of the verdict among the plain words on failures; only where it has a condition."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What settings meet.

    Attributes:
        floor: the safest that they meet.
        condition: of the disk, in words; empty: the floor holds on every disk that syncs what it is told to,
            and this disk is seen.
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
        return Verdict(floor=floor, condition="if the disk is honest" if unsure else "")
    if storage.volatile_cache is None:
        other = volatile if floor is protected else protected
        has, otherwise = ("has no", "with") if floor is protected else ("has a", "without")
        honest = "" if storage.visible else "is honest and "
        return Verdict(
            floor=floor, condition=f"if the disk {honest}{has} volatile write cache; {other} {otherwise} one"
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
