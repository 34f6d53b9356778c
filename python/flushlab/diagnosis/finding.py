"""Finding: a bottleneck with its evidence, the bound of its mending, and changes to try. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.shares import TimeShare
from flushlab.record import Launch, Storage, Value
from flushlab.settings.catalog import load_catalog
from flushlab.settings.durability import (
    Failure,
    Guarantees,
    Verdict,
    guarantees,
    level,
    verdict,
)
from flushlab.units import counted

Strength = Literal["binds", "unmeasured", "contributes", "hint"]
"""`binds`: a quarter of the writers' time or more; `contributes`: a tenth or more; `hint`: less, or without a
measured share. `unmeasured`: it holds somebody up, and its share is not known, or may be anything."""

BINDS, CONTRIBUTES = 0.25, 0.1


def wait(count: int, noun: str) -> str:
    return f"{counted(count, noun)} {'waits' if count == 1 else 'wait'}"


class Seen(msgspec.Struct, frozen=True):
    """Evidence: a number of the server's own.

    Attributes:
        text: in words.
        sql: where to see it oneself; empty if nowhere.
    """

    text: str
    sql: str = ""


def counter(text: str, pattern: str) -> Seen:
    return Seen(text, f"SHOW GLOBAL STATUS LIKE '{pattern}'")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change to try: untested on this server.

    Attributes:
        settings: as a server of this version spells them.
        floor: that the server meets with them, if its disk honors flushes.
        costs: guarantees that are given up, in words.
    """

    settings: Mapping[str, Value]
    floor: str = ""
    costs: tuple[str, ...] = ()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding.

    Attributes:
        share: of the writers' time; None if it is not measured.
        waits: that the share is of, or within.
        unmeasured: evidence that somebody is held up, whatever the share, as a clause: `3 statements wait …`;
            empty for none.
        changes: settings to try, the safest first.
        names_cause: a finding as strong that does comes before one that does not.
        shows_in: findings that this one explains, if it is as strong: they come behind it.
        is_weighed: its share is known, or it explains a finding whose share is; see `weighed`.
    """

    name: str
    title: str
    share: TimeShare | None = None
    waits: tuple[str, ...] = ()
    unmeasured: str = ""
    seen: tuple[Seen, ...] = ()
    advice: str = ""
    changes: tuple[Change, ...] = ()
    names_cause: bool = True
    is_proven: bool = True
    shows_in: tuple[str, ...] = ()
    is_weighed: bool = True

    @property
    def strength(self) -> Strength:
        mid = self.share.mid if self.share is not None else 0.0
        if mid >= BINDS:
            return "binds" if self.is_weighed else "unmeasured"
        return "unmeasured" if self.unmeasured else "contributes" if mid >= CONTRIBUTES else "hint"

    @property
    def at_most(self) -> float | None:
        """Factor that no mending exceeds at this number of connections; None without a measured share, or if
        that may be all of the time."""
        return None if self.share is None else self.share.at_most


def weighed(found: Sequence[Finding]) -> list[Finding]:
    binding = [one for one in found if one.strength == "binds" and one.share]
    known = [one for one in binding if one.share and not one.share.is_anything]

    def explains(one: Finding) -> bool:
        return any(
            effect.name in one.shows_in or not (effect.names_cause or {*effect.waits}.isdisjoint(one.waits))
            for effect in known
        )

    unweighed = [one for one in binding if one not in known and not explains(one)]
    return [msgspec.structs.replace(one, is_weighed=False) if one in unweighed else one for one in found]


_FAILURES: tuple[tuple[Failure, str], ...] = (
    ("process_crash", "if the server is killed"),
    ("power_loss", "if the power fails"),
    ("torn_page", "if a page is half written"),
)


def verdict_now(evidence: Evidence) -> Verdict:
    return verdict(evidence.settings, evidence.identity, *_running(evidence))


def guarantees_now(evidence: Evidence) -> Guarantees:
    return guarantees(evidence.settings, evidence.identity, *_running(evidence))


def _running(evidence: Evidence) -> tuple[Storage, Launch]:
    host = evidence.host
    has_redo = evidence.after.status.get("innodb_redo_log_enabled", "ON").upper() not in ("OFF", "0")
    launch = msgspec.structs.replace(host.launch if host else Launch(), redo_enabled=has_redo)
    return host.storage if host else Storage(visible=False), launch


def changes(evidence: Evidence, *wanted: Mapping[str, Value]) -> tuple[Change, ...]:
    catalog, server = load_catalog(), evidence.identity
    if not evidence.settings or not server.version:
        return ()  # what they would change is not known
    made, before = [], guarantees_now(evidence)
    for settings in wanted:
        known = dict[str, Value]()
        for name, wished in settings.items():
            here, now = catalog.here(name, server.flavor, server.version), evidence.settings.get(name)
            if here is None or not evidence.variable(here.variable):
                continue
            value = wished
            if here.maximum is not None and not isinstance(value, str):  # as large as the server takes it
                value = min(value, int(here.maximum) // here.multiple * here.multiple)
            is_cut = (
                value != wished and isinstance(now, int | float) and isinstance(value, int) and value <= now
            )
            if value != now and not is_cut:
                known[name] = value
        if known:
            after = guarantees({**evidence.settings, **known}, server, *_running(evidence))
            made.append(Change(settings=known, floor=str(level(after)), costs=_worse(before, after)))
    return tuple(made)


def _worse(before: Guarantees, after: Guarantees) -> tuple[str, ...]:
    pairs = [(words, before.under(failure), after.under(failure)) for failure, words in _FAILURES]
    pairs.append(("binary log", before.binlog, after.binlog))
    worse = [f"{words}: {now.text}" for words, was, now in pairs if now.badness > was.badness]
    if after.replication.badness > before.replication.badness:
        worse.append(f"replicas: {after.replication.text}")
    return tuple(worse)
