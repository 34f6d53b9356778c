"""Every JSON document has its schema in the reference; those without structs have their fields there too."""

from __future__ import annotations

import re
from pathlib import Path

import flushlab
from flushlab.cli import settings
from flushlab.settings.catalog import load_catalog
from tests.unit.documents import DOCS

PACKAGE = Path(flushlab.__file__).parent
OTHER = (DOCS / "reference" / "other-json.md").read_text(encoding="utf-8")


def test_every_schema_is_in_the_reference() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py")))
    schemas = set(re.findall(r'"(flushlab\.[a-z-]+/\d+)"', sources))
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md")))
    assert len(schemas) > 15
    assert {one for one in schemas if f"`{one}`" not in pages} == set()


def test_fields_of_a_setting_are_named() -> None:
    document = settings._document(load_catalog().setting("sync_binlog"))
    versions = document["versions"]
    assert isinstance(versions, list)
    for field in {*document, *versions[0]}:
        assert re.search(rf"`{field}(?:\[\])?`", OTHER), field
