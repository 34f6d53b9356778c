"""A network with a latency between processes that have a network of their own each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from flushlab.errors import FlushlabError
from flushlab.process.network import require_network

LATENCY_S = 0.02
PROGRAM = """
import json, sys, time
from functools import partial
from pathlib import Path
from flushlab.process import Guard, Reach
from flushlab.process.network import EmulatedNetwork

network, guards, pids = EmulatedNetwork(0.02), [], []
for number in (1, 2, 3):
    guards.append(Guard(f"network-{number}"))
    process = guards[-1].spawn(
        ["/bin/sleep", "600"],
        log=Path("/dev/null"),
        cwd=Path("/"),
        environment={},
        reach=Reach(None, "own"),
        before_exec=partial(network.attach, number),
    )
    pids.append(process.pid)
network.detach(3)
print(json.dumps([network.measured_s, network._relay.pid, *pids]), flush=True)
time.sleep(600)
"""


def is_there(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_processes_reach_each_other_late_and_nothing_else_and_nothing_outlives_a_kill(
    private_home: Path,
) -> None:
    try:
        require_network(LATENCY_S)
    except FlushlabError as error:
        pytest.skip(error.message)
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as flushlab:
        assert flushlab.stdout is not None
        measured_s, *pids = json.loads(flushlab.stdout.readline())
        networks = {os.readlink(f"/proc/{pid}/ns/net") for pid in pids[1:]}  # noqa: PTH115
        devices = Path(f"/proc/{pids[1]}/net/dev").read_text()
        without = Path(f"/proc/{pids[3]}/net/dev").read_text()
        routes = Path(f"/proc/{pids[1]}/net/route").read_text().splitlines()[1:]
        flushlab.send_signal(signal.SIGKILL)
    assert measured_s >= LATENCY_S
    assert len(networks) == 3
    assert ("tun:" in devices, "tun:" in without) == (True, False), "the third was taken off"
    assert sorted(line.split(":")[0].strip() for line in devices.splitlines()[2:]) == ["lo", "tun"]
    assert [line.split()[:2] for line in routes] == [["tun", "000012C6"]], "no way out: 198.18.0.0 alone"
    deadline = time.monotonic() + 60
    while any(map(is_there, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if is_there(pid)]
