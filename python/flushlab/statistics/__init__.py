"""Statistics: pure; comparisons with intervals that survive stopping early, and estimates for screening.

numpy and scipy load here, so only the commands that compare import this folder.
"""

from flushlab.statistics import one_thread as one_thread  # loads numpy, hence before the others
from flushlab.statistics.comparison import RESOLUTION, Contrasts, Scores, compare, contrasts
from flushlab.statistics.factors import Effects, estimate_effects, factor_effects
from flushlab.statistics.limits import InterimAnalyses, critical_value, exceedance, held, shift_for_power
from flushlab.statistics.machines import (
    Machines,
    compare_over,
    detectable_over,
    effects_over,
    over_machines,
)

__all__ = [
    "RESOLUTION",
    "Contrasts",
    "Effects",
    "InterimAnalyses",
    "Machines",
    "Scores",
    "compare",
    "compare_over",
    "contrasts",
    "critical_value",
    "detectable_over",
    "effects_over",
    "estimate_effects",
    "exceedance",
    "factor_effects",
    "held",
    "over_machines",
    "shift_for_power",
]
