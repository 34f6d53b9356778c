"""The references of the documents of `series` and `compare` name every field of theirs, and no other."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flushlab.campaign.facts import SeriesFacts
from flushlab.report import compare, series
from tests.golden import test_compare_report, test_series_report

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def fields(table: str) -> set[str]:
    """Names in the first column of a table, `[]` left out."""
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {name.removesuffix("[]") for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize(
    ("page", "document", "facts"),
    [
        ("series-json.md", series.document, test_series_report.FACTORIAL),
        ("compare-json.md", compare.document, test_compare_report.FACTS),
    ],
)
def test_the_page_names_every_field_and_no_other(
    page: str, document: Callable[[SeriesFacts], dict[str, Any]], facts: SeriesFacts
) -> None:
    whole, arm = (REFERENCE / page).read_text().split("An arm:")
    shown = document(facts)
    assert fields(whole) == shown.keys()
    assert fields(arm) == shown["arms"][0].keys()
