"""Duration: how long a trial will take, as far as it can be told before the first. Pure; in `campaign`."""

from __future__ import annotations

from flushlab.workload import Timing

OVERHEAD_S = 2.5
"""Seconds of a trial beside warm-up and window: restore, start, reading back, stop (measured: 2 to 4 s)."""
NODE_S = 3.0
"""As many for each further node of a cluster: its copy, its start, its stop (three nodes took 8.7 s in all on
two busy processors)."""

_ENDS_BY_ITSELF = ("sql:", "command:")
"""Workloads whose windows are as long as they take."""


def ends_by_itself(workload: str) -> bool:
    """Whether the length of a window shows only when it is over."""
    return workload.startswith(_ENDS_BY_ITSELF)


TURN_FACTOR, TURN_S = 1.1, 0.15
"""Of a trial on a standing server: what its slices take more than they measure, and telemetry (measured)."""
START_S = 8.0
"""Until the first trial: the server's settings are read, the machine is watched."""
STAND_S = 4.5
"""Until a server stands: restore, start, warm-up (measured on two busy processors)."""


SWITCH_S = 0.3
"""Of each slice on a cluster: the switch of every node, the lead, and until all nodes have applied it
(docs/decisions/0026-turns-on-clusters.md)."""


def trial_s(workload: str, timing: Timing, *, standing: bool = False, cluster: int | None = None) -> float:
    """Seconds of a trial; at least so many where its window ends by itself or has to outlast the redo log.

    Args:
        workload: as the user wrote it.
        timing: of the trial.
        standing: on a server that stands.
        cluster: nodes that a fresh cluster starts, or None.
    """
    if standing:
        return TURN_FACTOR * timing.seconds + TURN_S
    beside_s = OVERHEAD_S + NODE_S * ((cluster or 1) - 1)
    return beside_s if ends_by_itself(workload) else beside_s + timing.warm_up_s + timing.seconds
