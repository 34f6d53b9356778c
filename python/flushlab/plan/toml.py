"""TOML with positions: every key and value of a document with the line and column where it stands.

Sits in `plan`; pure. The text is read by `flushlab._core`; `tomllib` forgets positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from flushlab import _core
from flushlab.errors import UsageError

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
