"""Comparison over several machines: the machine is a random effect, so intervals are about all such machines.

Sits in `statistics`, on `comparison`; pure. A block runs on one machine, so its ratios never compare
machines. What is left of a machine in a ratio is its interaction with the arm: a setting may gain more on one
disk than on another. Blocks of one machine share it, so that more blocks there say nothing of the next one.

From `LEAST` machines on, the estimate is the mean over machines of an arm's log ratio on each. The interval
is Student's with one degree of freedom less than machines: exact for blocks of equal number, whatever the
interaction (H. Scheffé, *The Analysis of Variance*, 1959, chapter 8). Limits hold for all arms at once by
Šidák (JASA 62 (1967) 626-633). Nothing is pooled over arms. A variance shared by the arms that look stable
would halve the intervals at few machines, and covers too little where arms differ between machines
moderately: 82 to 85 % in simulations (`benchmarks/fleet_statistics.py --pooled`).

Below `LEAST` machines the comparison is that of the blocks, and its intervals are about these machines only.
Results of two machines are divided by the base's mean on their own machine; otherwise the faster machine
would dominate a ratio of sums.

An arm is called unstable by the F test of its variance between machines against that within machines (G. W.
Snedecor and W. G. Cochran, *Statistical Methods*, 8th ed., chapter 13: one-way layout, random effects,
unequal numbers of blocks), at one error rate for all arms together.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc

from flushlab.record import Comparison, FactorEffect, MachineRatio, OverMachines, Ratio
from flushlab.statistics.comparison import (
    OWN_BLOCKS,
    RESOLUTION,
    Cells,
    Scores,
    compare,
    exp,
    log_of_sums,
    of_estimate,
)
from flushlab.statistics.factors import Combination, factor_effects, weights_of
from flushlab.statistics.limits import critical_value, shift_for_power

LEAST = 3
"""Machines from which on intervals are about all such machines. Two have one degree of freedom between them:
the interval of a single arm would be 12.7 standard errors wide to each side, of twelve arms 149."""

Machines = Mapping[int, str]
"""Name of the machine of each block; a block without one ran on this machine."""


class _OnMachine(NamedTuple):
    """An arm against the base on one machine.

    Attributes:
        estimate: log of the ratio.
        squares: sum of the squared residuals of the blocks.
        blocks: number of blocks.
    """

    estimate: float
    squares: float
    blocks: int


def spans(scores: Scores, base: str, machines: Machines) -> int:
    """Number of machines that the base was measured on."""
    return len({machines.get(block, "") for block in scores[base]})


def compare_over(
    scores: Scores,
    base: str,
    machines: Machines,
    *,
    alpha: float = 0.05,
    only: Collection[str] | None = None,
    family: int = 0,
    twin: str = "",
    apart: Collection[str] = (),
) -> tuple[Comparison, ...]:
    """Every arm against the base over all such machines; below `LEAST` machines `compare` of the blocks, each
    machine's on its own level.

    Args:
        scores, base, alpha, only, family, twin, apart: as of `compare`.
        machines: of the blocks.

    Returns:
        One comparison per arm that ran on two machines or more, in the order of `scores`.
    """
    if spans(scores, base, machines) < LEAST:
        on_level = _on_level(scores, base, machines)
        return compare(on_level, base, alpha=alpha, only=only, family=family, twin=twin, apart=apart)
    arms = [arm for arm in scores if arm != base and (only is None or arm in only)]
    found = {arm: _by_machine(scores[arm], scores[base], machines) for arm in arms}
    found = {arm: ratios for arm, ratios in found.items() if len(ratios) >= 2}
    family = max(family, len(found))
    comparisons = []
    for arm, ratios in found.items():
        estimate, error, df = _student([one.estimate for one in ratios.values()])
        limit = critical_value(_each(alpha, family), 1, df)
        blocks = sum(one.blocks for one in ratios.values())
        comparisons.append(of_estimate(arm, estimate, error, limit, df, blocks))
    return tuple(comparisons)


def over_machines(
    scores: Scores,
    base: str,
    machines: Machines,
    *,
    alpha: float = 0.05,
    only: Collection[str] | None = None,
    family: int = 0,
    apart: Collection[str] = (),
) -> dict[str, OverMachines]:
    """Every arm that ran on two machines or more, with its ratio on each.

    Args:
        scores, base, only, family, apart: as of `compare`.
        machines: of the blocks.
        alpha: probability that any of the intervals misses, and that any stable arm is called unstable.

    Returns:
        By arm; empty where no machine ran two blocks, so that nothing is known of the variance within one.
    """
    found = {arm: _by_machine(cells, scores[base], machines) for arm, cells in scores.items() if arm != base}
    calm = [ratios for arm, ratios in found.items() if arm not in apart and base not in apart]
    shared = _within(calm)
    asked = {
        arm: ratios for arm, ratios in found.items() if len(ratios) >= 2 and (only is None or arm in only)
    }
    each = _each(alpha, max(family, len(asked), 1))
    over = {}
    for arm, ratios in asked.items():
        own = _within([ratios])
        variance, df = own if own[1] >= OWN_BLOCKS or arm in apart or base in apart else shared
        if df:
            over[arm] = _over(ratios, variance, df, each)
    return over


def detectable_over(
    scores: Scores,
    base: str,
    machines: Machines,
    *,
    alpha: float,
    family: int,
    twin: str,
    power: float,
) -> dict[str, float]:
    """Smallest log gain of each arm that would have been seen with this power; arguments as above."""
    if spans(scores, base, machines) < LEAST:
        on_level = _on_level(scores, base, machines)
        found = compare(on_level, base, alpha=alpha, family=family, twin=twin, power=power)
        return {one.arm: math.log1p(one.detectable) for one in found}
    gains = {}
    for arm, cells in scores.items():
        ratios = _by_machine(cells, scores[base], machines) if arm != base else {}
        if len(ratios) >= 2:
            _, error, df = _student([one.estimate for one in ratios.values()])
            gains[arm] = shift_for_power(critical_value(_each(alpha, family), 1, df), df, power) * error
    return gains


def effects_over(
    scores: Scores,
    arms: Mapping[Combination, str],
    machines: Machines,
    *,
    alpha: float = 0.05,
    twin: str = "",
    apart: Collection[str] = (),
) -> tuple[FactorEffect, ...]:
    """Main effects and interactions of crossed factors over all such machines; below `LEAST` machines
    `factor_effects` of the blocks, each machine's on its own level."""
    base = arms[()]
    if spans(scores, base, machines) < LEAST:
        on_level = _on_level(scores, base, machines)
        return factor_effects(on_level, arms, alpha=alpha, twin=twin, apart=apart)
    shared = set.intersection(*(set(scores.get(arm, {})) for arm in arms.values()))
    places = sorted({machines.get(block, "") for block in shared})
    if len(places) < 2:
        return ()
    logs = np.array(
        [
            [
                log_of_sums(scores[arm], [block for block in shared if machines.get(block, "") == place])
                for place in places
            ]
            for arm in arms.values()
        ]
    )
    effects = [one for one in arms if one]
    found = []
    for factors in effects:
        estimate, error, df = _student(list(weights_of(factors, list(arms)) @ logs))
        limit = critical_value(_each(alpha, len(effects)), 1, df)
        half = limit * error
        ratio = Ratio(estimate=exp(estimate), low=exp(estimate - half), high=exp(estimate + half))
        detectable = exp(shift_for_power(limit, df) * error) - 1
        found.append(FactorEffect.of(factors, ratio, len(shared), detectable))
    return tuple(found)


def _on_level(scores: Scores, base: str, machines: Machines) -> Scores:
    """Scores relative to the base's mean result on their machine; of one machine as they are."""
    blocks: dict[str, list[int]] = {}
    for block in scores[base]:
        blocks.setdefault(machines.get(block, ""), []).append(block)
    if len(blocks) < 2:
        return scores
    level = {machine: log_of_sums(scores[base], own) - math.log(len(own)) for machine, own in blocks.items()}
    return {
        arm: {block: one - level.get(machines.get(block, ""), 0.0) for block, one in cells.items()}
        for arm, cells in scores.items()
    }


def _by_machine(arm: Cells, base: Cells, machines: Machines) -> dict[str, _OnMachine]:
    """By machine, of the blocks in which both were measured: ratios of sums, as of `compare`."""
    blocks: dict[str, list[int]] = {}
    for block in sorted(arm.keys() & base.keys()):
        blocks.setdefault(machines.get(block, ""), []).append(block)
    found = {}
    for machine in sorted(blocks):
        logs = np.array([[cells[block] for block in blocks[machine]] for cells in (arm, base)])
        own, reference = np.exp(logs - logs.max())
        ratio = own.sum() / reference.sum()
        left = (own - ratio * reference) / own.mean()
        found[machine] = _OnMachine(math.log(ratio), float((left**2).sum()), left.size)
    return found


def _within(arms: Collection[Mapping[str, _OnMachine]]) -> tuple[float, int]:
    """Variance of a block's log ratio on one machine, pooled over arms, and its degrees of freedom.

    Ratios to one base are correlated by a half, so variances of k arms have a quarter of their variance in
    common: they count as k / (1 + (k - 1) / 4) (F. E. Satterthwaite, Biometrics Bulletin 2 (1946) 110-114).
    """
    each = [sum(one.blocks - 1 for one in ratios.values()) for ratios in arms]
    df, count = sum(each), sum(map(bool, each))
    if not df:
        return math.nan, 0
    squares = sum(one.squares for ratios in arms for one in ratios.values())
    return max(squares / df, RESOLUTION**2), int(df / (1 + (count - 1) / 4))


def _over(ratios: Mapping[str, _OnMachine], variance: float, df: int, alpha: float) -> OverMachines:
    counts = np.array([one.blocks for one in ratios.values()], dtype=float)
    logs = np.array([one.estimate for one in ratios.values()])
    between_df = counts.size - 1
    mean = float(counts @ logs / counts.sum())
    between = float(counts @ (logs - mean) ** 2) / between_df
    typical = (counts.sum() - (counts**2).sum() / counts.sum()) / between_df
    of_machines = max(0.0, (between - variance) / float(typical))
    limit = critical_value(_each(alpha, counts.size), 1, df)
    halves = limit * np.sqrt(variance / counts)
    return OverMachines(
        ratios=tuple(
            MachineRatio(
                machine=machine,
                ratio=Ratio(
                    estimate=exp(one.estimate), low=exp(one.estimate - half), high=exp(one.estimate + half)
                ),
                blocks=one.blocks,
            )
            for (machine, one), half in zip(ratios.items(), halves.tolist(), strict=True)
        ),
        between_share=of_machines / (of_machines + variance),
        unstable=bool(fdtrc(between_df, df, between / variance) < alpha),
    )


def mean_over(logs: list[float]) -> Ratio | None:
    """Geometric mean over machines, from the logarithms of their results, with Student's 95 % interval; None
    below `LEAST` machines."""
    if len(logs) < LEAST:
        return None
    estimate, error, df = _student(logs)
    half = critical_value(0.05, 1, df) * error
    return Ratio(estimate=exp(estimate), low=exp(estimate - half), high=exp(estimate + half))


def _student(values: list[float]) -> tuple[float, float, int]:
    """Mean, its standard error, degrees of freedom."""
    spread = max(float(np.std(values, ddof=1)), RESOLUTION)
    return float(np.mean(values)), spread / math.sqrt(len(values)), len(values) - 1


def _each(alpha: float, family: int) -> float:
    """Error rate of each of several intervals that hold at once (Šidák)."""
    return float(-math.expm1(math.log1p(-alpha) / family))
