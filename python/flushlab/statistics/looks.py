"""Looks: when a comparison may be judged, and how much of its error rate each judgement spends.

Sits beside `comparison` in `statistics`; pure. Promises that the intervals of *all* looks hold together
with probability 1 - alpha, so an interval reported after stopping at any look is honest.

Looks are fixed before the first block. Look k at the share t_k of the blocks spends
f(t_k) - f(t_{k-1}) of alpha, with f(t) = alpha t² (K. Kim and D. L. DeMets, "Design and analysis of
group sequential tests based on the type I error spending rate function", Biometrika 74 (1987) 149-154;
spending functions: K. K. G. Lan and D. L. DeMets, Biometrika 70 (1983) 659-663). Each look's interval is
made at its own share, so validity needs only the union bound and no asymptotics; against exact group
sequential limits that costs a few percent of width, which small blocks could not have guaranteed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from flushlab.record import Comparison, Ratio

FIRST_LOOK_BLOCKS = 3
"""Blocks before the first look: with fewer, the variance has too few degrees of freedom to stop on."""


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """The fixed schedule of one comparison.

    Attributes:
        blocks: number of finished blocks at each look, increasing; the last is the most there will be.
        alpha: probability that any interval of any look misses.
    """

    blocks: tuple[int, ...]
    alpha: float = 0.05

    @classmethod
    def planned(cls, blocks: int, alpha: float = 0.05) -> Looks:
        """Looks after a quarter, half, three quarters and all of `blocks`, none before the third block."""
        assert blocks >= 2
        quarters = {math.ceil(blocks * quarter / 4) for quarter in (1, 2, 3, 4)}
        kept = sorted(b for b in quarters if b >= FIRST_LOOK_BLOCKS or b == blocks)
        return cls(blocks=tuple(kept), alpha=alpha)

    def alpha_at(self, blocks: int) -> float:
        """What the look after `blocks` blocks may spend.

        `blocks` need not be a planned look if the schedule is cut short there for a reason that has
        nothing to do with the figures (no time left): it then spends all that is left.
        """
        earlier = max((b for b in self.blocks if b < blocks), default=0)
        spent = self._spent(earlier)
        return (self._spent(blocks) if blocks in self.blocks else self.alpha) - spent

    def _spent(self, blocks: int) -> float:
        return self.alpha * (blocks / self.blocks[-1]) ** 2


def held(looks: Iterable[Comparison]) -> Comparison:
    """What the looks at one comparison prove together: the last one, with the intersection of all intervals.

    All intervals hold at once, so their intersection does: it only narrows, and what was proven stays proven.
    Where a look and those before it exclude each other, the machine did what no interval allows for. Then the
    interval spans both, never narrows again, and is marked `contradicted`.
    """
    first, *later = looks
    now = first
    for look in later:
        low, high = max(now.ratio.low, look.ratio.low), min(now.ratio.high, look.ratio.high)
        contradicted = now.contradicted or low > high
        if contradicted:
            low, high = min(now.ratio.low, look.ratio.low), max(now.ratio.high, look.ratio.high)
        ratio = Ratio(estimate=min(max(look.ratio.estimate, low), high), low=low, high=high)
        now = msgspec.structs.replace(look, ratio=ratio, verdict=ratio.verdict, contradicted=contradicted)
    return now
