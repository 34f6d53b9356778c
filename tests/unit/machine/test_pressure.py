import pytest

from flushlab.machine import MachineSample, between, sample
from flushlab.machine.pressure import parse_cpu_line, parse_stalled_us

STAT = """cpu  17904 120 4300 992011 1204 0 310 4151 77 0
cpu0 8900 60 2200 496000 600 0 200 2100 40 0
intr 5518235 0 0
ctxt 10250312
"""
PRESSURE = """some avg10=0.30 avg60=0.44 avg300=0.17 total=3036694
full avg10=0.00 avg60=0.00 avg300=0.00 total=12
"""


def at(
    seconds: float, steal: int, total: int, cpu: int | None = None, io: int | None = None
) -> MachineSample:
    return MachineSample(
        at_s=seconds, steal_jiffies=steal, total_jiffies=total, cpu_stalled_us=cpu, io_stalled_us=io
    )


def test_guest_time_is_not_counted_twice() -> None:
    assert parse_cpu_line(STAT) == (4151, 17904 + 120 + 4300 + 992011 + 1204 + 310 + 4151)


def test_kernel_without_steal_has_none() -> None:
    assert parse_cpu_line("cpu  10 0 5 85 0 0 0\n") == (0, 100)


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
    assert last.total_jiffies >= first.total_jiffies > 0
    assert last.at_s >= first.at_s
