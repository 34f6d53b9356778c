"""Whether servers fit in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.datadir import DataRoot, storage_of
from flushlab.suite import profile as module
from flushlab.suite.profile import GROWTH_BYTES, SERVER_BYTES, ChosenRoot, has_room, memory_for

MIB = 1 << 20


@pytest.mark.parametrize(("spare", "fits"), [(0, True), (-1, False)])
def test_servers_that_stand_by_leave_the_reserve_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int, fits: bool
) -> None:
    each = MIB + GROWTH_BYTES + SERVER_BYTES
    monkeypatch.setattr(module, "reserve_bytes", lambda: MIB)
    monkeypatch.setattr(module, "available_memory_bytes", lambda: 2 * each + MIB + spare)
    root = ChosenRoot(root=DataRoot(path=tmp_path, storage=storage_of(tmp_path)), in_memory=True)
    assert has_room(root, MIB, 2) is fits


def test_data_on_disk_take_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "reserve_bytes", lambda: MIB)
    monkeypatch.setattr(module, "available_memory_bytes", lambda: 2 * SERVER_BYTES + MIB)
    on_disk = ChosenRoot(root=DataRoot(path=tmp_path, storage=storage_of(tmp_path)), in_memory=False)
    assert memory_for(on_disk, MIB, 2) == 2 * SERVER_BYTES
    assert has_room(on_disk, MIB, 2)
    assert not has_room(on_disk, MIB, 3)
    assert not has_room(on_disk, 1 << 60, 1), "its disk is full"
