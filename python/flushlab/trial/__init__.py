"""Trial: one run of a workload on one server under one arm, from snapshot to record."""

from flushlab.trial.alternating import AlternatingRunner
from flushlab.trial.dataset import Dataset
from flushlab.trial.measurement import REDO_WRAPS, Draft, measure
from flushlab.trial.preparation import Preparation
from flushlab.trial.runner import TrialRunner

__all__ = ["REDO_WRAPS", "AlternatingRunner", "Dataset", "Draft", "Preparation", "TrialRunner", "measure"]
