"""Experiment: pure ask/tell planners; deterministic in their plan and the records told."""

from flushlab.experiment.blocks import BASE, CONTROL, Blocks, BlocksPlan, run_block
from flushlab.experiment.confirmation import Guards
from flushlab.experiment.frontier import Dropped, Excluded, FrontierPoint, Rejected, TuneResult
from flushlab.experiment.objective import Objective, p99_us, score, stall_share
from flushlab.experiment.protocol import Experiment, Progress, Request
from flushlab.experiment.tune import Tune, TunePlan

__all__ = [
    "BASE",
    "CONTROL",
    "Blocks",
    "BlocksPlan",
    "Dropped",
    "Excluded",
    "Experiment",
    "FrontierPoint",
    "Guards",
    "Objective",
    "Progress",
    "Rejected",
    "Request",
    "Tune",
    "TunePlan",
    "TuneResult",
    "p99_us",
    "run_block",
    "score",
    "stall_share",
]
