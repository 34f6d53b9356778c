"""Lock holders: who holds the metadata lock that others wait for. Pure.

MySQL tells the locks (performance_schema.metadata_locks), and so do MariaDB and MySQL 5.7 if somebody has
enabled it. Elsewhere a holder is probable: whoever was there before the wait began.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flushlab.diagnosis.evidence import Evidence
from flushlab.telemetry.live.questions import MetadataLock, ThreadState, waits_for_metadata
from flushlab.units import counted

_UPGRADABLE = "SHARED_UPGRADABLE"
"""Of DDL, which MySQL 8.0.15 tells even after DDL has made more of it."""
_EXCLUDING = frozenset(
    ("EXCLUSIVE", "SHARED_NO_READ_WRITE", "SHARED_NO_WRITE", "SHARED_READ_ONLY", _UPGRADABLE)
)
"""Kinds that exclude statements; DDL waits for them, and for all others."""
DDL = frozenset(("alter", "create", "drop", "optimize", "truncate", "rename", "repair"))
"""First words of statements."""
_GLOBAL = ("global read lock", "commit lock")
_SLACK_S = 1
"""Times are whole seconds."""


class Holder(NamedTuple):
    """A connection.

    Attributes:
        who: in words.
        kill: its number for KILL; 0 for a transaction without a connection.
        does: what it holds, or was longest seen to do.
        doubt: 0: the server tells that it holds the lock; 1: it works, or is in a transaction; 2: it sleeps.
    """

    who: str
    kill: int
    does: str
    doubt: int

    @property
    def words(self) -> str:
        """The holder and what it does."""
        return f"{self.who} {'' if not self.doubt else 'probably holds it: '}{self.does}"


def waiters(evidence: Evidence) -> list[ThreadState]:
    """Connections that wait for a metadata lock, the longest first; short waits are left out."""
    found = [one for one in evidence.longest.values() if waits_for_metadata(one.state)]
    return sorted(found, key=lambda one: -one.seconds)


def stops_all_writes(evidence: Evidence) -> bool:
    """Whether the lock is the one that every write takes: on MariaDB since 10.4, it is the backup lock."""
    ends = (*_GLOBAL, "backup lock") if evidence.identity.flavor == "mariadb" else _GLOBAL
    return any(one.state.endswith(ends) for one in waiters(evidence))


def holders(evidence: Evidence) -> list[Holder]:
    """Those that hold the lock, or probably do, the likeliest first."""
    waiting = {one.id for one in waiters(evidence)} | {
        one.thread for one in evidence.locks if not one.granted
    }
    return [*_told(evidence, waiting)] or [*_probable(evidence, waiting)]


def known(found: Sequence[Holder]) -> Holder | None:
    """The holder, if one is likelier than all others."""
    first = found[0] if found else None
    return first if first and all(one.doubt > first.doubt for one in found[1:]) else None


def others(found: Sequence[Holder]) -> str:
    """Those who might as well be it, in words; empty for none."""
    rest = len(found) - 1
    was = "was" if rest == 1 else "were"
    return f"; {counted(rest, 'other connection')} {was} there before the wait, too" if rest > 0 else ""


def _told(evidence: Evidence, waiting: set[int]) -> Iterator[Holder]:
    """A waiter may have another lock on the same table: it heads the queue."""
    wanted = [one for one in evidence.locks if not one.granted]
    held = [one for one in evidence.locks if one.granted and one.thread not in waiting]
    contested = {one.of for one in wanted or evidence.locks if wanted or one.thread in waiting}
    seen = set[int]()
    for lock in sorted(held, key=lambda one: (not _excludes(one), one.kind == _UPGRADABLE)):
        stops_others = any(_excludes(one) for one in wanted if one.of == lock.of) or not wanted
        is_it = _excludes(lock) or (stops_others and lock.of in contested)
        if is_it and lock.thread not in seen and (lock.of in contested or not wanted):
            seen.add(lock.thread)
            does = _does(evidence, lock.thread)
            holds = f"holds {lock.kind} on {lock.of}{does and f'; {does}'}"
            yield Holder(f"connection {lock.thread}", lock.thread, holds, 0)


def _excludes(lock: MetadataLock) -> bool:
    """On all but tables, SHARED is what FLUSH TABLES WITH READ LOCK takes."""
    is_global = lock.kind == "SHARED" and not lock.of.startswith("table ")
    return is_global or lock.kind in _EXCLUDING or lock.kind.startswith(("BACKUP_FTWRL", "BACKUP_WAIT"))


def _probable(evidence: Evidence, waiting: set[int]) -> Iterator[Holder]:
    """An open transaction or a statement, then those asleep; each longer than the wait.

    Whoever stops reads or writes makes the first one wait soon: of those asleep, it is the last that fell
    asleep before. A lock that DDL waits for may be older.
    """
    if not (long := waiters(evidence)):
        return
    first = long[0]
    least_s = first.seconds - _SLACK_S
    at_work = {one.key: one.age_s for one in evidence.transactions.values() if one.age_s >= least_s}
    at_work |= {one.id: one.seconds for one in evidence.longest.values() if one.seconds >= least_s}
    asleep = {one.id: one.seconds for one in evidence.asleep.values() if one.seconds >= least_s}
    last_first = 1 if stops_all_writes(evidence) or first.verb not in DDL else -1
    order = sorted(at_work, key=lambda one: -at_work[one])
    order += sorted(asleep, key=lambda one: last_first * asleep[one])
    for key in dict.fromkeys(order):
        if key not in waiting:
            who = f"connection {key}" if key > 0 else "a prepared XA transaction"
            yield Holder(who, max(0, key), _does(evidence, key), 1 if key in at_work else 2)


def _does(evidence: Evidence, key: int) -> str:
    """What it was longest seen to do, in words; empty if that is not told."""
    found = []
    if (asleep := evidence.asleep.get(key)) is not None:
        found.append(f"asleep for {asleep.seconds:,} s")
    elif (seen := evidence.longest.get(key)) is not None:
        found.append(f"{seen.verb.upper() or seen.command} for {seen.seconds:,} s")
    if (transaction := evidence.transactions.get(key)) is not None:
        found.append(f"its transaction is open for {transaction.age_s:,} s")
    return ", ".join(found)
