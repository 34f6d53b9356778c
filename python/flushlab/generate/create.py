"""Create: CREATE TABLE of a plan's table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from flushlab.server.identifier import quoted


class TableDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A table without its rows.

    Attributes:
        columns: name to definition: `VARCHAR(40) NOT NULL`.
        primary_key, unique, index: columns of the keys.
        foreign_keys: columns, the parent's name and its columns.
        options: behind the parenthesis.
    """

    name: str
    columns: Mapping[str, str]
    primary_key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    index: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...] = ()
    options: str = ""


def create_table(table: TableDefinition) -> str:
    """The statement, without a database and without `;`."""
    lines = [f"{quoted(name)} {definition}" for name, definition in table.columns.items()]
    if table.primary_key:
        lines.append(f"PRIMARY KEY {_listed(table.primary_key)}")
    lines += [f"UNIQUE KEY {quoted('_'.join(key)[:64])} {_listed(key)}" for key in table.unique]
    lines += [f"KEY {quoted('_'.join(key)[:64])} {_listed(key)}" for key in table.index]
    lines += [
        f"FOREIGN KEY {_listed(columns)} REFERENCES {quoted(parent)} {_listed(theirs)}"
        for columns, parent, theirs in table.foreign_keys
    ]
    body = ",\n  ".join(lines)
    options = table.options or "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    return f"CREATE TABLE {quoted(table.name)} (\n  {body}\n) {options}"


def _listed(columns: Iterable[str]) -> str:
    return f"({', '.join(map(quoted, columns))})"
