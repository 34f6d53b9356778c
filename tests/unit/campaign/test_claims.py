from __future__ import annotations

from typing import Any

import pytest

from flushlab.campaign.claims import answer, answered
from flushlab.plan.plan import Claim
from flushlab.record import Ratio


def interval(low: float, high: float) -> Ratio:
    return Ratio(estimate=(low * high) ** 0.5, low=low, high=high)


def claim(**wanted: Any) -> Claim:
    return Claim(text="it helps", arm="A", **wanted)


@pytest.mark.parametrize(
    ("wanted", "low", "high", "expected"),
    [
        ({"expected": 3.3}, 3.0, 3.5, "confirmed"),
        ({"expected": 3.3}, 2.0, 3.2, "refuted"),
        ({"expected": 3.3}, 3.4, 4.0, "refuted"),
        ({"expected": 1.1}, 0.9, 1.2, "undecided"),
        ({"expected": 0.5}, 0.4, 0.6, "confirmed"),
        ({"expected": 1.0}, 0.96, 1.04, "confirmed"),
        ({"expected": 1.0}, 0.90, 1.04, "undecided"),
        ({"expected": 1.0}, 0.96, 1.06, "undecided"),
        ({"expected": 1.0}, 1.01, 1.04, "refuted"),
        ({"at_least": 2.0}, 2.1, 3.0, "confirmed"),
        ({"at_least": 2.0}, 1.9, 3.0, "undecided"),
        ({"at_least": 2.0}, 1.0, 1.9, "refuted"),
        ({"at_most": 1.0}, 0.8, 0.9, "confirmed"),
        ({"at_most": 1.0}, 0.8, 1.1, "undecided"),
        ({"at_most": 1.0}, 1.05, 1.1, "refuted"),
    ],
)
def test_an_interval_answers_a_claim(
    wanted: dict[str, float], low: float, high: float, expected: str
) -> None:
    assert answer(claim(**wanted), interval(low, high)) == expected


def test_without_a_figure_there_is_no_answer() -> None:
    assert answer(claim(expected=2.0), None) == "not measured"


def test_the_claim_is_told_with_what_it_wanted() -> None:
    assert answered(claim(expected=3.3), None).wanted == "3.3"
    assert answered(claim(at_least=2.0), None).wanted == "at least 2"
    facts = answered(claim(at_most=1.05), interval(0.5, 0.6))
    assert (facts.wanted, facts.answer, facts.against) == ("at most 1.05", "confirmed", "base")
