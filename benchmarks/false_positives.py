"""Simulates whole tune and series campaigns: how often do they claim what is not so, and find what is?

Run by `make bench`:

    PYTHONPATH=python python benchmarks/false_positives.py --campaigns 10000

Campaigns on servers kept running are drawn from slices that were recorded on real ones (`slices.jsonl`): five
rounds in a row at a time, identical servers changing parts, so that what neighbouring slices share and
the shape of disturbances stay in them.

Every campaign is complete: calibration, screening, combination, reduction, confirmation and interim analyses,
selection of the winner; for a series its arms, and `best` in blocks of its own. Nothing is measured on a
server. Exits with 1 if a rate is above what is
advertised (5 %) by more than three standard errors of this simulation.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from flushlab.experiment.protocol import Request
from flushlab.experiment.series import Series, SeriesPlan
from flushlab.experiment.simulated import Noise, SimulatedTrials, run_to_end
from flushlab.experiment.tune import Tune, TunePlan
from flushlab.record import BEST, CONTROL, Arm, Trial, Value
from flushlab.settings.candidates import Candidate
from flushlab.settings.floor import Floor

ALPHA = 0.05
SETTINGS: dict[str, Value] = {"flush": 1, "free_1": 0, "free_2": 0, "free_3": 0, "free_4": 0, "method": "a"}
LEVELS = {1: Floor.STRICT, 2: Floor.SECOND, 0: Floor.RELAXED}


def level_of(settings: Mapping[str, Value]) -> Floor:
    """Only `flush` lowers a guarantee."""
    return LEVELS[int(settings["flush"])]


def candidates(floor: Floor) -> tuple[Candidate, ...]:
    """One or two that lower a guarantee, four free ones and two values that compete."""
    flush = [2] if floor is Floor.SECOND else [2, 0]
    pairs: list[tuple[str, Value]] = [("flush", value) for value in flush]
    pairs += [(f"free_{n}", 1) for n in (1, 2, 3, 4)] + [("method", "b"), ("method", "c")]
    return tuple(Candidate(settings={name: value}, group="commit", why="simulated") for name, value in pairs)


def nothing(settings: Mapping[str, Value]) -> float:
    """A/A: no setting does anything."""
    return 0.0


def known(settings: Mapping[str, Value]) -> float:
    """flush=2 gives 1.3 times, free_1 gives 1.05 times; the rest nothing."""
    bought = {1: 0.0, 2: math.log(1.3), 0: math.log(1.3)}[int(settings["flush"])]
    return bought + (math.log(1.05) if settings["free_1"] == 1 else 0.0)


def free_gain(settings: Mapping[str, Value]) -> float:
    """A bad base: free_1 and free_2 give 1.25 and 1.15 times, flush nothing."""
    return (math.log(1.25) if settings["free_1"] == 1 else 0.0) + (
        math.log(1.15) if settings["free_2"] == 1 else 0.0
    )


class Scenario(NamedTuple):
    """One kind of tuning; of series if it has blocks; on servers kept running if it has slices, named so,
    with as many of them at once as `beside` says; of comparison if it has both blocks and slices."""

    name: str
    effect: Callable[[Mapping[str, Value]], float]
    noise: Noise
    trials: int = 45
    floor: Floor = Floor.SECOND
    blocks: int = 0
    slices: str = ""
    precision: float | None = None
    beside: int = 8


FILE = Path(__file__).with_name("slices.jsonl")
RECORDINGS = tuple(json.loads(line)["name"] for line in FILE.read_bytes().splitlines())
SCENARIOS = (
    Scenario("A/A, noise 5 %", nothing, Noise(trial=0.05)),
    Scenario("A/A, heavy tails", nothing, Noise(trial=0.05, heavy=True)),
    Scenario("A/A, drift 5 % over trials", nothing, Noise(trial=0.04, drift=0.05, memory=0.9)),
    Scenario("A/A, drift 5 %, short memory", nothing, Noise(trial=0.03, drift=0.05, memory=0.5)),
    Scenario("A/A, arms twice as noisy", nothing, Noise(trial=0.03, changed=2.0)),
    Scenario("A/A, floor relaxed, 90 trials", nothing, Noise(trial=0.05), trials=90, floor=Floor.RELAXED),
    Scenario("A/A, a neighbour comes", nothing, Noise(trial=0.05, eaten=0.9, eaten_from=30)),
    Scenario("A/A, a neighbour all the time", nothing, Noise(trial=0.05, eaten=0.5)),
    Scenario("known, a neighbour comes", known, Noise(trial=0.05, eaten=0.9, eaten_from=30)),
    Scenario("known, noise 3 %", known, Noise(trial=0.03)),
    Scenario("known, noise 5 %", known, Noise(trial=0.05)),
    Scenario("known, noise 8 %", known, Noise(trial=0.08)),
    Scenario("known, noise 3 %, 300 trials", known, Noise(trial=0.03), trials=300),
    Scenario("bad base, noise 5 %", free_gain, Noise(trial=0.05)),
    Scenario("series A/A, noise 5 %", nothing, Noise(trial=0.05), blocks=5),
    Scenario("series A/A, 2 blocks", nothing, Noise(trial=0.05), blocks=2),
    Scenario("series A/A, heavy tails", nothing, Noise(trial=0.05, heavy=True), blocks=5),
    Scenario(
        "series A/A, drift 5 %, short memory", nothing, Noise(trial=0.03, drift=0.05, memory=0.5), blocks=5
    ),
    Scenario("series A/A, arms twice as noisy", nothing, Noise(trial=0.03, changed=2.0), blocks=5),
    Scenario("series known, noise 5 %", known, Noise(trial=0.05), blocks=5),
    Scenario("series known, noise 8 %", known, Noise(trial=0.08), blocks=5),
    *(
        Scenario(f"compare A/A, {blocks} blocks, {name}", nothing, Noise(), blocks=blocks, slices=name)
        for name in RECORDINGS
        for blocks in (15, 37)
    ),
    *(
        Scenario(f"{what}, {beside} servers", effect, Noise(), trials=260, slices=name, beside=beside)
        for what, effect, name in (
            ("tune A/A side by side, MariaDB 10.11", nothing, "busy MariaDB 10.11"),
            ("tune A/A side by side, MySQL 8.0", nothing, "busy MySQL 8.0"),
            ("tune known side by side, MariaDB 10.11", known, "busy MariaDB 10.11"),
        )
        for beside in (8, 3)
    ),
    Scenario(
        "compare A/A, precision 20 %", nothing, Noise(), blocks=36, slices="busy MariaDB 10.11", precision=0.2
    ),
)

PAIRS = (("free_1=1", "flush=2"), ("free_2=1", "flush=2"))
"""Arms that a series also compares with each other."""


class Verdict(NamedTuple):
    """What one campaign claimed, against the truth."""

    false_claim: bool
    missed: bool
    frontier_missed: bool
    improved: bool
    right_bought: bool
    found_free_1: bool
    idle_settings: int
    trials: int
    blocks: int
    log_error: float
    detectable: float


class Recorded(msgspec.Struct, frozen=True):
    """Slices of identical servers, one of which was driven at a time.

    Attributes:
        name: of the recording.
        slice_s: length of a slice.
        rates: transactions/s per round and server; every round drove each server once, in random order.
    """

    name: str
    slice_s: float
    rates: tuple[tuple[float, ...], ...]


@cache
def recorded(name: str) -> Recorded:
    """A recording; its servers are identical, so what their means differ by is taken out."""
    lines = FILE.read_bytes().splitlines()
    found = next(one for line in lines if (one := msgspec.json.decode(line, type=Recorded)).name == name)
    means = [sum(server) / len(server) for server in zip(*found.rates, strict=True)]
    least = 0.5 / found.slice_s  # an arm that ended nothing is taken to have ended half of an event
    rates = tuple(
        tuple(max(r, least) / mean for r, mean in zip(row, means, strict=True)) for row in found.rates
    )
    return msgspec.structs.replace(found, rates=rates)


class Slices:
    """Answers requests with blocks of two rounds of a recording.

    Args:
        name: of the recording.
        effect: true log effect of settings.
        seed: of the draw.
    """

    def __init__(self, name: str, effect: Callable[[Mapping[str, Value]], float], seed: int) -> None:
        self._rates, self._effect, self._random = recorded(name).rates, effect, Random(seed)
        self._servers = self._random.sample(range(len(self._rates[0])), len(self._rates[0]))
        self._parts: dict[tuple[str, str], int] = {}
        self._rounds: list[int] = []
        self._blocks: dict[tuple[str, int], int] = {}

    def run(self, request: Request) -> Trial:
        """A batch of rounds. Of more arms than were recorded, the others have the rounds that follow."""
        number = self._blocks.setdefault((request.stage, request.block), len(self._blocks))
        until = (number + 1) * ROUNDS_PER_BLOCK
        while len(self._rounds) < until:
            start = self._random.randrange(len(self._rates))
            self._rounds += [(start + step) % len(self._rates) for step in range(ROUNDS_IN_A_ROW)]
        parts = sum(stage == request.stage for stage, _ in self._parts)
        part = self._parts.setdefault((request.stage, request.arm.name), parts)
        later, server = divmod(part, len(self._servers))
        rounds = [(one + later) % len(self._rates) for one in self._rounds[until - ROUNDS_PER_BLOCK : until]]
        rates = [max(self._rates[one][self._servers[server]], LEAST_RATE) for one in rounds]
        return Trial(
            arm=request.arm,
            stage=request.stage,
            block=request.block,
            variant=request.variant,
            outcome="measured",
            result=1000 * math.exp(self._effect(request.arm.settings)) * sum(rates) / len(rates),
        )


ROUNDS_PER_BLOCK = 2
ROUNDS_IN_A_ROW = 5
LEAST_RATE = 1e-3
"""Of the mean: half an event, as a block without any counts."""


def judge(scenario: Scenario, seed: int) -> Verdict:
    """Runs one campaign and compares it with the truth."""
    if scenario.slices and scenario.blocks:
        return judge_slices(scenario, seed)
    return judge_series(scenario, seed) if scenario.blocks else judge_tune(scenario, seed)


def judge_slices(scenario: Scenario, seed: int) -> Verdict:
    """One comparison of two arms, with interim analyses: any result, control included, is a claim."""
    arms = {"one": {**SETTINGS, "free_1": 1}, "other": {**SETTINGS, "free_2": 1}}
    series = Series(
        SeriesPlan(
            base=Arm(name="base", settings=SETTINGS),
            arms=tuple(Arm(name=name, settings=settings) for name, settings in arms.items()),
            blocks=scenario.blocks,
            interim=True,
            precision=scenario.precision,
            alpha=ALPHA,
            seed=seed,
        )
    )
    slices, trials, missed, false = Slices(scenario.slices, scenario.effect, seed), 0, False, False
    truth = {CONTROL: 0.0, **{name: scenario.effect(settings) for name, settings in arms.items()}}
    while (request := series.ask()) is not None:
        series.tell(slices.run(request))
        trials += 1
        for name, one in series.standing.found.items():
            missed |= not one.ratio.low <= math.exp(truth[name]) <= one.ratio.high
            false |= truth[name] <= 0 and one.verdict == "faster"
    found = series.result().comparisons
    return Verdict(
        false_claim=false,
        missed=missed,
        frontier_missed=missed,
        improved=any(one.verdict == "faster" for one in found.values()),
        right_bought=not false,
        found_free_1=found["one"].verdict == "faster",
        idle_settings=sum(truth[name] <= 0 and one.verdict == "faster" for name, one in found.items()),
        trials=trials,
        blocks=series.result().blocks,
        log_error=math.log(found["one"].ratio.estimate) - truth["one"],
        detectable=max(one.ratio.half_width for one in found.values()),
    )


def judge_series(scenario: Scenario, seed: int) -> Verdict:
    """One series: every candidate is an arm. `missed` looks at every interval that a report would show."""
    arms = {
        f"{name}={value}": {**SETTINGS, name: value}
        for candidate in candidates(scenario.floor)
        for name, value in candidate.settings.items()
    }

    def compose(names: tuple[str, ...]) -> Arm:
        settings = dict(SETTINGS)
        for arm in names:
            settings |= {name: value for name, value in arms[arm].items() if value != SETTINGS[name]}
        return Arm(name=BEST, settings=settings)

    series = Series(
        SeriesPlan(
            base=Arm(name="base", settings=SETTINGS),
            arms=tuple(Arm(name=name, settings=settings) for name, settings in arms.items()),
            blocks=scenario.blocks,
            compose=compose,
            pairs=PAIRS,
            alpha=ALPHA,
            seed=seed,
        )
    )
    trials = run_to_end(series, SimulatedTrials(scenario.effect, SETTINGS, noise=scenario.noise, seed=seed))
    result = series.result()
    truth = {name: scenario.effect(settings) for name, settings in arms.items()}
    if result.best is not None:
        truth[BEST] = scenario.effect(result.best.settings)
    shown = [(one.ratio, truth[name]) for name, one in result.comparisons.items()]
    shown += [(one.ratio, 0.0) for one in (result.control, result.best_control) if one is not None]
    shown += [(ratio, truth[arm] - truth[against]) for (arm, against), ratio in result.pairs.items()]
    faster = [name for name, one in result.comparisons.items() if one.verdict == "faster"]
    best = result.comparisons.get(BEST)
    return Verdict(
        false_claim=any(truth[name] <= 0 for name in faster),
        missed=any(not ratio.low <= math.exp(true) <= ratio.high for ratio, true in shown),
        frontier_missed=best is not None and not best.ratio.low <= math.exp(truth[BEST]) <= best.ratio.high,
        improved=best is not None and best.verdict == "faster",
        right_bought=("flush=2" in result.best_of) == (truth["flush=2"] > 0),
        found_free_1="free_1=1" in result.best_of,
        idle_settings=sum(truth[name] <= 0 for name in result.best_of),
        trials=trials,
        blocks=result.blocks,
        log_error=math.log(best.ratio.estimate) - truth[BEST] if best is not None else math.nan,
        detectable=max(one.detectable for one in result.comparisons.values()),
    )


def judge_tune(scenario: Scenario, seed: int) -> Verdict:
    """One tuning."""
    tune = Tune(
        TunePlan(
            base=SETTINGS,
            candidates=candidates(scenario.floor),
            floor=scenario.floor,
            level_of=level_of,
            is_free=lambda settings: level_of(settings).at_least(level_of(SETTINGS)),
            budget_trials=scenario.trials,
            seed=seed,
            alpha=ALPHA,
            side_by_side=scenario.beside if scenario.slices else 0,
        )
    )
    arms: dict[str, Mapping[str, Value]] = {CONTROL: SETTINGS}

    servers = (
        Slices(scenario.slices, scenario.effect, seed)
        if scenario.slices
        else SimulatedTrials(scenario.effect, SETTINGS, noise=scenario.noise, seed=seed)
    )
    trials = 0
    while (request := tune.ask()) is not None:
        arms[request.arm.name] = request.arm.settings
        tune.tell(servers.run(request))
        trials += 1
    result = tune.result()

    def misses(low: float, high: float, truth: float) -> bool:
        return not low <= math.exp(truth) <= high

    claims = [p for p in result.frontier if p.comparison is not None]
    false_claim = any(scenario.effect(arms[p.arm]) <= 0 for p in claims)
    missed = any(misses(c.ratio.low, c.ratio.high, scenario.effect(arms[c.arm])) for c in result.confirmed)
    frontier_missed = any(misses(p.ratio.low, p.ratio.high, scenario.effect(arms[p.arm])) for p in claims)
    winner = result.winner
    chosen = winner.settings if winner else {}
    best_flush = scenario.effect({**SETTINGS, "flush": 2}) > 0
    works = {name for name, value in chosen.items() if scenario.effect({**SETTINGS, name: value}) > 0}
    return Verdict(
        false_claim=false_claim,
        missed=missed,
        frontier_missed=frontier_missed,
        improved=winner is not None,
        right_bought=("flush" in chosen) == best_flush,
        found_free_1=chosen.get("free_1") == 1,
        idle_settings=len(chosen) - len(works),
        trials=trials,
        blocks=result.blocks,
        log_error=math.log(winner.ratio.estimate) - scenario.effect(arms[winner.arm]) if winner else math.nan,
        detectable=result.detectable or math.nan,
    )


def judge_many(scenario: Scenario, seeds: range) -> list[Verdict]:
    """A batch, for one worker."""
    return [judge(scenario, seed) for seed in seeds]


def summarise(scenario: Scenario, campaigns: int, workers: int) -> dict[str, object]:
    """Rates over many campaigns."""
    step = max(campaigns // (workers * 8), 1)
    batches = [range(start, min(start + step, campaigns)) for start in range(0, campaigns, step)]
    if workers == 1:
        found = [judge(scenario, seed) for seed in range(campaigns)]
    else:
        with ProcessPoolExecutor(workers) as pool:
            found = [v for batch in pool.map(partial(judge_many, scenario), batches) for v in batch]

    def rate(field: str) -> float:
        return sum(float(getattr(v, field)) for v in found) / len(found)

    errors = [v.log_error for v in found if not math.isnan(v.log_error)]
    return {
        "scenario": scenario.name,
        "campaigns": len(found),
        "false_claim": rate("false_claim"),
        "interval_missed": rate("missed"),
        "frontier_missed": rate("frontier_missed"),
        "improvement_found": rate("improved"),
        "right_bought": rate("right_bought"),
        "found_free_1": rate("found_free_1"),
        "idle_settings": rate("idle_settings"),
        "trials": rate("trials"),
        "blocks": rate("blocks"),
        "bias": sum(errors) / len(errors) if errors else None,
        "detectable": sorted(v.detectable for v in found)[len(found) // 2],
    }


def main() -> int:
    """Prints one JSON line per scenario; 1 if a rate is above what is advertised."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--campaigns", type=int, default=10_000, help="campaigns per scenario")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="run scenarios whose name contains this")
    options = parser.parse_args()
    limit = ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / options.campaigns)
    above = []
    for scenario in SCENARIOS:
        if options.only not in scenario.name:
            continue
        summary = summarise(scenario, options.campaigns, options.workers)
        print(json.dumps(summary), flush=True)  # noqa: T201
        above += [
            f"{scenario.name}: {key} is {summary[key]:.4f}, advertised {ALPHA}"
            for key in ("false_claim", "interval_missed")
            if float(str(summary[key])) > limit
        ]
    for line in above:
        print(line, file=sys.stderr)  # noqa: T201
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
