from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_settings_reference_is_what_the_catalog_says() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "settings_reference.py"))["render"]()
    written = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert written == page, "run .venv/bin/python scripts/settings_reference.py"
