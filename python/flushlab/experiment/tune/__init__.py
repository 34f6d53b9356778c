"""Tune: the experiment that finds the fastest settings at each floor and proves them.

`plan` says what is asked for, `tune` tells the story; `pool`, `rounds` and `budget` are what its steps share,
`screening`, `combination` and `reduction` are the steps, `experiment.confirmation` judges.
"""

from flushlab.experiment.tune.plan import TunePlan
from flushlab.experiment.tune.tune import Tune

__all__ = ["Tune", "TunePlan"]
