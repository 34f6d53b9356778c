"""docs/reference/fill-plan.md has every generator, key and distribution, and its example is a plan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

from flushlab.generate.plan import GENERATORS, _Column, _Table, parse_plan
from flushlab.plan.draws import DISTRIBUTIONS

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "reference" / "fill-plan.md").read_text(encoding="utf-8")


def rows() -> dict[str, str]:
    """Rows of the tables by their first cell's names."""
    found: dict[str, str] = {}
    for line in PAGE.splitlines():
        if line.startswith("| `"):
            for name in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                found[name] = found.get(name, "") + line
    return found


def test_every_generator_stands_there_with_its_keys() -> None:
    described = rows()
    own = {"distribution", *(key for keys in DISTRIBUTIONS.values() for key in keys)}
    for name, generator in GENERATORS.items():
        for key, type_ in get_type_hints(generator).items():
            if key not in own:
                words = map(str, get_args(type_)) if get_origin(type_) is Literal else ()
                assert all(word in described[name] for word in (key, *words)), (name, key)


def test_every_distribution_and_every_key_of_tables_and_columns_stands_there() -> None:
    described = rows()
    for name, keys in DISTRIBUTIONS.items():
        assert all(f"`{key}`" in described[name] for key in keys), name
    assert {*_Column.__struct_fields__} <= set(described)
    assert {*_Table.__struct_fields__} - {"column"} <= set(described)


def test_the_example_is_a_plan() -> None:
    text = PAGE.split("```toml\n")[1].split("```")[0]
    plan = parse_plan(text, path="shop.toml", rows=60_000)
    assert [(table.name, table.rows) for table in plan.tables] == [("orders", 20_000), ("line", 60_000)]
