"""Texts that a campaign ran, as they were when it started."""

from __future__ import annotations

from typing import Literal

import msgspec

SourceKind = Literal["option file", "plan", "transactions", "setup", "script"]


class SourceText(msgspec.Struct, frozen=True, kw_only=True):
    """A text that a campaign ran, so that whoever gets its report can read and repeat it.

    Attributes:
        kind: role in the campaign.
        name: as the campaign names the file.
        size_bytes: of the file.
        sha256: of the file; of `text`, where that has passwords hidden.
        text: its content, with `***` for passwords; None if it is too long or no text.
    """

    kind: SourceKind
    name: str
    size_bytes: int
    sha256: str
    text: str | None
