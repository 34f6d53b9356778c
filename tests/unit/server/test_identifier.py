from __future__ import annotations

import pytest

from flushlab.server.sql import quoted


@pytest.mark.parametrize(
    ("names", "sql"),
    [
        (["app"], "`app`"),
        (["my app", "t-1"], "`my app`.`t-1`"),
        (["a`b"], "`a``b`"),
        (["`; DROP DATABASE app; --"], "```; DROP DATABASE app; --`"),
        (["app", "a.b"], "`app`.`a.b`"),
    ],
)
def test_a_name_stays_one_name_whatever_is_in_it(names: list[str], sql: str) -> None:
    assert quoted(*names) == sql
