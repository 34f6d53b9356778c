"""Comparison of arms with the base of the same blocks: ratios, simultaneous intervals, verdicts.

Sits in `statistics`; pure. Promises intervals that hold for all arms at once with probability 1 - alpha under
the model, from two blocks up, with cells missing or not. The intervals are never a bootstrap: at 3 to 8
blocks a percentile bootstrap covers 75 to 88 % where it says 95 %.

If an arm shares `OWN_BLOCKS` blocks or more with the base, its ratio is the ratio of their sums, so that
blocks of low throughput weigh little. Its interval is Student's, from the residual of each block (W. G.
Cochran, *Sampling Techniques*, 3rd ed., section 6.3). The residuals are enlarged by the block's own weight
(J. G. MacKinnon and H. White, J. Econometrics 29 (1985) 305-325). Nothing is assumed of the arm's variance:
an arm that stalls neither profits from the other arms' low variance nor raises it.

With fewer blocks the arms share one variance, because a variance of their own would have too few degrees of
freedom. Arms that stalled for a whole window are the exception (`compare`, `apart`).

Model with fewer blocks: score(arm, block) = arm + block + error, errors independent with one variance. The
model is the additive two-way layout (G. W. Snedecor and W. G. Cochran, *Statistical Methods*, 8th ed.,
chapter 14). Without missing cells the estimate is the mean of the paired log-ratios. Limits: Dunnett (see
`dunnett`).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flushlab.record import Comparison, Ratio
from flushlab.statistics.limits import POWER, critical_value, shift_for_power

Cells = Mapping[int, float]
Scores = Mapping[str, Cells]
"""Score of each arm in each block: the log of the result, signed so that more is better. A cell that was
not measured (refused, discarded) is absent."""

OWN_BLOCKS = 10
"""With so many blocks, an arm's own variance widens its interval by a fifth against one that four share."""

RESOLUTION = 1e-6
"""Least standard deviation: no result is measured finer than a millionth."""


class Contrasts(NamedTuple):
    """Differences of arms from the base, in log units.

    Attributes:
        arms: names, in the order of the arrays.
        estimate: shape (arms,).
        error: standard errors, shape (arms,).
        sigma: pooled standard deviation of one score.
        correlation: smallest correlation of two estimates (1/2 without missing cells).
        df: degrees of freedom of the pooled variance.
        blocks: blocks in which both arm and base were measured, shape (arms,).
    """

    arms: tuple[str, ...]
    estimate: NDArray[np.float64]
    error: NDArray[np.float64]
    sigma: float
    correlation: float
    df: int
    blocks: tuple[int, ...]


def contrasts(scores: Scores, base: str) -> Contrasts | None:
    """Least-squares differences from the base in the additive block model, without arms that share fewer than
    two blocks with it. None if no arm is left."""
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
        sigma=sigma,
        correlation=float(np.clip(off.min(), 0.0, 0.95)) if off.size else 0.5,
        df=df,
        blocks=tuple(shared[arm] for arm in arms[1:]),
    )


def compare(
    scores: Scores,
    base: str,
    *,
    alpha: float = 0.05,
    only: Collection[str] | None = None,
    family: int = 0,
    twin: str = "",
    apart: Collection[str] = (),
    power: float = POWER,
) -> tuple[Comparison, ...]:
    """Every arm against the base, with intervals that hold for all of them at once.

    Args:
        scores: per arm and block; arms that share fewer than two blocks with the base are left out.
        base: name of the arm that the others are compared with.
        alpha: probability that any of the intervals misses its ratio.
        only: the arms to compare, if not all; the others still serve the model and its variance.
        family: number of arms whose intervals hold at once, if there were more of them than are compared.
        twin: the arm that is the base once more: from `OWN_BLOCKS` blocks on the others are compared with the
            mean of both, which narrows their intervals by a seventh.
        apart: arms that stalled for a whole window. The logarithm of that window would dominate the others'
            variance and the arm's own mean. So the ratio of such an arm is that of sums, with a variance of
            its own, whatever the number of blocks. If the base stalled, the same holds for every arm.
        power: probability with which the gain that is called detectable would have been found.

    Returns:
        One comparison per arm, in the order of `scores`. Unequal correlations (cells missing) are replaced
        by the smallest of them, which widens the intervals (Z. Šidák, Ann. Math. Stat. 39 (1968) 1425-1434).
        Variances of their own: as if the arms knew nothing of each other, which widens them too (Šidák, JASA
        62 (1967) 626-633).
    """
    shared = {arm: len(cells.keys() & scores[base].keys()) for arm, cells in scores.items() if arm != base}
    compared = [arm for arm, blocks in shared.items() if blocks >= 2 and (only is None or arm in only)]
    family = max(family, len(compared))
    calm = {arm: cells for arm, cells in scores.items() if arm not in apart}
    pooled = None if base in apart else contrasts(calm, base)
    place = {arm: i for i, arm in enumerate(pooled.arms)} if pooled is not None else {}
    # Dunnett's limit is for arms beside the same cells of the base; others of the family may have had others.
    together = sum(arm in place and shared[arm] < OWN_BLOCKS for arm in compared)
    comparisons = []
    for arm in compared:
        if pooled is None or arm not in place or shared[arm] >= OWN_BLOCKS:
            both = (base,) if arm == twin or twin not in scores else (base, twin)
            estimate, error, df = _of_sums(scores[arm], [scores[name] for name in both])
            limit = critical_value(1 - (1 - alpha) ** (1 / family), 1, df)
        else:
            estimate, error, df = (
                float(pooled.estimate[place[arm]]),
                float(pooled.error[place[arm]]),
                pooled.df,
            )
            correlation = math.floor(pooled.correlation * 20 + 1e-6) / 20
            limit = critical_value(1 - (1 - alpha) ** (together / family), together, df, correlation)
        comparisons.append(of_estimate(arm, estimate, error, limit, df, shared[arm], power))
    return tuple(comparisons)


def _of_sums(arm: Cells, bases: Sequence[Cells]) -> tuple[float, float, int]:
    """Log of the ratio of an arm's sum to that of the bases' mean, its standard error and degrees of freedom.

    Sums are over the blocks in which all were measured. If these are few, the first base alone counts."""
    shared = sorted(functools.reduce(operator.and_, (set(cells) for cells in (arm, *bases))))
    if len(shared) < OWN_BLOCKS:
        bases = bases[:1]
        shared = sorted(arm.keys() & bases[0].keys())
    logs = np.array([[cells[block] for block in shared] for cells in (arm, *bases)])
    values = np.exp(logs - logs.max())
    own, base = values[0], values[1:].mean(axis=0)
    ratio = own.sum() / base.sum()
    left = (own - ratio * base) / (1 - base / base.sum()) / own.mean()
    deviation = max(math.sqrt(float((left**2).mean())), RESOLUTION)
    return math.log(ratio), deviation / math.sqrt(left.size), left.size - 1


def log_of_sums(cells: Cells, blocks: Sequence[int]) -> float:
    logs = np.array([cells[block] for block in blocks])
    return float(logs.max() + np.log(np.exp(logs - logs.max()).sum()))


def of_estimate(
    arm: str, estimate: float, error: float, limit: float, df: int, blocks: int, power: float = POWER
) -> Comparison:
    ratio = ratio_within(estimate, limit * error)
    return Comparison(
        arm=arm,
        ratio=ratio,
        blocks=blocks,
        verdict=ratio.verdict,
        detectable=exp(shift_for_power(limit, df, power) * error) - 1,
    )


def ratio_within(estimate: float, half_width: float) -> Ratio:
    return Ratio(estimate=exp(estimate), low=exp(estimate - half_width), high=exp(estimate + half_width))


def exp(x: float) -> float:
    """exp, within what a ratio can sensibly be (a variance on one degree of freedom has no such sense)."""
    return math.exp(min(max(x, -50.0), 50.0))
