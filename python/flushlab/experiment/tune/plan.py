"""What a tuning needs to know. Pure values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from flushlab.experiment.objective import Objective
from flushlab.record import Value
from flushlab.settings.candidates import Candidate
from flushlab.settings.floor import Floor


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """Limits beyond which a faster arm may not win, judged over the confirmation blocks.

    Attributes:
        p99_ratio: 99th percentile of the latency against the base's, paired by block. Beyond the limit means
            that the estimate is above it and the worsening is proven (its interval lies above 1): one run's
            p99 scatters far more than its throughput. Whoever needs p99 held tighter, or compared at equal
            load, makes it the objective at a fixed rate; in a closed loop more throughput alone moves it.
        stall_share: how much larger the share of stalled seconds may be than the base's (0.05 = 3 s more in
            a minute). A stalled second has less than a tenth of its window's median throughput.
    """

    p99_ratio: float = 2.0
    stall_share: float = 0.05


class TunePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the planner needs to know.

    Attributes:
        base: the base's settings.
        yours: the user's own settings, below the floor, where the base is what raises them to it. They run as
            a reference in the confirmation, to tell what meeting the floor costs, and are never handed over.
            None: the base is theirs, or theirs may not run.
        raised: the base raises the user's settings to the floor, and is handed over where nothing is faster.
        candidates: changes worth trying; those below the floor or equal to the base are left out.
        floor: the weakest guarantees of the result that is handed over.
        lowest: the lowest floor that trials may run at, those of `yours` excepted. Gains below `floor` are
            offers, proven alike. None: `floor`.
        level_of: the safest floor that settings satisfy; the durability rules, bound to server and storage.
        is_free: whether settings lower no guarantee of the base.
        budget_trials, budget_s: limits, at least one of them. The seconds hold everything from the beginning
            of the command (`Trial.seconds` summed) to its end.
        trial_s: about how long a trial takes, as far as that is known before the first; at least so long
            where it is not.
        seed: of all random order.
        alpha: probability that any reported interval misses.
        objective: what a trial is scored by.
        variants: number of workload variants; every arm runs each once per block.
        guards: limits on latency and stalls.
        redo_to_outlast: bytes of redo that a window must write under some settings before it says anything
            about them; None: windows need not outlast the redo log.
        window_limit_s: longest window, in seconds, that a candidate may need for that.
        side_by_side: servers that may run at once and alternate in slices; a block is cheap then, a new arm
            is not. 0: every trial starts a fresh one.
        start_s: about how long it takes until the first trial.
        startup_s: about how long it takes until one takes slices, as far as that is known before the first.
        spread: machines of a fleet run the blocks, so that every block that chooses holds its own base.
    """

    base: Mapping[str, Value]
    candidates: tuple[Candidate, ...]
    floor: Floor
    lowest: Floor | None = None
    level_of: Callable[[Mapping[str, Value]], Floor]
    is_free: Callable[[Mapping[str, Value]], bool]
    yours: Mapping[str, Value] | None = None
    raised: bool = False
    budget_trials: int | None = None
    budget_s: float | None = None
    trial_s: float = 0.0
    seed: int = 0
    alpha: float = 0.05
    objective: Objective = "throughput"
    variants: int = 1
    guards: Guards = Guards()
    redo_to_outlast: Callable[[Mapping[str, Value]], int] | None = None
    window_limit_s: float = math.inf
    side_by_side: int = 0
    start_s: float = 0.0
    startup_s: float = 0.0
    spread: bool = False

    @property
    def runs_at(self) -> Floor:
        """The lowest floor that trials may run at."""
        return self.lowest or self.floor
