"""Warning: a doubt about a figure, as a value that every output shows alike."""

from __future__ import annotations

import msgspec


class Warning(msgspec.Struct, frozen=True):
    """A doubt that stays with a record.

    Attributes:
        slug: stable and machine-readable, for example `window-too-short`.
        text: one sentence for people.
    """

    slug: str
    text: str
