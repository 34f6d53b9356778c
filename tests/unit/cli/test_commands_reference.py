"""docs/reference/commands.md is what the declaration of the command line says."""

from __future__ import annotations

import runpy

from tests.unit.documents import DOCS, ROOT


def test_the_commands_reference_is_current() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "commands_reference.py"))["render"]()
    written = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    assert written == page, "run .venv/bin/python scripts/commands_reference.py"
