"""Other load: whether the machine is quiet enough to measure on.

Sits in `campaign`; asked before the first trial, when no server of flushlab's runs. The answer is said in one
line and stays with the facts. Nothing is refused for it: the trials tell whether they were disturbed, but for
those of a command, whose own programs look like others'.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from flushlab.campaign.analysis import too_busy
from flushlab.campaign.watcher import Watcher
from flushlab.errors import MeasurementError
from flushlab.machine import pressure
from flushlab.record import OtherLoad
from flushlab.trial import DISCARD_FOREIGN_CPU_SHARE, DISCARD_STEAL_SHARE
from flushlab.units import format_seconds

WATCH_S = 3.0
PAUSE_S = 5.0
"""Seconds between two samples while waiting: a sample uses CPU time that others leave."""
MOST_WAIT_S = 1800.0
TELL_S = 60.0
"""So often it is said that the machine is still busy."""
BUSY_DISK_SHARE = 0.25
"""A disk that others keep busy for more of the time than this slows commits down visibly."""
SWITCH = "FLUSHLAB_QUIET_CHECK"
"""Environment variable; `off` leaves the check out."""

Watch = Callable[[float, Path], OtherLoad]


def check_other_load(
    data_root: Path, watcher: Watcher, *, wait: bool, watch: Watch = pressure.watch
) -> OtherLoad | None:
    """What others take of the machine now; None if the check is switched off.

    Args:
        data_root: where data directories go.
        watcher: told in one line.
        wait: look again until the machine is quiet.
        watch: looks.

    Raises:
        MeasurementError: the machine did not become quiet in time.
    """
    if not wait and os.environ.get(SWITCH) == "off":
        return None
    began = said_s = time.monotonic()
    seen = watch(WATCH_S, data_root)
    if not (busy := reasons(seen)):
        watcher.say(f"machine: quiet ({seen.words})")
        return seen
    if not wait:
        watcher.warn(f"the machine is busy: {busy}. --wait-for-quiet waits until it is quiet.")
        return seen
    watcher.say(f"waiting for a quiet machine, at most {format_seconds(MOST_WAIT_S)}: {busy}")
    while busy:
        now = time.monotonic()
        if now - began > MOST_WAIT_S:
            raise MeasurementError(
                f"the machine was not quiet within {format_seconds(MOST_WAIT_S)}: {busy}",
                hint="try later, or measure anyway without --wait-for-quiet",
            )
        if now - said_s > TELL_S:
            said_s = now
            watcher.say(f"still waiting after {format_seconds(now - began)}: {busy}")
        time.sleep(PAUSE_S)
        seen = watch(WATCH_S, data_root)
        busy = reasons(seen)
    waited_s = time.monotonic() - began
    watcher.say(f"machine: quiet after {format_seconds(waited_s)} ({seen.words})")
    return msgspec.structs.replace(seen, waited_s=waited_s)


def reasons(seen: OtherLoad, *, past: bool = False) -> str:
    """What keeps the machine from being quiet, or what kept it; empty if nothing."""
    use, is_busy, takes = ("used", "was", "took") if past else ("use", "is", "takes")
    found = []
    if seen.cpu_share > DISCARD_FOREIGN_CPU_SHARE:
        found.append(f"other programs {use} {seen.cpu_share:.0%} of the CPU time")
    if (seen.disk_share or 0.0) > BUSY_DISK_SHARE:
        found.append(f"the disk {is_busy} busy for {seen.disk_share:.0%} of the time")
    if seen.steal_share > DISCARD_STEAL_SHARE:
        found.append(f"the hypervisor {takes} {seen.steal_share:.0%} of the CPU time")
    return ", ".join(found)


def blame(trials: int, disturbed: int, before: OtherLoad | None) -> str:
    """What of the machine is, or may be, the reason where nothing was found; empty if nothing is known.

    Args:
        trials, disturbed: how many were run, and how many of them other load disturbed.
        before: what others took before the first trial.
    """
    if (busy := too_busy(trials, disturbed)) or before is None:
        return busy
    found = reasons(before, past=True)
    return f"The machine was busy before the first trial: {found}" if found else ""
