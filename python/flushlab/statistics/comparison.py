"""Comparison of arms with the base of the same blocks: ratios, simultaneous intervals, verdicts.

Sits in `statistics`; pure. Promises intervals that hold for all arms at once with probability
1 - alpha under the model, from two blocks up, with cells missing or not, and never a bootstrap (at 3
to 8 blocks a percentile bootstrap covers 75 to 88 % where it says 95 %).

Model: score(arm, block) = arm + block + error, errors independent with one variance (the additive
two-way layout; G. W. Snedecor and W. G. Cochran, *Statistical Methods*, 8th ed., chapter 14). Without
missing cells the estimate is the mean of the paired log-ratios. Limits: Dunnett (see `dunnett`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flushlab.record import Comparison, Ratio, Verdict
from flushlab.statistics.dunnett import critical_value, shift_for_power

Scores = Mapping[str, Mapping[int, float]]
"""Score of each arm in each block: the log of the figure, signed so that more is better. A cell that was
not measured (refused, void) is absent."""

RESOLUTION = 1e-6
"""Standard deviations below this are taken as this: no figure is measured finer than a millionth."""


class Contrasts(NamedTuple):
    """Differences of arms from the base, in log units.

    Attributes:
        arms: names, in the order of the arrays.
        estimate: shape (arms,).
        error: standard errors, shape (arms,).
        correlation: smallest correlation of two estimates (1/2 without missing cells).
        df: degrees of freedom of the pooled variance.
        blocks: blocks in which both arm and base were measured, shape (arms,).
    """

    arms: tuple[str, ...]
    estimate: NDArray[np.float64]
    error: NDArray[np.float64]
    correlation: float
    df: int
    blocks: tuple[int, ...]


def contrasts(scores: Scores, base: str) -> Contrasts | None:
    """Least-squares differences from the base in the additive block model.

    Arms that share fewer than two blocks with the base take no part. None if no arm is left.
    """
    shared = {arm: len(cells.keys() & scores[base].keys()) for arm, cells in scores.items()}
    arms = [base, *(arm for arm in scores if arm != base and shared[arm] >= 2)]
    if len(arms) == 1:
        return None
    blocks = sorted({block for arm in arms for block in scores[arm]})
    table = np.array([[scores[arm].get(block, math.nan) for block in blocks] for arm in arms])
    measured = ~np.isnan(table)
    complete = bool(measured.all())
    a, b = table.shape
    df = int(measured.sum()) - a - b + 1
    if complete:
        estimate = (table[1:] - table[0]).mean(axis=1)
        residual = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
        squares = float((residual**2).sum())
        unscaled = (np.eye(a - 1) + 1) / b
    else:
        rows, columns = np.nonzero(measured)
        design = np.zeros((rows.size, a - 1 + b))
        inner = rows > 0
        design[np.nonzero(inner)[0], rows[inner] - 1] = 1
        design[np.arange(rows.size), a - 1 + columns] = 1
        values = table[rows, columns]
        inverse = np.linalg.pinv(design.T @ design)
        fitted = inverse @ design.T @ values
        squares = float(((values - design @ fitted) ** 2).sum())
        estimate = fitted[: a - 1]
        unscaled = inverse[: a - 1, : a - 1]
    sigma = max(math.sqrt(squares / df), RESOLUTION)
    scale = np.sqrt(np.diag(unscaled))
    off = (unscaled / np.outer(scale, scale))[~np.eye(a - 1, dtype=bool)]
    return Contrasts(
        arms=tuple(arms[1:]),
        estimate=estimate,
        error=sigma * scale,
        correlation=float(np.clip(off.min(), 0.0, 0.95)) if off.size else 0.5,
        df=df,
        blocks=tuple(shared[arm] for arm in arms[1:]),
    )


def compare(
    scores: Scores, base: str, *, alpha: float = 0.05, only: Collection[str] | None = None
) -> tuple[Comparison, ...]:
    """Every arm against the base, with intervals that hold for all of them at once.

    Args:
        scores: per arm and block; arms that share fewer than two blocks with the base are left out.
        base: name of the arm that the others are compared with.
        alpha: probability that any of the intervals misses its ratio.
        only: the arms to compare, if not all; the others still serve the model and its variance.

    Returns:
        One comparison per arm, in the order of `scores`. Unequal correlations (cells missing) are replaced
        by the smallest of them, which widens the intervals (Z. Šidák, Ann. Math. Stat. 39 (1968) 1425-1434).
    """
    found = contrasts(scores, base)
    if found is None:
        return ()
    compared = [i for i, arm in enumerate(found.arms) if only is None or arm in only]
    if not compared:
        return ()
    correlation = math.floor(found.correlation * 20 + 1e-6) / 20
    limit = critical_value(alpha, len(compared), found.df, correlation)
    shift = shift_for_power(limit, found.df)
    return tuple(
        _comparison(
            found.arms[i],
            float(found.estimate[i]),
            limit * float(found.error[i]),
            shift * float(found.error[i]),
            found.blocks[i],
        )
        for i in compared
    )


def _comparison(arm: str, estimate: float, half_width: float, shift: float, blocks: int) -> Comparison:
    low, high = estimate - half_width, estimate + half_width
    verdict: Verdict = "faster" if low > 0 else "slower" if high < 0 else "no difference found"
    return Comparison(
        arm=arm,
        ratio=Ratio(estimate=_exp(estimate), low=_exp(low), high=_exp(high)),
        blocks=blocks,
        verdict=verdict,
        detectable=_exp(shift) - 1,
    )


def _exp(x: float) -> float:
    """exp, within what a ratio can sensibly be (a variance on one degree of freedom has no such sense)."""
    return math.exp(min(max(x, -50.0), 50.0))
