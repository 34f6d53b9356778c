"""Waiting for conditions with a deadline; tests never sleep for a fixed time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_S = 300.0
"""For whatever must come: machines that run tests stand still for seconds, and give a twentieth of a core."""


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    """Returns as soon as `condition()` is true; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        pause.wait(0.01)
