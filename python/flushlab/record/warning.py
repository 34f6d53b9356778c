"""Warning: a doubt about a figure, as a value that every output shows alike."""

from __future__ import annotations

import msgspec


class Warning(msgspec.Struct, frozen=True, omit_defaults=True):
    """A doubt that stays with a record.

    Attributes:
        slug: stable and machine-readable, for example `window-too-short`.
        text: one sentence for people.
        setting: the one that it is about, where it is about one.
        base: the base of that one of several servers that it is about; empty: about all of them.
    """

    slug: str
    text: str
    setting: str = ""
    base: str = ""
