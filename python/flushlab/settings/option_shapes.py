"""Option shapes: which values options take, beyond the catalog's settings.

Sits in `settings`: pure apart from reading `option_shapes.txt` once, which `scripts/option_names.py` makes by
asking servers for each of their options.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Literal, cast, get_args

import msgspec

from flushlab.record.server import Flavor
from flushlab.settings.option_names import Release

Kind = Literal[
    "bare",
    "boolean",
    "unsigned",
    "signed",
    "real",
    "enumeration",
    "set",
    "switches",
    "word",
    "plugin",
    "text",
]
"""bare: takes no value; boolean: its one value is what any other text is taken for; switches:
`NAME=on,NAME=off`; word: one of a list, written in full; plugin: whether a plugin is loaded."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Which values an option takes.

    Attributes:
        kind: see `Kind`.
        optional: the option may stand without a value.
        values: members of an enumeration, a set, switches or words, in the server's order.
    """

    kind: Kind
    optional: bool
    values: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Shape:
        """A shape as `str` spells it: `enumeration?:OFF,ON`."""
        kind, _, values = text.partition(":")
        bare = kind.removesuffix("?")
        assert bare in get_args(Kind), f"{text} is no shape"
        named = tuple(values.split(",")) if values else ()
        return cls(kind=cast(Kind, bare), optional=kind.endswith("?"), values=named)

    def __str__(self) -> str:
        return f"{self.kind}{'?' * self.optional}{':' * bool(self.values)}{','.join(self.values)}"


class OptionShapes:
    """Which values the options of listed releases take."""

    def __init__(self, shapes: Mapping[Release, Mapping[str, Shape]]) -> None:
        self.shapes = shapes

    def here(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> Shape | None:
        """The shape on that server; None if it is not known, or the listed releases around it differ."""
        own = sorted(one for one, shapes in self.shapes.items() if one.flavor == flavor and name in shapes)
        before = [one for one in own if one.version <= version][-1:]
        after = [one for one in own if one.version >= version][:1]
        found = {self.shapes[one][name] for one in (*before, *after)}
        if len(found) == 2 and len({(one.kind, one.optional) for one in found}) == 1:
            values = dict.fromkeys(value for one in sorted(found, key=str) for value in one.values)
            return msgspec.structs.replace(next(iter(found)), values=tuple(values))
        return found.pop() if len(found) == 1 else None


@functools.cache
def load_option_shapes() -> OptionShapes:
    """The packaged list; read once."""
    text = (resources.files("flushlab.settings") / "option_shapes.txt").read_text(encoding="utf-8")
    shapes: dict[Release, dict[str, Shape]] = {}
    for line in text.splitlines():
        words = line.split()
        if words[0] == "#":
            continue
        if words[0] == "releases":
            shapes = {Release.parse(word): {} for word in words[1:]}
            continue
        for mark, release in zip(words[1], shapes, strict=True):
            if mark == "+":
                shapes[release][words[0]] = Shape.parse(words[2])
    return OptionShapes(shapes)


def render(shapes: Mapping[Release, Mapping[str, Shape]]) -> str:
    """The text of `option_shapes.txt`, releases by flavor and version."""
    releases: Sequence[Release] = sorted(shapes, key=lambda one: (one.flavor != "mysql", one.version))
    lines = [
        "# Made by scripts/option_names.py, which asks each server; ? where the value may be left out.",
        f"releases {' '.join(map(str, releases))}",
    ]
    for name in sorted({name for of in shapes.values() for name in of}):
        for shape in sorted({str(of[name]) for of in shapes.values() if name in of}):
            marks = ("+" if str(shapes[one].get(name)) == shape else "." for one in releases)
            lines.append(f"{name} {''.join(marks)} {shape}")
    return "\n".join(lines) + "\n"
