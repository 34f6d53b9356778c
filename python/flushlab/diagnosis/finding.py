"""Finding: a bottleneck with its evidence, the bound of its mending, and changes to try. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.shares import Share
from flushlab.record import Launch, Storage, Value
from flushlab.settings.catalog import SettingHere, load_catalog
from flushlab.settings.durability import Failure, Guarantees, Verdict, guarantees, level, verdict
from flushlab.units import counted

Strength = Literal["binds", "unmeasured", "contributes", "hint"]
"""`binds`: a quarter of the writers' time or more; `contributes`: a tenth or more; `hint`: less, or without a
measured share. `unmeasured`: it holds somebody up, and its share is not known, or may be anything."""

BINDS, CONTRIBUTES = 0.25, 0.1


def wait(count: int, noun: str) -> str:
    """`1 statement waits`, `20 statements wait`."""
    return f"{counted(count, noun)} {'waits' if count == 1 else 'wait'}"


class Seen(msgspec.Struct, frozen=True):
    """Evidence: a number of the server's own.

    Attributes:
        text: in words.
        sql: where to see it oneself; empty if nowhere.
    """

    text: str
    sql: str = ""


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
        name: of its file.
        title: a line.
        share: of the writers' time; None if it is not measured.
        waits: that the share is of, or within.
        unmeasured: evidence that somebody is held up, whatever the share, as a clause: `3 statements wait …`;
            empty for none.
        seen: evidence.
        advice: in words.
        changes: settings to try, the safest first.
        names_cause: a finding as strong that does comes before one that does not.
        is_proven: whether writers are seen to wait for this.
        shows_in: findings that this one explains, if it is as strong: they come behind it.
        is_weighed: its share is known, or it explains a finding whose share is; see `weighed`.
    """

    name: str
    title: str
    share: Share | None = None
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
        """How much of the writers' time it is."""
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
    """The same; a share that may be anything weighs only if it explains what is known to bind."""
    known = [one for one in found if one.strength == "binds" and one.share and not one.share.is_anything]

    def explains(one: Finding) -> bool:
        return any(
            effect.name in one.shows_in or not (effect.names_cause or {*effect.waits}.isdisjoint(one.waits))
            for effect in known
        )

    return [
        msgspec.structs.replace(one, is_weighed=False)
        if one.strength == "binds" and one.share and one.share.is_anything and not explains(one)
        else one
        for one in found
    ]


_FAILURES: tuple[tuple[Failure, str], ...] = (
    ("process_crash", "if the server is killed"),
    ("power_loss", "if the power fails"),
    ("torn_page", "if a page is half written"),
)


def verdict_now(evidence: Evidence) -> Verdict:
    """The floor that the server meets, as far as its variables tell, and its host if that is in sight."""
    return verdict(evidence.settings, evidence.identity, *_running(evidence))


def guarantees_now(evidence: Evidence) -> Guarantees:
    """What the server keeps under each failure; see `verdict_now`."""
    return guarantees(evidence.settings, evidence.identity, *_running(evidence))


def _running(evidence: Evidence) -> tuple[Storage, Launch]:
    host = evidence.host
    launch = host.launch if host else Launch()
    has_redo = evidence.after.status.get("innodb_redo_log_enabled", "ON").upper() not in ("OFF", "0")
    return host.storage if host else Storage(visible=False), msgspec.structs.replace(
        launch, redo_enabled=has_redo
    )


def changes(evidence: Evidence, *given: Mapping[str, Value]) -> tuple[Change, ...]:
    """Those of the changes that this server can take and has not made yet."""
    return tuple(found for one in given if (found := _change(evidence, one)) is not None)


def _change(evidence: Evidence, settings: Mapping[str, Value]) -> Change | None:
    catalog, server = load_catalog(), evidence.identity
    if not evidence.settings or not server.version:
        return None  # what it would change is not known
    known = dict[str, Value]()
    for name, wished in settings.items():
        here, now = catalog.here(name, server.flavor, server.version), evidence.settings.get(name)
        is_told = here is not None and bool(evidence.variable(here.variable))
        value = _taken(here, wished) if here is not None and is_told else None
        is_cut = value != wished and isinstance(now, int | float) and isinstance(value, int) and value <= now
        if value is not None and value != now and not is_cut:
            known[name] = value
    if not known:
        return None
    before = guarantees_now(evidence)
    after = guarantees({**evidence.settings, **known}, server, *_running(evidence))
    return Change(settings=known, floor=str(level(after)), costs=_worse(before, after))


def _taken(here: SettingHere, value: Value) -> Value:
    """The value, as large as the server takes it."""
    if here.maximum is None or isinstance(value, str):
        return value
    most = int(here.maximum) // here.multiple * here.multiple
    return most if value > most else value


def _worse(before: Guarantees, after: Guarantees) -> tuple[str, ...]:
    """Guarantees that the second lacks, in words."""
    found = [
        f"{words}: {after.under(failure).text}"
        for failure, words in _FAILURES
        if after.under(failure).badness > before.under(failure).badness
    ]
    if after.binlog.badness > before.binlog.badness:
        found.append(f"binary log: {after.binlog.text}")
    if after.replication.badness > before.replication.badness:
        found.append(f"replicas: {after.replication.text}")
    return tuple(found)
