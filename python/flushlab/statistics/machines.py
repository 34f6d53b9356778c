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
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc

from flushlab.record import Comparison, FactorEffect, MachineRatio, OverMachines, Ratio
from flushlab.statistics.comparison import (
    OWN_BLOCKS,
    RESOLUTION,
    Scores,
    compare,
    log_of_sums,
    of_estimate,
    ratio_within,
)
from flushlab.statistics.factors import Combination, effect_of, factor_effects, weights_of
from flushlab.statistics.limits import critical_value, shift_for_power

LEAST = 3
"""Machines from which on intervals are about all such machines. Two have one degree of freedom between them:
the interval of a single arm would be 12.7 standard errors wide to each side, of twelve arms 149."""


class _OnMachine(NamedTuple):
    """An arm against the base on one machine: log of the ratio, sum of the blocks' squared residuals."""

    estimate: float
    squares: float
    blocks: int


class RatioTable(NamedTuple):
    scores: Scores
    machines: Mapping[int, str] = {}
    stalled: Collection[str] = ()

    def compare(
        self,
        base: str,
        *,
        alpha: float = 0.05,
        only: Collection[str] | None = None,
        family: int = 0,
        twin: str = "",
    ) -> tuple[Comparison, ...]:
        """Over all such machines; below `LEAST` `compare` of the blocks, each machine's on its own level.
        In the order of `scores`, without arms that ran on one machine."""
        if self._is_of_blocks(base):
            level, apart = self._on_level(base), self.stalled
            return compare(level, base, alpha=alpha, only=only, family=family, twin=twin, apart=apart)
        found = {arm: ratios for arm, ratios in self._ratios(base, only).items() if len(ratios) >= 2}
        family = max(family, len(found))
        comparisons = []
        for arm, ratios in found.items():
            estimate, error, df = _student([one.estimate for one in ratios.values()])
            limit = critical_value(_each(alpha, family), 1, df)
            blocks = sum(one.blocks for one in ratios.values())
            comparisons.append(of_estimate(arm, estimate, error, limit, df, blocks))
        return tuple(comparisons)

    def over_machines(
        self, base: str, *, alpha: float = 0.05, only: Collection[str] | None = None, family: int = 0
    ) -> dict[str, OverMachines]:
        """Empty where no machine ran two blocks: nothing is known of the variance within one then. `alpha` is
        the probability that any of the intervals misses, and that any stable arm is called unstable."""
        found = self._ratios(base)
        apart = found.keys() if base in self.stalled else self.stalled
        shared = _within([ratios for arm, ratios in found.items() if arm not in apart])
        asked = {
            arm: ratios for arm, ratios in found.items() if len(ratios) >= 2 and (only is None or arm in only)
        }
        each = _each(alpha, max(family, len(asked), 1))
        over = {}
        for arm, ratios in asked.items():
            own = _within([ratios])
            variance, df = own if own[1] >= OWN_BLOCKS or arm in apart else shared
            if df:
                over[arm] = _over(ratios, variance, df, each)
        return over

    def detectable(
        self, base: str, *, alpha: float, family: int, twin: str, power: float
    ) -> dict[str, float]:
        if self._is_of_blocks(base):
            level = self._on_level(base)
            found = compare(level, base, alpha=alpha, family=family, twin=twin, power=power)
            return {one.arm: math.log1p(one.detectable) for one in found}
        gains = {}
        for arm, ratios in self._ratios(base).items():
            if len(ratios) >= 2:
                _, error, df = _student([one.estimate for one in ratios.values()])
                gains[arm] = shift_for_power(critical_value(_each(alpha, family), 1, df), df, power) * error
        return gains

    def effects(
        self, arms: Mapping[Combination, str], *, alpha: float = 0.05, twin: str = ""
    ) -> tuple[FactorEffect, ...]:
        if self._is_of_blocks(arms[()]):
            level = self._on_level(arms[()])
            return factor_effects(level, arms, alpha=alpha, twin=twin, apart=self.stalled)
        shared = set.intersection(*(set(self.scores.get(arm, {})) for arm in arms.values()))
        places = self._by_machine(sorted(shared))
        if len(places) < 2:
            return ()
        logs = np.array(
            [
                [log_of_sums(self.scores[arm], places[place]) for place in sorted(places)]
                for arm in arms.values()
            ]
        )
        effects = [one for one in arms if one]
        found = []
        for factors in effects:
            estimate, error, df = _student(list(weights_of(factors, list(arms)) @ logs))
            limit = critical_value(_each(alpha, len(effects)), 1, df)
            found.append(effect_of(factors, estimate, error, limit, df, len(shared)))
        return tuple(found)

    def _by_machine(self, blocks: Iterable[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for block in blocks:
            found.setdefault(self.machines.get(block, ""), []).append(block)
        return found

    def _is_of_blocks(self, base: str) -> bool:
        return len(self._by_machine(self.scores[base])) < LEAST

    def _on_level(self, base: str) -> Scores:
        """Scores relative to the base's mean result on their machine; of one machine as they are."""
        places = self._by_machine(self.scores[base])
        if len(places) < 2:
            return self.scores
        level = {
            place: log_of_sums(self.scores[base], blocks) - math.log(len(blocks))
            for place, blocks in places.items()
        }
        return {
            arm: {block: one - level.get(self.machines.get(block, ""), 0.0) for block, one in cells.items()}
            for arm, cells in self.scores.items()
        }

    def _ratios(self, base: str, only: Collection[str] | None = None) -> dict[str, dict[str, _OnMachine]]:
        """By arm and machine, of the blocks in which both were measured: ratios of sums, as of `compare`."""
        found: dict[str, dict[str, _OnMachine]] = {}
        for arm, cells in self.scores.items():
            if arm == base or (only is not None and arm not in only):
                continue
            places = self._by_machine(sorted(cells.keys() & self.scores[base].keys()))
            found[arm] = {}
            for place in sorted(places):
                logs = np.array(
                    [[own[block] for block in places[place]] for own in (cells, self.scores[base])]
                )
                results, reference = np.exp(logs - logs.max())
                ratio = results.sum() / reference.sum()
                left = (results - ratio * reference) / results.mean()
                found[arm][place] = _OnMachine(math.log(ratio), float((left**2).sum()), left.size)
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
                ratio=ratio_within(one.estimate, half),
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
    return ratio_within(estimate, critical_value(0.05, 1, df) * error)


def _student(values: list[float]) -> tuple[float, float, int]:
    spread = max(float(np.std(values, ddof=1)), RESOLUTION)
    return float(np.mean(values)), spread / math.sqrt(len(values)), len(values) - 1


def _each(alpha: float, family: int) -> float:
    return float(-math.expm1(math.log1p(-alpha) / family))
