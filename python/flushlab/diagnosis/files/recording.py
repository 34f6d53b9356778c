"""Source: a recording of `flushlab watch --record`. Pure."""

from __future__ import annotations

import msgspec

from flushlab.diagnosis.files.told import Recorded, Source, Told, lines
from flushlab.diagnosis.recording import SCHEMA, Head, Stretch


def parse(text: str) -> Told:
    """The recording of a text; a line that a kill has cut is left out."""
    first, *rest = [*lines(text)] or [""]
    try:
        head = msgspec.json.decode(first, type=Head)
    except msgspec.DecodeError:
        return Told()
    stretches = []
    for line in rest:
        try:
            stretches.append(msgspec.json.decode(line, type=Stretch))
        except msgspec.DecodeError:
            break
    return Told(recordings=(Recorded(head=head, stretches=tuple(stretches)),))


SOURCE = Source(name="flushlab watch --record", marks=(SCHEMA,), parse=parse)
