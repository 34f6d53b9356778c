"""What watching costs: one server under load, watched and not, in turns; and the CPU time of watching.

    python benchmarks/watch.py [--server mariadb@10.11] [--pairs 60] [--seconds 2]

Beside a kept sandbox runs `flushlab watch` with a browser's stream and a scraper at 1 s, all of them in one
session that is stopped (SIGSTOP) in every other slice. Each pair has a slice with it and one without, in
random order. Exits with 1 if the ratio's interval leaves 1 ± 2 %, or if watching takes more than 2 % of a
core, as the kernel counts it; the time of viewer and scraper is not part of that.
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
from pathlib import Path

from scipy.stats import t as student

from flushlab.build import find_build
from flushlab.machine import proc_stat
from flushlab.server import Sandbox
from flushlab.workload import Timing, parse_workload, shape_of
from flushlab.workload.turns import Turns

RATIO, CORE = 0.02, 0.02
WHOLE_S = 20.0
SETTINGS = {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0}
VIEWER = """
import http.client, sys, threading, time
port = int(sys.argv[1])
def follow():
    stream = http.client.HTTPConnection("127.0.0.1", port)
    stream.request("GET", "/events")
    answer = stream.getresponse()
    while answer.readline():
        pass
threading.Thread(target=follow, daemon=True).start()
while True:
    began = time.monotonic()
    scrape = http.client.HTTPConnection("127.0.0.1", port)
    scrape.request("GET", "/metrics")
    assert len(scrape.getresponse().read()) > 1000
    scrape.close()
    time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))
"""


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = proc_stat.fields(pid)
    assert fields is not None
    return (int(fields[proc_stat.USER_TICKS]) + int(fields[proc_stat.SYSTEM_TICKS])) / os.sysconf(
        "SC_CLK_TCK"
    )


def share_of_core(turns: Turns, pid: int) -> float:
    """CPU time of watching while the server is under load without a pause."""
    before, began = cpu_s(pid), time.monotonic()
    turns.slice(WHOLE_S)
    return (cpu_s(pid) - before) / (time.monotonic() - began)


def main() -> int:
    """Runs the pairs and judges them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="mariadb@10.11")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a slice")
    given = parser.parse_args()
    name = f"bench-watch-{os.getpid()}"
    with Sandbox.start(find_build(given.server), settings=SETTINGS, name=name, kept=True) as server:
        try:
            return measure(server, given.pairs, given.seconds)
        finally:
            server.remove()


def measure(server: Sandbox, pairs: int, seconds: float) -> int:
    """The verdict for one server."""
    workload = parse_workload("oltp_update_non_index", shape_of({"threads": 16, "tables": 4}))
    workload.prepare(server)
    driving = workload.driving(server)
    assert driving is not None
    turns = Turns(driving, server, Timing(seconds=seconds))
    watch = subprocess.Popen(
        [sys.executable, "-m", "flushlab", "watch", "--server", f"sandbox:{server.name}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert watch.stdout is not None
    port = watch.stdout.readline().rstrip("/\n").rpartition(":")[2]
    viewer = subprocess.Popen([sys.executable, "-c", VIEWER, port])
    both = (watch, viewer)
    try:
        time.sleep(3.0)
        core = share_of_core(turns, watch.pid)
        logs: list[float] = []
        order = random.Random(1)
        for _ in range(pairs):
            found: dict[bool, float] = {}
            for on in order.sample((True, False), 2):
                for one in both:
                    one.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
                found[on] = turns.slice(seconds).throughput
            logs.append(math.log(found[True] / found[False]))
    finally:
        for one in both:
            one.send_signal(signal.SIGCONT)
            one.terminate()
            one.wait()
        turns.stop()
    mean = statistics.fmean(logs)
    half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(mean - half), math.exp(mean + half)
    load = Path("/proc/loadavg").read_text().split()[0]
    sys.stdout.write(
        f"{server.identity.name}: watched/not {math.exp(mean):.4f} [{low:.4f}, {high:.4f}], {len(logs)} pairs"
        f" of {seconds:g} s; watching takes {core:.2%} of a core; load average {load}\n"
    )
    return int(low < 1 - RATIO or high > 1 + RATIO or core > CORE)


if __name__ == "__main__":
    sys.exit(main())
