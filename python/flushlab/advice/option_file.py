"""The smallest my.cnf: only what differs from the base, each line with its reason. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flushlab.campaign.recommended import kept_lines
from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import Catalog, load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import Guarantees, Verdict, describe
from flushlab.settings.optionfile import render


def option_file(
    settings: Mapping[str, Value],
    base: Mapping[str, Value],
    identity: ServerIdentity,
    guarantees: Guarantees,
    meets: Verdict,
    *,
    reasons: Mapping[str, str] | None = None,
    comments: Sequence[str] = (),
    standalone: bool = False,
) -> str:
    """The option file that turns the base into these settings.

    Args:
        settings: the whole configuration, or only its changes.
        base: what the server runs with now; equal values are left out.
        identity: the server that will read the file.
        guarantees: of the configuration.
        meets: the floor that it meets, and on which disk.
        reasons: for a setting: why, or what dropping it was measured to cost; shown above its line.
        comments: lines for the top (where the figures come from, say).
        standalone: there are no replicas: says nothing about them.

    Raises:
        UnknownSetting, ValueOutOfRange: a setting that this server would not take.
    """
    catalog = load_catalog()
    changed = _changed(settings, base, identity)
    words = describe(guarantees)
    if standalone or guarantees.replication.level not in ("may_diverge", "unknown"):
        del words["replication"]
    header = [
        *comments,
        f"Server: {identity.name}. Durability floor that this meets: {meets}.",
        *kept_lines(words),
    ]
    above = {name: _comment(name, catalog, (reasons or {}).get(name)) for name in changed}
    return render(changed, identity, catalog, header=header, comments=above)


def _changed(
    settings: Mapping[str, Value], base: Mapping[str, Value], identity: ServerIdentity
) -> dict[str, Value]:
    same = Configuration(base, identity).same
    return {
        name: value
        for name, value in settings.items()
        if name not in base or not same(name, value, base[name])
    }


def _comment(name: str, catalog: Catalog, reason: str | None) -> list[str]:
    effect = [catalog.setting(name).effect] if name in catalog else []
    return [*effect, *([reason] if reason else [])]
