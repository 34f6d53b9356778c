"""TOML with positions: typed access to a document's tables, with the line and column of every mistake.

Sits in `plan`; apart from `read_text` it is pure. The text is parsed by `flushlab._core`; `tomllib` forgets
positions. Plans of series, plans of rows and files of transactions are read by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeVar, cast

import msgspec

from flushlab import _core
from flushlab.errors import StorageError, UsageError
from flushlab.near import nearest
from flushlab.units import format_size

_T = TypeVar("_T")

Kind = Literal["string", "integer", "float", "boolean", "datetime", "array", "table"]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A value.

    Attributes:
        kind: what it is; an array of tables is an array.
        line, column: where it begins, from 1; columns count characters.
        value: of what is neither array nor table; dates, infinity and NaN as text.
        items: of an array.
        entries: of a table, in the file's order.
    """

    kind: Kind
    line: int
    column: int
    value: bool | int | float | str | None = None
    items: tuple[Node, ...] = ()
    entries: tuple[Entry, ...] = ()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a table with its value; `line` and `column` are the key's."""

    key: str
    line: int
    column: int
    node: Node


def read_toml(text: str, *, path: str) -> Node:
    """The document as a table.

    Args:
        text: the document.
        path: for messages.

    Raises:
        UsageError: it is not TOML; `PATH:LINE:COL: …`.
    """
    try:
        return msgspec.json.decode(_core.parse_toml(text), type=Node)
    except _core.TomlError as error:
        raise UsageError(
            f"{path}:{error.line}:{error.column}: this is not TOML: {error.message}",
            hint="strings need quotes; tables are written [name], repeated ones [[name]]",
        ) from None


def read_text(path: Path, most_bytes: int) -> str:
    """The text of a plan's file or pipe.

    Raises:
        UsageError: it is too large to be a plan, or no text.
        StorageError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > most_bytes:
        what = f"{path} has more than {format_size(most_bytes)}, which is too large for a plan"
        raise UsageError(what, hint="is it the right file?")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: this is not UTF-8 text", hint="save the plan as UTF-8") from None


def positions(document: Node) -> dict[str, tuple[int, int]]:
    """Line and column of every key and of every array item, by path: `base.settings.NAME`, `arm.2.name`."""
    return dict(_walk(document, ""))


def _walk(node: Node, prefix: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for entry in node.entries:
        yield f"{prefix}{entry.key}", (entry.line, entry.column)
        yield from _walk(entry.node, f"{prefix}{entry.key}.")
    for index, item in enumerate(node.items):
        yield f"{prefix}{index}", (item.line, item.column)
        yield from _walk(item, f"{prefix}{index}.")


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
        what: it is, for messages.
        known: the keys that it may have.

    Raises:
        UsageError: it has another key.
    """

    def __init__(self, file: File, node: Node, what: str, known: Iterable[str]) -> None:
        self.file = file
        self.node = node
        self.what = what
        self.entries = {entry.key: entry for entry in node.entries}
        keys = tuple(known)
        for entry in node.entries:
            if entry.key not in keys:
                hint = suggestion(entry.key, keys, cutoff=0.5) or f"it takes {', '.join(keys)}"
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
                for slip in nearest(key, self.entries, most=1, cutoff=0.7):
                    what = f"{self.what} has {slip} but no {key}"
                    raise self.file.error(self.entries[slip], what, f"did you mean {key}?")
                raise self.file.error(self.node, f"{self.what} needs {key}", f"write {key} = … there")

    def wrong(self, key: str, what: str, hint: str | None) -> UsageError:
        """An error at the value of a key, or at the table where the key is left out."""
        return self.file.error(self.entries[key].node if key in self else self.node, what, hint)

    def text(self, key: str, default: str = "") -> str:
        """A text."""
        return self._scalar(key, ("string",), "a string in quotes", default)

    def truth(self, key: str, default: bool) -> bool:
        """A boolean."""
        return self._scalar(key, ("boolean",), "true or false", default)

    def word(self, key: str, words: Collection[str], default: str) -> str:
        """One of several words."""
        given = self.text(key, default)
        if given not in words and key in self:
            hint = suggestion(given, words) or f"it takes {' or '.join(words)}"
            raise self.wrong(key, f"unknown {key} {given!r}", hint)
        return given

    def number(
        self, key: str, default: float, low: float = -math.inf, high: float = math.inf, *, above: bool = False
    ) -> float:
        """A finite number within bounds, inclusive; `above` leaves the lower one out."""
        number = float(self._scalar(key, ("integer", "float"), "a number", default))
        if low <= number <= high and not (above and number == low):
            return number
        least = f"more than {low:.9g}" if above else f"{low:.9g}"
        takes = (
            least
            if high == math.inf
            else f"{least} and at most {high:.9g}"
            if above
            else f"{least} to {high:.9g}"
        )
        raise self.wrong(key, f"{key} is {number:g}, which is out of range", f"it takes {takes}")

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        """An integer within bounds, inclusive."""
        number = self._scalar(key, ("integer",), "a whole number", default)
        if not low <= number <= high:
            raise self.wrong(key, f"{key} is {number}, which is out of range", f"it takes {low} to {high}")
        return number

    def table(self, key: str, what: str, known: Iterable[str]) -> Table | None:
        """A table."""
        node = self.get(key)
        if node is None:
            return None
        if node.kind != "table":
            raise self.file.wrong_type(node, key, "a table", f"write [{key}]")
        return Table(self.file, node, what, known)

    def tables(self, key: str, word: str, known: Iterable[str]) -> list[Table]:
        """A list of tables, each a `word` with its name, or else its number."""
        tables = []
        for number, node in enumerate(
            self.items(key, ("table",), "a list of tables", f"write each as [[{key}]]"), 1
        ):
            name = next((entry.node.value for entry in node.entries if entry.key == "name"), None)
            what = f"the {word} {name}" if isinstance(name, str) else f"{word} {number}"
            tables.append(Table(self.file, node, what, known))
        return tables

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


Readers = Mapping[str, tuple[tuple[str, ...], Callable[[Table], _T]]]
"""The kinds of a table: the keys of each, and what makes its value."""


def read_kind(
    file: File, node: Node, what: str, key: str, kinds: Readers[_T], example: str, more: Iterable[str] = ()
) -> tuple[Table, _T]:
    """A table of one of several kinds, and its value. The kind decides which keys the table may have.

    Args:
        file: makes errors.
        node: the table.
        what: it is, for messages.
        key: that says the kind.
        kinds: all of them.
        example: a table as it is written, for hints.
        more: keys that it may have beside those of its kind.

    Raises:
        UsageError: with the place: no table, no kind or an unknown one, a key that the kind does not have.
    """
    if node.kind != "table":
        raise file.wrong_type(node, what, "a table", f"write {example}")
    given = next((entry.node for entry in node.entries if entry.key == key), None)
    if given is None:
        slip = next((entry for entry in node.entries if nearest(entry.key, [key])), None)
        if slip is not None:
            raise file.error(slip, f"{slip.key} is not a key of {what}", f"did you mean {key}?")
        raise file.error(node, f"{what} has no {key}", f"it takes {', '.join(kinds)}")
    if given.kind != "string":
        raise file.wrong_type(given, key, "a string in quotes")
    kind = str(given.value)
    if kind not in kinds:
        hint = suggestion(kind, kinds) or f"it takes {', '.join(kinds)}"
        raise file.error(given, f"there is no {key} {kind!r}", hint)
    keys, read = kinds[kind]
    table = Table(file, node, f"{what}, of {key} {kind}", (key, *more, *keys))
    return table, read(table)


def not_finite(node: Node) -> bool:
    """Whether it is infinity or NaN."""
    return node.kind == "float" and isinstance(node.value, str)


def suggestion(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """A hint with the known name that is nearest, or None if none is near."""
    near = nearest(name, known, most=1, cutoff=cutoff)
    return f"did you mean {near[0]}?" if near else None
