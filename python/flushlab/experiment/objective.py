"""Objective: what a trial is scored by.

Sits in `experiment`; pure. Promises a score in log units in which more is better, whatever the unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean
from typing import Literal

from flushlab.errors import MeasurementError
from flushlab.record import Trial

Objective = Literal["throughput", "p99"]

STALL_SHARE_OF_MEDIAN = 0.1
"""A second with less than this share of the window's median throughput is a stalled second."""


def score(trials: Iterable[Trial], objective: Objective = "throughput") -> float:
    """Mean log score of one cell, over its workload variants and the attempts at each: a geometric mean.

    Raises:
        MeasurementError: a figure is not above 0, or the objective is p99 and there is no latency.
    """
    scores: dict[int, list[float]] = {}
    for trial in trials:
        scores.setdefault(trial.variant, []).append(_score(trial, objective))
    return fmean(map(fmean, scores.values()))


def _score(trial: Trial, objective: Objective) -> float:
    if objective == "p99":
        latency = p99_us(trial)
        if latency is None and trial.load is not None:
            latency = trial.load.seconds * 1e6  # no event ended in it, so each of them took longer
        if latency is None:
            raise MeasurementError(
                f"the workload of {trial.arm.name!r} reports no latency, so p99 can't be the objective",
                hint="use --objective throughput with commands",
            )
        return -math.log(latency)
    if trial.figure is None or not trial.figure > 0:
        raise MeasurementError(f"{trial.arm.name!r} yielded {trial.figure} {trial.unit}: nothing to compare")
    return math.log(trial.figure) if trial.higher_is_better else -math.log(trial.figure)


def is_stalled(trials: Iterable[Trial]) -> bool:
    """Whether nothing was committed in the window of any trial of a cell."""
    return any(trial.load is not None and trial.load.is_stall for trial in trials)


def p99_us(trial: Trial) -> float | None:
    """99th percentile of the latency in microseconds, or None where the workload has none."""
    if trial.load is None or trial.load.latency_us is None:
        return None
    return float(max(trial.load.latency_us.p99, 1))


def redo_rate(trial: Trial) -> float | None:
    """Bytes of redo per second of the window, or None where the server does not tell."""
    before, after = trial.before, trial.after
    if before is None or after is None or not trial.seconds.get("window"):
        return None
    if before.redo_written_bytes is None or after.redo_written_bytes is None:
        return None
    return (after.redo_written_bytes - before.redo_written_bytes) / trial.seconds["window"]


def stall_share(trial: Trial) -> float | None:
    """Share of the window's seconds that were stalled, or None where there is no series."""
    if trial.load is None or not trial.load.per_second:
        return None
    series = sorted(trial.load.per_second)
    median = series[len(series) // 2]
    if not series[-1]:
        return 1.0
    return sum(1 for events in series if events < STALL_SHARE_OF_MEDIAN * median) / len(series)
