"""Changes: settings to try, with the floor that they leave and the guarantee that they cost. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Change
from flushlab.record import Launch, Storage, Value
from flushlab.settings.catalog import SettingHere, load_catalog
from flushlab.settings.durability import Failure, Guarantees, Verdict, guarantees, level, verdict

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
