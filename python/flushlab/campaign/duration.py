"""Duration: how long a trial will take, as far as it can be told before the first. Pure; in `campaign`."""

from __future__ import annotations

from flushlab.workload import Timing

OVERHEAD_S = 2.5
"""Seconds of a trial beside warm-up and window: restore, start, reading back, stop (measured: 2 to 4 s)."""

_ENDS_BY_ITSELF = ("sql:", "command:")
"""Workloads whose windows are as long as they take."""


def ends_by_itself(workload: str) -> bool:
    """Whether the length of a window shows only when it is over."""
    return workload.startswith(_ENDS_BY_ITSELF)


TURN_FACTOR, TURN_S = 1.1, 0.15
"""Of a trial on a standing server: what its slices take more than they measure, and telemetry (measured)."""
STAND_S = 4.5
"""Until a server stands: restore, start, warm-up (measured on two busy processors)."""


def trial_s(workload: str, timing: Timing, *, standing: bool = False) -> float:
    """Seconds of a trial; at least so many where its window ends by itself or has to outlast the redo log."""
    if standing:
        return TURN_FACTOR * timing.seconds + TURN_S
    return OVERHEAD_S if ends_by_itself(workload) else OVERHEAD_S + timing.warm_up_s + timing.seconds
