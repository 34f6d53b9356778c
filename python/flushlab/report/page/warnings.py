"""Section: warnings. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flushlab.report.page.parts import (
    Cell,
    Section,
    Subject,
    Table,
)
from flushlab.units import counted

_OUTCOMES = {
    "void": "disturbed by other load",
    "refused": "refused by the server",
    "failed": "failed",
    "invalid": "invalid: a setting read back differently",
}


def section(subject: Subject) -> Iterator[Section]:
    """Warnings of the whole and of trials, and trials that did not count."""
    whole = len(subject.trials)
    found = subject.facts.warnings if subject.facts is not None else ()
    rows = [(Cell(warning.text), Cell("the whole", "num mute")) for warning in found]
    told = {warning.text for warning in found}
    seen: dict[str, list[tuple[str, str]]] = {}
    having: Counter[str] = Counter()
    for trial in subject.trials:
        having.update({warning.slug for warning in trial.warnings})
        for warning in trial.warnings:
            seen.setdefault(warning.slug, []).append((subject.named(trial.arm.name), warning.text))
    for slug, own in seen.items():
        if not any(text in words for _, text in own for words in told):
            first = f", first of {len(own):,}" if len(own) > 1 else ""
            rows.append((Cell(": ".join(own[0]), "", f"{slug}{first}"), _share(having[slug], whole)))
    outcomes = Counter(trial.outcome for trial in subject.trials if trial.outcome != "measured")
    rows += [(Cell(f"Trials {_OUTCOMES[name]}"), _share(count, whole)) for name, count in outcomes.items()]
    if rows:
        lead = "Reasons not to take the figures at face value."
        table = Table((Cell("warning"), Cell("about", "num")), tuple(rows))
        yield Section("warnings", "Warnings", lead, tables=(table,))
    elif subject.facts is not None:
        yield Section("warnings", "Warnings", "None.")


def _share(count: int, whole: int) -> Cell:
    return Cell(f"{count:,} of {counted(whole, 'trial')}", "num")
