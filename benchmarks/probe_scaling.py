"""The curve over processors of a probe's page, where it can be checked: on one and on two processors.

Each binlog write strategy commits as in a server, in a process that may use one processor and in a process
that may use two, in pairs whose order alternates. The run on one processor gives the cost of a commit.
The table shows the prediction for two processors and the measured rate: they must agree within a factor of
1.4.

    python benchmarks/probe_scaling.py --pairs 3 --duration 2 --threads 16
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

import msgspec

from flushlab import _core
from flushlab.probe.ceilings import SECOND, ProbePlace, StrategyGroup, parse_binlog_strategy
from flushlab.probe.disk import MAX_BYTES, medium_of
from flushlab.probe.servers import OWN_US, cost_of, measure_servers
from flushlab.record import ServerRate

BAR = 1.4
MODES = ("serial", "parallel")


def run(strategy: str, processors: int, threads: int, seconds: float, folder: Path) -> ServerRate:
    """One run in a process of its own, bound to the first so many of this process's processors."""
    with get_context("spawn").Pool(1) as pool:
        said = pool.apply(_bound, (strategy, processors, threads, seconds, str(folder)))
    return msgspec.json.decode(said, type=ServerRate)


def _bound(strategy: str, processors: int, threads: int, seconds: float, folder: str) -> bytes:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:processors])
    strategies = dict.fromkeys(("serial", parse_binlog_strategy(strategy)))
    group = StrategyGroup(SECOND, tuple(strategies), threads)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        place = ProbePlace(Path(own), medium_of(Path(own)), MAX_BYTES, _core.CommitPath)
        reached = measure_servers(place, group, seconds=seconds)
    if reached is None:
        raise SystemExit("error: not one commit ended")
    return msgspec.json.encode(reached[-1])


def compare(strategy: str, pairs: int, threads: int, seconds: float, folder: Path) -> tuple[float, float]:
    """(what two processors reached ÷ one, what the law says), geometric means."""
    reached, promised = [], []
    for number in range(pairs):
        order = (1, 2) if number % 2 == 0 else (2, 1)
        found = {count: run(strategy, count, threads, seconds, folder) for count in order}
        cost = cost_of(found[1])
        assert cost is not None, "the core measures the ordered section"
        reached.append(math.log(found[2].commits_per_s / found[1].commits_per_s))
        promised.append(math.log(cost.commits_per_s(2, OWN_US) / cost.commits_per_s(1, OWN_US)))
    return math.exp(statistics.fmean(reached)), math.exp(statistics.fmean(promised))


def main() -> int:
    """Runs all strategies, prints what was reached and promised; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-root", type=Path, default=Path.cwd())
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--duration", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    given = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        sys.stdout.write("one processor only: nothing to compare\n")
        return 0
    found = {
        strategy: compare(strategy, given.pairs, given.threads, given.duration, given.data_root)
        for strategy in MODES
    }
    say = ["two processors ÷ one   reached   by the law"]
    say += [
        f"{strategy:<20} {reached:9.2f} {promised:12.2f}" for strategy, (reached, promised) in found.items()
    ]
    say.append(f"bar: reached and promised within a factor of {BAR:g}")
    sys.stdout.write("\n".join(say) + "\n")
    if given.json:
        given.json.write_text(json.dumps(found) + "\n")
    return int(any(not 1 / BAR <= promised / reached <= BAR for reached, promised in found.values()))


if __name__ == "__main__":
    sys.exit(main())
