"""Effects: whether settings that read back did anything, from what the server's files went through.

Sits in `settings`, pure: no I/O, no server. One rule is one file in `rules/` and one entry in
`rules/__init__.py`. A rule speaks only where the evidence leaves no other explanation, under any load: what
cannot be decided is passed over in silence. docs/explanation/effects.md is the page for people.

    for finding in no_effect(evidence):
        finding.setting, finding.text
"""

from flushlab.settings.effects.evidence import NoEffect, SeenEffects
from flushlab.settings.effects.rules import RULES


def no_effect(evidence: SeenEffects) -> tuple[NoEffect, ...]:
    """The settings that read back and do nothing, each once, with the evidence in words."""
    found: dict[str, NoEffect] = {}
    for rule in RULES:
        for finding in rule(evidence):
            found.setdefault(finding.setting, finding)
    return tuple(found.values())


__all__ = ["RULES", "NoEffect", "SeenEffects", "no_effect"]
