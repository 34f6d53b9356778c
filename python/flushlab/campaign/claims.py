"""Claims: what a plan claims about an arm, and whether the measurement confirms it. Pure.

`expected`: refuted if the interval excludes it; confirmed if the interval contains it and excludes 1 (for 1
itself: contains it and lies within 5 % of 1); else undecided, as an interval that contains both says nothing
for one of them. `at_least`, `at_most`: confirmed if the whole interval lies on the claimed side, refuted if
it lies wholly on the other, else undecided. Where that ratio is 1, the claim is "faster" or "slower", and an
interval with 1 inside and both bounds within 2.5 % of it decides that, too: no difference.

A claim about something counted is judged alike. A count has no noise of the clock, so its bounds are no
confidence interval: they are the least and the greatest ratio of any block. Two blocks are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from flushlab.campaign.facts import Answer, ClaimFacts
from flushlab.plan.plan import COUNTED, Claim
from flushlab.record import Ratio, Trial

NO_DIFFERENCE = (0.95, 1.05)
"""An interval within these bounds confirms the claim that something makes no difference."""
NEAR_ONE = (0.975, 1.025)
"""An interval within these bounds refutes a claim of an effect. The bounds are narrow, so that an effect of
3 %, which people report, does not count as no effect."""


_CLASSES = dict(zip(COUNTED, ("redo", "binlog"), strict=True))


def answered(claim: Claim, ratio: Ratio | None) -> ClaimFacts:
    return ClaimFacts(
        text=claim.text,
        arm=claim.arm,
        against=claim.against,
        wanted=_wanted(claim),
        answer=answer(claim, ratio),
        ratio=ratio,
        source=claim.source,
    )


def counted_answer(claim: Claim, trials: Iterable[Trial]) -> ClaimFacts:
    seen: dict[str, dict[tuple[str, int], tuple[int, int]]] = {claim.arm: {}, claim.against: {}}
    for trial in trials:
        activity = trial.file_activity.get(_CLASSES[claim.quantity])
        syncs = activity.fsyncs if activity is not None else None
        commits = trial.load.commits if trial.load is not None else None
        if trial.arm.name in seen and trial.result is not None and syncs is not None and commits:
            seen[trial.arm.name][trial.stage, trial.block] = syncs, commits
    arm, against = seen[claim.arm], seen[claim.against]
    blocks = [block for block in arm if against.get(block, (0, 0))[0]]
    if len(blocks) < 2:
        return msgspec.structs.replace(answered(claim, None), quantity=claim.quantity)
    ratios = [_each([arm[block]]) / _each([against[block]]) for block in blocks]
    counts = _each([arm[block] for block in blocks]), _each([against[block] for block in blocks])
    ratio = Ratio(estimate=counts[0] / counts[1], low=min(ratios), high=max(ratios))
    return msgspec.structs.replace(answered(claim, ratio), quantity=claim.quantity, counts=counts)


def _each(of: Sequence[tuple[int, int]]) -> float:
    return sum(syncs for syncs, _ in of) / sum(commits for _, commits in of)


def answer(claim: Claim, ratio: Ratio | None) -> Answer:
    """What an interval says to a claim; see the module's docstring."""
    if ratio is None:
        return "not measured"
    if claim.at_least is not None:
        found = _side(ratio.low >= claim.at_least, ratio.high < claim.at_least)
        return found if claim.at_least != 1 else _or_none(found, ratio)
    if claim.at_most is not None:
        found = _side(ratio.high <= claim.at_most, ratio.low > claim.at_most)
        return found if claim.at_most != 1 else _or_none(found, ratio)
    assert claim.expected is not None, "a claim has one of three ratios"
    contained = ratio.low <= claim.expected <= ratio.high
    if claim.expected == 1:
        near = NO_DIFFERENCE[0] <= ratio.low and ratio.high <= NO_DIFFERENCE[1]
        return _side(contained and near, not contained)
    return _side(contained and not ratio.low <= 1 <= ratio.high, not contained)


def _side(confirmed: bool, refuted: bool) -> Answer:
    return "confirmed" if confirmed else "refuted" if refuted else "undecided"


def _or_none(found: Answer, ratio: Ratio) -> Answer:
    near = NEAR_ONE[0] <= ratio.low and ratio.high <= NEAR_ONE[1]
    return "no difference" if found == "undecided" and near else found


def _wanted(claim: Claim) -> str:
    if claim.at_least is not None:
        return f"at least {claim.at_least:g}"
    if claim.at_most is not None:
        return f"at most {claim.at_most:g}"
    return f"{claim.expected:g}"
