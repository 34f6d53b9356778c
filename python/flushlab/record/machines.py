"""An arm on several machines: its ratio on each, and how far the machines differ."""

from __future__ import annotations

import msgspec

from flushlab.record.comparison import Ratio
from flushlab.record.trial import Trial


class MachineRatio(msgspec.Struct, frozen=True, kw_only=True):
    """An arm against the base on one machine.

    Attributes:
        machine: its name in the fleet.
        ratio: of the blocks that ran there; the intervals of all arms and machines hold at once.
        blocks: number of these blocks.
    """

    machine: str
    ratio: Ratio
    blocks: int


class OverMachines(msgspec.Struct, frozen=True, kw_only=True):
    """An arm's ratio on every machine of the fleet.

    Attributes:
        ratios: by machine, in the order of their names.
        between_share: share of the variance of a block's log ratio that is between machines; 0: the ratio
            depends on no machine.
        unstable: whether it is proven that the ratio depends on the machine.
    """

    ratios: tuple[MachineRatio, ...]
    between_share: float
    unstable: bool

    @property
    def slowest(self) -> MachineRatio:
        """The machine on which the arm gains least."""
        return min(self.ratios, key=lambda one: one.ratio.estimate)

    @property
    def better_on(self) -> tuple[str, ...]:
        """Machines on which the arm is proven better than the base."""
        return tuple(one.machine for one in self.ratios if one.ratio.verdict == "faster")

    @property
    def worse_on(self) -> tuple[str, ...]:
        """Machines on which it is proven worse."""
        return tuple(one.machine for one in self.ratios if one.ratio.verdict == "slower")


class MachineRun(msgspec.Struct, frozen=True, kw_only=True):
    """A single run on one machine.

    Attributes:
        machine: its name in the fleet.
        trial: the record; null if nothing was measured.
        problem: why nothing was measured; else empty.
    """

    machine: str
    trial: Trial | None = None
    problem: str = ""


class MachineMean(msgspec.Struct, frozen=True, kw_only=True):
    """The mean over machines of this kind, in the unit of the results.

    Attributes:
        estimate: geometric mean of the machines' results.
        low: lower end of its 95 % interval.
        high: upper end.
    """

    estimate: float
    low: float
    high: float


class FleetBench(msgspec.Struct, frozen=True, kw_only=True):
    """Results of `flushlab bench --fleet`: the same run on every machine.

    Attributes:
        runs: by machine, in the order of their names.
        fastest: name of the machine with the best result that counts; empty if there is none.
        slowest: name of the machine with the worst one; likewise.
        between: result of the fastest over that of the slowest, or for seconds the reverse; null with fewer
            than two results that count. It contains the noise of single runs.
        mean: over machines of this kind; null with fewer than three results that count.
    """

    runs: tuple[MachineRun, ...]
    fastest: str = ""
    slowest: str = ""
    between: float | None = None
    mean: MachineMean | None = None
