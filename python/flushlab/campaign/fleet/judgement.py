"""Judgement: whether a machine of a fleet is fit for a campaign. Sits in `campaign.fleet`; pure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from flushlab.campaign.fleet.worker import MachineFacts
from flushlab.fleet.machines import CLOCK_S
from flushlab.units import format_seconds, format_size

MEMORY_SHARE = 0.9
"""Machines of one kind differ by what their firmware takes."""


class Needs(NamedTuple):
    """What a campaign needs of each machine.

    Attributes:
        driver: the machine that decided the campaign's settings.
        root: words for what needs root; empty if nothing does.
    """

    driver: MachineFacts
    root: str = ""


def problems(name: str, there: MachineFacts, needs: Needs, now_s: float | None = None) -> Iterator[str]:
    """Why a machine is not fit; nothing if it is.

    Args:
        name: of the machine.
        there: its facts, of this moment.
        needs: of the campaign.
        now_s: Unix time of the driver when it got them.
    """
    here = needs.driver
    if there.flushlab != here.flushlab:
        yield f"machine {name} has flushlab {there.flushlab}, and this one {here.flushlab}"
        return
    if there.cpu_count < here.cpu_count:
        yield (
            f"machine {name} has {there.cpu_count} processors, and the one that decides the settings"
            f" {here.cpu_count}"
        )
    if there.memory_bytes < MEMORY_SHARE * here.memory_bytes:
        yield (
            f"machine {name} has {format_size(there.memory_bytes)} of memory, and the one that decides the"
            f" settings {format_size(here.memory_bytes)}"
        )
    if needs.root and not there.is_root:
        yield f"machine {name} runs flushlab without root, which {needs.root} needs"
    off_s = there.now_s - (time.time() if now_s is None else now_s)
    if abs(off_s) > CLOCK_S:
        yield f"the clock of machine {name} is {format_seconds(abs(off_s))} {'fast' if off_s > 0 else 'slow'}"
