from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.probe.policy import RELAXED, SECOND, STRICT, Policy, parse_flush, parse_policy, parse_threads


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("strict", STRICT),
        ("second", SECOND),
        ("relaxed", RELAXED),
        ("3/1", Policy(3, 1)),
        ("1/0", Policy(1, 0)),
        ("2/4294967295", Policy(2, 4294967295)),
    ],
)
def test_a_policy_is_a_floor_or_two_settings(text: str, policy: Policy) -> None:
    assert parse_policy(text) == policy


@pytest.mark.parametrize(
    "text", ["", "fast", "1", "1/", "1/1/1", "-1/1", "4/1", "1/4294967296", "1/99999999999"]
)
def test_what_no_server_takes_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_policy(text)
    assert raised.value.hint


def test_names_say_the_floor_where_there_is_one() -> None:
    assert [one.name for one in (STRICT, Policy(3, 1), SECOND, RELAXED, Policy(1, 0))] == [
        "strict 1/1",
        "strict 3/1",
        "second 2/1000",
        "relaxed 0/0",
        "1/0",
    ]


def test_only_mariadb_has_3() -> None:
    assert "MariaDB" in Policy(3, 1).format
    assert "MariaDB" not in STRICT.format


def test_threads_are_a_list_without_repeats() -> None:
    assert parse_threads("64, 1,16,16") == (1, 16, 64)


@pytest.mark.parametrize("text", ["", "0", "257", "1,,2", "many", "1;2", "1.5"])
def test_threads_outside_1_to_256_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_threads(text)


def test_a_flush_mode_is_one_of_four() -> None:
    assert parse_flush("parallel-leader") == "parallel-leader"
    with pytest.raises(UsageError) as raised:
        parse_flush("Serial")
    assert "serial, parallel-leader, parallel, redo" in (raised.value.hint or "")
