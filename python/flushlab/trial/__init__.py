"""Trial: one run of a workload on one server under one arm, from snapshot to record."""

from flushlab.trial.measurement import (
    REDO_WRAPS,
    VOID_FOREIGN_CPU_SHARE,
    VOID_STEAL_SHARE,
    Draft,
    measure,
)
from flushlab.trial.preparation import Preparation
from flushlab.trial.runner import AlternatingRunner, ArmRunner, RemoteRunner, TrialRunner
from flushlab.trial.standing import StandingRunner

__all__ = [
    "REDO_WRAPS",
    "VOID_FOREIGN_CPU_SHARE",
    "VOID_STEAL_SHARE",
    "AlternatingRunner",
    "ArmRunner",
    "Draft",
    "Preparation",
    "RemoteRunner",
    "StandingRunner",
    "TrialRunner",
    "measure",
]
