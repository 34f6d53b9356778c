"""Statistics: pure; comparisons with intervals that survive stopping early, and estimates for screening.

numpy and scipy load here, so only the commands that compare import this folder.
"""

from flushlab.statistics import one_thread as one_thread  # loads numpy, hence before the others
from flushlab.statistics.comparison import RESOLUTION, Contrasts, Scores, compare, contrasts
from flushlab.statistics.factors import Effects, estimate_effects, factor_effects
from flushlab.statistics.limits import InterimAnalyses, critical_value, exceedance, held, shift_for_power
from flushlab.statistics.machines import RatioTable
