"""Running server: the part of a plan or a tuning that can be tried on the user's own running server.

Sits in `campaign.pool`; pure. What takes a restart is out, with its reason, before anything starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from flushlab.errors import BelowFloor
from flushlab.plan.plan import Plan
from flushlab.record import Launch, ServerIdentity, Storage, Value, Warning
from flushlab.settings.candidates import Candidate, raise_to_floor
from flushlab.settings.catalog import canonical
from flushlab.settings.configuration import Configuration
from flushlab.settings.floor import Floor
from flushlab.trial.runner import restart_settings

_RESTART = "needs a restart, and your own server is never restarted"
UNSEEN = Storage(visible=False)
"""Somebody's storage: its owner answers for it; what is judged is what settings give up."""


def restarts(settings: Mapping[str, Value], has: Mapping[str, Value], identity: ServerIdentity) -> list[str]:
    """Names of settings that differ from what a server has and cannot be changed while it runs."""
    same = Configuration({}, identity).same
    found = restart_settings(settings, identity)
    return [name for name, value in found.items() if name not in has or not same(name, has[name], value)]


def why_not(settings: Mapping[str, Value], has: Mapping[str, Value], identity: ServerIdentity) -> str:
    """Why a server cannot have settings while it runs; empty if it can."""
    names = restarts(settings, has, identity)
    return f"{', '.join(names)} {_RESTART}" if names else ""


def without_restarts(
    plan: Plan, has: Mapping[str, Value], identity: ServerIdentity
) -> tuple[Plan, tuple[Warning, ...]]:
    """The plan with a base that a server can have while it runs, and a note for each setting left out."""
    given = {name: {canonical(name): value} for name, value in plan.base.items()}
    static = {name for name, one in given.items() if restart_settings(one, identity)}
    notes = tuple(
        Warning(
            "base-left-out",
            f"the base is measured without {name}={plan.base[name]}, which {_RESTART}:"
            f" it is {has.get(canonical(name), 'not known')} there",
        )
        for name in static
        if restarts(given[name], has, identity)
    )
    base = {name: value for name, value in plan.base.items() if name not in static}
    return msgspec.structs.replace(plan, base=base, alternate=False), notes


def has_all(settings: Mapping[str, Value], has: Mapping[str, Value], identity: ServerIdentity) -> bool:
    """Whether a server has these settings already."""
    same = Configuration({}, identity).same
    return all(name in has and same(name, has[name], value) for name, value in settings.items())


def raise_running(
    base: Mapping[str, Value],
    has: Mapping[str, Value],
    floor: Floor,
    identity: ServerIdentity,
    keep: Iterable[str],
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """What brings a base up to a floor while the server, which `has` settings, runs; see `raise_to_floor`.

    Raises:
        BelowFloor: nothing does, or only a restart.
    """
    changes, reasons = raise_to_floor(
        base, floor, identity=identity, storage=UNSEEN, launch=Launch(), keep=keep
    )
    if names := restarts(changes, has, identity):
        raise BelowFloor(
            f"your server is below the floor {floor}: {'; '.join(reasons)}, and {names[0]} {_RESTART}",
            hint="set it and restart the server, or choose a lower --floor",
        )
    return changes, reasons


def tried(
    candidates: Sequence[Candidate],
    has: Mapping[str, Value],
    identity: ServerIdentity,
    differing: Mapping[str, str],
) -> tuple[tuple[Candidate, ...], tuple[Warning, ...]]:
    """The candidates that can be tried, and notes of the others, one for each reason.

    Args:
        candidates: all that are worth trying.
        has: settings of the server.
        identity: of the server.
        differing: settings that nodes of a cluster have different values of, with what they are, in words.
    """
    kept, out = list[Candidate](), dict[str, list[str]]()
    for one in candidates:
        if why := _why_not_tried(one, has, identity, differing):
            out.setdefault(why, []).extend(f"{name}={value}" for name, value in one.settings.items())
        else:
            kept.append(one)
    notes = (
        Warning("not-tried", f"not tried: {', '.join(dict.fromkeys(values))}: {why}")
        for why, values in out.items()
    )
    return tuple(kept), tuple(notes)


def _why_not_tried(
    one: Candidate, has: Mapping[str, Value], identity: ServerIdentity, differing: Mapping[str, str]
) -> str:
    if restarts(one.settings, has, identity):
        return f"it {_RESTART}"
    if one.needs_steady_state:
        return "its effect shows later, in background work, which short slices cannot measure"
    return next((differing[name] for name in one.settings if name in differing), "")
