"""Arm: one settings mapping under comparison."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

Value = int | float | str
"""A server variable's value. Booleans are the strings ON and OFF, as the server prints them;
sizes are integers in bytes; enumerations are spelled as the server spells them."""


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One settings mapping under comparison.

    Attributes:
        name: unique within its campaign; shown to people.
        settings: everything that the arm sets, the campaign's base included.
    """

    name: str
    settings: Mapping[str, Value]
