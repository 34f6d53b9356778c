"""What others take of the machine: from counters, and as this machine has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.machine.others import Counters, between, parse_cpu_s, parse_disk_s, watch

STAT = """cpu  17904 120 4300 992011 1204 0 310 4151 77 0
cpu0 8900 60 2200 496000 600 0 200 2100 40 0
"""
DISK = "  262093   11208 31105778  133457  1203345  2216530 61406312  4203391        0  1702244  4412344\n"


def at(seconds: float, busy: float, steal: float, own: float, disk: float | None) -> Counters:
    return Counters(at_s=seconds, busy_s=busy, steal_s=steal, total_s=2 * seconds, own_s=own, disk_s=disk)


def test_shares_leave_out_what_flushlab_used_itself() -> None:
    seen = between(at(100, 50, 10, 1.0, 7.0), at(104, 56, 12, 4.0, 8.0))
    assert seen.seconds == 4
    assert seen.cpu_share == pytest.approx(3 / 8)
    assert seen.disk_share == pytest.approx(1 / 4)


def test_steal_is_a_share_of_the_time_in_which_a_processor_was_wanted() -> None:
    assert between(at(100, 50, 10, 1.0, None), at(104, 56, 12, 4.0, None)).steal_share == pytest.approx(2 / 8)


def test_a_disk_that_cannot_be_seen_is_unknown() -> None:
    assert between(at(100, 50, 10, 1.0, None), at(104, 56, 12, 4.0, None)).disk_share is None


def test_iowait_is_not_busy_and_old_kernels_have_no_steal() -> None:
    busy = 17904 + 120 + 4300 + 310
    assert parse_cpu_s(STAT, 100) == (busy / 100, 41.51, (busy + 992011 + 1204 + 4151) / 100)
    assert parse_cpu_s("cpu  10 0 5 85 0 0 0\n", 100) == (0.15, 0.0, 1.0)


def test_a_disks_busy_time_is_in_milliseconds() -> None:
    assert parse_disk_s(DISK) == 1702.244


def test_this_machine_can_be_watched(tmp_path: Path) -> None:
    seen = watch(0.05, tmp_path)
    assert seen.seconds >= 0.05
    shares = (seen.cpu_share, seen.steal_share, seen.disk_share or 0.0)
    assert all(0 <= share <= 1 for share in shares)
