"""Section: arms and changes that are not among the results. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.report.page.parts import (
    Cell,
    Section,
    Subject,
    Table,
)


def section(subject: Subject) -> Iterator[Section]:
    """Arms and changes that are not among the results."""
    rows = tuple((Cell(one.what, "name"), Cell(one.how), Cell(one.reason)) for one in subject.found.left_out)
    if rows:
        head = (Cell("arm or change"), Cell("outcome"), Cell("why"))
        yield Section("left-out", "Not among the results", tables=(Table(head, rows),))
