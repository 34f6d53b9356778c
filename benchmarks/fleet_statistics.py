"""Simulates comparisons over several machines: how often do intervals hold, and is the unstable arm named?

Run by `make bench`:

    PYTHONPATH=python python benchmarks/fleet_statistics.py --campaigns 4000

Machines differ by 10 % in speed; the ratio of one arm differs by 30 % between them, those of the others do
not. Results scatter by 2 and 5 %, and some blocks are lost. In further cases half of the arms differ by less
than the F test can see. Exits with 1 unless

- all intervals of 93 to 97 % of the campaigns hold their ratio over all such machines,
- at most 5 % of the campaigns claim a gain or a loss of an arm that has none,
- at most 5 % call a stable arm unstable,
- at least 90 % name the unstable arm,

each within three standard errors of this simulation. With `--pooled`, arms that are not called unstable share
the variance between machines: the rule that was not taken, for its coverage.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import NamedTuple

import numpy as np

from flushlab.record import Comparison, OverMachines
from flushlab.statistics import RatioTable, compare

ALPHA = 0.05
UNSTABLE = 0.30
"""Standard deviation of the unstable arm's log ratio between machines."""
BETWEEN = 0.10
"""Of the machines' speed."""


class Case(NamedTuple):
    """What is simulated.

    Attributes:
        machines: number of them.
        blocks: on each.
        noise: standard deviation of a result within a block.
        lost: share of blocks that get lost; the first machine loses three quarters.
        moderate: interaction of half of the arms in place of one arm's, in standard errors of one machine.
        arms: number of them.
    """

    machines: int
    blocks: int
    noise: float
    lost: float = 0.0
    moderate: float = 0.0
    arms: int = 12

    @property
    def words(self) -> str:
        """The case in a few words."""
        lost = f", {self.lost:.0%} lost" if self.lost else ""
        who = f", half of the arms by {self.moderate:g} errors" if self.moderate else ""
        return f"{self.machines} machines × {self.blocks} blocks, noise {self.noise:.0%}{lost}{who}"

    @property
    def deviations(self) -> list[float]:
        """Of each arm's ratio between machines."""
        if self.moderate:
            one = self.moderate * self.noise * math.sqrt(2 / self.blocks)
            return [one if arm % 2 else 0.0 for arm in range(self.arms)]
        return [UNSTABLE, *[0.0] * (self.arms - 1)]


CASES = [
    Case(machines, blocks, noise, lost)
    for machines, blocks in ((4, 8), (8, 16), (3, 12))
    for noise in (0.02, 0.05)
    for lost in (0.0, 0.25)
]
MODERATE = [Case(machines, blocks, 0.03, 0.0, 2.0) for machines, blocks in ((4, 8), (8, 16), (3, 12), (4, 2))]


class Counts(NamedTuple):
    """Campaigns of a case, and the median half-width of the stable arms' intervals."""

    covered: int
    claimed: int
    called: int
    named: int
    half_width: float


def simulate(case: Case, campaigns: int, *, pooled: bool, seed: int) -> Counts:
    """How many of the campaigns came out how."""
    draws = np.random.default_rng([seed, case.machines, case.blocks, int(1000 * case.noise)])
    deviations = case.deviations
    names = [f"arm{number}" for number in range(case.arms)]
    gains = [0.0 if number % 3 else math.log(1.2) for number in range(case.arms)]
    covered = claimed = called = named = 0
    widths = []
    for _ in range(campaigns):
        scores: dict[str, dict[int, float]] = {name: {} for name in ("base", *names)}
        machines: dict[int, str] = {}
        for machine in range(case.machines):
            speed = draws.normal() * BETWEEN
            own = [gain + draws.normal() * sd for gain, sd in zip(gains, deviations, strict=True)]
            lost = 0.75 if case.lost and not machine else case.lost
            blocks = max(int(draws.binomial(case.blocks, 1 - lost)), 1)
            for _ in range(blocks):
                block = len(machines)
                machines[block] = f"machine{machine}"
                for name, gain in zip(scores, (0.0, *own), strict=True):
                    scores[name][block] = float(speed + gain + draws.normal() * case.noise)
        table = RatioTable(scores, machines)
        over = table.over_machines("base", alpha=ALPHA)
        found = compare_pooled(over) if pooled else table.compare("base", alpha=ALPHA)
        known = dict(zip(names, gains, strict=True))
        covered += all(one.ratio.low <= math.exp(known[one.arm]) <= one.ratio.high for one in found)
        claimed += any(not known[one.arm] and one.verdict != "no difference found" for one in found)
        stable = [name for name, sd in zip(names, deviations, strict=True) if not sd]
        called += any(over[name].unstable for name in stable)
        named += over[names[0]].unstable
        widths.append(float(np.median([one.ratio.half_width for one in found if one.arm in stable])))
    return Counts(covered, claimed, called, named, float(np.median(widths)))


def compare_pooled(over: dict[str, OverMachines]) -> tuple[Comparison, ...]:
    """The arms that are not called unstable share one variance between machines."""
    cells = {
        arm: {number: math.log(ratio.ratio.estimate) for number, ratio in enumerate(one.ratios)}
        for arm, one in over.items()
    }
    base = dict.fromkeys(range(max(map(len, cells.values()))), 0.0)
    apart = [arm for arm, one in over.items() if one.unstable]
    return compare({"base": base, **cells}, "base", alpha=ALPHA, apart=apart)


def main() -> int:
    """Simulates all cases."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--campaigns", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pooled", action="store_true")
    given = parser.parse_args()
    size, failed = given.campaigns, False
    for case in (*CASES, *MODERATE):
        found = simulate(case, size, pooled=given.pooled, seed=given.seed)

        def within(count: int, low: float, high: float) -> bool:
            share = count / size
            near = low if share < low else high
            return low <= share <= high or bool(abs(share - near) <= 3 * math.sqrt(near * (1 - near) / size))

        held = within(found.covered, 0.93, 0.97)
        held &= within(found.claimed, 0, ALPHA) and within(found.called, 0, ALPHA)
        held &= bool(case.moderate) or within(found.named, 0.90, 1)
        failed |= not held
        named = "" if case.moderate else f", unstable arm named {found.named / size:.1%}"
        sys.stdout.write(
            f"{'ok  ' if held else 'FAIL'} {case.words}: coverage {found.covered / size:.1%}, "
            f"false claims {found.claimed / size:.1%}, "
            f"stable called unstable {found.called / size:.1%}{named}, half-width {found.half_width:.1%}\n"
        )
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
