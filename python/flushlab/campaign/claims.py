"""Claims: what a plan says of an arm, and what the measurement says to it. Pure.

`expected`: refuted if the interval excludes it; confirmed if the interval contains it and excludes 1 (for 1
itself: contains it and lies within 5 % of 1); else undecided, as an interval that contains both says nothing
for one of them. `at_least`, `at_most`: confirmed if the whole interval lies on the claimed side, refuted if
it lies wholly on the other, else undecided.
"""

from __future__ import annotations

from flushlab.campaign.facts import Answer, ClaimFacts
from flushlab.plan.plan import Claim
from flushlab.record import Ratio

NO_DIFFERENCE = (0.95, 1.05)
"""An interval within these bounds confirms that something makes no difference."""


def answered(claim: Claim, ratio: Ratio | None) -> ClaimFacts:
    """The claim with its answer."""
    return ClaimFacts(
        text=claim.text,
        arm=claim.arm,
        against=claim.against,
        wanted=_wanted(claim),
        answer=answer(claim, ratio),
        ratio=ratio,
        source=claim.source,
    )


def answer(claim: Claim, ratio: Ratio | None) -> Answer:
    """What an interval says to a claim; see the module's docstring."""
    if ratio is None:
        return "not measured"
    if claim.at_least is not None:
        return _side(ratio.low >= claim.at_least, ratio.high < claim.at_least)
    if claim.at_most is not None:
        return _side(ratio.high <= claim.at_most, ratio.low > claim.at_most)
    assert claim.expected is not None, "a claim has one of three ratios"
    contained = ratio.low <= claim.expected <= ratio.high
    if claim.expected == 1:
        near = NO_DIFFERENCE[0] <= ratio.low and ratio.high <= NO_DIFFERENCE[1]
        return _side(contained and near, not contained)
    return _side(contained and not ratio.low <= 1 <= ratio.high, not contained)


def _side(confirmed: bool, refuted: bool) -> Answer:
    return "confirmed" if confirmed else "refuted" if refuted else "undecided"


def _wanted(claim: Claim) -> str:
    if claim.at_least is not None:
        return f"at least {claim.at_least:g}"
    if claim.at_most is not None:
        return f"at most {claim.at_most:g}"
    return f"{claim.expected:g}"
