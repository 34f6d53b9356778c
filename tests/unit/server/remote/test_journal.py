"""Entries of the journal: an entry without a known author is reported and left where it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flushlab.machine import state
from flushlab.server.remote import journal

AUTHOR = journal.JournalEntry.__struct_fields__


def entry_without(field: str) -> Path:
    path = state() / "changes" / "one.json"
    journal.write(path, journal.JournalEntry(**journal.this_author()), new=True, without="nothing")
    kept = {name: value for name, value in json.loads(path.read_bytes()).items() if name != field}
    path.write_text(json.dumps(kept))
    return path


@pytest.mark.parametrize("field", AUTHOR)
def test_an_entry_without_its_author_is_reported_and_is_nobodys(private_home: object, field: str) -> None:
    path, said = entry_without(field), list[str]()
    assert list(journal.left_entries("changes", journal.JournalEntry, said.append)) == []
    (line,) = said
    assert line.startswith(f"{path} cannot be read (Object missing required field `{field}`)")
    assert path.exists()
