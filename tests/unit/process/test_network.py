from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest

from flushlab.errors import HarnessError, UsageError
from flushlab.process import network as network_process
from flushlab.process import network_main
from flushlab.process.network import EmulatedNetwork, require_network
from tests.waiting import PATIENCE_S


def packet(to: int, text: bytes = b"") -> bytes:
    """An IPv4 header as far as the network reads it."""
    return b"\x45" + bytes(15) + socket.inet_aton(f"{network_main.NETWORK}{to}") + text


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, socket.socket]]:
    """Both ends of a network that takes 30 ms one way, without networks around them."""
    theirs, ours = dict[int, socket.socket](), dict[int, socket.socket]()
    for number in (1, 2):
        theirs[number], ours[number] = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        theirs[number].setblocking(False)
        ours[number].settimeout(PATIENCE_S)
    stdin, stop = os.pipe()
    monkeypatch.setattr(network_main, "STDIN", stdin)
    relay = network_main.Relay(0.03)
    relay._ends = {number: one.fileno() for number, one in theirs.items()}
    running = threading.Thread(target=relay.run)
    running.start()
    yield ours
    os.close(stop)
    running.join(PATIENCE_S)
    assert not running.is_alive()
    for one in (*ours.values(), *theirs.values()):
        one.close()
    os.close(stdin)


def test_a_packet_arrives_at_its_address_and_not_before_its_time(ends: dict[int, socket.socket]) -> None:
    began = time.monotonic()
    for text in (b"a", b"b"):
        ends[1].send(packet(2, text))
    assert [ends[2].recv(100)[-1:] for _ in range(2)] == [b"a", b"b"]
    assert time.monotonic() - began >= 0.03
    ends[2].send(packet(1, b"c"))
    assert ends[1].recv(100)[-1:] == b"c"


def test_what_is_for_nobody_or_no_ipv4_goes_nowhere(ends: dict[int, socket.socket]) -> None:
    for lost in (packet(9), b"\x60" + packet(2)[1:], b"short"):
        ends[1].send(lost)
    ends[1].send(packet(2, b"last"))
    assert ends[2].recv(100).endswith(b"last")


@pytest.mark.parametrize(("latency_s", "user", "says"), [(2.0, 0, "out of range"), (0.001, 7, "needs root")])
def test_what_cannot_be_is_refused_first(
    latency_s: float, user: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(UsageError, match=says):
        require_network(latency_s)


def test_a_machine_that_makes_no_networks_is_told_of_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(command: list[str], **_: Any) -> CompletedProcess[str]:
        return CompletedProcess(command, 1, "", "unshare: Operation not permitted\n")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(subprocess, "run", fails)
    with pytest.raises(HarnessError, match="can be made here: unshare: Operation not permitted"):
        require_network(0.001)


def test_a_latency_that_is_not_what_was_asked_for_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def measures(command: list[str], **_: Any) -> CompletedProcess[str]:
        return CompletedProcess(command, 0, "0.004\n", "")

    network = EmulatedNetwork.__new__(EmulatedNetwork)
    network.latency_s, network.measured_s, network._pids = 0.001, None, {1: 1, 2: 2}
    monkeypatch.setattr(subprocess, "run", measures)
    with pytest.raises(HarnessError, match=r"1\.00 ms there and back, but 4\.00 ms were measured"):
        network._measure(1, 2)


def test_a_relay_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_process, "_COMMAND", ("/bin/sh", "-c", "exec sleep 60"))
    monkeypatch.setattr(network_process, "_ANSWER_S", 0.1)
    network = EmulatedNetwork(0.001)
    network.close()
    assert network._relay.returncode == -9
