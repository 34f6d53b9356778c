"""Limits: critical values, interim analyses, the bound of a proportion. Pure.

Critical values compare several arms with one base at once. They are exact to four digits or better, by
quadrature, in a few milliseconds, and remembered (C. W. Dunnett, JASA 50 (1955) 1096-1121; two-sided tables:
Biometrics 20 (1964) 482-491).

The intervals of *all* interim analyses hold together with probability 1 - alpha, so an interval stays valid
if the comparison stops at any analysis. The analyses are fixed before the first block. Up to analysis k at
the share t_k of the blocks, alpha t_k³ is spent. Most of alpha is spent late, so that the last interval is
little wider than that of a single analysis. The probability that an analysis adds is that of a miss there and
at no analysis before, by recursive integration. Student's limits are taken at the same levels. Sources:

- The spending function: K. Kim and D. L. DeMets, Biometrika 74 (1987) 149-154.
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
from scipy.special import betaincinv, chdtri, nctdtrinc, ndtr, stdtrit

from flushlab.record import Comparison, Ratio

POWER = 0.8
"""Probability with which the gain that is called detectable would have been found."""

_Floats = NDArray[np.float64]

_NODES_SHARED, _WEIGHTS_SHARED = np.polynomial.legendre.leggauss(64)
_NODES_SCALE, _WEIGHTS_SCALE = np.polynomial.legendre.leggauss(96)
_SHARED_LIMIT = 8.5
"""The shared normal deviate is integrated over ±8.5, beyond which lies 2e-17 of its mass."""


@functools.lru_cache(maxsize=256)
def _scale_rule(df: int) -> tuple[_Floats, _Floats]:
    """Nodes and weights for the scale s = sqrt(chi²(df) / df), integrated over log s.

    log s has a smooth density even where s itself piles up at 0 (few degrees of freedom). The small values
    of s decide the critical values for a small alpha.
    """
    low = 0.5 * math.log(max(float(chdtri(df, 1 - 1e-14)), 1e-300) / df)
    low = min(low, math.log(1e-14) / df)  # chdtri cannot tell 1 - 1e-14 precisely; s**df >= 1e-14 bounds it
    high = 0.5 * math.log(float(chdtri(df, 1e-16)) / df)
    x = 0.5 * (high - low) * _NODES_SCALE + 0.5 * (high + low)
    log_density = df * x - 0.5 * df * np.exp(2 * x)
    weights = 0.5 * (high - low) * _WEIGHTS_SCALE * np.exp(log_density - log_density.max())
    return np.exp(x), weights / weights.sum()


def exceedance(critical: float, arms: int, df: int, correlation: float = 0.5) -> float:
    """P(max |T_i| > critical) for contrasts `sqrt(1 - rho) Z_i - sqrt(rho) Z_0` that share one variance
    estimate: an integral over `Z_0` and over the scale of that estimate (Dunnett 1955, section 4).
    `correlation` is 1/2 when base and arms ran equally often.
    """
    assert arms >= 1 and df >= 1 and 0 <= correlation < 1
    scale, scale_weights = _scale_rule(df)
    shared = _SHARED_LIMIT * _NODES_SHARED
    shared_weights = _WEIGHTS_SHARED * np.exp(-0.5 * shared**2)
    shared_weights = shared_weights / shared_weights.sum()
    limit = (critical * scale)[:, None]
    shift = math.sqrt(correlation) * shared[None, :]
    width = math.sqrt(1 - correlation)
    outside = ndtr((-limit + shift) / width) + ndtr((-limit - shift) / width)
    any_outside = -np.expm1(arms * np.log1p(-np.minimum(outside, 1 - 1e-16)))
    return float(scale_weights @ any_outside @ shared_weights)


@functools.lru_cache(maxsize=4096)
def critical_value(alpha: float, arms: int, df: int, correlation: float = 0.5) -> float:
    """The c with P(max |T_i| > c) = alpha: Dunnett's two-sided critical value."""
    from scipy.optimize import brentq  # takes 0.3 s to load, and most commands ask for no critical value

    assert 0 < alpha < 1
    # One contrast alone needs less, and contrasts that know nothing of each other (Bonferroni) need more.
    low, high = -float(stdtrit(df, alpha / 2)), -float(stdtrit(df, alpha / 2 / arms))

    def gap(critical: float) -> float:  # on a logarithm, on which it is nearly straight
        return math.log(max(exceedance(critical, arms, df, correlation), 1e-300) / alpha)

    return float(brentq(gap, 0.9 * low, 1.1 * high, rtol=1e-10))


@functools.lru_cache(maxsize=4096)
def shift_for_power(critical: float, df: int, power: float = POWER) -> float:
    """The δ, in standard errors, with P(T > critical) = power for Student's t with df degrees of freedom and
    non-centrality δ."""
    return float(nctdtrinc(df, 1 - power, critical))


FIRST_BLOCKS = 3
"""Blocks before the first analysis: with fewer, the variance has too few degrees of freedom to stop on."""
FAMILY = 20
"""Levels are those of so many intervals at once; for four of them they are strict by 1 % of width."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)


class InterimAnalyses(msgspec.Struct, frozen=True, kw_only=True):
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
    """`shares` are of all information; `spent` is the probability that this interval or an earlier one
    misses."""
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


def upper_bound(seen: int, of: int, confidence: float = 0.95) -> float:
    """Bound of Clopper and Pearson (1934), one-sided; for nothing seen it is 1 - (1 - confidence)^(1/N),
    about 3/N."""
    assert 0 <= seen <= of, f"{seen} of {of}"
    if seen == of:
        return 1.0
    if seen == 0:
        return float(1 - (1 - confidence) ** (1 / of))
    return float(betaincinv(seen + 1, of - seen, confidence))
