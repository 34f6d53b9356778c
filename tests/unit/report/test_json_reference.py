"""The references of documents are what the docstrings say, and these say something of every field."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import msgspec
import pytest

from flushlab.report.crash import CrashDocument

ROOT = Path(__file__).parents[3]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "json_reference.py"))
PAGES = {name: SCRIPT["render"](name) for name in SCRIPT["PAGES"]}


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_what_the_docstrings_say(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text()
    assert written == PAGES[name], "run .venv/bin/python scripts/json_reference.py"


@pytest.mark.parametrize("name", PAGES)
def test_every_field_has_a_meaning(name: str) -> None:
    assert re.findall(r"^\| `\S+` \|  \|$", PAGES[name], re.MULTILINE) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_type_that_is_named_has_its_table(name: str) -> None:
    named = set(re.findall(r"\]\(#(\w+)\)", PAGES[name]))
    assert named <= {title.lower() for title in re.findall(r"^## (\w+)$", PAGES[name], re.MULTILINE)}


def test_the_published_crash_document_has_the_fields_of_the_reference() -> None:
    published = json.loads((ROOT / "docs" / "data" / "crash-trx-commit.json").read_text())
    fields = {field.encode_name for field in msgspec.structs.fields(CrashDocument)}
    assert set(published) == {"schema", *fields}
