from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from flushlab.errors import MeasurementError
from flushlab.experiment.protocol import Request
from flushlab.experiment.series import RoundGroup, Series, SeriesPlan
from flushlab.experiment.simulated import Noise, SimulatedTrials, run_to_end
from flushlab.record import Arm, Latency, LoadResult, Trial, Value, Verdict
from flushlab.statistics import compare

BASE: dict[str, Value] = {"a": 0, "b": 0, "c": 0}
GAIN = {"a": math.log(1.5), "b": math.log(1.2), "c": 0.0}


def arm(name: str, **changes: Value) -> Arm:
    return Arm(name=name, settings={**BASE, **changes})


ARMS = (arm("A", a=1), arm("B", b=1), arm("C", c=1))


def effect(settings: Mapping[str, Value]) -> float:
    return sum(gain * float(settings[name]) for name, gain in GAIN.items())


def compose(names: tuple[str, ...]) -> Arm:
    settings = dict(BASE)
    for name in names:
        settings |= {k: v for k, v in next(a for a in ARMS if a.name == name).settings.items() if v}
    return Arm(name="best", settings=settings)


def plan(**changes: Any) -> SeriesPlan:
    facts: dict[str, Any] = {
        "base": Arm(name="base", settings=BASE),
        "arms": ARMS,
        "compose": compose,
        "seed": 3,
        **changes,
    }
    return SeriesPlan(**facts)


def trials(seed: int = 1, **changes: Any) -> SimulatedTrials:
    facts: dict[str, Any] = {"noise": Noise(trial=0.02), "seed": seed, **changes}
    return SimulatedTrials(effect, BASE, **facts)


def run_until(series: Series, simulated: SimulatedTrials, stop: int) -> list[Trial]:
    told: list[Trial] = []
    while len(told) < stop and (request := series.ask()) is not None:
        told.append(simulated.run(request))
        series.tell(told[-1])
    return told


def asked_by(series: Series) -> list[Request]:
    """What it asks for until its end."""
    asked, simulated = list[Request](), trials()
    while (request := series.ask()) is not None:
        asked.append(request)
        series.tell(simulated.run(request))
    return asked


def test_every_arm_runs_in_every_block_and_best_in_blocks_of_its_own() -> None:
    series = Series(plan())
    asked = asked_by(series)
    for block in range(5):
        names = [r.arm.name for r in asked if (r.stage, r.block) == ("arms", block)]
        assert sorted(names) == ["A", "B", "C", "base", "control"]
        fresh = [r.arm.name for r in asked if (r.stage, r.block) == ("best", block)]
        assert sorted(fresh) == ["base", "best", "control"]
    assert len(asked) == 5 * 5 + 5 * 3


def test_best_is_all_that_proved_faster_the_smaller_ratio_first() -> None:
    series = Series(plan())
    run_to_end(series, trials())
    result = series.result()
    assert result.best_of == ("B", "A")
    assert result.best is not None
    assert result.best.settings == {"a": 1, "b": 1, "c": 0}
    found = result.comparisons
    assert {name: one.verdict for name, one in found.items()} == {
        "A": "faster",
        "B": "faster",
        "C": "no difference found",
        "best": "faster",
    }
    assert found["best"].ratio.low < 1.8 < found["best"].ratio.high
    assert found["A"].ratio.low < 1.5 < found["A"].ratio.high
    assert result.control is not None and result.control.verdict == "no difference found"
    assert result.best_control is not None
    assert (result.blocks, result.finished) == (5, True)


def test_the_ratio_of_best_takes_nothing_from_the_blocks_that_chose_it() -> None:
    """The arms' blocks say 1.5 times and more; in the blocks of `best` everything is equal."""
    series, simulated = Series(plan()), trials()
    while (request := series.ask()) is not None:
        trial = simulated.run(request)
        if request.stage == "best":
            flat = 1000.0 * (1.001 if (request.block + len(request.arm.name)) % 2 else 0.999)
            trial = msgspec.structs.replace(trial, result=flat)
        series.tell(trial)
    best = series.result().comparisons["best"]
    assert best.ratio.estimate == pytest.approx(1, abs=0.01)
    assert best.verdict == "no difference found"


def test_without_a_faster_arm_there_is_no_best() -> None:
    series = Series(plan(arms=(arm("C", c=1),)))
    asked = run_to_end(series, trials())
    assert asked == 5 * 3
    assert series.result().best is None
    assert series.result().finished


def test_a_plan_may_do_without_best() -> None:
    series = Series(plan(compose=None))
    assert run_to_end(series, trials()) == 5 * 5
    assert series.result().best is None


def test_a_refused_arm_drops_out_with_its_reason_and_the_rest_goes_on() -> None:
    series = Series(plan())
    run_to_end(series, trials(refuses=lambda s: "unknown variable 'b=1'" if s["b"] else None))
    result = series.result()
    assert result.out["B"] == ("refused", "unknown variable 'b=1'")
    assert "B" not in result.comparisons
    assert result.best_of == ("A",)
    assert result.comparisons["best"].blocks == 5


def test_an_arm_that_dies_in_a_later_block_has_no_figure_and_is_not_composed() -> None:
    series, simulated = Series(plan()), trials()
    while (request := series.ask()) is not None:
        trial = simulated.run(request)
        if request.arm.name == "A" and request.block == 3:
            trial = msgspec.structs.replace(trial, outcome="failed", reason="died: signal 11", result=None)
        series.tell(trial)
    result = series.result()
    assert result.out["A"] == ("failed", "died: signal 11")
    assert "A" not in result.comparisons
    assert result.best_of == ("B",)


def test_best_may_be_refused_where_its_parts_were_not() -> None:
    def refuses(settings: Mapping[str, Value]) -> str | None:
        return "not both" if settings["a"] and settings["b"] else None

    series = Series(plan())
    run_to_end(series, trials(refuses=refuses))
    result = series.result()
    assert result.out["best"] == ("refused", "not both")
    assert "best" not in result.comparisons
    assert result.comparisons["A"].verdict == "faster"


def test_a_base_without_any_figure_ends_the_series() -> None:
    series = Series(plan())
    with pytest.raises(MeasurementError, match="died"):
        run_to_end(series, _Broken(from_block=0))


def test_a_base_that_fails_later_ends_it_with_what_was_found() -> None:
    series = Series(plan())
    run_to_end(series, _Broken(from_block=3))
    result = series.result()
    assert result.blocks == 3
    assert result.comparisons["A"].blocks == 3
    assert result.out["base"] == ("failed", "died")
    assert result.best is None


class _Broken(SimulatedTrials):
    """The base fails from a block on."""

    def __init__(self, from_block: int) -> None:
        super().__init__(effect, BASE, noise=Noise(trial=0.02), seed=1)
        self._from_block = from_block

    def run(self, request: Request) -> Trial:
        trial = super().run(request)
        if request.arm.name == "base" and request.block >= self._from_block:
            return msgspec.structs.replace(trial, outcome="failed", reason="died", result=None)
        return trial


def test_a_result_can_be_had_at_any_moment() -> None:
    for stop in range(41):
        series = Series(plan())
        told = run_until(series, trials(), stop)
        result = series.result()
        assert result.blocks == min(stop // 5, 5)
        assert bool(result.comparisons) == (result.blocks >= 2)
        assert series.standing.done == len(told)
        assert series.standing.total == 40
        assert series.standing.best is None, "who sees who is ahead would stop by it"


def test_stored_trials_told_again_lead_to_the_same_next_request() -> None:
    for stop in (0, 1, 7, 25, 26, 39):
        first, second = Series(plan()), Series(plan())
        for trial in run_until(first, trials(), stop):
            second.tell(trial)
        assert second.ask() == first.ask()
        assert second.result() == first.result()


def test_pairs_are_compared_in_the_blocks_that_they_share() -> None:
    series = Series(plan(pairs=(("A", "B"), ("best", "A"), ("C", "nothing"))))
    run_to_end(series, trials())
    result = series.result()
    pair = result.pairs["A", "B"]
    assert pair.low < 1.25 < pair.high
    assert pair.estimate == pytest.approx(
        result.comparisons["A"].ratio.estimate / result.comparisons["B"].ratio.estimate
    )
    by_bounds = result.pairs["best", "A"]
    assert by_bounds.low < 1.2 < by_bounds.high
    assert by_bounds.low == pytest.approx(
        result.comparisons["best"].ratio.low / result.comparisons["A"].ratio.high
    )
    assert ("C", "nothing") not in result.pairs


def test_what_is_judged_more_often_is_judged_more_strictly() -> None:
    widths = []
    for changes in ({"compose": None}, {}, {"pairs": (("A", "B"),)}):
        series = Series(plan(**changes))
        run_to_end(series, trials())
        ratio = series.result().comparisons["C"].ratio
        widths.append(math.log(ratio.high / ratio.low))
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[2]
    assert widths[2] < 1.5 * widths[0]


def test_no_arms_is_no_work() -> None:
    series = Series(plan(arms=()))
    assert series.ask() is None
    assert series.result().finished


# -- interim analyses ----------------------------------------------------------------------------------------


def test_what_an_analysis_has_proven_no_later_one_takes_back() -> None:
    """A neighbour eats much of the machine in the last third, unnoticed, and not of every trial alike."""

    def result(interim: bool, seed: int) -> tuple[list[Verdict], Verdict]:
        series = Series(plan(compose=None, blocks=12, interim=interim, seed=seed))
        simulated = trials(seed=seed, noise=Noise(trial=0.03, eaten=0.9, eaten_from=8 * 5))
        shown: list[Verdict] = []
        while (request := series.ask()) is not None:
            series.tell(msgspec.structs.replace(simulated.run(request), outcome="measured"))
            if (found := series.standing.found.get("B")) is not None:
                shown.append(found.verdict)
        return shown, series.result().comparisons["B"].verdict

    lost = 0
    for seed in range(20):
        shown, at_the_end = result(interim=True, seed=seed)
        first = shown.index("faster")
        assert set(shown[first:]) == {"faster"}
        assert at_the_end == "faster"
        lost += result(interim=False, seed=seed)[1] != "faster"
    assert lost >= 5, "judged only at the end, the same trials prove less"


def test_nothing_is_shown_between_interim_analyses() -> None:
    series, simulated = Series(plan(compose=None, blocks=12, interim=True)), trials()
    changed = [0]
    found: Mapping[str, object] = {}
    while (request := series.ask()) is not None:
        series.tell(simulated.run(request))
        if series.standing.found != found:
            found = series.standing.found
            changed.append(series.result().blocks)
    assert changed == [0, 3, 6, 9, 12]
    assert found.keys() == {"A", "B", "C", "control"}


def test_an_arm_that_is_known_precisely_enough_leaves_and_the_others_go_on() -> None:
    """C scatters; the others do not."""
    series, simulated = Series(plan(compose=None, blocks=40, interim=True, precision=0.02)), trials()
    loud = trials(seed=5, noise=Noise(trial=0.05))
    asked: dict[str, int] = {}
    while (request := series.ask()) is not None:
        asked[request.arm.name] = asked.get(request.arm.name, 0) + 1
        series.tell((loud if request.arm.name == "C" else simulated).run(request))
    result = series.result()
    found = result.comparisons
    assert asked["A"] == found["A"].blocks < asked["C"] == asked["base"] == asked["control"]
    assert found["A"].ratio.half_width <= 0.02
    assert found["A"].verdict == "faster"


def test_arms_that_are_compared_with_each_other_stay_to_the_end() -> None:
    """Their ratio is judged once: to stop by the interval of one of them would bend it."""
    series = Series(plan(compose=None, blocks=40, interim=True, precision=0.05, pairs=(("A", "B"),)))
    simulated = trials()
    asked: dict[str, int] = {}
    while (request := series.ask()) is not None:
        asked[request.arm.name] = asked.get(request.arm.name, 0) + 1
        series.tell(simulated.run(request))
    assert asked["C"] < asked["A"] == asked["B"] == 40
    assert ("A", "B") in series.result().pairs


def test_a_comparison_ends_once_all_intervals_are_narrow() -> None:
    few, many = (Series(plan(compose=None, blocks=80, interim=True, precision=p)) for p in (0.05, 0.005))
    assert run_to_end(few, trials()) < run_to_end(many, trials()) == 80 * 5
    assert all(one.ratio.half_width <= 0.05 for one in few.result().comparisons.values())
    assert few.result().finished


def test_a_comparison_with_interim_analyses_goes_on_where_it_was() -> None:
    for stop in (0, 7, 61, 110, 140):
        first, second = (
            Series(plan(compose=None, blocks=40, interim=True, precision=0.02)) for _ in range(2)
        )
        for trial in run_until(first, trials(), stop):
            second.tell(trial)
        assert second.ask() == first.ask()
        assert second.result() == first.result()


# -- groups ----------------------------------------------------------------------------------------------


def groups(*names: str, blocks: int = 5) -> tuple[RoundGroup, ...]:
    return tuple(RoundGroup(arms=tuple(own), blocks=blocks) for own in names)


def test_groups_of_arms_run_one_after_the_other_each_with_base_and_control() -> None:
    series = Series(plan(groups=groups("AB", "C"), compose=None))
    asked = asked_by(series)
    for block in range(10):
        names = sorted(r.arm.name for r in asked if r.block == block)
        assert names == (["A", "B", "base", "control"] if block < 5 else ["C", "base", "control"])
    assert len(asked) == 5 * 4 + 5 * 3
    result = series.result()
    assert (result.blocks, result.finished) == (10, True)
    found = result.comparisons
    assert {name: (one.verdict, one.blocks) for name, one in found.items()} == {
        "A": ("faster", 5),
        "B": ("faster", 5),
        "C": ("no difference found", 5),
    }
    assert result.control is not None and result.control.blocks == 10


def test_best_is_composed_of_the_arms_of_all_groups() -> None:
    series = Series(plan(groups=groups(*"ABC")))
    run_to_end(series, trials())
    assert series.result().best_of == ("B", "A")


def test_analyses_of_groups_judge_each_arm_on_its_own_blocks_and_the_control_at_the_end() -> None:
    series = Series(plan(groups=groups("AB", "C", blocks=20), interim=True, compose=None))
    run_to_end(series, trials())
    result = series.result()
    assert {name: one.verdict for name, one in result.comparisons.items()} == {
        "A": "faster",
        "B": "faster",
        "C": "no difference found",
    }
    assert result.control is not None
    assert (result.control.blocks, result.control.verdict) == (40, "no difference found")


def test_arms_of_two_groups_are_compared_by_their_bounds_against_the_base() -> None:
    asked = (("A", "B"), ("A", "C"))
    together = Series(plan(pairs=asked, compose=None))
    apart = Series(plan(pairs=asked, compose=None, groups=groups("AB", "C")))
    for series in (together, apart):
        run_to_end(series, trials())
    assert apart.result().pairs["A", "B"].estimate == pytest.approx(1.25, rel=0.05)
    bounds, shared = apart.result().pairs["A", "C"], together.result().pairs["A", "C"]
    assert bounds.low < 1.5 < bounds.high
    assert bounds.high / bounds.low > shared.high / shared.low


def test_a_base_that_fails_in_a_later_group_ends_the_series_and_what_was_found_stays() -> None:
    series, simulated = Series(plan(groups=groups("AB", "C"), compose=None)), trials()
    while (request := series.ask()) is not None:
        trial = simulated.run(request)
        if request.arm.name == "base" and request.block == 6:
            trial = msgspec.structs.replace(trial, outcome="failed", reason="died: signal 11", result=None)
        series.tell(trial)
    result = series.result()
    assert result.out["base"].reason == "died: signal 11"
    assert result.comparisons["A"].verdict == "faster"
    assert result.finished


def test_groups_have_their_own_numbers_of_blocks_and_their_own_noise() -> None:
    """Many short slices with much noise, a few long windows with little: neither has the other's width."""
    own = (
        RoundGroup(arms=("A", "B"), blocks=30, trial_s=1.0),
        RoundGroup(arms=("C",), blocks=5, trial_s=20.0),
    )
    series, simulated = Series(plan(groups=own)), trials(noise=Noise(trial=0.0))
    asked: list[Request] = []
    while (request := series.ask()) is not None:
        asked.append(request)
        noise = math.exp((0.2 if request.block < 30 else 0.002) * math.sin(97.0 * len(asked)))
        trial = simulated.run(request)
        assert trial.result is not None
        series.tell(msgspec.structs.replace(trial, result=trial.result * noise))
    found = series.result().comparisons
    assert (found["A"].blocks, found["C"].blocks) == (30, 5)
    assert found["C"].ratio.half_width < 0.02 < found["A"].ratio.half_width
    assert series.result().best_of == ("B", "A")
    assert sum(request.stage == "best" for request in asked) == 3 * 30


def in_noise_of_their_own(series: Series) -> Series:
    """A, B and AB scatter by a fifth, C by a thousandth."""
    simulated = trials(noise=Noise(trial=0.0))
    while (request := series.ask()) is not None:
        number = sum(map(ord, request.arm.name)) + 31 * request.block
        noise = math.exp((0.2 if request.block < 5 else 0.001) * math.sin(97.0 * number))
        trial = simulated.run(request)
        assert trial.result is not None
        series.tell(msgspec.structs.replace(trial, result=trial.result * noise))
    return series


def test_pairs_and_effects_have_the_noise_of_their_own_group() -> None:
    factors = (arm("A", a=1), arm("B", b=1), arm("AB", a=1, b=1))
    asked: dict[str, Any] = {"pairs": (("A", "B"),), "crossed": CROSSED, "compose": None}
    own = (RoundGroup(arms=("A", "B", "AB"), blocks=5), RoundGroup(arms=("C",), blocks=30))
    both = in_noise_of_their_own(Series(plan(arms=(*factors, arm("C", c=1)), groups=own, **asked))).result()
    alone = in_noise_of_their_own(Series(plan(arms=factors, **asked))).result()
    assert both.pairs["A", "B"].low == pytest.approx(alone.pairs["A", "B"].low)
    assert both.pairs["A", "B"].half_width > 0.1
    assert [one.ratio.low for one in both.effects] == pytest.approx([one.ratio.low for one in alone.effects])


def test_what_is_left_is_told_by_the_length_of_each_groups_trials() -> None:
    own = (
        RoundGroup(arms=("A", "B"), blocks=30, trial_s=1.0),
        RoundGroup(arms=("C",), blocks=5, trial_s=20.0),
    )
    assert Series(plan(groups=own, compose=None)).standing.left_s == 30 * 4 * 1 + 5 * 3 * 20
    assert Series(plan()).standing.left_s is None


CROSSED = {(): "base", ("a",): "A", ("b",): "B", ("a", "b"): "AB"}


def test_effects_of_factors_come_from_the_blocks_that_have_every_combination() -> None:
    arms = (arm("A", a=1), arm("B", b=1), arm("AB", a=1, b=1), arm("C", c=1))
    series = Series(plan(arms=arms, crossed=CROSSED, compose=None, blocks=12))
    run_to_end(series, trials())
    effects = {one.name: one for one in series.result().effects}
    assert list(effects) == ["a", "b", "a × b"]
    assert effects["a"].ratio.low <= 1.5 <= effects["a"].ratio.high
    assert effects["b"].ratio.low <= 1.2 <= effects["b"].ratio.high
    assert effects["a × b"].verdict == "no difference found"


def test_no_effects_are_told_where_a_combination_drops_out() -> None:
    arms = (arm("A", a=1), arm("B", b=1), arm("AB", a=1, b=1))
    series = Series(plan(arms=arms, crossed=CROSSED, compose=None))
    run_to_end(series, trials(refuses=lambda settings: "no" if settings["a"] and settings["b"] else None))
    assert series.result().effects == ()
    assert series.result().comparisons.keys() == {"A", "B"}


def two_servers(**changes: Any) -> Series:
    """The arms B and C are another server's: B its base, C compared with B."""
    return Series(plan(against={"C": "B"}, compose=None, **changes))


@pytest.mark.parametrize("interim", [False, True])
def test_an_arm_of_another_server_is_compared_with_the_base_of_that_server(interim: bool) -> None:
    series = two_servers(blocks=12, interim=interim)
    run_to_end(series, trials())
    found = series.result().comparisons
    assert found["B"].ratio.low < 1.2 < found["B"].ratio.high  # with the base
    assert found["C"].ratio.low < 1 / 1.2 < found["C"].ratio.high  # with B
    assert (found["B"].verdict, found["C"].verdict) == ("faster", "slower")


def test_every_base_has_its_share_of_the_error_rate() -> None:
    """As its ratio is another one, so is its interval: two bases, each with half of alpha."""
    together, apart = Series(plan(compose=None, alpha=0.025)), two_servers(alpha=0.05)
    for series in (together, apart):
        run_to_end(series, trials())
    one, other = (series.result().comparisons["A"].ratio for series in (together, apart))
    assert one.estimate == other.estimate
    assert math.log(other.high / other.low) < math.log(one.high / one.low)  # of fewer arms


def test_without_the_base_of_its_server_an_arm_has_no_ratio() -> None:
    series = two_servers()
    run_to_end(series, trials(refuses=lambda settings: "no such server" if settings["b"] else None))
    result = series.result()
    assert set(result.out) == {"B"}
    assert set(result.comparisons) == {"A"}


def test_the_base_of_a_server_stays_as_long_as_an_arm_is_compared_with_it() -> None:
    series = two_servers(blocks=40, interim=True, precision=0.5)
    asked = []
    asked = asked_by(series)
    last = max(request.block for request in asked)
    assert {request.arm.name for request in asked if request.block == last} >= {"base", "B"}
    assert last < 39, "it ends when all are known"


def test_a_claim_of_two_bases_is_measured_to_the_end_whatever_the_precision() -> None:
    asked: dict[str, Any] = {"blocks": 40, "interim": True, "precision": 0.5, "compose": None}
    arms = (*ARMS, arm("D", a=1, c=1))
    series = Series(plan(arms=arms, against={"C": "B", "D": "A"}, pairs=(("A", "B"),), **asked))
    run_to_end(series, trials())
    assert series.result().blocks == 40


def test_the_control_has_one_share_however_many_groups_there_are() -> None:
    """Three arms and the control: each has a quarter, though the control runs beside every arm."""
    own = tuple(RoundGroup(arms=(name,), blocks=5) for name in ("A", "B", "C"))
    series = Series(plan(groups=own, compose=None))
    run_to_end(series, trials())
    (group, *_) = series._groups
    (expected,) = compare(group.table().scores, "base", alpha=series._alpha, only={"A"}, family=4)
    assert series.result().comparisons["A"].ratio == expected.ratio


def at_a_rate(request: Request, simulated: SimulatedTrials) -> Trial:
    """Every arm commits as much as every other, and its p99 latency falls by what its settings gain."""
    trial = simulated.run(request)
    p99 = round(20_000_000 / (trial.result or math.nan))
    latency = Latency(mean=1.0, p50=1, p95=1, p99=p99, p999=p99, max=p99)
    load = LoadResult(seconds=1.0, events=500, throughput=500.0, per_second=(500,), latency_us=latency)
    return msgspec.structs.replace(trial, result=500.0, load=load)


def told_at_a_rate(series: Series) -> Series:
    simulated = trials()
    while (request := series.ask()) is not None:
        series.tell(at_a_rate(request, simulated))
    return series


def test_at_a_fixed_rate_the_arms_with_the_lower_p99_win() -> None:
    result = told_at_a_rate(Series(plan(objective="p99"))).result()
    assert {name: one.verdict for name, one in result.comparisons.items()} == {
        "A": "faster",
        "B": "faster",
        "C": "no difference found",
        "best": "faster",
    }
    assert result.comparisons["A"].ratio.low < 1.5 < result.comparisons["A"].ratio.high
    assert result.best_of == ("B", "A")


def test_precision_is_that_of_what_is_compared() -> None:
    """Throughput is alike to the last digit, so its intervals are narrow at the first analysis."""
    plans = [plan(objective=one, blocks=20, interim=True, precision=0.02) for one in ("throughput", "p99")]
    fixed, latency = (told_at_a_rate(Series(one)).result() for one in plans)
    assert fixed.blocks < latency.blocks
    assert all(one.ratio.half_width <= 0.02 for one in latency.comparisons.values())


def with_latency(series: Series, simulated: SimulatedTrials, of: Mapping[str, float]) -> Series:
    """The arms are as fast as they are, and their p99 latency is that of the base divided by so much."""
    while (request := series.ask()) is not None:
        trial = simulated.run(request)
        p99 = round(20_000 / of.get(request.arm.name, 1.0) * (1.02 if request.block % 2 else 0.98))
        latency = Latency(mean=1.0, p50=1, p95=1, p99=p99, p999=p99, max=p99)
        load = LoadResult(seconds=1.0, events=500, throughput=500.0, per_second=(500,), latency_us=latency)
        series.tell(msgspec.structs.replace(trial, load=load))
    return series


def test_where_throughput_is_compared_p99_latency_has_intervals_of_its_own() -> None:
    """C commits as much as the base at half of its latency; A commits more, at twice the latency."""
    result = with_latency(Series(plan()), trials(), {"C": 2.0, "A": 0.5, "best": 0.8}).result()
    assert result.comparisons["C"].verdict == "no difference found"
    assert result.p99.keys() == {"A", "B", "C", "best", "control"}
    assert {name: one.ratio.estimate for name, one in result.p99.items()} == pytest.approx(
        {"A": 0.5, "B": 1.0, "C": 2.0, "best": 0.8, "control": 1.0}, rel=0.001
    )
    assert (result.p99["C"].verdict, result.p99["A"].verdict) == ("faster", "slower")
    assert result.best_of == ("B", "A"), "what is compared is what chooses"


def test_interim_analyses_and_groups_give_p99_the_blocks_of_what_is_compared() -> None:
    groups = (RoundGroup(arms=("A", "B"), blocks=8), RoundGroup(arms=("C",), blocks=6))
    for changes in ({"interim": True, "blocks": 20, "precision": 0.2}, {"groups": groups}):
        result = with_latency(Series(plan(compose=None, **changes)), trials(), {"C": 2.0}).result()
        assert {name: one.blocks for name, one in result.p99.items()} == {
            "control": result.control.blocks if result.control else 0,
            **{name: one.blocks for name, one in result.comparisons.items()},
        }


def test_without_latency_there_is_no_ratio_of_it() -> None:
    series = Series(plan())
    run_to_end(series, trials())
    assert series.result().p99 == {}


def test_at_a_fixed_rate_the_ratios_of_p99_are_what_is_compared() -> None:
    result = told_at_a_rate(Series(plan(objective="p99"))).result()
    assert {**result.comparisons, "control": result.control} == result.p99
