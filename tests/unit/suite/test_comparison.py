"""Ratios of a comparison."""

from __future__ import annotations

import pytest

from flushlab.record import Performance, StatementKind
from flushlab.suite.comparison import Side, ratio


def test_one_block_has_no_interval() -> None:
    found = ratio([30.0], [3.0])
    assert (found.estimate, found.low, found.high) == (10.0, 10.0, 10.0)


def test_blocks_give_an_interval_around_the_geometric_mean() -> None:
    found = ratio([30.0, 33.0, 29.0], [3.0, 3.1, 3.05])
    assert found.estimate == pytest.approx((30 * 33 * 29 / (3 * 3.1 * 3.05)) ** (1 / 3))
    assert 5 < found.low < found.estimate < found.high < 20


def test_the_databases_part_is_what_no_application_does() -> None:
    told = Performance(statements_by_kind=(StatementKind(kind="insert", count=1, seconds=4.0),))
    side = Side(
        seconds={"ready": 1.0, "prepare": 2.0, "command": 6.0, "teardown": 0.5},
        exit_code=0,
        told={"prepare": Performance(), "command": told},
    )
    assert (side.total_s, side.database_s, side.application_s) == (9.5, 5.5, 4.0)
