"""Every result names the exact release of its server: defaults and costs change within a series."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from flushlab.record import Trial
from flushlab.report import campaign, campaigns, crash, fill, html, suite
from flushlab.report.stored import crash_of, facts_of
from flushlab.store import CampaignRow
from tests.unit.crashes import LOSING, facts
from tests.unit.report import campaigns as made
from tests.unit.report.test_fill import FILLED
from tests.unit.report.test_suite import REQUEST, compared, result

HERE = Path(__file__).parent
_EXACT = re.compile(r"(?:mysql|mariadb)@\d+\.\d+\.\d+")
_SERIES = re.compile(r"(?:mysql|mariadb)@\d+(?:\.\d+)?(?![.\d])")
RESULTS = sorted(HERE.glob("*.txt"))


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_a_result_names_the_exact_release_and_no_series(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert _EXACT.search(text)
    assert not _SERIES.findall(text)


def _page(stored: tuple[CampaignRow, Sequence[Trial]]) -> str:
    row, trials = stored
    return html.render(campaign.document(facts_of(row), row, trials))


def _crash_page() -> str:
    row = made.crashed(LOSING)
    return html.render(crash.document(crash_of(row, made.crash_rows(LOSING)), row))


OTHERS: dict[str, Callable[[], str]] = {
    "page of tune": lambda: _page(made.tuned()),
    "page of series": lambda: _page(made.serial()),
    "page of crash": _crash_page,
    "JSON of tune": lambda: msgspec.json.encode(campaign.as_json(made.tune_facts())).decode(),
    "JSON of series": lambda: msgspec.json.encode(campaign.as_json(made.series_facts())).decode(),
    "JSON of crash": lambda: msgspec.json.encode(crash.as_json(facts(LOSING))).decode(),
    "JSON of the list": lambda: msgspec.json.encode(campaigns.as_json([made.tuned()[0]])).decode(),
    "fill": lambda: fill.document(FILLED).headline,
    "test": lambda: "\n".join(suite.summary(result(), REQUEST)),
    "JSON of test": lambda: msgspec.json.encode(suite.as_json(result(), REQUEST)).decode(),
    "JSON of test --compare": lambda: msgspec.json.encode(
        suite.compared_as_json(compared(), REQUEST)
    ).decode(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_form_of_a_result_names_the_exact_release(name: str) -> None:
    assert _EXACT.search(OTHERS[name]())


def test_every_kind_of_result_is_among_them() -> None:
    kinds = {file.stem.partition("-")[0] for file in RESULTS}
    assert kinds == {"bench", "compare", "crash", "forecast", "probe", "report", "series", "tune"}
