from __future__ import annotations

from flushlab.record import Slice
from flushlab.trial.standing import UNEVEN_SHARE, is_uneven


def a_slice(*, foreign: float | None = 0.0, steal: float = 0.0, seconds: float = 0.5) -> Slice:
    return Slice(round=0, start_s=0.0, seconds=seconds, events=100, foreign_share=foreign, steal_share=steal)


def test_a_machine_that_is_evenly_busy_drops_no_round() -> None:
    assert not is_uneven([a_slice(foreign=0.6), a_slice(foreign=0.6 - UNEVEN_SHARE / 2)], 0.5)


def test_a_round_in_which_one_slice_was_disturbed_does_not_count() -> None:
    assert is_uneven([a_slice(), a_slice(foreign=UNEVEN_SHARE + 0.01)], 0.5)
    assert is_uneven([a_slice(), a_slice(steal=UNEVEN_SHARE + 0.01)], 0.5)


def test_a_round_in_which_the_machine_slept_does_not_count() -> None:
    assert is_uneven([a_slice(), a_slice(seconds=3600.0)], 0.5)


def test_where_nobody_tells_what_others_took_rounds_count() -> None:
    assert not is_uneven([a_slice(foreign=None), a_slice(foreign=None)], 0.5)
