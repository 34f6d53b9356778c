"""Guarantee: what a server keeps under one failure, and which floor that meets. Frozen values, pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

import msgspec

from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.record.machine import Flavor
from flushlab.settings.configuration import Configuration
from flushlab.settings.floor import Floor

FLUSH_INTERVAL_S = 1.0
"""The flush interval that floors mean: the servers' default innodb_flush_log_at_timeout. A longer timeout is
below `relaxed`, so that it cannot leak minutes of commits into a floor that promises about a second."""

Failure = Literal["process_crash", "os_crash", "power_loss", "torn_page", "node_loss", "cluster_loss"]
FAILURES: tuple[Failure, ...] = get_args(Failure)

Level = Literal["nothing_lost", "window", "unknown", "at_risk"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""Safest first. `unknown` is below any window (no bound is known) and above a known risk."""


class Guarantee(msgspec.Struct, frozen=True, kw_only=True):
    """One failure, and how much is kept under it.

    Attributes:
        level: nothing_lost; window: at most about `window_s` of acknowledged commits; at_risk: the data
            directory (or, for torn_page, a page) may be beyond repair; unknown: no rule can tell.
        window_s: seconds, for `window` only.
    """

    level: Level
    text: str
    window_s: float | None = None
    because: tuple[str, ...] = ()

    @property
    def badness(self) -> tuple[int, float]:
        return badness(self.level, self.window_s)

    def within(self, window_s: float) -> bool:
        return self.level == "nothing_lost" or (
            self.level == "window" and self.window_s is not None and self.window_s <= window_s
        )


def badness(level: Level, window_s: float | None) -> tuple[int, float]:
    return LEVELS.index(level), window_s or 0.0


class Replication(msgspec.Struct, frozen=True):
    """Agreement of replicas with this server after a crash; part of no floor, always reported."""

    level: Literal["consistent", "may_diverge", "not_applicable", "unknown"]
    text: str
    because: tuple[str, ...] = ()

    @property
    def badness(self) -> int:
        return {"not_applicable": 0, "consistent": 0, "unknown": 1, "may_diverge": 2}[self.level]


class Guarantees(msgspec.Struct, frozen=True, kw_only=True):
    """The guarantees of a server under each failure.

    Attributes:
        binlog: what the binary log keeps through a crash of the operating system; kept apart from the
            engine's own data, because only `strict` asks for it.
    """

    process_crash: Guarantee
    os_crash: Guarantee
    power_loss: Guarantee
    torn_page: Guarantee
    node_loss: Guarantee
    cluster_loss: Guarantee
    binlog: Guarantee
    replication: Replication

    def under(self, failure: Failure) -> Guarantee:
        found: Guarantee = getattr(self, failure)
        return found


def meets(guarantees: Guarantees, floor: Floor) -> bool:
    """`unknown` is below all but throwaway. Where the engine can lose commits, floors below `strict` ask that
    the binary log has a bound too: else a restore from it ends anywhere."""
    if floor is Floor.THROWAWAY:
        return True
    crashes = (guarantees.os_crash, guarantees.power_loss)
    if guarantees.torn_page.level != "nothing_lost":
        return False
    if floor is Floor.STRICT:
        kept = (guarantees.process_crash, *crashes, guarantees.binlog)
        return all(one.level == "nothing_lost" for one in kept)
    if guarantees.binlog.level == "unknown" and any(crash.level != "nothing_lost" for crash in crashes):
        return False
    allowed_for_process_s = 0.0 if floor is Floor.SECOND else FLUSH_INTERVAL_S
    return guarantees.process_crash.within(allowed_for_process_s) and all(
        one.within(FLUSH_INTERVAL_S) for one in crashes
    )


def level(guarantees: Guarantees) -> Floor:
    return next(floor for floor in Floor if meets(guarantees, floor))


def keeps(guarantees: Guarantees, reference: Guarantees) -> bool:
    kept = all(guarantees.under(f).badness <= reference.under(f).badness for f in FAILURES)
    agreed = guarantees.replication.badness <= reference.replication.badness
    replicas = reference.replication.level == "not_applicable" or agreed
    return kept and guarantees.binlog.badness <= reference.binlog.badness and replicas


def describe(guarantees: Guarantees) -> dict[str, str]:
    words: dict[str, str] = {failure: guarantees.under(failure).text for failure in FAILURES}
    return words | {"binlog": guarantees.binlog.text, "replication": guarantees.replication.text}


Kept = Failure | Literal["binlog"]

CRASHES: tuple[Failure, ...] = ("os_crash", "power_loss")


class Situation(Configuration):
    def __init__(
        self, settings: Mapping[str, Value], identity: ServerIdentity, storage: Storage, launch: Launch
    ) -> None:
        super().__init__(settings, identity)
        self.storage = storage
        self.launch = launch

    @property
    def policy(self) -> Value | None:
        return self.value("innodb_flush_log_at_trx_commit")

    @property
    def window_s(self) -> float:
        """The background flush looks once a second at most: a timeout of 0 is no better than 1."""
        return float(max(1, int(self.value("innodb_flush_log_at_timeout") or 0)))

    @property
    def has_binlog(self) -> bool:
        return self.value("log_bin") == "ON"

    @property
    def binlog_in_innodb(self) -> bool:
        return self.has_binlog and self.value("binlog_storage_engine") == "innodb"


class Effect(msgspec.Struct, frozen=True):
    """The answer of one rule for one failure.

    Attributes:
        remark: the text stands behind whatever else is said; the level does not count.
        whole: everything is lost, so that no other loss is worth a word.
    """

    on: Kept
    level: Level
    text: str
    window_s: float | None = None
    remark: bool = False
    whole: bool = False


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    source: str
    find: Callable[[Situation], Iterable[Effect]]
    flavor: Flavor | None = None
    since: tuple[int, ...] = ()

    def holds(self, identity: ServerIdentity) -> bool:
        return self.flavor in (None, identity.flavor) and identity.version >= self.since


def rule(
    name: str, source: str, *, flavor: Flavor | None = None, since: tuple[int, ...] = ()
) -> Callable[[Callable[[Situation], Iterable[Effect]]], Rule]:
    return lambda find: Rule(name=name, source=source, find=find, flavor=flavor, since=since)


def on_crashes(
    level: Level, text: str, window_s: float | None = None, *, whole: bool = False
) -> list[Effect]:
    return [Effect(failure, level, text, window_s, whole=whole) for failure in CRASHES]
