from __future__ import annotations

import pytest

from flushlab.settings.check import check
from flushlab.settings.option_names import OptionShape, OptionShapes, Release, load_option_shapes
from tests.unit.settings.servers import MARIADB1011


@pytest.mark.parametrize("text", ["enumeration?:OFF,ON", "signed", "text?", "boolean?:OFF"])
def test_a_shape_is_read_as_it_is_written(text: str) -> None:
    assert str(OptionShape.parse(text)) == text


def test_between_two_releases_an_option_takes_the_values_of_both() -> None:
    older, newer = OptionShape.parse("enumeration:A,B"), OptionShape.parse("enumeration:B,C")
    shapes = OptionShapes({Release("mysql", (5, 7)): {"x": older}, Release("mysql", (9, 7)): {"x": newer}})
    between = shapes.here("x", "mysql", (8, 0))
    assert between is not None and set(between.values) == {"A", "B", "C"}
    assert shapes.here("x", "mysql", (5, 7)) == older
    assert shapes.here("x", "mariadb", (10, 11)) is None


def test_between_releases_that_differ_in_kind_nothing_is_known() -> None:
    shapes = OptionShapes(
        {
            Release("mysql", (5, 7)): {"x": OptionShape.parse("signed")},
            Release("mysql", (9, 7)): {"x": OptionShape.parse("text")},
        }
    )
    assert shapes.here("x", "mysql", (8, 0)) is None


def test_the_packaged_list_has_shapes_for_every_server() -> None:
    assert all(len(shapes) > 400 for shapes in load_option_shapes().shapes.values())


@pytest.mark.parametrize(("text", "fatal"), [("", True), ("0", True), ("16384", True), ("1M", False)])
def test_a_session_of_mariadb_10_that_may_use_too_little_memory_ends_the_server(
    text: str, fatal: bool
) -> None:
    checked = check(f"[mysqld]\nmax_session_mem_used={text}\n", MARIADB1011)
    assert checked.starts is not fatal
