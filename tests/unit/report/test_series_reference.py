"""docs/reference/series-json.md names every field of the document, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from flushlab.report.series import document
from tests.golden.test_series_report import FACTS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "series-json.md"


def fields(table: str) -> set[str]:
    """Names in the first column of a table, `[]` left out."""
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {name.removesuffix("[]") for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_page_names_every_field_and_no_other() -> None:
    whole, arm = PAGE.read_text().split("An arm:")
    shown = document(FACTS)
    assert fields(whole) == shown.keys()
    assert fields(arm) == shown["arms"][0].keys()
