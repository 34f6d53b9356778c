"""TOML with positions: where keys and values stand, and what is said of text that is no TOML."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.errors import UsageError
from flushlab.plan.toml import Node, positions, read_toml

DOCUMENT = """\
title = "Ähre" # a comment
dotted.key = 1
[base]
  settings = { one = 1.5, "two words" = [true, 'x'] }
[[arm]]
name = "a"
[arm.settings]
long = \"\"\"
text\"\"\"
[[arm]]
name = "b"
"""


def value(node: Node) -> Any:
    if node.kind == "array":
        return [value(item) for item in node.items]
    if node.kind == "table":
        return {entry.key: value(entry.node) for entry in node.entries}
    return node.value


def test_every_key_and_item_has_its_line_and_column() -> None:
    assert positions(read_toml(DOCUMENT, path="x")) == {
        "title": (1, 1),
        "dotted": (2, 1),
        "dotted.key": (2, 8),
        "base": (3, 2),
        "base.settings": (4, 3),
        "base.settings.one": (4, 16),
        "base.settings.two words": (4, 27),
        "base.settings.two words.0": (4, 42),
        "base.settings.two words.1": (4, 48),
        "arm": (5, 3),
        "arm.0": (5, 1),
        "arm.0.name": (6, 1),
        "arm.0.settings": (7, 6),
        "arm.0.settings.long": (8, 1),
        "arm.1": (10, 1),
        "arm.1.name": (11, 1),
    }


def test_values_are_those_of_the_standard_library() -> None:
    assert value(read_toml(DOCUMENT, path="x")) == tomllib.loads(DOCUMENT)


def test_columns_count_characters_not_bytes() -> None:
    assert positions(read_toml("a = { 'ä' = 1, b = 2 }", path="x"))["a.b"] == (1, 16)


def test_dates_infinity_and_nan_come_as_text() -> None:
    assert value(read_toml("a = [1979-05-27, inf, -inf]\nb = nan", path="x")) == {
        "a": ["1979-05-27", "inf", "-inf"],
        "b": "NaN",
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = 1\nb = ", "2:5"),
        ("a = 1\n\na = 2", "3:1"),
        ("[a]\nb = 1\n[a]\n", "3:2"),
        ('a = "x', "1:"),
        ("title = yes\n", "1:9"),
        ("a = 99999999999999999999", "1:"),
        ("a = " + "[" * 10_000, "1:"),
        ("a = 1\n\0", "2:"),
    ],
)
def test_what_is_no_toml_is_a_usage_error_with_its_place(text: str, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_toml(text, path="plans/x.toml")
    assert caught.value.message.startswith(f"plans/x.toml:{place}"), caught.value.message
    assert "this is not TOML" in caught.value.message
    assert caught.value.hint


@given(st.text())
def test_any_text_is_toml_or_a_usage_error_within_it(text: str) -> None:
    try:
        node = read_toml(text, path="x")
    except UsageError as error:
        line, column = error.message.split(":")[1:3]
        assert 1 <= int(line) <= text.count("\n") + 1
        assert 1 <= int(column) <= len(text) + 1
    else:
        assert node.kind == "table"
