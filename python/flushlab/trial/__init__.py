"""Trial: one run of a workload on one server under one arm, from snapshot to record."""

from flushlab.trial.measurement import (
    DISCARD_FOREIGN_CPU_SHARE,
    DISCARD_STEAL_SHARE,
    REDO_WRAPS,
    Draft,
    measure,
)
from flushlab.trial.runner import AlternatingRunner, ArmRunner, Preparation, RemoteRunner, TrialRunner
from flushlab.trial.sliced import SlicedRunner

__all__ = [
    "DISCARD_FOREIGN_CPU_SHARE",
    "DISCARD_STEAL_SHARE",
    "REDO_WRAPS",
    "AlternatingRunner",
    "ArmRunner",
    "Draft",
    "Preparation",
    "RemoteRunner",
    "SlicedRunner",
    "TrialRunner",
    "measure",
]
