"""Several servers: the configurations of a comparison on each of them, as arms of one campaign.

Sits in `campaign`. Each server binds the configurations for itself. The first of them is the base of its
server, which that server's others are compared with; the bases of further servers are compared with the
first server's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from flushlab.campaign.arms import BoundArm
from flushlab.campaign.pool.sandboxes import in_full
from flushlab.campaign.request import SeriesRequest
from flushlab.errors import UsageError
from flushlab.record import ServerIdentity, Value, Warning
from flushlab.settings.catalog import load_catalog

_MOST_TOLD = 8
_LONG = 30
"""Characters of a value that is not told."""


def joined(
    requests: Sequence[SeriesRequest], servers: Sequence[str], identities: Sequence[ServerIdentity]
) -> SeriesRequest:
    first, *others = requests
    if not others:
        return first
    for number, request in enumerate(requests):
        if request.build_id in {other.build_id for other in requests[:number]}:
            raise UsageError(f"{servers[number]} is given twice", hint="give each server once")
    servers = [in_full(server, request.build) for request, server in zip(requests, servers, strict=True)]
    arms = list[BoundArm]()
    for request, server, identity in zip(requests, servers, identities, strict=True):
        for arm in (request.base, *request.arms):
            named = msgspec.structs.replace(arm, name=_name(request, server, arm))
            if request is not first:
                own = "" if arm is request.base else _name(request, server, request.base)
                named = msgspec.structs.replace(
                    named, build=request.build, build_id=request.build_id, server=identity, against=own
                )
            arms.append(named)
    base, *arms = arms
    return msgspec.structs.replace(
        first,
        title=_title(first, servers),
        base_name=base.name,
        arms=tuple(arms),
        spec=msgspec.structs.replace(
            first.spec, server=msgspec.structs.replace(first.spec.server, servers=tuple(servers))
        ),
        notes=tuple(dict.fromkeys(_notes(requests, servers))),
    )


def _notes(requests: Sequence[SeriesRequest], servers: Sequence[str]) -> Iterator[Warning]:
    for request, server in zip(requests, servers, strict=True):
        for note in request.notes:
            shared = all(note in other.notes for other in requests)
            yield note if shared else on_server(note, server, _name(request, server, request.base))


def on_server(warning: Warning, server: str, base: str) -> Warning:
    return msgspec.structs.replace(warning, text=f"{server}: {warning.text}", arms=(base,))


def _title(first: SeriesRequest, servers: Sequence[str]) -> str:
    if not first.arms:
        return f"{', '.join(servers[1:])} against {servers[0]}"
    return f"{', '.join((first.base_name, *(arm.name for arm in first.arms)))}: on {', '.join(servers)}"


def _name(request: SeriesRequest, server: str, arm: BoundArm) -> str:
    own = request.base_name if arm is request.base else arm.name
    return f"{server} {own}" if request.arms else server


def differing(base: Mapping[str, Value], own: Mapping[str, Value], asked: Iterable[str]) -> str:
    catalog, out = load_catalog(), {*asked}

    def spelled(name: str) -> str:
        long = max(len(str(own[name])), len(str(base[name]))) > _LONG
        return f"{name} differs" if long else f"{name}={own[name]} ({base[name]})"

    names = [
        name
        for name, value in own.items()
        if name in base
        and base[name] != value
        and name not in out
        and name in catalog
        and (catalog.setting(name).fixed or catalog.setting(name).durability)
    ]
    names.sort(key=lambda name: (not catalog.setting(name).durability, name))
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return ", ".join(map(spelled, names[:_MOST_TOLD])) + more
