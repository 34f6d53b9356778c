"""Warning: a caveat about a result, as a value that every output shows alike."""

from __future__ import annotations

import msgspec


class Warning(msgspec.Struct, frozen=True, omit_defaults=True):
    """A caveat that stays with a record.

    Attributes:
        slug: stable and machine-readable, for example `window-too-short`.
        text: one sentence for people.
        setting: the one that it is about, where it is about one.
        arms: arms that the caveat is about, by their displayed names; empty: those of all arms.
        against: the arm that these are compared with, if the caveat is about the ratio only.
    """

    slug: str
    text: str
    setting: str = ""
    arms: tuple[str, ...] = ()
    against: str = ""
