"""Proportion: how often something happens that was seen k times of N. Pure."""

from __future__ import annotations

from scipy.special import betaincinv


def upper_bound(seen: int, of: int, confidence: float = 0.95) -> float:
    """The one-sided upper bound of Clopper and Pearson (1934) on a probability.

    For nothing seen it is 1 - (1 - confidence)^(1/N), about 3/N.

    Args:
        seen: how often it was.
        of: how often it could have been.
        confidence: of the bound.
    """
    assert 0 <= seen <= of, f"{seen} of {of}"
    if seen == of:
        return 1.0
    if seen == 0:
        return float(1 - (1 - confidence) ** (1 / of))
    return float(betaincinv(seen + 1, of - seen, confidence))
