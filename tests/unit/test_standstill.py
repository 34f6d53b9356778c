"""The look-out for standstills of the machine, on which second tries of tests depend."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOOK = """
import sys
from tests.standstill import Standstills
stood = Standstills(tick_s=0.02, least_s=2.0)
print("looks", flush=True)
sys.stdin.readline()
stood.close()
print(stood.found, flush=True)
"""


def look(seconds_stopped: float) -> tuple[list[tuple[float, float]], float, float]:
    """What is found by a process that is stopped for a while; when that was."""
    with subprocess.Popen(
        [sys.executable, "-c", LOOK], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "looks\n"
        began = time.time()
        if seconds_stopped:
            process.send_signal(signal.SIGSTOP)
            time.sleep(seconds_stopped)
            process.send_signal(signal.SIGCONT)
        ended = time.time()
        time.sleep(0.2)  # it has to look once more before it is told to end
        process.stdin.write("\n")
        process.stdin.close()
        return eval(process.stdout.read()), began, ended


def test_a_standstill_is_found_with_its_time() -> None:
    found, began, ended = look(2.5)
    assert any(begin < ended and end > began and end - begin >= 2.0 for begin, end in found), found


def test_nothing_is_found_while_time_goes_by() -> None:
    assert not [one for one in look(0)[0] if one[1] - one[0] < 2.0], "only what the machine really lost"
