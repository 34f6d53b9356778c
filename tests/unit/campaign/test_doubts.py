"""Doubts about a whole campaign: what it says of the machine and of the data."""

from __future__ import annotations

import pytest

from flushlab.campaign.doubts import disturbed, doubts, too_busy
from tests.unit.records import trial

MIB = 1 << 20


@pytest.mark.parametrize(
    ("trials", "void", "said"),
    [
        (40, 31, "The machine was too busy: 31 of 40 trials disturbed"),
        (1, 1, "The machine was too busy: 1 of 1 trial disturbed"),
        (40, 9, ""),
        (0, 0, ""),
    ],
)
def test_a_quarter_of_the_trials_disturbed_is_the_machines_fault(trials: int, void: int, said: str) -> None:
    assert too_busy(trials, void) == said


def test_only_void_trials_were_disturbed() -> None:
    assert disturbed([trial(), trial(outcome="void"), trial(outcome="failed")]) == 1


def fits(redo_bytes: int) -> str:
    (found,) = doubts(
        [], [], data_bytes=21 * MIB, pool_bytes=128 * MIB, redo_bytes=redo_bytes, disk_iops=None
    )
    return found.text


def test_data_that_fits_in_the_pool_is_explained_to_the_reader() -> None:
    assert fits(redo_bytes=16 * MIB) == (
        "all data (21 MiB) fits in the buffer pool (128 MiB), so settings that speed up reads can show no "
        "gain here. If yours does not fit, your gains will differ."
    )
    assert "I/O settings can show no gain here" in fits(redo_bytes=96 * MIB)
