from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.statistics import Looks


@given(blocks=st.integers(2, 100), alpha=st.floats(0.001, 0.2))
def test_all_looks_together_spend_exactly_alpha(blocks: int, alpha: float) -> None:
    looks = Looks.planned(blocks, alpha)
    assert looks.blocks[-1] == blocks
    assert sum(looks.alpha_at(b) for b in looks.blocks) == pytest.approx(alpha)
    assert all(looks.alpha_at(b) > 0 for b in looks.blocks)


@given(blocks=st.integers(4, 100), data=st.data())
def test_a_schedule_cut_short_spends_what_is_left(blocks: int, data: st.DataObject) -> None:
    looks = Looks.planned(blocks)
    cut = data.draw(st.integers(3, blocks).filter(lambda b: b not in looks.blocks) | st.just(blocks))
    spent = sum(looks.alpha_at(b) for b in looks.blocks if b < cut)
    assert spent + looks.alpha_at(cut) == pytest.approx(0.05)


def test_there_are_at_most_four_looks_and_none_before_the_third_block() -> None:
    assert Looks.planned(16).blocks == (4, 8, 12, 16)
    assert Looks.planned(5).blocks == (3, 4, 5)
    assert Looks.planned(3).blocks == (3,)
    assert Looks.planned(2).blocks == (2,)
