"""Comparisons of identical servers: how often does an interval miss 1, and how much do instances differ?

    python benchmarks/identical_arms.py --campaigns 100 --json identical.jsonl
    python benchmarks/identical_arms.py --campaigns 60 --json identical.jsonl \
        --server mariadb@10.11 --server mysql@8.0 --duration 60 --duration 180 --duration 600
    python benchmarks/identical_arms.py --read identical.jsonl

A campaign compares three arms with the same settings, the control beside them. The file keeps a line of JSON
of each, with every slice, and a run that finds the file goes on where it ended. The runs of all servers and
durations alternate. Exits with 1 if more campaigns miss than happens to one in a hundred such runs where each
misses with a probability of 5 %.

An arm is one instance of the server for a whole campaign. Its log rate in a block is the block's effect,
which all arms share, plus the instance's, plus an error. In each campaign, the analysis of variance of that
two-way layout gives an unbiased estimate of the variance between instances: (mean square of the arms - mean
square of the residuals) / blocks, as REML does for balanced data where it is positive (S. R. Searle,
G. Casella and C. E. McCulloch, *Variance Components*, 1992, chapters 4 and 6). The mean over campaigns has
Student's interval, so campaigns may differ in noise. By chance, it may be below 0. A difference that lasts
for a part of a campaign counts for its part: compare durations, and the correlation of the instances' effects
in both halves of a campaign.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, binomtest, t

import flushlab
from flushlab.record import BASE, CONTROL, Comparison, Ratio, Trial
from flushlab.statistics import compare
from flushlab.store import open_store

ALPHA, CHANCE = 0.05, 0.01
SAME = {"innodb_flush_log_at_trx_commit": 1}
DURATIONS_S = (60.0, 180.0, 600.0)
SIMULATED = 1_000
"""Campaigns that a variance is translated into misses with."""

Rows = list[tuple[int, int, int, float]]
"""Block, round, events and seconds of each slice that counts."""


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison.

    Attributes:
        server: build.
        duration: seconds that all arms together were measured.
        seed: of the campaign.
        ratios: by arm, the control among them.
        slices: by arm, the base among them.
        others: CPU time of other programs and the hypervisor before it began.
    """

    server: str
    duration: float
    seed: int
    ratios: Mapping[str, Ratio]
    slices: Mapping[str, Rows]
    others: str

    @property
    def missed(self) -> tuple[str, ...]:
        """The arms whose interval excludes 1."""
        return tuple(name for name, one in self.ratios.items() if not one.low <= 1 <= one.high)


def run(server: str, duration: float, seed: int) -> Campaign:
    """One comparison."""
    facts = flushlab.compare(
        {"base": SAME, "one": SAME, "two": SAME}, server=server, duration=duration, threads=16, seed=seed
    )
    found: dict[str, Comparison | None] = {arm.name: arm.comparison for arm in facts.arms}
    found[CONTROL] = facts.control.comparison if facts.control else None
    ratios = {name: one.ratio for name, one in found.items() if one is not None}
    assert len(ratios) == 3, facts.warnings
    with open_store() as store:
        slices = rows(store.trials(facts.campaign_id))
    others = facts.others.words if facts.others else ""
    return Campaign(server=server, duration=duration, seed=seed, ratios=ratios, slices=slices, others=others)


def rows(trials: Iterator[Trial]) -> dict[str, Rows]:
    """The slices of measured trials, by arm."""
    found: dict[str, Rows] = {}
    for trial in trials:
        if trial.outcome == "measured":
            found.setdefault(trial.arm.name, []).extend(
                (trial.block, one.round, one.events, round(one.seconds, 4))
                for one in trial.slices
                if not one.dropped
            )
    return found


class Layout(NamedTuple):
    """Log rates of a campaign.

    Attributes:
        blocks: of arms and blocks in which all arms were measured.
        slices: of arms and rounds, for each of these blocks.
        seconds: that an arm was measured.
    """

    blocks: NDArray[np.float64]
    slices: Sequence[NDArray[np.float64]]
    seconds: float


def layout(campaign: Campaign) -> Layout:
    """The blocks and rounds that all arms have."""
    cells = {
        arm: {(block, number): (max(events, 1), seconds) for block, number, events, seconds in own}
        for arm, own in campaign.slices.items()
    }
    common = sorted(set.intersection(*(set(own) for own in cells.values())))
    of_block: dict[int, list[tuple[int, int]]] = {}
    for key in common:
        of_block.setdefault(key[0], []).append(key)
    totals = np.array(
        [[_log_rate([own[key] for key in keys]) for keys in of_block.values()] for own in cells.values()]
    )
    slices = [
        np.array([[_log_rate([own[key]]) for key in keys] for own in cells.values()])
        for keys in of_block.values()
    ]
    return Layout(totals, slices, sum(cells[BASE][key][1] for key in common))


def _log_rate(measured: Sequence[tuple[int, float]]) -> float:
    return math.log(sum(events for events, _ in measured) / sum(seconds for _, seconds in measured))


class Components(NamedTuple):
    """Variances of a log rate.

    Attributes:
        instance: between instances: estimate and interval; below 0 by chance where it is small.
        block: of an instance in one block, the variance of slices within.
        slice: of one slice, within block and instance.
        blocks: of a campaign, on average.
        halves: correlation of the instances' effects in the two halves of a campaign.
    """

    instance: float
    low: float
    high: float
    block: float
    slice: float
    blocks: float
    halves: float


def components(layouts: Sequence[Layout], confidence: float = 0.95) -> Components:
    """The variance components of several campaigns of one kind."""
    between, within, rounds, df, halves = [], [], 0.0, 0, []
    for one in layouts:
        arms, blocks = one.blocks.shape
        left = _centred(one.blocks)
        residual = float((left**2).sum()) / ((arms - 1) * (blocks - 1))
        means = one.blocks.mean(axis=1)
        between.append(float(means.var(ddof=1)) - residual / blocks)
        within.append(residual)
        for table in one.slices:
            rounds += float((_centred(table) ** 2).sum())
            df += (arms - 1) * (table.shape[1] - 1)
        first, last = np.array_split(one.blocks - one.blocks.mean(axis=0), 2, axis=1)
        halves += list(zip(first.mean(axis=1), last.mean(axis=1), strict=True))
    mean, count = float(np.mean(between)), len(between)
    limit = float(t.ppf((1 + confidence) / 2, count - 1)) if count > 1 else math.inf
    error = float(np.std(between, ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    return Components(
        instance=mean,
        low=mean - limit * error,
        high=mean + limit * error,
        block=float(np.mean(within)),
        slice=rounds / df if df else math.nan,
        blocks=float(np.mean([one.blocks.shape[1] for one in layouts])),
        halves=float(np.corrcoef(np.array(halves).T)[0, 1]),
    )


def _centred(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """What neither the row nor the column explains."""
    centred: NDArray[np.float64] = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0)
    return centred + float(table.mean())


def implied(
    instance: float, error: float, blocks: int, arms: Sequence[str], campaigns: int = SIMULATED
) -> float:
    """The share of comparisons in which some interval misses, if instances differ so much.

    Args:
        instance: variance between instances.
        error: variance of an instance in one block.
        blocks: of a comparison.
        arms: the base first.
        campaigns: to simulate.
    """
    chance = np.random.default_rng(1)
    missed = 0
    for _ in range(campaigns):
        effects = chance.normal(0, math.sqrt(max(instance, 0.0)), (len(arms), 1))
        scores = effects + chance.normal(0, math.sqrt(error), (len(arms), blocks))
        cells = {arm: dict(enumerate(map(float, own))) for arm, own in zip(arms, scores, strict=True)}
        found = compare(cells, BASE, alpha=ALPHA, twin=CONTROL)
        missed += any(not one.ratio.low <= 1 <= one.ratio.high for one in found)
    return missed / campaigns


def report(campaigns: Sequence[Campaign]) -> Iterator[str]:
    """What campaigns of one server and duration show."""
    first, missed = campaigns[0], sum(bool(one.missed) for one in campaigns)
    intervals = sum(len(one.missed) for one in campaigns)
    share = binomtest(missed, len(campaigns)).proportion_ci(method="exact")
    widths = [one.half_width for campaign in campaigns for one in campaign.ratios.values()]
    yield (
        f"{first.server}, {first.duration:.0f} s: {missed} of {len(campaigns)} comparisons have an interval"
        f" without 1: {missed / len(campaigns):.1%} [{share.low:.1%}, {share.high:.1%}];"
        f" {intervals} of {len(widths)} intervals; half-width {np.median(widths):.1%} (median)"
    )
    layouts = [layout(one) for one in campaigns]
    if len(layouts) < 2:
        return
    found = components(layouts)
    instance, low, high = (_deviation(one) for one in (found.instance, found.low, found.high))
    yield (
        f"  standard deviation of a rate: between instances {instance} [{low}, {high}], of an instance"
        f" between blocks {_deviation(found.block)}, between slices of a block {_deviation(found.slice)};"
        f" effects in both halves correlate by {found.halves:.2f}"
    )
    arms = [BASE, *(name for name in first.slices if name != BASE)]
    parts = []
    for duration in DURATIONS_S:
        blocks = max(2, round(found.blocks * duration / first.duration))
        shares = [implied(one, found.block, blocks, arms) for one in (found.instance, found.low, found.high)]
        parts.append("{:.0f} s {:.1%} [{:.1%}, {:.1%}]".format(duration, *shares))
    yield f"  that implies comparisons without 1: {', '.join(parts)}"


def _deviation(variance: float) -> str:
    return "unknown" if math.isnan(variance) else f"{math.sqrt(max(variance, 0.0)):.2%}"


def main() -> int:
    """Runs what is left to run, or reads what was run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--campaigns", type=int, default=100, help="of each server and duration")
    parser.add_argument("--server", action="append", help="repeatable; default: mariadb@10.11")
    parser.add_argument(
        "--duration", type=float, action="append", help="measured, over all four; repeatable; default: 24"
    )
    parser.add_argument("--json", type=Path, help="a line per campaign; those that are there count")
    parser.add_argument("--read", type=Path, nargs="+", help="analyses these files, runs nothing")
    given = parser.parse_args()
    files = given.read or [file for file in (given.json,) if file is not None and file.exists()]
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    kinds: dict[tuple[str, float], list[Campaign]] = {}
    for line in lines:
        one = msgspec.json.decode(line, type=Campaign)
        kinds.setdefault((one.server, one.duration), []).append(one)
    if not given.read:
        wanted = [(s, d) for s in given.server or ["mariadb@10.11"] for d in given.duration or [24.0]]
        kinds = {kind: kinds.get(kind, []) for kind in wanted}
        for seed in range(given.campaigns):
            for kind, done in kinds.items():
                if seed in {one.seed for one in done}:
                    continue
                done.append(run(*kind, seed))
                sys.stdout.write(
                    f"{kind[0]}, {kind[1]:.0f} s, {seed + 1}: {done[-1].missed or 'all have 1'}\n"
                )
                sys.stdout.flush()
                if given.json:
                    with given.json.open("ab") as file:
                        file.write(msgspec.json.encode(done[-1]) + b"\n")
    most = {kind: int(binom.ppf(1 - CHANCE, len(done), ALPHA)) for kind, done in kinds.items()}
    for done in kinds.values():
        sys.stdout.writelines(f"{line}\n" for line in report(done))
    return int(any(sum(bool(one.missed) for one in done) > most[kind] for kind, done in kinds.items()))


if __name__ == "__main__":
    sys.exit(main())
