"""Campaigns that SIGKILL and Ctrl-C interrupt, as the tests of several commands run them."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from flushlab.record import Trial
from flushlab.store import CampaignRow, Store
from tests.waiting import wait_until

Start = Callable[..., subprocess.Popen[str]]
"""Starts the command with the words that it takes."""

_PAUSE_S = 0.1
"""Opening the store and reading all command lines take milliseconds of a processor."""


def trials_saved(home: Path) -> int:
    file = home / "store.sqlite"
    if not file.exists():
        return 0
    try:
        with sqlite3.connect(file) as connection:
            return int(connection.execute("SELECT count(*) FROM trial").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # not yet made


def servers_of(home: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(home) in words and int(entry.name) != os.getpid():
                found.append(words)
    return found


def interrupted_twice(
    start: Start, home: Path, first: Sequence[str], resuming: Sequence[str] = ()
) -> tuple[CampaignRow, list[Trial]]:
    """A campaign that was killed after three trials, resumed, and stopped by Ctrl-C after two more.

    Args:
        start: starts the command.
        home: of flushlab.
        first: words that start the campaign.
        resuming: words besides --resume.

    Returns:
        The campaign, and its trials before it was resumed.
    """
    # SIGKILL in the middle: at most the running trial is lost, no server is left.
    killed = start(*first)
    wait_until(lambda: trials_saved(home) >= 3 or killed.poll() is not None, "three trials", 280, _PAUSE_S)
    assert killed.poll() is None, killed.communicate()[1]
    killed.kill()
    killed.communicate()
    saved = trials_saved(home)
    wait_until(lambda: not servers_of(home), "no server is left after SIGKILL", pause_s=_PAUSE_S)
    with Store(home / "store.sqlite") as store:
        (campaign,) = store.campaigns()
        assert campaign.state == "running"
        before = list(store.trials(campaign.id))

    # Resumed, then Ctrl-C: exits with 130, keeps what was measured, says how to go on.
    resumed = start("--resume", campaign.id, *resuming)
    wait_until(
        lambda: trials_saved(home) >= saved + 2 or resumed.poll() is not None,
        "two more trials",
        280,
        _PAUSE_S,
    )
    resumed.send_signal(signal.SIGINT)
    stdout, stderr = resumed.communicate(timeout=280)
    assert resumed.returncode == 130, stderr
    assert f"--resume {campaign.id}" in stdout + stderr
    assert "Traceback" not in stderr
    wait_until(lambda: not servers_of(home), "no server is left after Ctrl-C", pause_s=_PAUSE_S)
    return campaign, before
