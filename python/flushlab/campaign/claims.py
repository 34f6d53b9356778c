"""Claims of a plan, and what the measurement says to each. Pure.

Answers, by the interval of a ratio:

- `expected`: confirmed if the interval contains it and excludes 1, refuted if the interval excludes it. An
  interval that contains both says nothing for one of them. 1 itself is confirmed within 5 % of 1.
- `at_least`, `at_most`: confirmed if the whole interval lies on the claimed side, refuted if on the other.
  Where that ratio is 1, the claim is "faster" or "slower". An interval with 1 inside and both bounds within
  2.5 % of it decides that, too: no difference.
- of something counted: judged alike. A count has no noise of the clock, so its bounds are the least and the
  greatest ratio of any block. Two blocks are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flushlab.campaign.facts import Answer, ClaimFacts
from flushlab.experiment.series import SeriesResult
from flushlab.plan.plan import COUNTED, Claim
from flushlab.record import BASE, CONTROL, Ratio, Trial

NO_DIFFERENCE = (0.95, 1.05)
"""An interval within these bounds confirms the claim that something makes no difference."""
NEAR_ONE = (0.975, 1.025)
"""Narrow, so that an effect of 3 %, which people report, does not count as no effect."""
_CLASSES = dict(zip(COUNTED, ("redo", "binlog"), strict=True))


def answers(claims: Iterable[Claim], result: SeriesResult, trials: Sequence[Trial]) -> tuple[ClaimFacts, ...]:
    return tuple(
        counted_answer(claim, trials) if claim.quantity else answered(claim, _ratio(claim, result))
        for claim in claims
    )


def _ratio(claim: Claim, result: SeriesResult) -> Ratio | None:
    if claim.against == BASE:
        found = result.control if claim.arm == CONTROL else result.comparisons.get(claim.arm)
        return found.ratio if found is not None else None
    if claim.arm == BASE:
        found = result.comparisons.get(claim.against)
        return found.ratio.inverse() if found is not None else None
    return result.pairs.get((claim.arm, claim.against))


def answered(claim: Claim, ratio: Ratio | None, counts: tuple[float, float] | None = None) -> ClaimFacts:
    wanted = f"{claim.expected:g}" if claim.expected is not None else ""
    if claim.at_least is not None:
        wanted = f"at least {claim.at_least:g}"
    elif claim.at_most is not None:
        wanted = f"at most {claim.at_most:g}"
    return ClaimFacts(
        text=claim.text,
        arm=claim.arm,
        against=claim.against,
        wanted=wanted,
        answer=answer(claim, ratio),
        ratio=ratio,
        source=claim.source,
        quantity=claim.quantity,
        counts=counts,
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
        return answered(claim, None)
    ratios = [_each([arm[block]]) / _each([against[block]]) for block in blocks]
    counts = _each([arm[block] for block in blocks]), _each([against[block] for block in blocks])
    return answered(claim, Ratio(estimate=counts[0] / counts[1], low=min(ratios), high=max(ratios)), counts)


def _each(of: Sequence[tuple[int, int]]) -> float:
    return sum(syncs for syncs, _ in of) / sum(commits for _, commits in of)


def answer(claim: Claim, ratio: Ratio | None) -> Answer:
    if ratio is None:
        return "not measured"
    low, high = ratio.low, ratio.high
    if claim.expected is not None:
        contained = low <= claim.expected <= high
        if claim.expected == 1:
            shows = NO_DIFFERENCE[0] <= low and high <= NO_DIFFERENCE[1]
        else:
            shows = not low <= 1 <= high
        return _side(contained and shows, not contained)
    if claim.at_least is not None:
        bound, confirmed, refuted = claim.at_least, low >= claim.at_least, high < claim.at_least
    else:
        assert claim.at_most is not None, "a claim has one of three ratios"
        bound, confirmed, refuted = claim.at_most, high <= claim.at_most, low > claim.at_most
    near = NEAR_ONE[0] <= low and high <= NEAR_ONE[1]
    return (
        "no difference"
        if bound == 1 and near and not confirmed and not refuted
        else _side(confirmed, refuted)
    )


def _side(confirmed: bool, refuted: bool) -> Answer:
    return "confirmed" if confirmed else "refuted" if refuted else "undecided"
