"""Comparison: arm against base, a ratio with an interval and a verdict."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal["faster", "slower", "no difference found"]


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """How many times faster than the base; above 1 is better whatever the workload's unit.

    `low` and `high` bound the simultaneous interval of the comparison that it belongs to.
    """

    estimate: float
    low: float
    high: float

    def inverse(self) -> Ratio:
        """The base against the arm."""
        return Ratio(estimate=1 / self.estimate, low=1 / self.high, high=1 / self.low)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """An arm against the base of the same blocks.

    Attributes:
        arm: name of the arm.
        ratio: with its simultaneous interval.
        blocks: number of blocks in which both were measured.
        verdict: what the interval says about 1.
        detectable: smallest gain that this comparison would have seen with power 0.8, as a fraction
            (0.04 = 4 %).
    """

    arm: str
    ratio: Ratio
    blocks: int
    verdict: Verdict
    detectable: float
