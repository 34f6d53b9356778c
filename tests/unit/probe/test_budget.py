from __future__ import annotations

from flushlab.probe.run import ProbeBudget


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def run(budget: ProbeBudget, clock: Clock, steps: int, overhead: float) -> list[float | None]:
    windows = []
    for step in range(steps):
        window = budget.window(step)
        windows.append(window)
        if window is not None:
            clock.now += window + overhead
    return windows


def test_windows_have_their_natural_length_where_there_is_time() -> None:
    clock = Clock()
    assert run(ProbeBudget(60, [1.0, 0.5, 1.0], clock), clock, 3, 0.1) == [1.0, 0.5, 1.0]


def test_without_a_limit_nothing_shrinks() -> None:
    clock = Clock()
    assert run(ProbeBudget(None, [2.0] * 3, clock), clock, 3, 30.0) == [2.0] * 3


def test_windows_shrink_alike_and_the_whole_keeps_the_limit() -> None:
    clock = Clock()
    budget = ProbeBudget(12, [1.0] * 15, clock)
    windows = run(budget, clock, 15, 0.1)
    assert None not in windows
    assert clock.now - 100.0 <= 12.0
    assert all(one is not None and 0.6 < one < 0.8 for one in windows)


def test_a_slow_disk_is_learnt_of_and_what_does_not_fit_is_counted() -> None:
    clock = Clock()
    budget = ProbeBudget(10, [1.0] * 10, clock)
    windows = run(budget, clock, 10, 1.5)
    assert budget.left_out == windows.count(None) > 0
    assert clock.now - 100.0 <= 10.0 + 1.5
    assert windows[-1] is None, "the last ones are left out, not the first"
    assert all(one is None or one >= 0.5 for one in windows)


def test_a_slow_preparation_leaves_nothing_out() -> None:
    clock = Clock()
    budget = ProbeBudget(10, [0.5] * 10, clock)
    assert budget.window(0) == 0.5
    clock.now += 0.5 + 3.0
    assert budget.window(1) is not None
    assert budget.left_out == 0
