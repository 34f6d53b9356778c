"""How much others disturb: from counters, and as this machine has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.machine import MachineSample, between, sample
from flushlab.machine.pressure import parse_cpu_line, parse_disk_s, parse_stalled_us, taken, watch

STAT = """cpu  17904 120 4300 992011 1204 0 310 4151 77 0
cpu0 8900 60 2200 496000 600 0 200 2100 40 0
intr 5518235 0 0
ctxt 10250312
"""
PRESSURE = """some avg10=0.30 avg60=0.44 avg300=0.17 total=3036694
full avg10=0.00 avg60=0.00 avg300=0.00 total=12
"""


DISK = "  262093   11208 31105778  133457  1203345  2216530 61406312  4203391        0  1702244  4412344\n"


def at(
    seconds: float, steal: int, total: int, cpu: int | None = None, io: int | None = None
) -> MachineSample:
    return MachineSample(at_s=seconds, steal_s=steal, total_s=total, stalled_us={"cpu": cpu, "io": io})


def test_guest_time_is_not_counted_twice() -> None:
    assert parse_cpu_line(STAT)[1:] == (4151, 17904 + 120 + 4300 + 992011 + 1204 + 310 + 4151)


def test_iowait_is_not_busy_and_old_kernels_have_no_steal() -> None:
    assert parse_cpu_line(STAT)[0] == 17904 + 120 + 4300 + 310
    assert parse_cpu_line("cpu  10 0 5 85 0 0 0\n") == (15, 0, 100)


def test_stalled_time_is_the_some_lines_total() -> None:
    assert parse_stalled_us(PRESSURE) == 3036694
    assert parse_stalled_us("") is None


def test_shares_are_of_the_time_between_the_samples() -> None:
    pressure = between(
        at(10.0, 100, 1000, cpu=1_000_000, io=5_000_000), at(14.0, 140, 1800, cpu=2_000_000, io=5_000_000)
    )
    assert pressure.steal_share == pytest.approx(0.05)
    assert pressure.cpu_pressure_share == pytest.approx(0.25)
    assert pressure.io_pressure_share == 0.0


def test_kernel_without_pressure_gives_none_not_zero() -> None:
    pressure = between(at(0.0, 0, 0), at(1.0, 0, 200))
    assert pressure.cpu_pressure_share is None
    assert pressure.io_pressure_share is None


def test_two_samples_at_the_same_moment_share_nothing() -> None:
    assert between(at(1.0, 5, 10, 3, 3), at(1.0, 5, 10, 3, 3)).steal_share == 0.0


def test_counters_of_this_machine_only_grow() -> None:
    first, last = sample(), sample()
    assert last.total_s >= first.total_s > 0
    assert last.at_s >= first.at_s


def counted(seconds: float, busy: float, steal: float, own: float, disk: float | None) -> MachineSample:
    return MachineSample(
        at_s=seconds, busy_s=busy, steal_s=steal, total_s=2 * seconds, own_s=own, disk_s=disk
    )


def test_shares_leave_out_what_flushlab_used_itself() -> None:
    seen = taken(counted(100, 50, 10, 1.0, 7.0), counted(104, 56, 12, 4.0, 8.0))
    assert seen.seconds == 4
    assert seen.cpu_share == pytest.approx(3 / 8)
    assert seen.disk_share == pytest.approx(1 / 4)


def test_steal_is_a_share_of_the_time_in_which_a_processor_was_wanted() -> None:
    assert taken(
        counted(100, 50, 10, 1.0, None), counted(104, 56, 12, 4.0, None)
    ).steal_share == pytest.approx(2 / 8)


def test_a_disk_that_cannot_be_seen_is_unknown() -> None:
    assert taken(counted(100, 50, 10, 1.0, None), counted(104, 56, 12, 4.0, None)).disk_share is None


def test_a_disks_busy_time_is_in_milliseconds() -> None:
    assert parse_disk_s(DISK) == 1702.244


def test_this_machine_can_be_watched(tmp_path: Path) -> None:
    seen = watch(0.05, tmp_path)
    assert seen.seconds >= 0.05
    shares = (seen.cpu_share, seen.steal_share, seen.disk_share or 0.0)
    assert all(0 <= share <= 1 for share in shares)
