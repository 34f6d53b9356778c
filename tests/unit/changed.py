"""Facts with some of their fields changed, whichever part has them."""

from __future__ import annotations

from typing import Any

import msgspec

from flushlab.campaign.facts import CampaignFacts


def changed(facts: CampaignFacts, **changes: Any) -> CampaignFacts:
    """The facts with fields of theirs, of their parts, and of the base (`base_result`, …) changed."""
    parts: dict[str, Any] = {"tuning": facts.tuning, "plan": facts.plan}
    for name in tuple(changes):
        if name in CampaignFacts.__struct_fields__:
            continue
        if name.startswith("base_"):
            own = {name.removeprefix("base_"): changes.pop(name)}
            changes["base"] = msgspec.structs.replace(changes.get("base", facts.base), **own)
            continue
        part = next(key for key, one in parts.items() if one is not None and name in one.__struct_fields__)
        changes[part] = msgspec.structs.replace(changes.get(part, parts[part]), **{name: changes.pop(name)})
    return msgspec.structs.replace(facts, **changes)
