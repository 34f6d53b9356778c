"""Effects of factors that were crossed: every combination of them is an arm, measured in the same blocks.

Sits in `statistics`, on `comparison`; pure. Promises intervals that hold for all effects of a factorial at
once with probability 1 - alpha. The variances are those of `comparison.compare`. From `OWN_BLOCKS` blocks on
each effect has its own variance, by linearisation of the arms' sums; with fewer blocks all arms share one.

With k factors an effect weighs each of the 2^k arms alike, with the signs of F. Yates, *The Design and
Analysis of Factorial Experiments*, Imperial Bureau of Soil Science, Technical Communication 35 (1937). The
effects are uncorrelated where arms have one variance, so the limit is the studentised maximum modulus,
`critical_value` at correlation 0; with variances of their own it is Šidák's. An interaction here is a ratio
of ratios (Yates has half its logarithm).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from flushlab.record import FactorEffect
from flushlab.statistics.comparison import (
    OWN_BLOCKS,
    RESOLUTION,
    Cells,
    Scores,
    contrasts,
    exp,
    ratio_within,
)
from flushlab.statistics.dunnett import critical_value, shift_for_power

Combination = tuple[str, ...]
_Floats = NDArray[np.float64]


def factor_effects(
    scores: Scores,
    arms: Mapping[Combination, str],
    *,
    alpha: float = 0.05,
    twin: str = "",
    apart: Collection[str] = (),
) -> tuple[FactorEffect, ...]:
    """Main effects, then interactions.

    Args:
        scores: per arm and block.
        arms: the arm of each combination of factors; the base has none of them.
        alpha: probability that any of the intervals misses.
        twin: the arm that is the base once more: from `OWN_BLOCKS` blocks on the base is the mean of both.
        apart: arms that stalled for a whole window, as of `compare`.

    Returns:
        Nothing where a combination was not measured, or fewer than two blocks have all of them.
    """
    base = arms[()]
    rows = [scores.get(arm, {}) for arm in arms.values()]
    blocks = sorted(functools.reduce(operator.and_, (set(cells) for cells in rows)))
    calm = {arm: cells for arm, cells in scores.items() if arm in arms.values() or arm not in apart}
    if len(blocks) < 2 or (pooled := contrasts(calm, base)) is None:
        return ()
    have_own = bool(set(apart) & set(arms.values()))
    if twin in scores and len(with_twin := [one for one in blocks if one in scores[twin]]) >= OWN_BLOCKS:
        blocks = with_twin
        rows = [_mean_of(scores[base], scores[twin], blocks), *rows[1:]]
    logs = np.array([[cells[block] for block in blocks] for cells in rows])
    effects = [one for one in arms if one]
    found = []
    for factors in effects:
        weights = weights_of(factors, list(arms))
        if have_own or len(blocks) >= OWN_BLOCKS:
            estimate, error, df = _of_sums(logs, weights)
            limit = critical_value(1 - (1 - alpha) ** (1 / len(effects)), 1, df)
        else:
            estimate = float(weights @ logs.mean(axis=1))
            error = pooled.sigma * math.sqrt(float((weights**2).sum()) / len(blocks))
            df, limit = pooled.df, critical_value(alpha, len(effects), pooled.df, 0.0)
        found.append(effect_of(factors, estimate, error, limit, df, len(blocks)))
    return tuple(found)


def effect_of(
    factors: Combination, estimate: float, error: float, limit: float, df: int, blocks: int
) -> FactorEffect:
    """The effect of a log ratio with a standard error and its critical value."""
    detectable = exp(shift_for_power(limit, df) * error) - 1
    return FactorEffect.of(factors, ratio_within(estimate, limit * error), blocks, detectable)


def weights_of(effect: Combination, arms: Sequence[Combination]) -> _Floats:
    """Weight of each arm's log in an effect."""
    return np.array([_sign(effect, one) for one in arms]) * 2.0 ** len(effect) / len(arms)


def _sign(effect: Combination, arm: Combination) -> int:
    """Of an arm in an effect: negative where it lacks an odd number of the effect's factors."""
    return -1 if len(set(effect) - set(arm)) % 2 else 1


def _mean_of(one: Cells, other: Cells, blocks: Sequence[int]) -> Cells:
    return {block: math.log((math.exp(one[block]) + math.exp(other[block])) / 2) for block in blocks}


def _of_sums(logs: _Floats, weights: _Floats) -> tuple[float, float, int]:
    """Weighted logs of the arms' sums, the standard error, degrees of freedom; see `comparison`."""
    values = np.exp(logs - logs.max())
    shares = values / values.sum(axis=1, keepdims=True)
    estimate = float(weights @ np.log(values.sum(axis=1)))
    leverage = np.abs(weights) @ shares / np.abs(weights).sum()
    left = len(logs[0]) * (weights @ shares) / (1 - leverage)
    deviation = max(math.sqrt(float((left**2).mean())), RESOLUTION)
    return estimate, deviation / math.sqrt(left.size), left.size - 1
