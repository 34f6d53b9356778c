"""Tune: the experiment that finds the fastest settings at each floor and proves them.

`plan` says what is asked for, `tune` tells the story; `pool` and `budget` are what its steps share; the steps
are in `screening` and `reduction`, and `confirmation` judges.
"""

from flushlab.experiment.tune.tune import Tune
from flushlab.experiment.tune_plan import Guards, TunePlan
