"""Promise: whether what crashes have left of a configuration is what its durability floor allows. Pure."""

from __future__ import annotations

from flushlab.crashed.measured import age
from flushlab.record import CrashArm, CrashKind
from flushlab.settings.durability import FLUSH_INTERVAL_S
from flushlab.settings.floor import Floor

ABOUT_S = 2 * FLUSH_INTERVAL_S
"""What "about a second" is taken for: servers flush once a second, and not on the dot."""

_WORDS = {"not_started": "the server did not start again", "inconsistent": "what came back was inconsistent"}


def unproven(arm: CrashArm, floor: Floor) -> str | None:
    """Why crashes that broke nothing prove nothing of a floor, in words; None if they do.

    Args:
        floor: that it was promised to keep; `strict` is about the binary log, too.
    """
    of = f"of {len(arm.images):,} crashes"
    if all(image.outcome == "unknown" for image in arm.images):
        why = next((image.reasons[0] for image in arm.images if image.reasons), "")
        return f"none {of} could be judged" + (f" ({why})" if why else "")
    unread = [image.binlog_unread for image in arm.images if image.binlog_unread]
    if unread and floor is Floor.STRICT:
        return f"the binary log could not be read after {len(unread):,} {of}: {unread[0]}"
    return None


def broken(arm: CrashArm, kind: CrashKind, floor: Floor) -> str | None:
    """What the crashes of a configuration took beyond its floor, in words; None if nothing.

    `throwaway` promises nothing. The others promise that the server starts and that what comes back is a
    state that it was in. `strict` allows no acknowledged commit to be missing, from the tables or from the
    binary log; `second` allows those of about a second to be, but not where only the process was killed;
    `relaxed` allows that, too.
    """
    if floor is Floor.THROWAWAY:
        return None
    of = f"of {len(arm.images):,} crashes"
    for outcome, words in _WORDS.items():
        seen = [image for image in arm.images if image.outcome == outcome]
        if seen:
            why = seen[0].reasons[0] if seen[0].reasons else ""
            return f"{words} in {len(seen)} {of}" + (f" ({why})" if why else "")
    allowed_s = ABOUT_S
    if floor is Floor.STRICT or (floor is Floor.SECOND and kind == "process"):
        allowed_s = 0.0
    lost = [image for image in arm.images if image.lost and (not allowed_s or image.lost_s > allowed_s)]
    if lost:
        most, longest_s = max(image.lost for image in lost), max(image.lost_s for image in lost)
        return f"acknowledged commits were lost in {len(lost)} {of}, up to {most:,}, {age(longest_s)}"
    gone = [image.binlog.lost for image in arm.images if image.binlog and image.binlog.lost]
    if gone and floor is Floor.STRICT:
        return f"the binary log lacked acknowledged commits after {len(gone)} {of}, up to {max(gone):,}"
    return None
