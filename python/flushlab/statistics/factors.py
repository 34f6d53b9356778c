"""Factors: effects of candidates in half-on trials, and of factors that were crossed. Pure.

`estimate_effects`: each screening trial turns about half of the candidates on, so that every trial informs
about every candidate. With N trials an effect has a variance near 4 σ²/N; with one candidate at a time the
variance would be 2 σ² (k+1)/N (R. L. Plackett and J. P. Burman, Biometrika 33 (1946) 305-325). Effects are
shrunk towards 0, which keeps them sensible with fewer trials than candidates. The model is a linear mixed
model (G. K. Robinson, "That BLUP is a good thing", Statistical Science 6 (1991) 15-32). Of trials on several
machines, the estimate is that of an effect's mean over all such machines, and its deviation counts how much
it differs between these. It gives an ordering and caveats for *choosing* the changes to confirm; claims come
from `comparison`, on other trials.

`factor_effects`: every combination of factors is an arm, measured in the same blocks. The intervals hold for
all effects at once with probability 1 - alpha. The variances are those of `comparison.compare`: from
`OWN_BLOCKS` blocks on each effect has its own, by linearisation of the arms' sums; with fewer blocks all
arms share one. With k factors an effect weighs each of the 2^k arms alike, with the signs of F. Yates, *The
Design and Analysis of Factorial Experiments*, Imperial Bureau of Soil Science, Technical Communication 35
(1937). The effects are uncorrelated where arms have one variance, so the limit is the studentised maximum
modulus, `critical_value` at correlation 0; with variances of their own it is Šidák's. An interaction here is
a ratio of ratios (Yates has half its logarithm).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

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
from flushlab.statistics.limits import critical_value, shift_for_power

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
    """Main effects, then interactions; nothing where a combination was not measured, or fewer than two blocks
    have all of them. `alpha` is the probability that any of the intervals misses; `twin` and `apart` as of
    `compare`.
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
    detectable = exp(shift_for_power(limit, df) * error) - 1
    return FactorEffect.of(factors, ratio_within(estimate, limit * error), blocks, detectable)


def weights_of(effect: Combination, arms: Sequence[Combination]) -> _Floats:
    return np.array([_sign(effect, one) for one in arms]) * 2.0 ** len(effect) / len(arms)


def _sign(effect: Combination, arm: Combination) -> int:
    """Of an arm in an effect: negative where it lacks an odd number of the effect's factors."""
    return -1 if len(set(effect) - set(arm)) % 2 else 1


def _mean_of(one: Cells, other: Cells, blocks: Sequence[int]) -> Cells:
    return {block: math.log((math.exp(one[block]) + math.exp(other[block])) / 2) for block in blocks}


def _of_sums(logs: _Floats, weights: _Floats) -> tuple[float, float, int]:
    values = np.exp(logs - logs.max())
    shares = values / values.sum(axis=1, keepdims=True)
    estimate = float(weights @ np.log(values.sum(axis=1)))
    leverage = np.abs(weights) @ shares / np.abs(weights).sum()
    left = len(logs[0]) * (weights @ shares) / (1 - leverage)
    deviation = max(math.sqrt(float((left**2).mean())), RESOLUTION)
    return estimate, deviation / math.sqrt(left.size), left.size - 1


_NOISE = np.geomspace(0.004, 0.5, 10)
_SPREAD = (0.04, 0.15, 0.6)
_BETWEEN = (0.0, 0.05, 0.15, 0.45)
_FEW = 2.0
"""The part of an effect's deviation that comes from differences between machines counts so often: two to five
machines tell little of it. With 1, good candidates are found less often (`benchmarks/fleet_tuning.py`)."""
_OFFSET_SD = 2.0
"""Prior of a context's level and of the overall one: so wide that the data decide."""


class Effects(NamedTuple):
    """Estimates in log units (0.05 is about 5 % faster).

    Attributes:
        mean, sd: effect of each candidate in each context, shape (contexts, candidates).
        offset, offset_sd: level of each context against context 0, shape (contexts,).
        noise: standard deviation of one trial.
    """

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    offset: NDArray[np.float64]
    offset_sd: NDArray[np.float64]
    noise: float


def estimate_effects(
    on: NDArray[np.bool_],
    context: NDArray[np.intp],
    block: NDArray[np.intp],
    scores: NDArray[np.float64],
    *,
    contexts: int,
    machine: NDArray[np.intp] | None = None,
) -> Effects:
    """Posterior means and deviations of main effects.

    Args:
        on: which candidates each trial had, shape (trials, candidates).
        context: the foundation of each trial, shape (trials,).
        block: trials of one block were made close in time and share a drift, shape (trials,).
        scores: log of the results, more is better, shape (trials,).
        contexts: number of contexts.
        machine: where each trial ran, shape (trials,); None: all on one.

    An effect is a part shared by all contexts plus a part of its own, of equal prior variance, and on each of
    several machines a part of that machine. The noise, the effects' spread over candidates and over machines,
    and the drift are those of a small grid that explain the scores best (largest marginal likelihood).
    """
    trials = on.shape[0]
    z = on.astype(float)
    ran_on = np.zeros(trials, dtype=np.intp) if machine is None else machine
    on_machine = (ran_on[None, :] == np.unique(ran_on)[:, None]).astype(float)  # (machines, trials)
    places = on_machine @ z > 0  # whether a machine had a candidate, (machines, candidates)
    same_context = (context[:, None] == context[None, :]).astype(float)
    shared = z @ z.T
    k_effects = 0.5 * shared * (1 + same_context)
    k_level = _OFFSET_SD**2 * (1 + same_context)
    k_machine = shared * (on_machine.T @ on_machine)
    k_block = (block[:, None] == block[None, :]).astype(float)
    y, unit = scores - scores.mean(), np.eye(trials)

    best: tuple[float, float, float, float, NDArray[np.float64]] | None = None
    for noise in map(float, _NOISE):
        grid = [
            (spread, drift, between)
            for spread in _SPREAD
            for drift in (0.1 * noise, noise, 10 * noise)
            for between in (_BETWEEN if len(on_machine) > 1 else (0.0,))
        ]
        # With the scores as one more row and column, that row of the root is the scores whitened. The corner
        # is more than their square can be, since no eigenvalue of k is below the noise's variance.
        bordered = np.empty((len(grid), trials + 1, trials + 1))
        k = bordered[:, :-1, :-1]
        for at, (spread, drift, between) in enumerate(grid):
            k[at] = spread**2 * k_effects + k_level + drift**2 * k_block + noise**2 * unit
            k[at] += between**2 * k_machine
        bordered[:, -1, :-1] = bordered[:, :-1, -1] = y
        bordered[:, -1, -1] = 1 + y @ y / noise**2
        root = np.linalg.cholesky(bordered)
        whitened = root[:, -1, :-1]
        half_log_det = np.log(np.diagonal(root, axis1=1, axis2=2)[:, :-1]).sum(axis=1)
        for at, (spread, _, between) in enumerate(grid):
            # Weak priors, noise near 4 % and spread near 5 %, so that few trials cannot run away.
            prior = 0.5 * math.log(noise / 0.04) ** 2 + 0.5 * (math.log(spread / 0.05) / 1.5) ** 2
            fit = -0.5 * float((whitened[at] ** 2).sum()) - float(half_log_det[at]) - prior
            if best is None or fit > best[0]:
                best = (fit, noise, spread, between, k[at].copy())
    assert best is not None
    _, noise, spread, between, best_k = best
    inverse = np.linalg.inv(best_k)
    weights = inverse @ y

    own = (context[None, :] == np.arange(contexts)[:, None]).astype(float)  # (contexts, trials)
    # Variance of a candidate's mean over its machines.
    of_mean = between**2 / np.maximum(places.sum(axis=0), 1)
    with_each = 0.5 * spread**2 * (1 + own[:, None, :]) + of_mean[:, None]
    cross = with_each * z.T[None, :, :]  # (contexts, candidates, trials)
    mean = cross @ weights
    variance = spread**2 + of_mean - np.einsum("cjt,ts,cjs->cj", cross, inverse, cross)
    variance += _FEW**2 * _spread_over(places, between**2 * (on_machine * weights) @ z)
    level = _OFFSET_SD**2 * (own - own[0])
    offset = level @ weights
    prior_offset = _OFFSET_SD**2 * np.where(np.arange(contexts) == 0, 0.0, 2.0)
    offset_variance = prior_offset - np.einsum("ct,ts,cs->c", level, inverse, level)
    return Effects(
        mean=mean,
        sd=np.sqrt(np.maximum(variance, 1e-12)),
        offset=offset,
        offset_sd=np.sqrt(np.maximum(offset_variance, 1e-12)),
        noise=noise,
    )


def _spread_over(places: NDArray[np.bool_], parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variance of the mean of each candidate's parts over the machines that had it; 0 of one machine. Both
    arrays have the shape (machines, candidates)."""
    count = places.sum(axis=0)
    of_mean = (parts * places).sum(axis=0) / np.maximum(count, 1)
    squares = (((parts - of_mean) * places) ** 2).sum(axis=0)
    return np.where(count > 1, squares / np.maximum(count * (count - 1), 1), 0.0)
