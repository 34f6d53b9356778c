"""Section: what each failure costs, before and after. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flushlab.report.guarantees import FAILURES, grouped
from flushlab.report.page.parts import (
    Cell,
    Section,
    Subject,
    Table,
)
from flushlab.units import format_seconds


def section(subject: Subject) -> Iterator[Section]:
    """What each failure costs, before and after."""
    columns = {name: texts for name, texts in subject.found.guarantees.items() if texts}
    if not columns:
        return
    before = next(iter(columns.values()))
    rows = []
    for failure, words in FAILURES.items():
        texts = [own.get(failure, "") for own in columns.values()]
        cells = (Cell(text, "" if text == before.get(failure, "") else "changed") for text in texts)
        if any(texts):
            rows.append((Cell(words, "name"), *cells))
    heads = {"your base": "before: your base", "winner": "after: the winner"}
    tables = [Table((Cell("when"), *(Cell(heads.get(name, name)) for name in columns)), tuple(rows))]
    otherwise = tuple(_otherwise(subject.found.weaker))
    if otherwise:
        head = (Cell("arm"), Cell("when"), Cell("what is kept"))
        tables.append(Table(head, otherwise, "Arms whose guarantees differ from the base's"))
    recovery = tuple(
        f"Recovery after SIGKILL under load, {arm}: {format_seconds(seconds)}."
        for arm, seconds in subject.found.recovery_s.items()
    )
    lead = "What happens to acknowledged commits in each failure, by the rules for this version and disk."
    yield Section("guarantees", "What a failure costs", lead, tables=tuple(tables), notes=recovery)


def _otherwise(arms: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[Cell, ...]]:
    """A row per arm and text; failures that cost the same stand together."""
    for arm, texts in arms.items():
        for failures, text in grouped(texts).items():
            yield Cell(arm, "name"), Cell(failures), Cell(text)
