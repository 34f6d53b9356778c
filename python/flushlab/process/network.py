"""Emulated network: a network between processes that reaches nothing else, with a latency that was asked for.

Process layer; flushlab's end of `network_main.py`. Each process has a network of its own (`Guard.spawn` with
`own_network`) and is attached to this one before it executes its program. A latency is believed only after
it was measured. Nothing is left behind: devices and networks end with their processes.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

from flushlab.errors import HarnessError, UsageError
from flushlab.process.network_main import NETWORK
from flushlab.undo import Closing
from flushlab.units import format_latency

LATENCIES_S = (0.0002, 1.0)
"""What may be asked for. Below, the carrying itself takes as long; above, a cluster would fall apart."""
BELIEVED = (0.9, 1.5)
"""Range of measured / asked within which a latency is believed."""
CARRYING_S = 0.0005
"""What the carrying may add to it."""

_MAIN = Path(__file__).with_name("network_main.py")
_COMMAND = (sys.executable, "-I", "-S", str(_MAIN))
_ANSWER_S = 30.0
_TRIES = 10
"""So often a latency is measured again that is not what was asked for: a busy machine has moments."""
_POLL_S = 0.001


def require_network(latency_s: float) -> None:
    low, high = LATENCIES_S
    if not low <= latency_s <= high:
        raise UsageError(
            f"--network-latency {format_latency(latency_s * 1e6)} is out of range",
            hint=f"it takes {format_latency(low * 1e6)} to {format_latency(high * 1e6)}, there and back",
        )
    if os.geteuid() != 0:
        raise UsageError(
            f"--network-latency needs root; flushlab runs as user {os.geteuid()}",
            hint="run flushlab as root (servers still run as an unprivileged user), or remove it",
        )
    done = subprocess.run([*_COMMAND, "check"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HarnessError(
            f"no network with a latency can be made here: {done.stderr.strip()}",
            hint="it needs network namespaces and /dev/net/tun, which containers often lack; try on the host",
        )


class EmulatedNetwork(Closing):
    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.measured_s: float | None = None
        """The longest of the shortest round trips between any two of its processes."""
        self._pids: dict[int, int] = {}
        try:
            self._relay = subprocess.Popen(
                [*_COMMAND, "relay", str(latency_s / 2)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
            )
        except OSError as error:
            raise HarnessError(f"the network between nodes cannot be made: {error}") from error

    @staticmethod
    def address(number: int) -> str:
        return f"{NETWORK}{number}"

    def attach(self, number: int, pid: int) -> None:
        _await_own_network(pid)
        self._tell(f"attach {number} {pid}", f"node {number} cannot be given its network")
        others = [] if number in self._pids else list(self._pids)
        self._pids[number] = pid
        for other in others:
            self._measure(number, other)

    def detach(self, number: int) -> None:
        self._tell(f"detach {number}", f"node {number} cannot be taken off its network")

    def close(self) -> None:
        for pipe in (self._relay.stdin, self._relay.stdout, self._relay.stderr):
            assert pipe is not None
            pipe.close()
        try:
            self._relay.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            self._relay.kill()
            self._relay.wait()

    def _tell(self, command: str, failed: str) -> None:
        assert self._relay.stdin is not None and self._relay.stdout is not None
        try:
            self._relay.stdin.write(f"{command}\n".encode())
            ready, _, _ = select.select([self._relay.stdout], [], [], _ANSWER_S)
            answer = self._relay.stdout.readline().decode().strip() if ready else "it does not answer"
        except OSError as error:
            answer = str(error)
        if answer != "ok":
            raise HarnessError(f"{failed}: {answer or 'the network is gone'}")

    def _measure(self, number: int, other: int) -> None:
        low, high = BELIEVED
        for _ in range(_TRIES):
            found_s = self._probe(number, other)
            believed = low * self.latency_s <= found_s <= high * self.latency_s + CARRYING_S
            if believed:
                break
        if not believed:
            raise HarnessError(
                f"the network between nodes was to take {format_latency(self.latency_s * 1e6)} there and"
                f" back, but {format_latency(found_s * 1e6)} were measured",
                hint="the machine may be too busy: try again when it is quiet",
            )
        self.measured_s = max(self.measured_s or 0.0, found_s)

    def _probe(self, number: int, other: int) -> float:
        done = subprocess.run(
            [*_COMMAND, "probe", str(self._pids[number]), f"{NETWORK}{other}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise HarnessError(f"node {number} does not reach node {other}: {done.stderr.strip()}")
        return float(done.stdout)


def _await_own_network(pid: int) -> None:
    deadline = time.monotonic() + _ANSWER_S
    ours = Path("/proc/self/ns/net").readlink()
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/ns/net").readlink() != ours:
                return
        except OSError as error:
            raise HarnessError(f"process {pid} is gone before it has a network: {error.strerror}") from error
        time.sleep(_POLL_S)
    raise HarnessError(f"process {pid} has no network of its own after {_ANSWER_S:.0f} s")
