"""Names and values of settings and workload options as a plan's file has them.

Sits in `plan`; pure. A name that nobody knows is no mistake here, for the server may know it; one that is a
slip away from a known one is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from flushlab.plan.table import SCALARS, File, not_finite
from flushlab.plan.toml import Entry, Node
from flushlab.record import Value
from flushlab.settings.catalog import canonical, load_catalog

_NAME = re.compile(r"[a-z][a-z0-9_.]*")
_SLIPS = 2
"""A name with so few letters wrong counts as misspelled: real neighbours, which have `read` for `write` or
`_max` behind them, are further apart."""


def setting_name(file: File, where: Node | Entry, spelled: str) -> str:
    """A setting's name as variables spell it.

    Raises:
        UsageError: it is none, or looks like a known one misspelled.
    """
    name = canonical(spelled)
    if not _NAME.fullmatch(name):
        raise file.error(where, f"{spelled!r} is not the name of a setting", "for example sync_binlog")
    near = misspelled(name)
    if near:
        raise file.error(where, f"no server is known to have {spelled}", f"did you mean {near}?")
    return name


def setting_values(file: File, node: Node) -> dict[str, Value]:
    """The settings of a table, by their variables' names.

    Raises:
        UsageError: a name is none, stands there twice, or has a value that no setting could have.
    """
    settings: dict[str, Value] = {}
    for entry in node.entries:
        name = setting_name(file, entry, entry.key)
        if name in settings:
            raise file.error(entry, f"{name} is set twice", "in names, - is the same as _")
        if entry.node.kind not in SCALARS or not_finite(entry.node):
            raise file.wrong_type(entry.node, name, "a number, a string, true or false")
        settings[name] = plain(entry.node)
    return settings


def option_values(file: File, entries: Iterable[Entry]) -> dict[str, Value]:
    """The options of a workload; whether it takes them is not known here.

    Raises:
        UsageError: one is no number, text, true or false.
    """
    options: dict[str, Value] = {}
    for entry in entries:
        if entry.node.kind not in SCALARS or not_finite(entry.node):
            raise file.wrong_type(entry.node, entry.key, "a number, a string, true or false")
        options[entry.key] = plain(entry.node)
    return options


def plain(node: Node) -> Value:
    """A scalar as records hold it: true and false are ON and OFF."""
    if node.kind == "boolean":
        return "ON" if node.value else "OFF"
    assert isinstance(node.value, int | float | str)
    return node.value


def misspelled(name: str) -> str | None:
    """The known name that this one is a slip away from, if it is none itself."""
    catalog = load_catalog()
    if name in catalog:
        return None
    known = [name for entry in catalog.settings() for name in (entry.name, *entry.aliases)]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.8)
    return next((one for one in near if _slips(name, one) <= _SLIPS), None)


def _slips(one: str, other: str) -> int:
    """Letters that differ; two in the wrong order count as two."""
    steps = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in steps if tag != "equal")
