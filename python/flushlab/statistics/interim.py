"""Interim analyses: when a comparison may be judged, and how much of its error rate each judgement spends.

Sits beside `comparison` in `statistics`; pure. Promises that the intervals of *all* looks hold together
with probability 1 - alpha, so an interval reported after stopping at any look is honest.

Looks are fixed before the first block. Up to look k at the share t_k of the blocks, alpha t_k³ is spent
(K. Kim and D. L. DeMets, "Design and analysis of group sequential tests based on the type I error spending
rate function", Biometrika 74 (1987) 149-154; spending functions: K. K. G. Lan and D. L. DeMets, Biometrika 70
(1983) 659-663): late, so that the last look is little wider than one alone. What a look adds is what misses
there and at no look before, by recursive integration (P. Armitage, C. K. McPherson and B. C. Rowe, J. R.
Stat. Soc. A 132 (1969) 235-244); Student's limits are taken at the same levels (C. Jennison and B. W.
Turnbull, *Group Sequential Methods*, 2000, section 3.3).
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

FIRST_LOOK_BLOCKS = 3
"""Blocks before the first look: with fewer, the variance has too few degrees of freedom to stop on."""
FAMILY = 20
"""Levels are those of so many intervals at once; for four of them they are strict by 1 % of width."""
_Floats = NDArray[np.float64]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)


class InterimAnalyses(msgspec.Struct, frozen=True, kw_only=True):
    """The fixed schedule of one comparison.

    Attributes:
        blocks: number of finished blocks at each look, increasing; the last is the most there will be.
        alpha: probability that any interval of any look misses.
    """

    blocks: tuple[int, ...]
    alpha: float = 0.05

    @classmethod
    def planned(cls, blocks: int, alpha: float = 0.05) -> InterimAnalyses:
        """Looks after a quarter, half, three quarters and all of `blocks`, none before the third block."""
        assert blocks >= 2
        quarters = {math.ceil(blocks * quarter / 4) for quarter in (1, 2, 3, 4)}
        kept = sorted(b for b in quarters if b >= FIRST_LOOK_BLOCKS or b == blocks)
        return cls(blocks=tuple(kept), alpha=alpha)

    def alpha_at(self, blocks: int) -> float:
        """What the look after `blocks` blocks may spend.

        `blocks` need not be a planned look if the schedule is cut short there for a reason that has
        nothing to do with the figures (no time left): it then spends all that is left.
        """
        earlier = [b for b in self.blocks if b < blocks]
        last = 1.0 if blocks not in self.blocks else (blocks / self.blocks[-1]) ** 3
        shares = tuple(b / self.blocks[-1] for b in (*earlier, blocks))
        spent = (*((b / self.blocks[-1]) ** 3 for b in earlier), last)
        return FAMILY * _levels(shares, tuple(self.alpha / FAMILY * one for one in spent))[-1]


@functools.lru_cache(maxsize=256)
def _levels(shares: tuple[float, ...], spent: tuple[float, ...]) -> tuple[float, ...]:
    """The level of every look's interval, for one estimate.

    Args:
        shares: of all information, at each look.
        spent: probability that the interval of this look or of one before misses.
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


def held(looks: Iterable[Comparison]) -> Comparison:
    """What the looks at one comparison prove together: the last one, with the intersection of all intervals.

    All intervals hold at once, so their intersection does: it only narrows, and what was proven stays proven.
    Where a look and those before it exclude each other, the machine did what no interval allows for. Then the
    interval spans both, never narrows again, and is marked `contradicted`.
    """
    first, *later = looks
    now = first
    for look in later:
        low, high = max(now.ratio.low, look.ratio.low), min(now.ratio.high, look.ratio.high)
        contradicted = now.contradicted or low > high
        if contradicted:
            low, high = min(now.ratio.low, look.ratio.low), max(now.ratio.high, look.ratio.high)
        ratio = Ratio(estimate=min(max(look.ratio.estimate, low), high), low=low, high=high)
        now = msgspec.structs.replace(look, ratio=ratio, verdict=ratio.verdict, contradicted=contradicted)
    return now
