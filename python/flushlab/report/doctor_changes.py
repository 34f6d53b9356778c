"""Report of the doctor on changes to try: SQL and an option file, or values for a cloud's service. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.diagnosis.diagnose import PLACES, Diagnosis, service_of
from flushlab.diagnosis.finding import Change
from flushlab.record import Value
from flushlab.settings.catalog import SettingHere, load_catalog


def form_words(diagnosis: Diagnosis) -> str:
    """The form of `as_text`, for a heading."""
    return _place(diagnosis) or "SQL and option file"


def as_text(change: Change, diagnosis: Diagnosis) -> str:
    """A change to take away: SQL as far as the server takes it while it runs, and the option file; for a
    cloud's service the values of its parameters."""
    here = _here(change, diagnosis)
    if place := _place(diagnosis):
        values = (f"{_value(one, value)}{'' if _runs(one) else '  # takes a restart'}" for one, value in here)
        return "\n".join([f"# Untested on this server. Values for its {place}:", *values])
    sql = [_sql(one, value) for one, value in here if _runs(one)]
    options = [one.option(value) for one, value in here]
    head = ["-- Untested on this server. Until its next restart:", *sql, ""] if sql else []
    after = "To keep it after a restart" if len(sql) == len(here) else "Takes a restart"
    return "\n".join([*head, f"# Untested on this server. {after}:", "[mysqld]", *options])


def change_lines(change: Change, diagnosis: Diagnosis) -> Iterator[str]:
    """A line per setting: SQL, or an option that takes a restart; for a cloud's service the value."""
    place = _place(diagnosis)
    for one, value in _here(change, diagnosis):
        if place:
            yield f"{_value(one, value)}  # {place}{'' if _runs(one) else ', takes a restart'}"
        elif _runs(one):
            yield _sql(one, value)
        else:
            yield f"[mysqld] {one.option(value)}  # takes a restart"


def _here(change: Change, diagnosis: Diagnosis) -> list[tuple[SettingHere, Value]]:
    server = diagnosis.evidence.identity
    catalog = load_catalog()
    return [
        (catalog.require(name, server.flavor, server.version), value)
        for name, value in change.settings.items()
    ]


def _runs(here: SettingHere) -> bool:
    """Whether the server takes every change of it while it runs."""
    return here.dynamic and not here.partly_dynamic


def _sql(here: SettingHere, value: Value) -> str:
    return f"SET GLOBAL {_value(here, value)};"


def _value(here: SettingHere, value: Value) -> str:
    """Sizes in bytes."""
    return f"{here.variable} = {here.sql(value)}"


def _place(diagnosis: Diagnosis) -> str:
    """Where a cloud's service has its settings; empty for a server that takes SQL."""
    evidence = diagnosis.evidence
    return PLACES.get(service_of(evidence.after.variables, evidence.identity.version_text), "")
