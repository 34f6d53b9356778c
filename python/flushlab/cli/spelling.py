"""Spelling: characters that a terminal's encoding lacks, in ASCII.

Pure, standard library only: an error handler and a codec, so that whatever prints need not know of them.
"""

from __future__ import annotations

import codecs
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


ENCODING = "spelled_ascii"
"""ASCII under another name: to a stream whose encoding is called ascii, click writes UTF-8 all the same."""


def search(name: str) -> codecs.CodecInfo | None:
    """For `codecs.register`: the codec `ENCODING`."""
    if name != ENCODING:
        return None
    known = codecs.lookup("ascii")
    return codecs.CodecInfo(
        known.encode,
        known.decode,
        incrementalencoder=known.incrementalencoder,
        incrementaldecoder=known.incrementaldecoder,
        name=ENCODING,
    )


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
