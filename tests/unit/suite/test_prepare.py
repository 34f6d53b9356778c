"""What tells whether a prepare command may build upon fewer inputs."""

from __future__ import annotations

import pytest

from flushlab.suite.prepare import ONE_STATE, ROW_PER_FILE, only_added, reason_not_reusable
from flushlab.suite.templates import Facts, History


def history(rows: int, checksum: int, table: str = "flyway_schema_history") -> History:
    return History(schema="app", table=table, rows=rows, checksum=checksum)


def test_a_row_per_new_input() -> None:
    assert only_added([history(3, 1)], [history(5, 2)], added=2)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [history(2, 1)]),
        ([history(3, 1)], []),
        ([history(3, 1)], [history(3, 1)]),
        ([history(3, 1)], [history(4, 2)]),
        ([history(3, 1)], [history(6, 2)]),
        ([history(3, 1)], [history(5, 2, "other")]),
        ([history(3, 1)], [history(5, 2), history(1, 1, "alembic_version")]),
    ],
    ids=["none before", "gone", "unchanged", "too few", "too many", "another", "one more"],
)
def test_anything_else_is_a_caveat(before: list[History], after: list[History]) -> None:
    assert not only_added(before, after, added=2)


def test_a_tool_that_keeps_one_row_must_have_changed_it() -> None:
    assert only_added([history(1, 1, "alembic_version")], [history(1, 2, "alembic_version")], added=5)
    assert not only_added([history(1, 1, "alembic_version")], [history(1, 1, "alembic_version")], added=5)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (Facts(rerunnable=True), "there is no table of a migration tool"),
        (Facts(), "there is no table of a migration tool"),
        (
            Facts(histories=(history(1, 1),)),
            "a second run of the prepare command failed or changed something",
        ),
        (Facts(histories=(history(1, 1),), rerunnable=True), ""),
    ],
)
def test_a_template_in_question_is_not_built_upon_and_the_reason_is_told(facts: Facts, why: str) -> None:
    assert reason_not_reusable(facts) == why


def test_names_are_lower_case_and_of_one_kind() -> None:
    assert not ROW_PER_FILE & ONE_STATE
    assert all(name == name.lower() for name in ROW_PER_FILE | ONE_STATE)
