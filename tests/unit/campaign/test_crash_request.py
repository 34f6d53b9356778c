"""What a crash campaign is asked for and makes no sense is refused before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.campaign.crash.crash import crash
from flushlab.campaign.crash.request import require_sensible
from flushlab.errors import UsageError
from flushlab.spec.build import build
from flushlab.spec.kinds import CrashSpec


@pytest.mark.parametrize(
    ("asked", "complaint", "hint"),
    [
        ({"lying_flushes": -1}, "--lying-flushes -1 is out of range", "it takes 1 to 1000000"),
        ({"lying_flushes": 1 << 64}, "--lying-flushes 18446744073709551616 is", "it takes 1 to 1000000"),
        ({"disk_size": 10_000_000}, "--disk-size 10000000 is out of range", "it takes 256 to 65536"),
        ({"images": 100_000_000}, "--images 100000000 is out of range", "it takes 1 to 100000"),
        ({"seconds": 0.05}, "--seconds 0.05 is out of range", "it takes 0.2 to 600"),
        ({"seconds": 700.0}, "--seconds 700 is out of range", "it takes 0.2 to 600"),
        ({"seed": -1}, "--seed -1 is out of range", "it takes 0 to 999999999"),
        ({"seed": 1 << 60}, "--seed 1152921504606846976 is out of range", "it takes 0 to 999999999"),
        ({"fs": "zfs"}, "--fs: 'zfs' is not one of ext4, xfs, btrfs", ""),
    ],
)
def test_what_is_out_of_range_is_refused_as_it_was_typed(
    asked: dict[str, Any], complaint: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        crash(**asked)
    assert complaint in refused.value.message
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"fs": "xfs"}, "--fs needs a disk of its own"),
        ({"tear": 0}, "--tear needs a disk of its own"),
        ({"lying_flushes": 3}, "--lying-flushes needs a disk of its own"),
        ({"disk_size": 2048}, "--disk-size needs a disk of its own"),
        ({"disk_iops": 120}, "--disk-iops needs a disk of its own"),
        ({"disk": "gp3"}, "--disk needs a disk of its own"),
        ({"keep": "/records"}, "--keep needs a disk of its own"),
    ],
)
def test_what_is_asked_of_a_disk_is_refused_where_a_process_is_killed(
    asked: dict[str, Any], complaint: str
) -> None:
    require_sensible(build(CrashSpec, {**asked, "fail": "lying-disk"}))
    with pytest.raises(UsageError, match=complaint) as refused:
        require_sensible(build(CrashSpec, {**asked, "fail": "process"}))
    assert refused.value.hint


def test_flushes_are_skipped_only_by_a_disk_that_lies() -> None:
    with pytest.raises(UsageError, match="--lying-flushes is for --fail lying-disk, not power"):
        require_sensible(build(CrashSpec, {"lying_flushes": 3}))


def test_what_nobody_has_given_is_not_refused() -> None:
    require_sensible(build(CrashSpec, {"fail": "process"}))
