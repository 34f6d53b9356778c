"""Simulates whole tunings on a fleet: how often do they claim what is not so, and find what is?

Run by `make bench`:

    PYTHONPATH=python python benchmarks/fleet_tuning.py --campaigns 4000

Every campaign is complete: the product's experiment, dispatch and runner, on machines in simulated time.
Machines differ by 10 % in speed. The candidate *good* gains as much on each of them. The gain of *moody*
depends on the machine, in most cases by 30 %.

An interval is about all machines like these if three or more confirm, else about those that confirm, and is
judged by that. A claim is false if the claimed settings gain nothing there. Exits with 1 unless, within three
standard errors of this simulation,

- at most 5 % of the campaigns make a false claim; with *selecting*, a claim of what gains on the selecting
  machines only counts as one,
- all intervals of a campaign hold in 93 % or more of the campaigns,
- the winner's interval holds in 93 % or more of the campaigns that have a winner, where it is found in half
  of the campaigns or more,
- the arms that screening chose are not overrated: the mean error of their log ratios is 0 (not asked where
  one or two confirm *moody*: of two machines, the ratio is of sums, and so a little above the mean of logs),
- no machine both selects and confirms.

The upper end of the usual 93 to 97 % is no bar here: intervals hold for all arms at once, and Šidák's and
Dunnett's limits are wider than needed where arms have much in common.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from random import Random
from typing import NamedTuple

from flushlab.campaign.fleet.machines import Ended, Event, Joined, Lost, Opening, Stopped, Task
from flushlab.campaign.fleet.trials import Arrivals, ArrivedBlock, FleetTrials
from flushlab.campaign.fleet.worker import trials_of
from flushlab.campaign.pool.work import CrashTask
from flushlab.campaign.watcher import Watcher
from flushlab.experiment.protocol import SELECTING, Request
from flushlab.experiment.simulated import Noise, SimulatedTrials
from flushlab.experiment.tune import Tune, TunePlan
from flushlab.record import CONTROL, Ratio, Stage, Trial, Value
from flushlab.settings.candidates import Candidate
from flushlab.settings.floor import Floor
from flushlab.statistics.machines import LEAST

ALPHA = 0.05
BETWEEN, UNSTABLE = 0.10, 0.30
"""Standard deviations between machines: of their speed, and of the log ratio of *moody*."""
TRIAL_S = 0.05
BASE: dict[str, Value] = {"flush": 1, "good": 0, "moody": 0, "idle_1": 0, "idle_2": 0, "idle_3": 0}
LEVELS = {1: Floor.STRICT, 2: Floor.SECOND}


class Case(NamedTuple):
    """What is simulated.

    Attributes:
        machines: number of them.
        gain: ratio of *good*, on every machine.
        interaction: of *moody*. *even*: its ratio is 1. *normal*: the logarithm varies by `UNSTABLE` around
            0. *some*: on some machines, by chance, it is 0.7 of what it is on the others; 1 on average.
            *selecting*: 1.3 on machines that select, 1 on the others.
        noise: standard deviation of a result.
        trials: of the budget.
        beside: servers at once, which take slices; 0: each trial has a fresh one.
        lost: share of blocks that are lost with their machine, which comes back later.
    """

    machines: int
    gain: float = 1.0
    interaction: str = "normal"
    noise: float = 0.02
    trials: int = 120
    beside: int = 0
    lost: float = 0.0

    @property
    def words(self) -> str:
        """The case in a few words."""
        what = f"gain {self.gain:g}" if self.gain != 1 else "no gain"
        how = f"{self.beside} servers at once" if self.beside else "fresh servers"
        lost = f", {self.lost:.0%} lost" if self.lost else ""
        return (
            f"{self.machines} machines, {what}, moody {self.interaction}, noise {self.noise:.0%}, {how},"
            f" {self.trials} trials{lost}"
        )


MACHINES = (2, 3, 4, 5, 8)
CASES = (
    *(Case(count, interaction="even", noise=noise) for noise in (0.02, 0.05) for count in MACHINES),
    *(Case(count) for count in MACHINES),
    *(Case(count, gain, noise=noise) for gain in (1.2, 1.5) for noise in (0.02, 0.05) for count in MACHINES),
    *(Case(count, gain, "selecting") for gain in (1.0, 1.2) for count in MACHINES),
    *(Case(count, interaction="some") for count in MACHINES),
    *(Case(count, 1.2, lost=0.03) for count in (4, 8)),
    *(Case(count, noise=0.05, trials=300, beside=5) for count in (4, 8)),
)


class Verdict(NamedTuple):
    """What a campaign claimed, against the truth.

    Attributes:
        confirming: machines that confirmed.
        both: a machine selected and confirmed.
        claimed: there is a winner.
        false: a claim of no gain where its interval is about.
        elsewhere: a claim of no gain over all such machines.
        missed: an interval of the confirmation does not hold.
        winner_missed: that of the winner does not; None without one.
        right: the winner has *good*.
        errors: of the log ratios of the arms that were chosen for confirmation.
    """

    confirming: int
    both: bool
    claimed: bool
    false: bool
    elsewhere: bool
    missed: bool
    winner_missed: bool | None
    right: bool
    errors: tuple[float, ...]


class Fleet:
    """Servers of known effects, on machines of their own speed.

    Args:
        case: what they are like.
        names: of the machines.
        seed: of all that varies.
    """

    def __init__(self, case: Case, names: Sequence[str], seed: int) -> None:
        self._case, random = case, Random(f"{seed}/machines")
        self._speed = {name: random.gauss(0, BETWEEN) for name in names}
        self._moody = {name: self._drawn(random) for name in names}
        self._selecting: set[str] = set()
        self._servers = {
            name: SimulatedTrials(
                partial(self._level, name),
                BASE,
                noise=Noise(trial=case.noise),
                seed=Random(f"{seed}/{name}").getrandbits(32),
            )
            for name in names
        }

    def _drawn(self, random: Random) -> float:
        if self._case.interaction == "normal":
            return random.gauss(0, UNSTABLE)
        if self._case.interaction == "some":
            return math.copysign(math.log(0.7) / 2, random.random() - 0.5)
        return 0.0

    def _level(self, machine: str, settings: Mapping[str, Value]) -> float:
        return self._speed[machine] + self.effect(settings, machine)

    def effect(self, settings: Mapping[str, Value], machine: str = "") -> float:
        """Log ratio of settings on a machine; without one, its mean over all such machines."""
        moody = self._moody.get(machine, 0.0)
        if self._case.interaction == "selecting" and machine in self._selecting:
            moody = math.log(1.3)
        good = math.log(self._case.gain)
        return (good if settings["good"] else 0.0) + (moody if settings["moody"] else 0.0)

    def run(self, machine: str, request: Request) -> Trial:
        """One trial on a machine."""
        if request.stage in SELECTING:
            self._selecting.add(machine)
        return self._servers[machine].run(request)


class SimulatedMachines:
    """The protocol `Machines`, in simulated time: every block takes its trials' time, more or less.

    Args:
        names: of the machines.
        fleet: what runs on them.
        lost: share of blocks that are lost with their machine.
        seed: of the times.
    """

    def __init__(self, names: Sequence[str], fleet: Fleet, lost: float, seed: int) -> None:
        self._names, self._fleet, self._lost = tuple(names), fleet, lost
        self._random = Random(f"{seed}/times")
        self._coming: dict[str, tuple[float, Event]] = {}
        self.now_s = 0.0

    def open(self, opening: Opening) -> tuple[str, ...]:
        """All machines."""
        return self._names

    def submit(self, machine: str, number: int, task: Task | CrashTask) -> None:
        """Runs a block, which ends later."""
        assert isinstance(task, Task)
        assert machine not in self._coming, "one block at a time"
        trials = tuple(trials_of(task, partial(self._fleet.run, machine)))
        is_lost = self._random.random() < self._lost
        end_s = self.now_s + TRIAL_S * len(trials) * self._random.uniform(0.8, 1.25)
        event = Lost(machine, "the node died") if is_lost else Ended(machine, number, trials)
        self._coming[machine] = end_s, event

    def cancel(self, machine: str) -> None:
        """A block stops."""
        _, event = self._coming[machine]
        if isinstance(event, Ended):
            self._coming[machine] = self.now_s, Stopped(machine, event.number)

    def wait(self, seconds: float) -> Sequence[Event]:
        """The next event, if it comes in time."""
        machine = min(self._coming, key=lambda name: self._coming[name][0])
        at_s, event = self._coming[machine]
        if at_s > self.now_s + seconds:
            self.now_s += seconds
            return ()
        del self._coming[machine]
        self.now_s = max(self.now_s, at_s)
        return [event]

    def dismiss(self, machine: str) -> None:
        """It was lost, and comes back."""
        self._coming[machine] = self.now_s + TRIAL_S * 20, Joined(machine)

    def rest(self) -> None:
        """Nothing runs."""


class NoStore(Arrivals):
    """Keeps nothing: the driver is never killed here."""

    def __init__(self) -> None:
        """Needs no store."""

    def save(self, number: int, block: ArrivedBlock) -> None:
        """Nothing."""

    def forget(self, number: int) -> None:
        """Nothing."""

    def left(self) -> dict[int, ArrivedBlock]:
        """None."""
        return {}

    def machines(self, stages: Collection[Stage]) -> set[str]:
        """None."""
        return set()


def level_of(settings: Mapping[str, Value]) -> Floor:
    """Only `flush` lowers a guarantee."""
    return LEVELS[int(settings["flush"])]


def candidates() -> tuple[Candidate, ...]:
    """One that lowers a guarantee and does nothing else, and five free ones."""
    changes: Mapping[str, Value] = {**dict.fromkeys(BASE, 1), "flush": 2}
    return tuple(Candidate(settings={name: value}, group="commit", why="") for name, value in changes.items())


def judge(case: Case, seed: int) -> Verdict:
    """Runs one campaign and compares it with the truth."""
    names = [f"m{number}" for number in range(case.machines)]
    fleet = Fleet(case, names, seed)
    machines = SimulatedMachines(names, fleet, case.lost, seed)
    tune = Tune(
        TunePlan(
            base=BASE,
            candidates=candidates(),
            floor=Floor.SECOND,
            level_of=level_of,
            is_free=lambda settings: level_of(settings).at_least(level_of(BASE)),
            budget_trials=case.trials,
            seed=seed,
            alpha=ALPHA,
            side_by_side=case.beside,
            spread=True,
        )
    )
    runner = FleetTrials(
        machines=machines,
        names=names,
        ahead=tune.ahead,
        arrivals=NoStore(),
        watcher=Watcher(),
        clock=lambda: machines.now_s,
    )
    told: list[Trial] = []
    while (request := tune.ask()) is not None:
        told.append(runner.run(request))
        tune.tell(told[-1])
    result = tune.result()
    confirmed = [trial for trial in told if trial.stage == "confirm"]
    where = {trial.block: trial.machine for trial in confirmed}
    confirming = set(where.values())
    arms = {CONTROL: BASE} | {trial.arm.name: trial.arm.settings for trial in confirmed}

    def truth(arm: str) -> float:
        """Log ratio over what the arm's interval is about."""
        if len(confirming) >= LEAST:
            return fleet.effect(arms[arm])
        return sum(fleet.effect(arms[arm], machine) for machine in where.values()) / len(where)

    def misses(arm: str, ratio: Ratio) -> bool:
        return not ratio.low <= math.exp(truth(arm)) <= ratio.high

    claims = [point.arm for point in result.frontier if point.comparison is not None]
    winner = result.winner
    return Verdict(
        confirming=len(confirming),
        both=bool(confirming & {trial.machine for trial in told if trial.stage != "confirm"}),
        claimed=winner is not None,
        false=any(truth(arm) <= 0 for arm in claims),
        elsewhere=any(fleet.effect(arms[arm]) <= 0 for arm in claims),
        missed=any(misses(one.arm, one.ratio) for one in result.confirmed),
        winner_missed=None if winner is None else misses(winner.arm, winner.ratio),
        right=winner is not None and winner.settings.get("good") == 1,
        errors=tuple(
            math.log(one.ratio.estimate) - truth(one.arm) for one in result.confirmed if one.arm != CONTROL
        ),
    )


def judge_many(case: Case, seeds: Iterable[int]) -> list[Verdict]:
    """A batch, for one process."""
    return [judge(case, seed) for seed in seeds]


class Summary(NamedTuple):
    """Shares of the campaigns of a case; attributes as of `Verdict`.

    Attributes:
        campaigns: their number.
        held: all intervals hold.
        winner_held: the winner's does; of the campaigns with a winner.
        bias: mean error of the log ratios of the arms that were chosen for confirmation.
        bias_error: its standard error.
    """

    case: str
    campaigns: int
    confirming: float
    both: float
    claimed: float
    false: float
    elsewhere: float
    held: float
    winner_held: float | None
    right: float
    bias: float
    bias_error: float


def summary(case: Case, found: Sequence[Verdict]) -> Summary:
    """Of the campaigns of a case."""
    size = len(found)
    winners = [not one.winner_missed for one in found if one.winner_missed is not None]
    errors = [sum(one.errors) / len(one.errors) for one in found if one.errors]
    bias = sum(errors) / len(errors)
    spread = math.sqrt(sum((error - bias) ** 2 for error in errors) / (len(errors) - 1))
    return Summary(
        case=case.words,
        campaigns=size,
        confirming=sum(one.confirming for one in found) / size,
        both=sum(one.both for one in found) / size,
        claimed=sum(one.claimed for one in found) / size,
        false=sum(one.false for one in found) / size,
        elsewhere=sum(one.elsewhere for one in found) / size,
        held=1 - sum(one.missed for one in found) / size,
        winner_held=sum(winners) / len(winners) if winners else None,
        right=sum(one.right for one in found) / size,
        bias=bias,
        bias_error=spread / math.sqrt(len(errors)),
    )


def simulate(case: Case, campaigns: int, workers: int = 1) -> Summary:
    """Runs the campaigns of a case."""
    if workers == 1:
        return summary(case, judge_many(case, range(campaigns)))
    step = max(campaigns // (workers * 8), 1)
    batches = [range(start, min(start + step, campaigns)) for start in range(0, campaigns, step)]
    with ProcessPoolExecutor(workers) as pool:
        return summary(case, [one for batch in pool.map(partial(judge_many, case), batches) for one in batch])


def faults(case: Case, found: Summary) -> list[str]:
    """Bars that are missed."""

    def error(share: float, count: float) -> float:
        return 3 * math.sqrt(share * (1 - share) / count)

    missed = []
    if found.false > ALPHA + error(ALPHA, found.campaigns):
        missed.append(f"false claims in {found.false:.1%}")
    if case.interaction == "selecting" and found.elsewhere > ALPHA + error(ALPHA, found.campaigns):
        missed.append(f"what suits the selecting machines alone is claimed in {found.elsewhere:.1%}")
    if found.held < 0.93 - error(0.93, found.campaigns):
        missed.append(f"all intervals hold in {found.held:.1%}")
    winners = found.claimed * found.campaigns
    if (
        found.winner_held is not None
        and found.claimed >= 0.5
        and found.winner_held < 0.93 - error(0.93, winners)
    ):
        missed.append(f"the winner's interval holds in {found.winner_held:.1%}")
    is_mean = case.interaction in ("even", "selecting") or found.confirming >= LEAST
    if is_mean and abs(found.bias) > 3 * found.bias_error:
        missed.append(f"chosen arms are overrated by {found.bias:.2%}")
    if found.both and not case.lost:
        missed.append(f"machines select and confirm in {found.both:.1%}")
    return missed


def main() -> int:
    """Simulates all cases, a line of JSON for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--campaigns", type=int, default=400)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="simulate cases whose words contain this")
    given = parser.parse_args()
    failed = False
    for case in CASES:
        if given.only not in case.words:
            continue
        found = simulate(case, given.campaigns, given.workers)
        missed = faults(case, found)
        failed |= bool(missed)
        line = {key: round(one, 5) if isinstance(one, float) else one for key, one in found._asdict().items()}
        sys.stdout.write(f"{json.dumps(line)} {'; '.join(missed) or 'ok'}\n")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
