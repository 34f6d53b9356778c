"""Interim analyses: when a comparison may be judged, and how much of its error rate each analysis spends.

Sits beside `comparison` in `statistics`; pure. Promises that the intervals of *all* analyses hold together
with probability 1 - alpha, so an interval stays valid if the comparison stops at any analysis.

The analyses are fixed before the first block. Up to analysis k at the share t_k of the blocks, alpha t_k³ is
spent. Most of alpha is spent late, so that the interval of the last analysis is little wider than that of a
single analysis. The probability that an analysis adds is that of a miss there and at no analysis before, by
recursive integration. Student's limits are taken at the same levels.

Sources:

- The spending function: K. Kim and D. L. DeMets, "Design and analysis of group sequential tests based on the
  type I error spending rate function", Biometrika 74 (1987) 149-154.
- Spending functions: K. K. G. Lan and D. L. DeMets, Biometrika 70 (1983) 659-663.
- Recursive integration: P. Armitage, C. K. McPherson and B. C. Rowe, J. R. Stat. Soc. A 132 (1969) 235-244.
- Student's limits: C. Jennison and B. W. Turnbull, *Group Sequential Methods*, 2000, section 3.3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from flushlab.record import Comparison, Ratio

FIRST_BLOCKS = 3
"""Blocks before the first analysis: with fewer, the variance has too few degrees of freedom to stop on."""
FAMILY = 20
"""Levels are those of so many intervals at once; for four of them they are strict by 1 % of width."""
_Floats = NDArray[np.float64]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)


class InterimAnalyses(msgspec.Struct, frozen=True, kw_only=True):
    """The fixed schedule of one comparison.

    Attributes:
        blocks: number of finished blocks at each analysis, increasing; the last is the largest possible.
        alpha: probability that any interval of any analysis misses.
    """

    blocks: tuple[int, ...]
    alpha: float = 0.05

    @classmethod
    def planned(cls, blocks: int, alpha: float = 0.05) -> InterimAnalyses:
        """Analyses after a quarter, half, three quarters and all of `blocks`, none before the third block."""
        assert blocks >= 2
        quarters = {math.ceil(blocks * quarter / 4) for quarter in (1, 2, 3, 4)}
        kept = sorted(b for b in quarters if b >= FIRST_BLOCKS or b == blocks)
        return cls(blocks=tuple(kept), alpha=alpha)

    def alpha_at(self, blocks: int) -> float:
        """Share of alpha that the analysis after `blocks` blocks may spend.

        `blocks` need not be in the schedule if the schedule is cut short there for a reason that has
        nothing to do with the results (no time left). The analysis then spends all of alpha that is left.
        """
        earlier = [b for b in self.blocks if b < blocks]
        last = 1.0 if blocks not in self.blocks else (blocks / self.blocks[-1]) ** 3
        shares = tuple(b / self.blocks[-1] for b in (*earlier, blocks))
        spent = (*((b / self.blocks[-1]) ** 3 for b in earlier), last)
        return FAMILY * _levels(shares, tuple(self.alpha / FAMILY * one for one in spent))[-1]


@functools.lru_cache(maxsize=256)
def _levels(shares: tuple[float, ...], spent: tuple[float, ...]) -> tuple[float, ...]:
    """The level of each analysis's interval, for one estimate.

    Args:
        shares: of all information, at each analysis.
        spent: probability that the interval of this analysis or of an earlier one misses.
    """
    from scipy.optimize import brentq  # as in `dunnett`

    levels: list[float] = []
    place, density, before, already = np.zeros(1), np.ones(1), 0.0, 0.0  # of the sum, while all held
    for share, by_now in zip(shares, spent, strict=True):
        end, step = math.sqrt(share), math.sqrt(share - before)
        limit = float(brentq(_missing, 0.1, 12.0, (by_now - already, end, step, place, density)))
        levels.append(2 * float(ndtr(-limit)))
        nodes = end * limit * _NODES
        steps = np.exp(-0.5 * ((nodes[:, None] - place) / step) ** 2) / (step * math.sqrt(math.tau))
        place, density = nodes, (steps @ density) * end * limit * _WEIGHTS
        before, already = share, by_now
    return tuple(levels)


def _missing(limit: float, less: float, end: float, step: float, place: _Floats, density: _Floats) -> float:
    """Probability, less so much, that a sum that was at a place goes beyond the limit in this step."""
    beyond = ndtr((-end * limit - place) / step) + ndtr((place - end * limit) / step)
    return float(density @ beyond) - less


def held(analyses: Iterable[Comparison]) -> Comparison:
    """The last of the analyses of one comparison, with the intersection of all their intervals.

    All intervals hold at once, so their intersection holds too: it only narrows, and a proven claim stays
    proven. If an analysis and those before it exclude each other, the machine changed in a way that no
    interval allows for. Then the interval spans both, never narrows again, and is marked `contradicted`.
    """
    first, *later = analyses
    now = first
    for one in later:
        low, high = max(now.ratio.low, one.ratio.low), min(now.ratio.high, one.ratio.high)
        contradicted = now.contradicted or low > high
        if contradicted:
            low, high = min(now.ratio.low, one.ratio.low), max(now.ratio.high, one.ratio.high)
        ratio = Ratio(estimate=min(max(one.ratio.estimate, low), high), low=low, high=high)
        now = msgspec.structs.replace(one, ratio=ratio, verdict=ratio.verdict, contradicted=contradicted)
    return now
