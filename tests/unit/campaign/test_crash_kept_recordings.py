"""Records that an earlier session has kept are found again, and stumps are removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.campaign.crash import runner
from flushlab.campaign.crash.runner import record_of, remove_stumps
from flushlab.crashed.judge import Note, packed_note, read_notes
from flushlab.crashed.recording import RecordedNode, RecordedRun
from flushlab.crashed.recovered_server import AcksTable
from flushlab.machine import ownership
from tests.unit.campaign.test_crash_replay import record
from tests.unit.crashed.test_cluster_recorded import disk


def test_a_record_that_was_cut_short_too_soon_is_removed_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = {"stump": ("mine", False), "whole": ("mine", True), "other": ("another", False)}
    for name, (arm, whole) in begun.items():
        record(marked(tmp_path / f"{name}.record", arm), 7, whole=whole)
    (tmp_path / "nobodys.record").mkdir()
    marked(tmp_path / "without a load yet.record", "mine")
    marked(tmp_path / "nor of another.record", "another")
    record(marked(tmp_path / "newer.record", "mine"), 7, whole=False)
    (tmp_path / "newer.record/record.json").write_text('{"version": 2, "size": 4096}')
    removed: list[str] = []
    monkeypatch.setattr(runner, "remove_record", lambda folder: removed.append(folder.name))
    remove_stumps(tmp_path, "mine")
    assert removed == ["stump.record", "without a load yet.record"]
    assert record_of(tmp_path, "mine") == tmp_path / "whole.record"


@pytest.mark.parametrize(("seconds", "found"), [(9, True), (0, False)])
def test_the_records_of_a_cluster_are_found_again_even_if_they_were_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, found: bool
) -> None:
    run = RecordedRun(
        build="b",
        settings={},
        arguments=(),
        nodes=tuple(RecordedNode(disk=f"{name}.record", datadir="x") for name in ("one", "two")),
        fs="ext4",
        acks=AcksTable("d", 1),
        whole=False,
    )
    marked(tmp_path / "begun.record", "mine")
    cut = marked(tmp_path / "cut short.record", "mine")
    run.write(cut)
    for number, node in enumerate(run.nodes):
        disk(cut / node.disk, [(100 + number + second) * 1_000 for second in range(seconds)])
    (cut / "notes").write_bytes(packed_note(Note(1, 1, 0, 101_000)))
    removed: list[str] = []
    monkeypatch.setattr(runner, "remove_record", lambda folder: removed.append(folder.name))
    remove_stumps(tmp_path, "mine")
    assert removed == ["begun.record", *([] if found else ["cut short.record"])]
    assert record_of(tmp_path, "mine") == (cut if found else None)
    if found:
        whole = run.completed(cut, read_notes(cut / "notes"))
        assert (whole.first, whole.last, whole.ended_ns) == (101_000, 108_000, 108_000)


def marked(folder: Path, arm: str) -> Path:
    """The folder of a record, as a disk makes it."""
    ownership.make(str(folder), {"what": "disk-record", "token": ownership.new_token(), "arm": arm})
    return folder
