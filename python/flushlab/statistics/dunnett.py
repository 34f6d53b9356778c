"""Critical values for comparing several arms with one base at once.

Sits at the bottom of `statistics`; pure. Promises values exact to four digits or better, by
quadrature, in a few milliseconds, and remembers them.

Sources:

- C. W. Dunnett, "A Multiple Comparison Procedure for Comparing Several Treatments with a Control", JASA 50
  (1955) 1096-1121.
- Two-sided tables: "New Tables for Multiple Comparisons with a Control", Biometrics 20 (1964) 482-491.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, nctdtrinc, ndtr, stdtrit

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
    """P(max |T_i| > critical) for `arms` studentised contrasts that share one variance estimate.

    Args:
        critical: the limit.
        arms: number of contrasts, at least 1.
        df: degrees of freedom of the variance, at least 1.
        correlation: of every pair of contrasts, in [0, 1); 1/2 when base and arms ran equally often.

    The contrasts are written as `sqrt(1 - rho) Z_i - sqrt(rho) Z_0`. So the probability is an integral over
    `Z_0` and over the scale of the variance estimate (Dunnett 1955, section 4).
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
    """The c with P(max |T_i| > c) = alpha: Dunnett's two-sided critical value.

    Args:
        alpha: probability that any of the intervals misses, in (0, 1).
        arms: number of arms compared with the base.
        df: degrees of freedom of the pooled variance.
        correlation: of every pair of contrasts.
    """
    from scipy.optimize import brentq  # takes 0.3 s to load, and most commands ask for no critical value

    assert 0 < alpha < 1
    # One contrast alone needs less, and contrasts that know nothing of each other (Bonferroni) need more.
    low, high = -float(stdtrit(df, alpha / 2)), -float(stdtrit(df, alpha / 2 / arms))

    def gap(critical: float) -> float:  # on a logarithm, on which it is nearly straight
        return math.log(max(exceedance(critical, arms, df, correlation), 1e-300) / alpha)

    return float(brentq(gap, 0.9 * low, 1.1 * high, rtol=1e-10))


@functools.lru_cache(maxsize=4096)
def shift_for_power(critical: float, df: int, power: float = POWER) -> float:
    """True difference, in standard errors, whose interval lies above 0 with the given power.

    That is the δ with P(T > critical) = power for Student's t with df degrees of freedom and
    non-centrality δ.
    """
    return float(nctdtrinc(df, 1 - power, critical))
