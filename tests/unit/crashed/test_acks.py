"""Notes of acknowledged commits."""

from __future__ import annotations

import struct
from pathlib import Path

from flushlab.crashed.judge import Note, acknowledged_before, begun_after, commits_by_connection, read_notes

NOTES = [Note(1, 1, 10, 100), Note(2, 1, 12, 110), Note(1, 2, 20, 120)]


def test_notes_are_read_up_to_the_last_whole_one(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_bytes(b"".join(struct.pack("<QQQQ", *note) for note in NOTES) + b"half a note")
    assert read_notes(file) == NOTES


def test_no_file_has_no_notes(tmp_path: Path) -> None:
    assert read_notes(tmp_path / "notes") == []


def test_what_was_acknowledged_at_a_record_or_before_is_promised() -> None:
    assert commits_by_connection(acknowledged_before(NOTES, 20)) == {1: 2, 2: 1}
    assert commits_by_connection(acknowledged_before(NOTES, 19)) == {1: 1, 2: 1}
    assert commits_by_connection(acknowledged_before(NOTES, 9)) == {}


def test_the_first_acknowledgement_of_a_connection_may_be_of_what_was_synced_before() -> None:
    assert begun_after(NOTES, 20) == 0
    assert begun_after(NOTES, 11) == 0
    assert begun_after([*NOTES, Note(2, 2, 21, 130), Note(1, 3, 22, 140)], 11) == 2
