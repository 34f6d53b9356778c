"""Tables of a plan's file: typed access to their keys, with the place of every mistake.

Sits in `plan`; pure. Knows TOML's types and nothing of what a plan means.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar, cast

from flushlab.errors import UsageError
from flushlab.plan.toml import Entry, Kind, Node

_T = TypeVar("_T")

SCALARS: tuple[Kind, ...] = ("string", "integer", "float", "boolean")
"""What a setting may be."""


class File:
    """Makes the errors of one file: `PATH:LINE:COL: …`."""

    def __init__(self, path: str) -> None:
        self.path = path

    def error(self, where: Node | Entry, what: str, hint: str | None) -> UsageError:
        """What is wrong there, and the way out."""
        return UsageError(f"{self.path}:{where.line}:{where.column}: {what}", hint=hint)

    def wrong_type(self, node: Node, key: str, wanted: str, hint: str | None = None) -> UsageError:
        """A value of another type than the key takes."""
        article = "an" if node.kind in ("array", "integer") else "a"
        given = f"{node.value}" if not_finite(node) else f"{article} {node.kind}"
        return self.error(node, f"{key} is {given}; it takes {wanted}", hint or f"write {wanted}")


class Table:
    """A table of the file.

    Args:
        file: makes its errors.
        node: the table.
        path: of its keys' paths, like `arm.2.`.
        what: it is, for messages.
        known: the keys that it may have.

    Raises:
        UsageError: it has another key.
    """

    def __init__(self, file: File, node: Node, path: str, what: str, known: Iterable[str]) -> None:
        self.file = file
        self.node = node
        self.path = path
        self.what = what
        self.entries = {entry.key: entry for entry in node.entries}
        keys = tuple(known)
        for entry in node.entries:
            if entry.key not in keys:
                hint = nearest(entry.key, keys, cutoff=0.5) or f"it takes {', '.join(keys)}"
                raise file.error(entry, f"{entry.key} is not a key of {what}", hint)

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def get(self, key: str) -> Node | None:
        """The value, of whatever type."""
        entry = self.entries.get(key)
        return None if entry is None else entry.node

    def need(self, *keys: str) -> None:
        """Stops where a key is missing."""
        for key in keys:
            if key not in self.entries:
                raise self.file.error(self.node, f"{self.what} needs {key}", f"write {key} = … there")

    def text(self, key: str, default: str = "") -> str:
        """A text."""
        return self._scalar(key, ("string",), "a string in quotes", default)

    def truth(self, key: str, default: bool) -> bool:
        """A boolean."""
        return self._scalar(key, ("boolean",), "true or false", default)

    def number(self, key: str, default: float) -> float:
        """A finite number."""
        return float(self._scalar(key, ("integer", "float"), "a number", default))

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        """An integer within bounds, inclusive."""
        number = self._scalar(key, ("integer",), "a whole number", default)
        if not low <= number <= high:
            where = self.entries[key].node
            raise self.file.error(
                where, f"{key} is {number}, which is out of range", f"it takes {low} to {high}"
            )
        return number

    def table(self, key: str, what: str, known: Iterable[str]) -> Table | None:
        """A table."""
        node = self.get(key)
        if node is None:
            return None
        if node.kind != "table":
            raise self.file.wrong_type(node, key, "a table", f"write [{key}]")
        return Table(self.file, node, f"{self.path}{key}.", what, known)

    def tables(self, key: str, what: Callable[[Node, int], str], known: Iterable[str]) -> list[Table]:
        """A list of tables."""
        nodes = self.items(key, ("table",), "a list of tables", f"write each as [[{key}]]")
        return [
            Table(self.file, node, f"{self.path}{key}.{index}.", what(node, index), known)
            for index, node in enumerate(nodes)
        ]

    def items(self, key: str, kinds: tuple[Kind, ...], wanted: str, hint: str) -> tuple[Node, ...]:
        """The items of a list, `wanted` as in `a list of names`; all of these kinds."""
        node = self.get(key)
        if node is None:
            return ()
        if node.kind != "array":
            raise self.file.wrong_type(node, key, wanted, hint)
        for item in node.items:
            if item.kind not in kinds or not_finite(item):
                raise self.file.wrong_type(item, f"an item of {key}", wanted.removeprefix("a list of "), hint)
        return node.items

    def _scalar(self, key: str, kinds: tuple[Kind, ...], wanted: str, default: _T) -> _T:
        node = self.get(key)
        if node is None:
            return default
        if node.kind not in kinds or not_finite(node):
            raise self.file.wrong_type(node, key, wanted)
        return cast(_T, node.value)  # its kind says so


def choice(file: File, node: Node, what: str, key: str, known: Collection[str], example: str) -> str:
    """The text of the key that says which kind of table this is, before the kind's own keys can be judged.

    Args:
        file: makes errors.
        node: the table.
        what: it is, for messages.
        key: that says the kind.
        known: kinds.
        example: a table as it is written, for hints.

    Raises:
        UsageError: with the place: it is no table, has no such key or a misspelled one, or an unknown kind.
    """
    if node.kind != "table":
        raise file.wrong_type(node, what, "a table", f"write {example}")
    given = next((entry.node for entry in node.entries if entry.key == key), None)
    if given is None:
        slip = next((entry for entry in node.entries if nearest(entry.key, [key])), None)
        if slip is not None:
            raise file.error(slip, f"{slip.key} is not a key of {what}", f"did you mean {key}?")
        raise file.error(node, f"{what} has no {key}", f"it takes {', '.join(known)}")
    if given.kind != "string":
        raise file.wrong_type(given, key, "a string in quotes")
    name = str(given.value)
    if name not in known:
        hint = nearest(name, known) or f"it takes {', '.join(known)}"
        raise file.error(given, f"there is no {key} {name!r}", hint)
    return name


def not_finite(node: Node) -> bool:
    """Whether it is infinity or NaN."""
    return node.kind == "float" and isinstance(node.value, str)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """A hint with the known name that is nearest, or None if none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"did you mean {near[0]}?" if near else None
