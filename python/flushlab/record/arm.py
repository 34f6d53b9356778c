"""What is compared: an arm, ratios with a verdict, and caveats and texts that stay with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

Value = int | float | str
"""A server variable's value. Booleans are the strings ON and OFF, as the server prints them;
sizes are integers in bytes; enumerations are spelled as the server spells them."""


BASE = "base"
CONTROL = "control"
BEST = "best"


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One settings mapping under comparison.

    Attributes:
        name: unique within its campaign; shown to people.
        settings: everything that the arm sets, the campaign's base included.
    """

    name: str
    settings: Mapping[str, Value]


Verdict = Literal["faster", "slower", "no difference found"]


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """How many times faster than the base; above 1 is better whatever the workload's unit.

    Attributes:
        estimate: the ratio.
        low, high: bounds of the simultaneous interval of the comparison that it belongs to.
    """

    estimate: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        return "faster" if self.low > 1 else "slower" if self.high < 1 else "no difference found"

    @property
    def half_width(self) -> float:
        return math.sqrt(self.high / self.low) - 1

    def inverse(self) -> Ratio:
        return Ratio(estimate=1 / self.estimate, low=1 / self.high, high=1 / self.low)

    def over(self, other: Ratio) -> Ratio:
        """One ratio over another; holds where both hold, so it needs no share of alpha."""
        return Ratio(
            estimate=self.estimate / other.estimate, low=self.low / other.high, high=self.high / other.low
        )


class FactorEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What a factor of a factorial changes, or what several change together beyond each by itself.

    Attributes:
        factors: one: its main effect, over all combinations of the others alike. Several: their interaction.
        ratio: with its simultaneous interval. Of an interaction of two: how many times the gain of one is
            what it is without the other; 1 is that gains multiply.
        blocks: number of blocks in which all combinations were measured.
        verdict: what the interval says about 1, as in `Comparison`; of an interaction `more together` or
            `less together`.
        detectable: as in `Comparison`.
    """

    factors: tuple[str, ...]
    ratio: Ratio
    blocks: int
    verdict: str
    detectable: float

    @classmethod
    def of(cls, factors: tuple[str, ...], ratio: Ratio, blocks: int, detectable: float) -> FactorEffect:
        """The effect with its verdict."""
        verdict: str = ratio.verdict
        if len(factors) > 1 and verdict != "no difference found":
            verdict = "more together" if ratio.low > 1 else "less together"
        return cls(factors=factors, ratio=ratio, blocks=blocks, verdict=verdict, detectable=detectable)

    @property
    def name(self) -> str:
        return " × ".join(self.factors)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """An arm against the base of the same blocks.

    Attributes:
        arm: name of the arm.
        ratio: with its simultaneous interval.
        blocks: number of blocks in which both were measured.
        verdict: what the interval says about 1.
        detectable: smallest gain that this comparison would have seen with power 0.8, as a fraction
            (0.04 = 4 %).
        contradicted: interim analyses exclude each other, so what changed meanwhile is not in the
            model; the interval spans them all.
    """

    arm: str
    ratio: Ratio
    blocks: int
    verdict: Verdict
    detectable: float
    contradicted: bool = False


SourceKind = Literal["option file", "plan", "transactions", "setup", "script"]


class SourceText(msgspec.Struct, frozen=True, kw_only=True):
    """A text that a campaign ran, so that whoever gets its report can read and repeat it.

    Attributes:
        kind: role in the campaign.
        name: as the campaign names the file.
        size_bytes: of the file.
        sha256: of the file; of `text`, where that has passwords hidden.
        text: its content, with `***` for passwords; None if it is too long or no text.
    """

    kind: SourceKind
    name: str
    size_bytes: int
    sha256: str
    text: str | None


class Warning(msgspec.Struct, frozen=True, omit_defaults=True):
    """A caveat that stays with a record.

    Attributes:
        slug: stable and machine-readable, for example `window-too-short`.
        text: one sentence for people.
        setting: the one that it is about, where it is about one.
        arms: arms that the caveat is about, by their displayed names; empty: those of all arms.
        against: the arm that these are compared with, if the caveat is about the ratio only.
    """

    slug: str
    text: str
    setting: str = ""
    arms: tuple[str, ...] = ()
    against: str = ""
