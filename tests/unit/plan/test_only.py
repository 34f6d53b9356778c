from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.plan.plan import chosen

NAMES = ("B primary key", "H doublewrite off", "J ZFS, 16k records", "J2 ZFS, doublewrite off", "log buffer")


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("H doublewrite off", "H doublewrite off"),
        ("h DOUBLEWRITE off", "H doublewrite off"),
        ("H", "H doublewrite off"),
        ("J", "J ZFS, 16k records"),
        ("J2", "J2 ZFS, doublewrite off"),
        ("log b", "log buffer"),
    ],
)
def test_a_name_or_how_only_one_name_begins_stands_for_the_arm(word: str, name: str) -> None:
    assert chosen([word], NAMES) == (name,)


def test_arms_come_in_the_order_of_the_plan_and_once() -> None:
    assert chosen(["log buffer", "H", "B", "H doublewrite off"], NAMES) == (NAMES[0], NAMES[1], NAMES[4])


def test_no_words_choose_nothing() -> None:
    assert chosen([], NAMES) == ()


def test_a_name_is_meant_itself_where_others_begin_like_it() -> None:
    assert chosen(["flush"], ("flush", "flush 2", "flush 2, no binlog")) == ("flush",)
    assert chosen(["flush 2"], ("flush", "flush 2", "flush 2, no binlog")) == ("flush 2",)


def test_the_beginning_of_several_names_is_refused() -> None:
    with pytest.raises(UsageError, match="fits several arms") as raised:
        chosen(["trx_commit"], ("trx_commit=0", "trx_commit=2"))
    assert raised.value.hint == "name one of: trx_commit=0; trx_commit=2"


@pytest.mark.parametrize("word", ["", " ", "Z"])
def test_what_no_arm_is_called_is_refused_with_the_names(word: str) -> None:
    with pytest.raises(UsageError, match="has no such arm") as raised:
        chosen([word], NAMES)
    assert raised.value.hint is not None
    assert "H doublewrite off" in raised.value.hint


def test_a_misspelled_name_gets_a_suggestion() -> None:
    with pytest.raises(UsageError) as raised:
        chosen(["H doublewite off"], NAMES)
    assert raised.value.hint == "did you mean 'H doublewrite off'?"
