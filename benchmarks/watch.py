"""What watching costs: one server under load, watched and not, alternating; and the CPU time of watching.

    python benchmarks/watch.py [--server mariadb@10.11] [--pairs 400] [--duration 1] [--threads 16]
                               [--inside | --doctor] [--synced] [--disk flush=5ms]

Beside a kept sandbox runs `flushlab watch` with a browser's stream and a scraper at 1 s, all of which are
stopped (SIGSTOP) in every other slice: one of whole seconds has all that is done once a second as often as it
is done. With --doctor, `flushlab doctor` runs in place of them. With --inside the page is served by the
process that drives the load, as by `flushlab compare --watch`, and ends before every other slice, which takes
a longer pause and costs precision. Each pair has a slice with it and one without, in random order. The server
has flush=2, so that it takes all of both processors, which is the worst case; with --synced it syncs each
commit, as servers do by default. With --disk its data lie on an emulated disk (root) that it waits for: the
throughput varies little and processors are free, as on most servers in production. Exits with 1 if the
ratio's interval leaves 1 ± 2 %, or if watching takes more than 2 % of a core; the time of viewer and scraper
is not part of that.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scipy.stats import t as student

from flushlab.build import find_build
from flushlab.datadir import DataRoot, slow_disk_in
from flushlab.machine import proc_stat
from flushlab.process.running import publish_status
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.remote.server import watched
from flushlab.server.sandbox.node import free_port
from flushlab.watch.watch import Watch, in_this_process, of
from flushlab.workload.parse import parse_workload
from flushlab.workload.protocol import Timing
from flushlab.workload.sliced import SlicedLoad

RATIO, CORE = 0.02, 0.02
WHOLE_S = 20.0
SETTLE_S = {False: 0.2, True: 1.5}
"""Before each slice, with and without; inside, a page that has just begun reads the server's variables."""
SETTINGS = {
    False: {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0},
    True: {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1},
}
VIEWER = """
import http.client, sys, threading, time
port = int(sys.argv[1])
def follow():
    while True:
        try:
            stream = http.client.HTTPConnection("127.0.0.1", port)
            stream.request("GET", "/events")
            answer = stream.getresponse()
            while answer.readline():
                pass
        except OSError:
            pass
        time.sleep(0.1)
threading.Thread(target=follow, daemon=True).start()
while True:
    began = time.monotonic()
    try:
        scrape = http.client.HTTPConnection("127.0.0.1", port)
        scrape.request("GET", "/metrics")
        assert scrape.getresponse().read()
        scrape.close()
    except OSError:
        pass
    time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))
"""
Switch = Callable[[bool], None]


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = proc_stat.fields(pid)
    assert fields is not None
    return (int(fields[proc_stat.USER_TICKS]) + int(fields[proc_stat.SYSTEM_TICKS])) / os.sysconf(
        "SC_CLK_TCK"
    )


@contextmanager
def viewer(port: int) -> Iterator[Switch]:
    """A browser's stream and a scraper, which can be stopped."""
    process = subprocess.Popen([sys.executable, "-c", VIEWER, str(port)])
    try:
        yield lambda on: process.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait()


@contextmanager
def outside(server: Sandbox) -> Iterator[tuple[Switch, Callable[[], float]]]:
    """Watching from a process of its own: it can be stopped, and tells its CPU seconds."""
    port = free_port()
    command = ("watch", "--server", f"sandbox:{server.name}", "--listen", str(port))
    watch = subprocess.Popen(
        [sys.executable, "-m", "flushlab", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def switch(on: bool) -> None:
        watch.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
        view(on)

    try:
        with viewer(port) as view:
            time.sleep(3.0)
            yield switch, lambda: cpu_s(watch.pid)
    finally:
        watch.send_signal(signal.SIGCONT)
        watch.terminate()
        watch.wait()


@contextmanager
def doctor(server: Sandbox) -> Iterator[tuple[Switch, Callable[[], float]]]:
    """A diagnosis that lasts as long as the pairs do."""
    command = ("doctor", "--server", f"sandbox:{server.name}", "--seconds", "3600")
    looking = subprocess.Popen(
        [sys.executable, "-m", "flushlab", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(3.0)
        yield (
            lambda on: looking.send_signal(signal.SIGCONT if on else signal.SIGSTOP),
            lambda: cpu_s(looking.pid),
        )
    finally:
        looking.send_signal(signal.SIGCONT)
        looking.kill()
        looking.wait()


@contextmanager
def inside(server: Sandbox) -> Iterator[tuple[Switch, Callable[[], float]]]:
    """Watching by the process that drives the load."""
    port = free_port()
    pages: list[Watch] = []

    def switch(on: bool) -> None:
        if on:
            pages.append(of(in_this_process(), port=port).start())
        else:
            pages.pop().close()
        view(on)

    with (
        publish_status("compare") as board,
        board.running_server(watched(server, "base")),
        viewer(port) as view,
    ):
        switch(True)
        time.sleep(3.0)
        try:
            yield switch, lambda: pages[0].latest.own_cpu_s if pages[0].latest else 0.0
        finally:
            if pages:
                switch(False)


def share_of_core(load: SlicedLoad, used_s: Callable[[], float]) -> float:
    """CPU time of watching while the server is under load without a pause."""
    before, began = used_s(), time.monotonic()
    load.slice(WHOLE_S)
    return (used_s() - before) / (time.monotonic() - began)


def main() -> int:
    """Runs the pairs and judges them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="mariadb@10.11")
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--duration", type=float, default=1.0, help="of a slice")
    parser.add_argument("--threads", type=int, default=16, help="connections")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--inside", action="store_true", help="as --watch on a command does")
    way.add_argument("--doctor", action="store_true", help="`flushlab doctor` in place of `flushlab watch`")
    parser.add_argument("--synced", action="store_true", help="the server syncs each commit")
    parser.add_argument("--disk", help="emulated disk, such as flush=5ms")
    given = parser.parse_args()
    name = f"bench-watch-{os.getpid()}"
    with Sandbox.start(
        SandboxSpec(
            find_build(given.server),
            settings={**SETTINGS[given.synced], "max_connections": given.threads + 100},
            slow_disk=slow_disk_in(DataRoot.open(), given.disk),
            name=name,
            kept=True,
        )
    ) as server:
        try:
            way_in = inside if given.inside else doctor if given.doctor else outside
            with way_in(server) as (switch, used_s):
                return measure(server, given, switch, used_s)
        finally:
            server.remove()


def measure(server: Sandbox, given: argparse.Namespace, switch: Switch, used_s: Callable[[], float]) -> int:
    """The verdict for one server."""
    workload = parse_workload("oltp_update_non_index", {"threads": given.threads, "tables": 4})
    workload.prepare(server)
    driving = workload.driving(server)
    assert driving is not None
    load = SlicedLoad(driving, server, Timing(seconds=given.duration))
    try:
        core = share_of_core(load, used_s)
        logs: list[float] = []
        order = random.Random(1)
        is_on = True
        for _ in range(given.pairs):
            found: dict[bool, float] = {}
            for on in order.sample((True, False), 2):
                if on != is_on:
                    switch(on)
                    is_on = on
                time.sleep(SETTLE_S[given.inside])
                found[on] = load.slice(given.duration).throughput
            logs.append(math.log(found[True] / found[False]))
    finally:
        load.stop()
    mean = statistics.fmean(logs)
    half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(mean - half), math.exp(mean + half)
    busy = Path("/proc/loadavg").read_text().split()[0]
    sys.stdout.write(
        f"{server.identity.name}: watched/not {math.exp(mean):.4f} [{low:.4f}, {high:.4f}], {len(logs)} pairs"
        f" of {given.duration:g} s; watching takes {core:.2%} of a core; load average {busy}\n"
    )
    return int(low < 1 - RATIO or high > 1 + RATIO or core > CORE)


if __name__ == "__main__":
    sys.exit(main())
