"""Records slices of four identical servers that run side by side, for `false_positives.py`.

    python benchmarks/record_slices.py --name "MariaDB 10.11, quiet" --duration 160
    python benchmarks/record_slices.py --name "MariaDB 10.11, one core eaten" --neighbour core
    python benchmarks/record_slices.py --name "MySQL 8.0, bursts" --server mysql@8.0 --neighbour bursts

Adds a line to `slices.jsonl`, in place of one of the same name, and says what it saw. A neighbour is a
process that computes: all the time (`core`), for random moments (`bursts`), or for a share of the time that
rises and falls over a minute (`drift`). What else the machine does is recorded too, so see that it is quiet.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Process
from pathlib import Path

import msgspec

import flushlab
from flushlab.record import Trial
from flushlab.store import open_store

NEIGHBOURS = ("none", "core", "bursts", "drift")
FILE = Path(__file__).with_name("slices.jsonl")


def main() -> None:
    """Runs an A/A comparison of three arms and the control, and keeps its slices."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", required=True)
    parser.add_argument("--server", default="mariadb@10.11")
    parser.add_argument("--duration", type=float, default=160.0, help="measured, over all four")
    parser.add_argument("--neighbour", choices=NEIGHBOURS, default="none")
    given = parser.parse_args()
    same = {"innodb_flush_log_at_trx_commit": 1}
    arms = {"base": same, "one": same, "other": same}
    with neighbour(given.neighbour):
        facts = flushlab.compare(
            arms, server=given.server, duration=given.duration, blocks=20, progress=print
        )
    with open_store() as store:
        trials = list(store.trials(facts.campaign_id))
    rounds = in_rounds(trials)
    slices = [one for trial in trials for one in trial.slices]
    line = {
        "name": given.name,
        "slice_s": round(sum(one.seconds for one in slices) / len(slices), 2),
        "rates": rounds,
    }
    kept = FILE.read_bytes().splitlines() if FILE.exists() else []
    kept = [one for one in kept if msgspec.json.decode(one)["name"] != given.name]
    FILE.write_bytes(b"\n".join([*kept, msgspec.json.encode(line)]) + b"\n")
    others = sum(one.foreign_share or 0.0 for one in slices) / len(slices)
    print(f"{given.name}: {len(rounds)} rounds, others took {others:.0%}")  # noqa: T201


def in_rounds(trials: list[Trial]) -> list[list[int]]:
    """Transactions/s per round and server, in the order in which they ran."""
    rates: dict[tuple[int, int], dict[str, int]] = {}
    for trial in trials:
        for one in trial.slices:
            if not one.dropped:
                of_round = rates.setdefault((trial.block, one.round), {})
                of_round[trial.arm.name] = round(one.events / one.seconds)
    servers = sorted({trial.arm.name for trial in trials})
    return [[found[name] for name in servers] for _, found in sorted(rates.items()) if len(found) == 4]


@contextmanager
def neighbour(kind: str) -> Iterator[None]:
    """Somebody else on the machine, while the context lasts."""
    if kind == "none":
        yield
        return
    process = Process(target=_compute, args=(kind, os.getpid()), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _compute(kind: str, parent: int) -> None:
    rng = random.Random(1)
    while os.getppid() == parent:  # whatever ended it
        busy_s, idle_s = {
            "core": (1.0, 0.0),
            "bursts": (rng.expovariate(1 / 0.7), rng.expovariate(1 / 2.5)),
            "drift": ((share := 0.05 * (1 + math.sin(time.monotonic() * math.tau / 60))), 0.1 - share),
        }[kind]
        until = time.monotonic() + busy_s
        while time.monotonic() < until:
            pass
        time.sleep(max(idle_s, 0.0))


if __name__ == "__main__":
    main()
