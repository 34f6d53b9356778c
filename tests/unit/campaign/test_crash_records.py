"""Records that an earlier session has kept are found again, and stumps are removed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from flushlab.campaign.crash import records
from flushlab.campaign.crash.records import record_of, remove_stumps
from flushlab.crashed.cluster_recorded import ClusterRun
from flushlab.machine import ownership
from tests.unit.campaign.test_crash_replay import record


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
    monkeypatch.setattr(records, "remove_record", lambda folder: removed.append(folder.name))
    remove_stumps(tmp_path, "mine")
    assert removed == ["stump.record", "without a load yet.record"]
    assert record_of(tmp_path, "mine") == tmp_path / "whole.record"


def test_the_records_of_a_cluster_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ClusterRun(
        build="b",
        settings={},
        arguments=(),
        disks=("d1",),
        datadirs=("x",),
        fs="ext4",
        first_ns=0,
        last_ns=9,
        rows=1,
        database="d",
        commits_per_s=1.0,
    )
    marked(tmp_path / "a node's, not whole.record", "mine")
    whole = marked(tmp_path / "whole.record", "mine")
    (whole / "cluster.json").write_bytes(msgspec.json.encode(run))
    removed: list[str] = []
    monkeypatch.setattr(records, "remove_record", lambda folder: removed.append(folder.name))
    remove_stumps(tmp_path, "mine")
    assert removed == ["a node's, not whole.record"]
    assert record_of(tmp_path, "mine") == whole


def marked(folder: Path, arm: str) -> Path:
    """The folder of a record, as a disk makes it."""
    ownership.make(str(folder), {"what": "disk-record", "token": ownership.new_token(), "arm": arm})
    return folder
