"""Plans from a schema: what the types of its columns allow."""

from __future__ import annotations

import pytest

from flushlab.generate.schema import Column, _generator, _values
from flushlab.generate.types import parse_type


def column(definition: str) -> Column:
    kind = parse_type(definition)
    assert kind is not None
    return Column(
        name="c",
        type=kind,
        definition=definition,
        nullable=False,
        auto_increment=False,
        generated=False,
        has_default=False,
        srid=0,
    )


@pytest.mark.parametrize(
    ("definition", "prefix", "values"),
    [
        ("inet4", None, 7290),
        ("inet6", None, 61_440),
        ("time", None, 86_400),
        ("time(2)", None, 8_640_000),
        ("text", 3, 26**3),
        ("blob", 2, 26**2),
        ("varchar(40)", 3, 26**3),
        ("varchar(2)", None, 26**2),
        ("varchar(40)", None, 10**9),
        ("bigint", None, 10**9),
    ],
)
def test_a_unique_key_has_as_many_rows_as_its_generator_has_values(
    definition: str, prefix: int | None, values: int
) -> None:
    assert _values(column(definition), prefix) == values


def test_a_collection_of_shapes_has_its_generator_under_both_names() -> None:
    names = ("geometrycollection", "geomcollection")
    found = [_generator(column(name), None, unique=False, alone=False) for name in names]
    assert found == [{"generator": "geometry", "shape": "geometrycollection"}] * 2
