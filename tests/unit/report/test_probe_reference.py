"""docs/reference/probe-json.md names every caveat, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "probe-json.md").read_text()


def section(title: str) -> str:
    """From a heading to the next one."""
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def fields(table: str) -> set[str]:
    """Names in the first column of a table, `[]` left out."""
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {name.removesuffix("[]") for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_page_names_every_caveat() -> None:
    sources = [ROOT / "python/flushlab/probe" / f"{name}.py" for name in ("disk", "run", "against")]
    told = {slug for source in sources for slug in re.findall(r'Warning\(\s*"([a-z-]+)"', source.read_text())}
    assert len(told) >= 12
    assert fields(section("Caveats")) == told
