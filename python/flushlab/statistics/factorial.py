"""Effects of many candidates from trials that change several at once.

Sits in `statistics`; pure. Each screening trial turns about half of the candidates on, so that every trial
informs about every candidate. With N trials an effect has a variance near 4 σ²/N; with one candidate at a
time the variance would be 2 σ² (k+1)/N (R. L. Plackett and J. P. Burman, Biometrika 33 (1946) 305-325).
Effects are shrunk towards 0, which keeps them sensible with fewer trials than candidates. The model is a
linear mixed model (G. K. Robinson, "That BLUP is a good thing", Statistical Science 6 (1991) 15-32).

Promises an ordering and caveats for *choosing* the changes to confirm. The module makes no claim: claims come
from `comparison`, on other trials.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_NOISE = np.geomspace(0.004, 0.5, 10)
_SPREAD = (0.04, 0.15, 0.6)
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
) -> Effects:
    """Posterior means and deviations of main effects.

    Args:
        on: which candidates each trial had, shape (trials, candidates).
        context: the foundation of each trial, shape (trials,).
        block: trials of one block were made close in time and share a drift, shape (trials,).
        scores: log of the results, more is better, shape (trials,).
        contexts: number of contexts.

    An effect is a part shared by all contexts plus a part of its own, of equal prior variance. The noise,
    the effects' spread and the drift are those of a small grid that explain the scores best (largest
    marginal likelihood).
    """
    trials = on.shape[0]
    z = on.astype(float)
    same_context = (context[:, None] == context[None, :]).astype(float)
    shared = z @ z.T
    k_effects = 0.5 * shared * (1 + same_context)
    k_level = _OFFSET_SD**2 * (1 + same_context)
    k_block = (block[:, None] == block[None, :]).astype(float)
    y, unit = scores - scores.mean(), np.eye(trials)

    best: tuple[float, float, float, NDArray[np.float64]] | None = None
    for noise in map(float, _NOISE):
        grid = [(spread, drift) for spread in _SPREAD for drift in (0.1 * noise, noise, 10 * noise)]
        # With the scores as one more row and column, that row of the root is the scores whitened. The corner
        # is more than their square can be, since no eigenvalue of k is below the noise's variance.
        bordered = np.empty((len(grid), trials + 1, trials + 1))
        k = bordered[:, :-1, :-1]
        for at, (spread, drift) in enumerate(grid):
            k[at] = spread**2 * k_effects + k_level + drift**2 * k_block + noise**2 * unit
        bordered[:, -1, :-1] = bordered[:, :-1, -1] = y
        bordered[:, -1, -1] = 1 + y @ y / noise**2
        root = np.linalg.cholesky(bordered)
        whitened = root[:, -1, :-1]
        half_log_det = np.log(np.diagonal(root, axis1=1, axis2=2)[:, :-1]).sum(axis=1)
        for at, (spread, _) in enumerate(grid):
            # Weak priors, noise near 4 % and spread near 5 %, so that few trials cannot run away.
            prior = 0.5 * math.log(noise / 0.04) ** 2 + 0.5 * (math.log(spread / 0.05) / 1.5) ** 2
            fit = -0.5 * float((whitened[at] ** 2).sum()) - float(half_log_det[at]) - prior
            if best is None or fit > best[0]:
                best = (fit, noise, spread, k[at].copy())
    assert best is not None
    _, noise, spread, best_k = best
    inverse = np.linalg.inv(best_k)
    weights = inverse @ y

    own = (context[None, :] == np.arange(contexts)[:, None]).astype(float)  # (contexts, trials)
    cross = 0.5 * spread**2 * z.T[None, :, :] * (1 + own[:, None, :])  # (contexts, candidates, trials)
    mean = cross @ weights
    variance = spread**2 - np.einsum("cjt,ts,cjs->cj", cross, inverse, cross)
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
