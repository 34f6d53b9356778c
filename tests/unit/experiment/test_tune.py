from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flushlab.errors import BelowFloor, BudgetTooSmall, MeasurementError, UsageError
from flushlab.experiment.blocks import YOURS
from flushlab.experiment.protocol import Request
from flushlab.experiment.simulated import Noise, SimulatedTrials, run_to_end
from flushlab.experiment.tune import Tune, TunePlan
from flushlab.experiment.tune.budget import END_S, END_TRIALS
from flushlab.experiment.tune.confirmation import Confirmation
from flushlab.record import Latency, LoadResult, ServerSample, Trial, Value, Warning
from flushlab.settings.candidates import Candidate
from flushlab.settings.floor import Floor

Settings = Mapping[str, Value]
BASE: dict[str, Value] = {"flush": 1, "a": 0, "b": 0, "c": 0, "m": "x"}
PAIRS: list[tuple[str, Value]] = [
    ("flush", 2),
    ("flush", 0),
    ("a", 1),
    ("b", 1),
    ("c", 1),
    ("m", "y"),
    ("m", "z"),
]
LEVELS = {1: Floor.STRICT, 2: Floor.SECOND, 0: Floor.RELAXED}


def level_of(s: Settings) -> Floor:
    return LEVELS[int(s["flush"])]


def effect(
    flush2: float = 1.0, flush0: float = 1.0, a: float = 1.0, b: float = 1.0
) -> Callable[[Settings], float]:
    def of(s: Settings) -> float:
        gain = {1: 1.0, 2: flush2, 0: flush0}[int(s["flush"])]
        return math.log(gain * (a if s["a"] else 1.0) * (b if s["b"] else 1.0))

    return of


def plan(**changes: Any) -> TunePlan:
    facts: dict[str, Any] = {
        "base": BASE,
        "candidates": tuple(Candidate(settings={n: v}, group="commit", why="test") for n, v in PAIRS),
        "floor": Floor.SECOND,
        "level_of": level_of,
        "is_free": lambda settings: facts["level_of"](settings).at_least(facts["level_of"](facts["base"])),
        "budget_trials": 60,
        "seed": 1,
        **changes,
    }
    return TunePlan(**facts)


def simulated(
    of: Callable[[Settings], float], *, noise: float = 0.02, seed: int = 1, **changes: Any
) -> SimulatedTrials:
    return SimulatedTrials(of, BASE, noise=Noise(trial=noise), seed=seed, **changes)


def finished(of: Callable[[Settings], float], *, noise: float = 0.02, seed: int = 1, **changes: Any) -> Tune:
    tune = Tune(plan(seed=seed, **changes))
    run_to_end(tune, simulated(of, noise=noise, seed=seed))
    return tune


def with_load(trial: Trial, p99: int, per_second: tuple[int, ...] = (100,) * 10) -> Trial:
    latency = Latency(mean=1.0, p50=1, p95=1, p99=p99, p999=p99, max=p99)
    load = LoadResult(seconds=10.0, events=1000, throughput=100.0, per_second=per_second, latency_us=latency)
    return msgspec.structs.replace(trial, load=load)


# -- what is found ---------------------------------------------------------------------------------


def test_without_a_change_in_the_running_nothing_was_tried_and_nothing_detectable() -> None:
    assert finished(effect()).result().tried == len(PAIRS) - 1, "flush=0 is below the floor"
    nothing = Tune(plan(candidates=(), budget_trials=1))
    assert nothing.ask() is None, "no trial of the base could tell anything"
    assert (nothing.result().tried, nothing.result().detectable, nothing.result().finished) == (0, None, True)
    refused = Tune(plan(candidates=tuple(plan().candidates[2:4])))
    trials = simulated(effect())
    count = 0
    while (request := refused.ask()) is not None:
        trial, count = trials.run(request), count + 1
        if request.arm.settings != BASE:
            out = {"outcome": "refused", "reason": "no", "result": None}
            trial = msgspec.structs.replace(trial, **out)
        refused.tell(trial)
    assert Tune(plan(objective="p99")).standing.objective == "p99"
    assert (refused.result().tried, refused.result().detectable) == (0, None)
    assert len(refused.result().excluded) == 2
    assert count < 15, "it ends where no change is left"


def test_a_raised_base_is_measured_though_there_is_nothing_to_try() -> None:
    tune = Tune(plan(candidates=(), raised=True))
    trials = run_to_end(tune, simulated(effect()))
    result = tune.result()
    assert [point.arm for point in result.frontier] == ["base", "base"]
    assert 6 <= trials < 60, "more blocks of base and control could prove nothing else"


def test_a_gain_is_split_into_free_and_bought_with_durability() -> None:
    result = finished(effect(flush2=1.3, a=1.25)).result()
    strict, second = result.frontier
    assert (strict.floor, strict.settings) == (Floor.STRICT, {"a": 1})
    assert (second.floor, second.settings) == (Floor.SECOND, {"flush": 2, "a": 1})
    assert second.ratio.low < 1.3 * 1.25 < second.ratio.high
    assert second.free_ratio is not None
    assert second.free_ratio.low < 1.25 < second.free_ratio.high
    assert strict.free_ratio == strict.ratio
    assert second.versus_safer is not None
    assert second.versus_safer.ratio.estimate == pytest.approx(1.3, rel=0.1)
    assert result.winner == second
    assert result.control is not None
    assert result.control.verdict == "no difference found"
    assert result.finished


def test_what_is_only_bought_has_no_free_part() -> None:
    point = finished(effect(flush2=1.4), seed=3, budget_trials=150).result().winner
    assert point is not None
    assert point.settings == {"flush": 2}
    assert point.free_ratio is not None
    assert (point.free_ratio.low, point.free_ratio.high) == (1.0, 1.0)


def test_where_a_lower_floor_buys_nothing_the_safer_point_wins() -> None:
    result = finished(effect(flush2=1.4, flush0=1.4), floor=Floor.RELAXED, budget_trials=120).result()
    assert [p.floor for p in result.frontier] == [Floor.STRICT, Floor.SECOND, Floor.RELAXED]
    assert result.winner is not None
    assert result.winner.settings["flush"] == 2


def test_a_bad_base_is_mended_at_strict() -> None:
    result = finished(effect(a=1.3, b=1.2), floor=Floor.STRICT, budget_trials=45).result()
    assert result.winner is not None
    assert result.winner.floor is Floor.STRICT
    assert {"a": 1, "b": 1}.items() <= result.winner.settings.items()


def test_nothing_to_gain_is_said_with_what_would_have_been_seen() -> None:
    result = finished(effect(), noise=0.03).result()
    assert result.winner is None
    assert all(point.settings == {} for point in result.frontier)
    assert len(result.confirmed) >= 2, "the best guess is confirmed too"
    assert result.detectable is not None
    assert 0.02 < result.detectable < 0.2


def test_competing_values_never_stand_together() -> None:
    tune, trials = Tune(plan()), simulated(effect(flush2=1.3))
    while (request := tune.ask()) is not None:
        assert request.arm.settings["m"] in ("x", "y", "z")
        tune.tell(trials.run(request))


def test_a_setting_that_buys_nothing_is_not_handed_over() -> None:
    idle = Counter[str]()
    for seed in range(12):
        result = finished(effect(flush2=1.3, a=1.25), seed=seed, budget_trials=150).result()
        assert result.winner is not None
        assert result.winner.settings["a"] == 1
        idle.update(name for name in result.winner.settings if name not in ("flush", "a"))
    assert idle.total() <= 6


def test_two_settings_that_do_the_same_are_not_both_dropped() -> None:
    def either(s: Settings) -> float:
        return math.log(1.3) if s["a"] or s["b"] else 0.0

    kept = [finished(either, seed=seed, budget_trials=120).result().winner for seed in range(10)]
    assert all(w is not None and ("a" in w.settings or "b" in w.settings) for w in kept)


# -- figures come from fresh blocks ------------------------------------------------------------------


def test_reported_figures_come_from_confirmation_blocks_only() -> None:
    tune, trials = Tune(plan()), simulated(effect(flush2=1.3))
    confirmed: dict[str, list[float]] = {}
    while (request := tune.ask()) is not None:
        trial = trials.run(request)
        tune.tell(trial)
        if request.stage == "confirm":
            assert trial.result is not None
            confirmed.setdefault(request.arm.name, []).append(math.log(trial.result))
    result = tune.result()
    for comparison in result.confirmed:
        differences = [x - y for x, y in zip(confirmed[comparison.arm], confirmed["base"], strict=True)]
        assert math.log(comparison.ratio.estimate) == pytest.approx(sum(differences) / len(differences))
    assert {"base", "control"} < confirmed.keys()


def test_clear_verdicts_end_the_campaign_early() -> None:
    plain, vague = finished(effect(flush2=2.0), noise=0.005), finished(effect(flush2=1.02), noise=0.08)
    assert plain.standing.done < vague.standing.done <= 60
    assert plain.result().interim_analyses < vague.result().interim_analyses


def test_an_arm_that_has_left_the_confirmation_is_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    judge, judged = Confirmation.judge, list[tuple[int, set[str]]]()

    def noted(self: Confirmation, blocks: int, alpha: float, *, since: int, arms: set[str]) -> None:
        judge(self, blocks, alpha, since=since, arms=arms)
        judged.append((since + blocks - 1, set(arms)))

    def only_together(s: Settings) -> float:
        relaxed = {1: 1.0, 2: 1.1, 0: 1.2}[int(s["flush"])]
        return math.log(relaxed * (1.0 if not s["a"] else 0.97 if s["flush"] == 1 else 1.03))

    monkeypatch.setattr(Confirmation, "judge", noted)
    tune = Tune(plan(seed=4, budget_trials=150))
    trials = SimulatedTrials(only_together, BASE, noise=Noise(trial=0.01), seed=4)
    measured: dict[int, set[str]] = {}
    while (request := tune.ask()) is not None:
        if request.stage == "confirm":
            measured.setdefault(request.block, set()).add(request.arm.name)
        tune.tell(trials.run(request))

    assert len(judged[-1][1]) < len(judged[0][1])  # one has left
    for block, arms in judged:
        assert arms <= measured[block]


def test_what_an_analysis_has_proven_stays_when_a_neighbour_eats_half_of_the_machine() -> None:
    """For the last third, bursts of it: before, `best so far` was followed by `no improvement found`."""
    proven = 0
    for seed in range(6):
        tune, best = Tune(plan(seed=seed, budget_trials=90)), None
        noise = Noise(trial=0.05, eaten=0.9, eaten_from=60)
        trials = SimulatedTrials(effect(flush2=1.3), BASE, noise=noise, seed=seed)
        while (request := tune.ask()) is not None:
            tune.tell(trials.run(request))
            assert best is None or tune.standing.best is not None, "what was printed is taken back"
            best = tune.standing.best
        proven += best is not None
    assert proven >= 4


def test_screening_does_not_choose_by_runs_that_a_neighbour_was_in() -> None:
    """He eats half of the machine whenever `a` is tried, of which a third of the runs know nothing."""
    tune, trials, turn = Tune(plan(budget_trials=90)), simulated(effect(flush2=1.3, a=1.25)), 0
    while (request := tune.ask()) is not None:
        trial = trials.run(request)
        if request.stage == "screen" and request.arm.settings["a"]:
            turn += 1
            if turn % 3:
                assert trial.result is not None
                trial = msgspec.structs.replace(trial, outcome="discarded", result=trial.result / 2)
        tune.tell(trial)
    winner = tune.result().winner
    assert winner is not None
    assert {"flush": 2, "a": 1}.items() <= winner.settings.items()


def test_every_confirmed_arm_has_its_p99_latency_compared_and_the_guard_goes_by_it() -> None:
    tune, trials = Tune(plan(budget_trials=120)), simulated(effect(flush2=1.3))
    while (request := tune.ask()) is not None:
        p99 = 3_000 if request.arm.settings["flush"] == 2 else 1_000
        tune.tell(with_load(trials.run(request), p99 + request.block))
    result = tune.result()
    assert result.p99.keys() == {one.arm for one in result.confirmed} | {"control"}
    (rejected,) = result.rejected
    ratio = result.p99[rejected.arm].ratio
    assert ratio.estimate == pytest.approx(1 / 3, rel=0.01)
    assert f"p99 latency is {1 / ratio.estimate:.2f} [{1 / ratio.high:.2f}, {1 / ratio.low:.2f}] times" in (
        rejected.reason
    )


def test_a_guard_is_not_tripped_by_what_a_neighbour_did_to_the_latency() -> None:
    """Enough blocks are undisturbed; in the others the winner's p99 is fifty times as long."""
    tune, trials = Tune(plan(budget_trials=120)), simulated(effect(flush2=1.3))
    while (request := tune.ask()) is not None:
        hit = request.stage == "confirm" and request.block >= 3 and request.arm.settings["flush"] == 2
        trial = with_load(trials.run(request), 50_000 if hit else 1000)
        tune.tell(msgspec.structs.replace(trial, outcome="discarded") if hit else trial)
    assert tune.result().rejected == ()
    assert tune.result().winner is not None


# -- the floor -----------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), floor=st.sampled_from([Floor.STRICT, Floor.SECOND, Floor.RELAXED]))
def test_no_request_is_ever_below_the_floor(seed: int, floor: Floor) -> None:
    tune = Tune(plan(floor=floor, seed=seed, budget_trials=100))
    trials = simulated(effect(flush2=1.2, flush0=1.3, a=1.1), noise=0.05, seed=seed)
    while (request := tune.ask()) is not None:
        assert level_of(request.arm.settings).at_least(floor)
        tune.tell(trials.run(request))
    for point in tune.result().frontier:
        assert level_of({**BASE, **point.settings}).at_least(point.floor)


def test_a_base_below_the_floor_is_refused() -> None:
    with pytest.raises(BelowFloor, match="second"):
        Tune(plan(base={**BASE, "flush": 2}, floor=Floor.STRICT))


def test_candidates_below_the_floor_are_left_out_with_the_reason() -> None:
    left_out = {str(e.settings): e.reason for e in Tune(plan(floor=Floor.STRICT)).result().excluded}
    assert left_out == {
        "{'flush': 2}": "meets only second, below the floor",
        "{'flush': 0}": "meets only relaxed, below the floor",
    }


# -- the budget ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [40, 45, 60, 150, 300])
def test_a_budget_in_trials_is_kept(trials: int) -> None:
    assert finished(effect(flush2=1.02, a=1.02), noise=0.06, budget_trials=trials).standing.done <= trials


def test_a_budget_in_seconds_is_kept() -> None:
    tune = Tune(plan(budget_trials=None, budget_s=450.0))
    count = run_to_end(tune, simulated(effect(flush2=1.02), noise=0.06, trial_s=9.0))
    assert 40 <= count <= (450 - END_S) / 9 - END_TRIALS, "the end is in the budget"
    assert tune.result().finished


def test_trials_that_get_slower_shorten_the_confirmation_not_its_honesty() -> None:
    tune = Tune(plan(budget_trials=None, budget_s=600.0))
    fast, slow = (simulated(effect(), noise=0.05, trial_s=s) for s in (9.0, 30.0))
    while (request := tune.ask()) is not None:
        tune.tell((slow if request.stage == "confirm" else fast).run(request))
    result = tune.result()
    assert 3 <= result.blocks < 16
    assert result.control is not None


def test_a_budget_that_is_too_small_says_what_it_needs() -> None:
    with pytest.raises(BudgetTooSmall, match=r"^--trials 10 is too few: 6 candidates .* need at least \d+$"):
        Tune(plan(budget_trials=10))


@pytest.mark.parametrize("budget_s", [6.0, 120.0])
def test_a_budget_in_seconds_that_is_too_small_is_refused_before_anything_is_asked_for(
    budget_s: float,
) -> None:
    with pytest.raises(
        BudgetTooSmall, match=r"is too short: .* need at least \d+ trials, 3 min 55 s"
    ) as raised:
        Tune(plan(budget_trials=None, budget_s=budget_s, trial_s=8.0))
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("use --minutes 4 or more")


def test_the_smallest_minutes_that_are_named_are_accepted_and_fewer_are_not() -> None:
    asked = plan(budget_trials=None, budget_s=6.0, trial_s=8.0)
    with pytest.raises(BudgetTooSmall) as raised:
        Tune(asked)
    named = re.search(r"--minutes ([0-9.]+) or more", raised.value.hint or "")
    assert named is not None
    least_s = 60 * float(named[1])
    trials = simulated(effect(), trial_s=8.0 * 1.1)  # and trials may take longer than expected
    run_to_end(Tune(msgspec.structs.replace(asked, budget_s=least_s)), trials)
    with pytest.raises(BudgetTooSmall):
        Tune(msgspec.structs.replace(asked, budget_s=least_s - 6.0))


@pytest.mark.parametrize("budget_s", [30.0, 120.0])
def test_trials_that_nobody_could_foresee_refuse_it_after_the_first(budget_s: float) -> None:
    tune = Tune(plan(budget_trials=None, budget_s=budget_s, trial_s=0.1))
    request = tune.ask()
    assert request is not None
    with pytest.raises(BudgetTooSmall, match=r"trials of about 9\.0 s, \d+ min"):
        tune.tell(simulated(effect(), trial_s=9.0).run(request))


def test_a_budget_that_a_busy_machine_made_too_short_says_whose_fault_it_is() -> None:
    tune, slow = Tune(plan(budget_trials=None, budget_s=300.0)), simulated(effect(), trial_s=16.0)
    with pytest.raises(BudgetTooSmall) as raised:
        while (request := tune.ask()) is not None:
            tune.tell(msgspec.structs.replace(slow.run(request), outcome="discarded"))
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("the machine is busy: wait with --wait-for-quiet, or use --minutes 8")


def test_preparing_the_data_is_in_the_budget_but_no_measure_of_a_trial() -> None:
    tune, trials = Tune(plan(budget_trials=None, budget_s=700.0)), simulated(effect(), trial_s=9.0)
    request, once = tune.ask(), {"before": 20.0, "prepare": 300.0}
    assert request is not None
    first = trials.run(request)
    tune.tell(msgspec.structs.replace(first, seconds={**first.seconds, **once}))
    count = run_to_end(tune, trials)
    assert 30 <= count <= (700 - 320 - END_S) / 9 - END_TRIALS


def test_data_that_took_the_budget_are_named_and_not_counted_again() -> None:
    tune = Tune(plan(budget_trials=None, budget_s=400.0))
    request = tune.ask()
    assert request is not None
    first = simulated(effect(), trial_s=9.0).run(request)
    with pytest.raises(BudgetTooSmall, match=r"preparing the data, which are kept, took 5 min") as raised:
        tune.tell(msgspec.structs.replace(first, seconds={**first.seconds, "prepare": 300.0}))
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("use --minutes 5 or more"), "the data are there the next time"


def test_disturbed_trials_are_foreseen_so_that_the_confirmation_still_fits() -> None:
    tune, trials = Tune(plan(budget_trials=None, budget_s=600.0)), simulated(effect(flush2=1.3), trial_s=9.0)
    count = 0
    while (request := tune.ask()) is not None and 9.0 * count < 600.0:
        count += 1
        discarded = "discarded" if count % 2 else "measured"
        tune.tell(msgspec.structs.replace(trials.run(request), outcome=discarded))
    assert tune.result().frontier, "half of the trials were disturbed, and yet there is a result in time"


@pytest.mark.parametrize("disturbed", range(1, 9))
def test_a_disturbed_trial_does_not_cost_the_last_analysis(disturbed: int) -> None:
    """Wherever in the confirmation it comes: it is repeated only where the least blocks can spare a trial."""
    only = (Candidate(settings={"flush": 2}, group="commit", why="test"),)
    asked = plan(candidates=only, budget_trials=11)
    tune, trials, confirmed = Tune(asked), simulated(effect(flush2=2.0)), 0
    while (request := tune.ask()) is not None and tune.standing.done < 11:
        confirmed += request.stage == "confirm"
        is_hit = request.stage == "confirm" and confirmed == disturbed
        trial = trials.run(request)
        tune.tell(msgspec.structs.replace(trial, outcome="discarded") if is_hit else trial)
    assert tune.standing.done <= 11
    winner = tune.result().winner
    assert winner is not None and winner.settings == {"flush": 2}


def test_blocks_that_disturbed_trials_took_are_judged_without() -> None:
    """Repeats of the blocks before took the trials of the last one: the analysis comes when they are gone."""
    tune, trials = Tune(plan(budget_trials=90)), simulated(effect(flush2=1.05), noise=0.06)
    blocks = 0
    while (request := tune.ask()) is not None and tune.standing.done < 90:
        trial, again = trials.run(request), tune.ask()
        is_hit = request.stage == "confirm" and request.block == 2 and request.arm.name == "base"
        blocks = max(blocks, 1 + request.block) if request.stage == "confirm" else blocks
        tune.tell(msgspec.structs.replace(trial, outcome="discarded") if is_hit else trial)
        assert again == request
    assert tune.result().finished
    assert tune.result().blocks >= blocks - 1


def test_the_smallest_budget_for_one_candidate_goes_to_its_confirmation() -> None:
    only = (Candidate(settings={"flush": 2}, group="commit", why="test"),)
    tune = finished(effect(flush2=2.0), candidates=only, budget_trials=11)
    assert tune.standing.done == 11
    winner = tune.result().winner
    assert winner is not None and winner.settings == {"flush": 2}


def test_the_smallest_budget_that_is_accepted_is_enough() -> None:
    with pytest.raises(BudgetTooSmall) as error:
        Tune(plan(budget_trials=5))
    needed = int(error.value.message.split("at least ")[1])
    result = finished(effect(flush2=1.5), budget_trials=needed)
    assert result.standing.done <= needed
    assert result.result().control is not None


# -- what goes wrong -----------------------------------------------------------------------------------


def test_a_refused_setting_is_found_among_others_and_left_out() -> None:
    def refuses(s: Settings) -> str | None:
        return "unknown variable 'b=1'" if s["b"] else None

    tune = Tune(plan(budget_trials=80))
    run_to_end(tune, simulated(effect(flush2=1.3, a=1.25), refuses=refuses))
    result = tune.result()
    refused = [e for e in result.excluded if e.refused]
    assert [(dict(e.settings), e.reason) for e in refused] == [({"b": 1}, "refused: unknown variable 'b=1'")]
    assert result.winner is not None
    assert {"flush": 2, "a": 1}.items() <= result.winner.settings.items()


def test_a_refused_foundation_leaves_the_base() -> None:
    tune = Tune(plan(budget_trials=80))
    run_to_end(tune, simulated(effect(a=1.25), refuses=lambda s: "no" if s["flush"] == 2 else None))
    winner = tune.result().winner
    assert winner is not None
    assert winner.settings["a"] == 1
    assert "flush" not in winner.settings


def test_discarded_trials_are_repeated_and_cost_only_trials() -> None:
    tune, trials, count = Tune(plan(budget_trials=80)), simulated(effect(flush2=1.3)), 0
    while (request := tune.ask()) is not None:
        count += 1
        trial = trials.run(request)
        tune.tell(
            msgspec.structs.replace(trial, outcome="discarded", result=None) if count % 7 == 0 else trial
        )
    winner = tune.result().winner
    assert winner is not None
    assert winner.settings["flush"] == 2


def test_a_base_that_cannot_be_measured_stops_the_campaign() -> None:
    tune = Tune(plan())
    stopped = "^the server died\nThat was the base"
    with pytest.raises(MeasurementError, match=stopped) as raised:
        while (request := tune.ask()) is not None:
            tune.tell(
                Trial(
                    arm=request.arm,
                    stage=request.stage,
                    block=request.block,
                    outcome="failed",
                    reason="the server died",
                    hint="give it memory",
                )
            )
    assert raised.value.hint == "give it memory"


def failed(request: Request) -> Trial:
    return Trial(
        arm=request.arm,
        stage=request.stage,
        block=request.block,
        outcome="failed",
        reason="the server died",
    )


def test_a_base_that_fails_after_an_analysis_takes_nothing_back() -> None:
    tune, trials = Tune(plan(budget_trials=150)), simulated(effect(flush2=1.3), noise=0.05)
    proven = None
    while (request := tune.ask()) is not None:
        fails = proven is not None and request.arm.name == "base"
        tune.tell(failed(request) if fails else trials.run(request))
        proven = proven or tune.standing.best
    result = tune.result()
    assert result.winner is not None
    assert result.winner.ratio == proven
    assert result.finished
    assert result.cut_short.startswith("the server died\nThat was the base")


def test_a_block_without_a_latency_is_a_fact_of_its_arm_where_p99_is_the_objective() -> None:
    tune, trials, hit = Tune(plan(objective="p99", budget_trials=90)), simulated(lambda _: 0.0), 0
    nothing = LoadResult(seconds=10.0, events=0, throughput=0.0, per_second=(), latency_us=None).stalled()
    while (request := tune.ask()) is not None:
        trial = with_load(trials.run(request), 500 if request.arm.settings["a"] else 1000)
        if request.stage == "confirm" and request.arm.settings["a"] and request.block == 1:
            hit, trial = hit + 1, msgspec.structs.replace(trial, load=nothing, result=nothing.throughput)
        tune.tell(trial)
    assert hit
    winner = tune.result().winner
    assert winner is not None and winner.settings["a"] == 1
    assert 1.5 < winner.ratio.estimate < 1.99, "twice as fast but for that block"


def test_settings_that_need_a_steady_state_get_no_credit_in_a_short_window() -> None:
    candidates = (
        *plan().candidates,
        Candidate(settings={"redo": 4}, group="redo", why="test", needs_steady_state=True),
    )
    tune, trials = Tune(plan(candidates=candidates, base={**BASE, "redo": 1})), simulated(effect())
    short = Warning("window-too-short", "only half of the redo was written")
    while (request := tune.ask()) is not None:
        if request.stage != "calibrate":
            assert request.arm.settings["redo"] == 1
        tune.tell(msgspec.structs.replace(trials.run(request), warnings=(short,)))
    assert any("window too short" in e.reason for e in tune.result().excluded)


def test_a_redo_log_that_no_window_could_fill_is_not_tried() -> None:
    candidates = (
        *plan().candidates,
        Candidate(settings={"redo": 4}, group="redo", why="test", needs_steady_state=True),
        Candidate(settings={"redo": 64}, group="redo", why="test", needs_steady_state=True),
    )
    tune = Tune(
        plan(
            candidates=candidates,
            base={**BASE, "redo": 1},
            redo_to_outlast=lambda settings: int(settings["redo"]) * 1_000_000,
            window_limit_s=30.0,
        )
    )
    trials, seen = simulated(effect()), set()
    while (request := tune.ask()) is not None:
        seen.add(request.arm.settings["redo"])
        trial = trials.run(request)
        tune.tell(  # 1 MB of redo in 4 s: 64 MB take 256 s
            msgspec.structs.replace(
                trial,
                before=ServerSample(redo_written_bytes=0),
                after=ServerSample(redo_written_bytes=1_000_000),
                seconds={"window": 4.0},
            )
        )
    assert seen == {1, 4}
    assert any("would have to last 4 min 16 s" in e.reason for e in tune.result().excluded)


def test_a_change_that_the_server_rounds_back_is_not_tried_again() -> None:
    tune, trials = Tune(plan()), simulated(effect(a=1.5))
    arms = 0
    while (request := tune.ask()) is not None:
        arms += request.arm.settings["a"] == 1
        tune.tell(msgspec.structs.replace(trials.run(request), settings={**request.arm.settings, "a": 0}))
    assert arms == 1
    assert any(e.reason == "the server changes it to the base's value" for e in tune.result().excluded)


def test_a_free_part_that_the_server_refuses_is_unknown() -> None:
    tune, trials = Tune(plan()), simulated(effect(flush2=1.5, a=1.3))
    while (request := tune.ask()) is not None:
        trial = trials.run(request)
        if request.stage == "confirm" and request.arm.settings == {**BASE, "a": 1}:
            trial = msgspec.structs.replace(trial, outcome="refused", reason="no", result=None)
        tune.tell(trial)
    winner = tune.result().winner
    assert winner is not None
    assert winner.settings == {"flush": 2, "a": 1}
    assert winner.free_ratio is None


# -- guards ----------------------------------------------------------------------------------------------


def guarded(of: Callable[[Request, Trial], Trial]) -> Tune:
    tune, trials = Tune(plan()), simulated(effect(flush2=1.5))
    while (request := tune.ask()) is not None:
        tune.tell(of(request, trials.run(request)))
    return tune


def test_a_faster_arm_with_a_worse_tail_is_rejected_with_that_reason() -> None:
    result = guarded(lambda r, t: with_load(t, 5000 if r.arm.settings["flush"] == 2 else 1000)).result()
    assert result.winner is None
    assert any("latency is 5.00 [5.00, 5.00] times the base's" in r.reason for r in result.rejected)


def test_a_tail_that_only_scatters_rejects_nothing() -> None:
    def scattered(request: Request, trial: Trial) -> Trial:
        up = request.block % 2 == 0
        return with_load(trial, 10_000 if up and request.arm.settings["flush"] == 2 else 1000)

    result = guarded(scattered).result()  # 3.2 times on average, nothing in half of them
    assert result.rejected == ()
    assert result.winner is not None


def test_a_faster_arm_that_stalls_is_rejected_with_that_reason() -> None:
    stalling = (100,) * 8 + (0, 0)
    result = guarded(
        lambda r, t: with_load(t, 1000, stalling if r.arm.settings["flush"] == 2 else (100,) * 10)
    ).result()
    assert result.winner is None
    assert any("20.0% of its time is stalled" in r.reason for r in result.rejected)


def test_a_winner_rejected_from_outside_gives_way_to_the_next_best() -> None:
    tune = finished(effect(flush2=1.3, a=1.25))
    winner = tune.result().winner
    assert winner is not None
    tune.reject(winner.arm, "recovery took 90 s")
    result = tune.result()
    assert result.winner is not None
    assert result.winner.settings == {"a": 1}
    assert [(r.arm, r.reason) for r in result.rejected] == [(winner.arm, "recovery took 90 s")]


# -- resume and interruption -----------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(cut=st.integers(0, 60), seed=st.integers(0, 50))
def test_stored_trials_told_again_lead_to_the_same_campaign(cut: int, seed: int) -> None:
    first = Tune(plan(seed=seed))
    trials = simulated(effect(flush2=1.2, a=1.1), noise=0.04, seed=seed)
    stored: list[Trial] = []
    while (request := first.ask()) is not None and len(stored) < cut:
        stored.append(trials.run(request))
        first.tell(stored[-1])
    second = Tune(plan(seed=seed))
    for trial in msgspec.json.decode(msgspec.json.encode(stored), type=list[Trial]):
        second.tell(trial)
    assert second.ask() == first.ask()
    assert second.result() == first.result()


def test_the_result_is_there_at_any_moment() -> None:
    tune, trials = Tune(plan()), simulated(effect(flush2=1.5))
    proven = []
    while (request := tune.ask()) is not None:
        proven.append(tune.result().winner is not None)
        tune.tell(trials.run(request))
    assert not proven[0]
    assert tune.result().winner is not None
    assert proven == sorted(proven), "what is proven stays"


def test_a_record_of_the_recovery_check_is_not_part_of_the_plan() -> None:
    tune = Tune(plan())
    before = tune.ask()
    assert before is not None
    tune.tell(Trial(arm=before.arm, stage="recovery", block=0, outcome="measured", result=3.0))
    assert tune.ask() == before


def test_a_trial_of_another_plan_is_refused() -> None:
    other = Trial(arm=Tune(plan()).result().base, stage="confirm", block=7, outcome="measured", result=1.0)
    with pytest.raises(UsageError, match="does not belong here"):
        Tune(plan()).tell(other)


def test_progress_names_the_stage_and_never_overtakes_its_total() -> None:
    tune, trials, stages = Tune(plan(budget_trials=150)), simulated(effect(flush2=1.3, a=1.1), noise=0.04), []
    while (request := tune.ask()) is not None:
        progress = tune.standing
        stages.append(progress.stage)
        assert progress.done < progress.total
        tune.tell(trials.run(request))
    assert list(dict.fromkeys(stages)) == ["calibrate", "screen", "reduce", "confirm"]
    assert tune.standing.stage is None
    assert tune.standing.done == tune.standing.total == len(stages)
    assert tune.standing.best is not None


def test_variants_are_run_together_and_counted_in_the_budget() -> None:
    tune = Tune(plan(variants=3, budget_trials=180))
    cells: Counter[tuple[str, str, int, int]] = Counter()
    trials = simulated(effect(flush2=1.3))
    while (request := tune.ask()) is not None:
        cells[request.arm.name, request.stage, request.block, request.variant] += 1
        tune.tell(trials.run(request))
    assert cells.total() <= 180
    confirm = Counter((name, block) for name, stage, block, _ in cells if stage == "confirm")
    assert set(confirm.values()) == {3}


# -- several machines ------------------------------------------------------------------------------


def confirmed_on(machines: int, *, moody: bool = False) -> Tune:
    """A tuning whose confirmation blocks ran on machines in turns; the gain of `a` may depend on them. One
    machine is no fleet."""
    tune = Tune(plan(budget_trials=150, spread=machines > 1))
    trials = simulated(effect(a=1.5, b=1.1), noise=0.005)
    while (request := tune.ask()) is not None:
        trial = trials.run(request)
        if request.stage == "confirm":
            number = request.block % machines
            depends = math.exp(0.5 * (-1) ** number) if moody and request.arm.settings["a"] else 1.0
            assert trial.result is not None
            trial = msgspec.structs.replace(
                trial, machine=f"m{number}", result=trial.result * (1 + number) * depends
            )
        tune.tell(trial)
    return tune


def test_the_confirmation_on_several_machines_is_judged_once_over_them() -> None:
    result = confirmed_on(4).result()
    assert result.interim_analyses == 1
    assert result.winner is not None
    assert [one.machine for one in result.machines[result.winner.arm].ratios] == ["m0", "m1", "m2", "m3"]
    alone = confirmed_on(1).result()
    assert alone.blocks < result.blocks, "it stopped at an interim analysis"
    assert alone.machines == {}


def test_nothing_is_claimed_of_a_fleet_before_the_last_block() -> None:
    tune, trials = Tune(plan(budget_trials=150, spread=True)), simulated(effect(a=1.5, b=1.1), noise=0.005)
    while (request := tune.ask()) is not None:
        assert tune.standing.best is None
        assert not tune.standing.found
        tune.tell(msgspec.structs.replace(trials.run(request), machine="m0"))
    assert tune.result().winner is not None


def test_a_gain_that_depends_on_the_machine_wins_on_one_and_not_over_four() -> None:
    assert confirmed_on(1, moody=True).result().winner is not None
    four = confirmed_on(4, moody=True).result()
    assert all(one.verdict == "no difference found" for one in four.confirmed)
    assert any(one.unstable for one in four.machines.values())
    assert four.detectable is not None
    assert four.detectable > 0.5, "of four such machines, only a large gain would have been seen"


@pytest.mark.parametrize(("side_by_side", "least"), [(0, 11), (4, 20)])
@pytest.mark.parametrize("spread", [False, True])
def test_screening_leaves_enough_for_a_confirmation_with_every_budget(
    spread: bool, side_by_side: int, least: int
) -> None:
    """On a fleet, a block that screens holds the base too: the loop would cut the confirmation short."""
    flush = (Candidate(settings={"flush": 2}, group="commit", why="test"),)
    for trials in range(least, least + 16):
        tune = Tune(plan(candidates=flush, budget_trials=trials, spread=spread, side_by_side=side_by_side))
        assert run_to_end(tune, simulated(effect(flush2=3.0))) <= trials
        assert tune.result().winner is not None, trials


MINE: dict[str, Value] = {**BASE, "flush": 2}


def tuned(a: float = 1.0, **changes: object) -> tuple[Tune, list[Trial]]:
    """Settings with flush=2, raised to strict, which makes them half as fast."""
    tune, told = Tune(plan(floor=Floor.STRICT, yours=MINE, **changes)), list[Trial]()
    server = simulated(effect(flush2=2.0, a=a))
    while (request := tune.ask()) is not None:
        told.append(server.run(request))
        tune.tell(told[-1])
    return tune, told


@pytest.mark.parametrize("side_by_side", [0, 2, 8])
def test_what_meeting_the_floor_costs_is_measured_where_nothing_else_is_found(side_by_side: int) -> None:
    budget = {} if side_by_side == 0 else {"budget_trials": 400}
    result = tuned(side_by_side=side_by_side, **budget)[0].result()
    (strict,) = result.frontier
    assert (strict.floor, strict.arm, result.winner) == (Floor.STRICT, "base", None)
    assert result.yours is not None and result.yours.verdict == "faster"
    cost = strict.versus_yours
    assert cost == result.yours.ratio.inverse()
    assert cost is not None and cost.low < 0.5 < cost.high < 0.6


@pytest.mark.parametrize("side_by_side", [0, 2])
def test_a_gain_is_told_against_both_the_raised_settings_and_the_users_own(side_by_side: int) -> None:
    budget = {} if side_by_side == 0 else {"budget_trials": 400}
    winner = tuned(a=1.25, side_by_side=side_by_side, **budget)[0].result().winner
    assert winner is not None and winner.settings == {"a": 1}
    assert winner.ratio.low < 1.25 < winner.ratio.high
    assert winner.versus_yours is not None
    assert winner.versus_yours.low < 0.625 < winner.versus_yours.high < 0.75


def test_settings_below_the_floor_run_in_confirmation_only_and_never_win() -> None:
    tune, told = tuned(a=1.25)
    below = {(trial.stage, trial.arm.name) for trial in told if trial.arm.settings["flush"] != 1}
    assert below == {("confirm", YOURS)}
    result = tune.result()
    assert YOURS not in {point.arm for point in result.frontier}
    assert tune.least_trials > Tune(plan(floor=Floor.STRICT)).least_trials, "they are budgeted for"


def test_a_base_is_not_the_row_of_a_floor_that_it_does_not_meet() -> None:
    """`b` is what makes it strict, and gains nothing: nothing was proven at strict."""

    def level_of(settings: object) -> Floor:
        assert isinstance(settings, dict)
        return Floor.STRICT if settings["b"] else Floor.SECOND

    tune = Tune(plan(level_of=level_of, budget_trials=90))
    run_to_end(tune, simulated(effect(b=0.7)))
    assert [point.floor for point in tune.result().frontier] == [Floor.SECOND]


@pytest.mark.parametrize("side_by_side", [0, 2])
def test_an_offer_below_the_floor_takes_the_same_trials_as_a_winner_there(side_by_side: int) -> None:
    def asked(**floors: Floor) -> tuple[Tune, list[object]]:
        changes: dict[str, object] = {"side_by_side": side_by_side, "budget_trials": 400, **floors}
        tune, requests = Tune(plan(**changes)), list[object]()
        server = simulated(effect(flush2=1.4, a=1.2))
        while (request := tune.ask()) is not None:
            requests.append(request)
            tune.tell(server.run(request))
        return tune, requests

    lower, trials = asked(floor=Floor.SECOND)
    safe, same_trials = asked(floor=Floor.STRICT, lowest=Floor.SECOND)
    assert same_trials == trials
    strict, second = safe.result().frontier
    assert lower.result().frontier == (strict, second)
    assert (safe.result().winner, safe.result().offers) == (strict, (second,))
    assert (lower.result().winner, lower.result().offers) == (second, ())


def test_nothing_runs_below_the_lowest_floor_and_no_winner_is_below_the_floor() -> None:
    tune = Tune(plan(floor=Floor.STRICT, lowest=Floor.SECOND))
    server, ran = simulated(effect(flush2=1.5, flush0=2.0)), set[Value]()
    while (request := tune.ask()) is not None:
        ran.add(request.arm.settings["flush"])
        tune.tell(server.run(request))
    assert ran == {1, 2}, "flush=0 is below the lowest floor"
    assert tune.result().winner is None
    (offer,) = tune.result().offers
    assert (offer.floor, offer.settings) == (Floor.SECOND, {"flush": 2})
    strict = Tune(plan(floor=Floor.STRICT))
    while (request := strict.ask()) is not None:
        assert request.arm.settings["flush"] == 1, (
            "without a lower floor to offer, nothing is below the floor"
        )
        strict.tell(server.run(request))


def test_an_offer_that_gains_no_more_than_the_winner_is_none() -> None:
    tune = Tune(plan(floor=Floor.STRICT, lowest=Floor.SECOND, budget_trials=120))
    run_to_end(tune, simulated(effect(flush2=1.0, a=1.4)))
    result = tune.result()
    assert result.winner is not None and result.winner.settings == {"a": 1}
    assert result.offers == ()


def test_a_rejected_offer_leaves_the_winner() -> None:
    tune = Tune(plan(floor=Floor.STRICT, lowest=Floor.SECOND, budget_trials=150))
    run_to_end(tune, simulated(effect(flush2=1.5, a=1.3)))
    winner, offer = tune.result().proposed
    tune.reject(offer.arm, "it does not start again")
    assert tune.result().proposed == (winner,)
