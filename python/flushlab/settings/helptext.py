"""Help text: what `mysqld --verbose --help` tells of options and of the values it has read. Pure."""

from __future__ import annotations

import re

import msgspec

from flushlab.settings.catalog import canonical

_TABLE = "Variables (--variable-name=value)"
_OPTION = re.compile(r"^  (?:-[A-Za-z#?], )?--([a-z][a-zA-Z0-9_.-]+)", re.MULTILINE)
_IGNORED = re.compile(
    r"'([a-z0-9_-]+)' (?:was removed\. It does nothing now|is MySQL \S+ / \S+ compatible option)"
)
_ROW = re.compile(r"^([a-z][a-zA-Z0-9_.-]*)(?: +(.*))?$", re.MULTILINE)


class HelpText(msgspec.Struct, frozen=True, kw_only=True):
    """Options that a server takes, and its table `Value (after reading options)`.

    Attributes:
        names: as variables spell them, without `skip_`.
        values: as the table spells them (`TRUE`, `134217728`, `(No default value)`).
    """

    names: frozenset[str]
    values: dict[str, str]


def read_help(text: str) -> HelpText:
    """The options and values in the output of `--verbose --help`."""
    options, _, table = text.partition(_TABLE)
    rows = table.partition("\n---")[2].partition("\n")[2].partition("\n\n")[0]
    return HelpText(
        names=frozenset(canonical(match[1]) for match in _OPTION.finditer(options)),
        values={canonical(match[1]): (match[2] or "").strip() for match in _ROW.finditer(rows)},
    )


def read_ignored(complaints: str) -> frozenset[str]:
    """Options that MariaDB says it takes and does nothing with, for the sake of old option files."""
    return frozenset(canonical(match[1]) for match in _IGNORED.finditer(complaints))
