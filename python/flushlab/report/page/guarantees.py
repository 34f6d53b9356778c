"""Section: what each failure costs, before and after. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.recommended import best_arms
from flushlab.report.guarantees import FAILURES, changed, grouped
from flushlab.report.page.parts import (
    Cell,
    Section,
    Subject,
    Table,
)
from flushlab.units import format_seconds


def section(subject: Subject) -> Iterator[Section]:
    """What each failure costs, before and after."""
    facts = subject.facts
    columns = {name: texts for name, texts in _columns(facts).items() if texts} if facts is not None else {}
    if facts is None or not columns:
        return
    before = next(iter(columns.values()))
    rows = []
    for failure, words in FAILURES.items():
        texts = [own.get(failure, "") for own in columns.values()]
        cells = (Cell(text, "" if text == before.get(failure, "") else "changed") for text in texts)
        if any(texts):
            rows.append((Cell(words, "name"), *cells))
    tables = [Table((Cell("when"), *map(Cell, columns)), tuple(rows))]
    otherwise = tuple(_otherwise(facts))
    if otherwise:
        head = (Cell("arm"), Cell("when"), Cell("what is kept"))
        tables.append(Table(head, otherwise, "Arms whose guarantees differ from the base's"))
    recovery = tuple(
        f"Recovery after SIGKILL under load, {arm.name}: {format_seconds(arm.recovery_s)}."
        for arm in (facts.base, *facts.arms)
        if arm.recovery_s is not None
    )
    lead = "What happens to acknowledged commits in each failure, by the rules for this version and disk."
    yield Section("guarantees", "What a failure costs", lead, tables=tuple(tables), notes=recovery)


def _columns(facts: CampaignFacts) -> dict[str, Mapping[str, str]]:
    """Of each server its base and the arm of the answer."""
    best = best_arms(facts)
    if (tuning := facts.tuning) is None:
        shown = [arm for (base, _), one in zip(facts.by_server, best, strict=True) for arm in (base, one)]
        return {arm.name: arm.guarantees for arm in shown if arm is not None}
    columns: dict[str, Mapping[str, str]] = {"before: your base": facts.base.guarantees}
    if tuning.yours is not None:
        raised = f"raised to {facts.floor}"
        columns = {"your settings": tuning.yours.guarantees, raised: facts.base.guarantees}
    return columns if best[0] is None else columns | {"after: the winner": best[0].guarantees}


def _otherwise(facts: CampaignFacts) -> Iterator[tuple[Cell, ...]]:
    """A row per arm and text that is not the base's; failures that cost the same stand together."""
    for base, arms in facts.by_server:
        for arm in arms:
            for failures, text in grouped(changed(arm.guarantees, base.guarantees)).items():
                yield Cell(arm.name, "name"), Cell(failures), Cell(text)
