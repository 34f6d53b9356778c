"""Spelling: characters that a terminal's encoding lacks, in ASCII.

Pure, standard library only: an error handler for `codecs`, so that whatever prints need not know of it.
"""

from __future__ import annotations

import unicodedata

_SPELLED = {
    "…": "...",
    "×": "x",
    "·": "-",
    "–": "-",
    "—": "-",
    "−": "-",
    "→": "->",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "±": "+/-",
    "µ": "u",
    "σ": "sigma",
    "δ": "delta",
    "Φ": "Phi",
    "“": '"',
    "”": '"',
    "⋮": ":",
    "━": "-",
    "╸": "-",
    "╺": "-",
}


def in_ascii(error: UnicodeError) -> tuple[str, int]:
    """An error handler: what stands for the characters that cannot be encoded, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_spelled, error.object[error.start : error.end])), error.end


def _spelled(character: str) -> str:
    if character in _SPELLED:
        return _SPELLED[character]
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain or "?"
