"""What a test has left running, found by its folder."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def processes_of(folder: Path) -> list[int]:
    """Living processes whose command line names the folder; zombies are dead, and have no command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if os.fsencode(folder) in words:
                found.append(int(entry.name))
    return found


def kill_left(folder: Path) -> None:
    """Kills them, until none is left: they would go on without the folder, and nobody would find them."""
    while left := processes_of(folder):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
