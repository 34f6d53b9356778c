"""Real short comparisons of identical servers: how often does one of their intervals miss 1?

    python benchmarks/identical_arms.py --campaigns 100 --json identical.jsonl

A campaign compares three arms with the same settings, the control beside them. Each takes about half a
minute; a line of JSON is kept of each, and a run that finds the file goes on where it ended. Exits with 1 if
more of them miss than happens to one in a hundred such runs where each misses with a probability of 5 %.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
from scipy.stats import binom

import flushlab
from flushlab.record import Comparison

ALPHA, CHANCE = 0.05, 0.01
SAME = {"innodb_flush_log_at_trx_commit": 1}


class Campaign(msgspec.Struct, frozen=True):
    """What one of them found.

    Attributes:
        server: build.
        missed: names of those whose interval excludes 1, the control included.
        half_width: the widest, of log ratios in per cent.
        others: what other programs and the hypervisor took before it began.
    """

    server: str
    missed: tuple[str, ...]
    half_width: float
    others: str


def run(server: str, seconds: float, seed: int) -> Campaign:
    """One comparison."""
    facts = flushlab.compare(
        {"base": SAME, "one": SAME, "two": SAME}, server=server, duration=seconds, threads=16, seed=seed
    )
    found: dict[str, Comparison | None] = {arm.name: arm.comparison for arm in facts.arms}
    found["control"] = facts.control.comparison if facts.control else None
    ratios = {name: one.ratio for name, one in found.items() if one is not None}
    assert len(ratios) == 3, facts.warnings
    return Campaign(
        server=server,
        missed=tuple(name for name, ratio in ratios.items() if not ratio.low <= 1 <= ratio.high),
        half_width=round(100 * max(ratio.half_width for ratio in ratios.values()), 1),
        others=facts.others.words if facts.others else "",
    )


def main() -> int:
    """Runs what is left to run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--campaigns", type=int, default=100)
    parser.add_argument("--server", default="mariadb@10.11")
    parser.add_argument("--duration", type=float, default=24.0, help="measured, over all four")
    parser.add_argument("--json", type=Path, help="a line per campaign; those that are there count")
    given = parser.parse_args()
    lines = given.json.read_bytes().splitlines() if given.json and given.json.exists() else []
    done = [msgspec.json.decode(line, type=Campaign) for line in lines]
    for seed in range(len(done), given.campaigns):
        done.append(run(given.server, given.duration, seed))
        sys.stdout.write(f"{seed + 1}: {msgspec.json.encode(done[-1]).decode()}\n")
        sys.stdout.flush()
        if given.json:
            with given.json.open("ab") as file:
                file.write(msgspec.json.encode(done[-1]) + b"\n")
    missed = sum(bool(one.missed) for one in done)
    most = int(binom.ppf(1 - CHANCE, len(done), ALPHA))
    sys.stdout.write(f"{missed} of {len(done)} missed 1; at most {most} expected\n")
    return int(missed > most)


if __name__ == "__main__":
    sys.exit(main())
