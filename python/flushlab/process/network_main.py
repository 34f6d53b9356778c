"""The emulated network: carries packets between processes that each have a network of their own, and delays
them.

Executed as a program of its own (`python -I -S network_main.py relay SECONDS`), with the standard library
only, as root. Obeys lines on stdin, answers each on stdout with `ok` or `error TEXT`, and ends at end of
file:

    attach NUMBER PID    Gives 198.18.0.NUMBER to the network of a process, which has only loopback.
    detach NUMBER        Takes the address away, as if its cable was pulled. Packets on their way arrive.

Each process's network has one end of the emulated one: a TUN device. The device goes with that network or
with this process, whichever ends first, so nothing is left to be removed. Packets reach no other network.
The program needs no kernel module for delays (netem), which not every kernel has.

`network_main.py probe PID ADDRESS` prints the least round trip from a process's network to an address, in
seconds; `network_main.py check` finds out whether all this can be done here.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import gc
import os
import select
import socket
import struct
import sys
import time
from collections import deque

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C
SIOCSIFMTU, SIOCSIFTXQLEN, IFF_UP = 0x8922, 0x8943, 0x1
NETWORK = "198.18.0."
"""Of the range that RFC 2544 sets aside for measurements."""
DEVICE = b"tun"
MTU, QUEUE = 65000, 10_000
PROBES = 9
STDIN = 0
CLOSED_PORT = 9

_libc = ctypes.CDLL(None, use_errno=True)


def enter(pid: int) -> None:
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        _call(_libc.setns(network, CLONE_NEWNET), "setns")
    finally:
        os.close(network)


def tun(number: int) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE, IFF_TUN | IFF_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for request, address in ((SIOCSIFADDR, f"{NETWORK}{number}"), (SIOCSIFNETMASK, "255.255.255.0")):
            inet = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(control, request, struct.pack("16s16s8x", DEVICE, inet))
        for request, value in ((SIOCSIFMTU, MTU), (SIOCSIFTXQLEN, QUEUE)):
            fcntl.ioctl(control, request, struct.pack("16si20x", DEVICE, value))
        for name in (b"lo", DEVICE):
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", name, IFF_UP))
    return device


class Relay:
    """Carries packets, each as long after it was sent as all others."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._ends: dict[int, int] = {}
        self._late: deque[tuple[float, int, bytes]] = deque()
        self._own = os.getpid()
        self._commands = b""

    def run(self) -> None:
        while True:
            wait = max(self._late[0][0] - time.monotonic(), 0.0) if self._late else None
            readable, _, _ = select.select([STDIN, *self._ends.values()], [], [], wait)
            for end in readable:
                if end in self._ends.values():
                    self._receive(end)
            self._deliver()
            if STDIN in readable and not self._obey():
                return

    def _receive(self, end: int) -> None:
        while True:
            try:
                packet = os.read(end, 1 << 16)
            except BlockingIOError:
                return
            except OSError:  # its network is gone, and the device with it
                self._ends = {number: one for number, one in self._ends.items() if one != end}
                os.close(end)
                return
            if len(packet) >= 20 and packet[0] >> 4 == 4:  # IPv4: the address is in bytes 16 to 19
                self._late.append((time.monotonic() + self._delay_s, packet[19], packet))

    def _deliver(self) -> None:
        while self._late and self._late[0][0] <= time.monotonic():
            _, number, packet = self._late.popleft()
            if number in self._ends:
                try:
                    os.write(self._ends[number], packet)
                except OSError:  # as on a real network, what cannot be taken is lost; TCP sends it again
                    continue

    def _obey(self) -> bool:
        chunk = os.read(STDIN, 4096)
        *lines, self._commands = (self._commands + chunk).split(b"\n")
        for line in lines:
            what, number, *pid = line.split()
            try:
                if what == b"detach":
                    self._detach(int(number))
                else:
                    self._attach(int(number), int(pid[0]))
                os.write(1, b"ok\n")
            except OSError as error:
                os.write(1, f"error {error.strerror or error}\n".encode())
        return bool(chunk)

    def _detach(self, number: int) -> None:
        if number in self._ends:
            os.close(self._ends.pop(number))

    def _attach(self, number: int, pid: int) -> None:
        self._detach(number)
        enter(pid)
        try:
            self._ends[number] = tun(number)
        finally:
            enter(self._own)


def probe(pid: int, address: str) -> float:
    """Seconds of the shortest of some round trips: a connection to a port where nobody listens is refused by
    the other end after one."""
    enter(pid)
    least = float("inf")
    for _ in range(PROBES):
        with socket.socket() as knock:
            knock.settimeout(10)
            began = time.monotonic()
            if knock.connect_ex((address, CLOSED_PORT)) != errno.ECONNREFUSED:
                raise OSError(errno.EHOSTUNREACH, f"{address} does not answer")
            least = min(least, time.monotonic() - began)
    return least


def check() -> None:
    _call(_libc.unshare(CLONE_NEWNET), "unshare")
    os.close(tun(1))


def _call(result: int, name: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def main() -> None:
    what, *words = sys.argv[1:]
    if what == "check":
        check()
    elif what == "probe":
        print(probe(int(words[0]), words[1]))  # noqa: T201
    else:
        gc.disable()
        with contextlib.suppress(OSError):  # without CAP_SYS_NICE; what the latency is, is measured
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))  # a late packet is a slower network
        Relay(float(words[0])).run()


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"{error.strerror or error}")
