"""Whether a process does anything."""

from __future__ import annotations

import os
from pathlib import Path

from flushlab.server.sandbox.starting import Activity, ProcessCounters, of_process


def watched(*done: ProcessCounters | None, idle_s: float = 60.0) -> list[bool]:
    """Whether it is idle, asked every ten seconds; what it has done by then."""
    seconds = iter(range(0, 10_000, 10))
    values = iter(done)
    activity = Activity(lambda: next(values), idle_s, lambda: float(next(seconds)))
    return [activity.idle() for _ in done[1:]]


STILL = ProcessCounters(cpu_s=1.0, io_bytes=500, log_bytes=80)


def test_who_waits_for_ever_is_idle_though_it_looks_whether_there_is_something_to_do() -> None:
    waits = [STILL._replace(cpu_s=1.0 + 0.02 * number) for number in range(7)]  # as MySQL 9.7 does
    assert watched(*waits) == [False] * 5 + [True]


def test_a_pause_of_the_machine_makes_nobody_idle() -> None:
    seconds = iter([0.0, 10.0, 20.0, 620.0, 621.0, 630.0, 645.0, 655.0])
    activity = Activity(lambda: STILL, 60.0, lambda: next(seconds))
    assert [activity.idle() for _ in range(7)] == [False] * 6 + [True]


def test_who_computes_reads_or_says_something_is_not_idle() -> None:
    for change in ({"cpu_s": 3.0}, {"io_bytes": 501}, {"log_bytes": 81}):
        later = STILL._replace(**change)
        assert watched(*[STILL] * 4, *[later] * 6) == [False] * 9, change
        assert watched(*[STILL] * 4, *[later] * 7)[-1], change


def test_who_only_computes_for_five_times_as_long_turns_in_circles() -> None:
    seconds = iter(range(0, 10_000, 10))
    computed = iter(range(1000))
    activity = Activity(
        lambda: STILL._replace(cpu_s=3.0 * next(computed)), 60.0, lambda: float(next(seconds))
    )
    assert [activity.idle() for _ in range(30)] == [False] * 29 + [True]
    assert activity.words == "has read, written and said nothing for 300 s"


def test_nobody_is_idle_whose_input_and_output_are_hidden() -> None:
    assert watched(*[STILL._replace(io_bytes=None)] * 20) == [False] * 19


def test_the_kernel_and_the_log_tell_what_a_process_has_done(tmp_path: Path) -> None:
    (log := tmp_path / "log").write_text("ready")
    done = of_process(os.getpid(), log)
    assert done is not None
    assert done.cpu_s > 0
    assert done.log_bytes == 5
    assert of_process(2**22 + 1, log) is None
