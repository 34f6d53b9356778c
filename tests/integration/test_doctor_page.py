"""The page of a diagnosis in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flushlab.report import doctor, html
from tests.chromium import Chromium
from tests.unit.diagnosis.half_minute import half_minute

pytestmark = [
    pytest.mark.skipif(Chromium.found() is None, reason="no chromium (Debian: apt-get install chromium)"),
    pytest.mark.xdist_group("chromium"),
]

WIDE = """
[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth).map(
  one => one.innerText)
"""
BESIDE = """
[...document.querySelectorAll('table.stacks tbody tr')].map(
  row => row.children[0].getBoundingClientRect().right <= row.children[1].getBoundingClientRect().left)
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "doctor.html"
    path.write_text(html.render(doctor.document(half_minute())))
    return path.as_uri()


def test_on_a_telephone_no_table_scrolls_sideways(browser: Chromium, url: str) -> None:
    browser.open(url, width=400)
    assert browser.run(WIDE) == []
    assert browser.run("document.documentElement.scrollWidth") <= 400


def test_on_a_desk_evidence_has_its_statement_beside_it(browser: Chromium, url: str) -> None:
    browser.open(url, width=1200)
    beside = browser.run(BESIDE)
    assert beside and all(beside)
