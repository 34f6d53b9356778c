"""Steps that take back what was done, some of which fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flushlab.undo import Undo, undo_all

taken: list[str] = []


@pytest.fixture(autouse=True)
def nothing_taken() -> None:
    taken.clear()


def step(name: str, error: BaseException | None = None) -> Callable[[], None]:
    def take() -> None:
        taken.append(name)
        if error is not None:
            raise error

    return take


def test_all_steps_are_taken_and_the_first_error_is_raised_with_the_others_as_notes() -> None:
    with pytest.raises(ValueError, match="first") as raised:
        undo_all(
            [step("a", ValueError("first")), step("b", OSError("second")), step("c", KeyError()), step("d")]
        )
    assert taken == ["a", "b", "c", "d"]
    assert raised.value.__notes__ == ["second", "KeyError"]


def test_an_error_inside_wins_over_those_of_the_steps() -> None:
    with pytest.raises(ValueError, match="inside") as raised, Undo() as undo:
        undo.callback(step("a", OSError("later")))
        undo.callback(step("b"))
        raise ValueError("inside")
    assert taken == ["b", "a"]
    assert raised.value.__notes__ == ["later"]


def test_ctrl_c_in_a_step_is_raised_once_all_are_taken() -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        undo_all(
            [step("a", ValueError("first")), step("b", KeyboardInterrupt()), step("c", OSError("third"))]
        )
    assert taken == ["a", "b", "c"]
    assert raised.value.__notes__ == ["first", "third"]


def test_what_is_kept_is_not_undone() -> None:
    with Undo() as undo:
        undo.callback(step("a"))
        undo.pop_all()
    assert taken == []
