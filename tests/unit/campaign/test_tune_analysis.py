"""What a tuning makes of its records once they are all there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from flushlab.campaign.facts import TuneFacts
from flushlab.campaign.tune_analysis import RECOVERY_ATTEMPTS, TuneAnalysis
from flushlab.errors import FlushlabError, MeasurementError, NoMemory, StartFailed
from flushlab.experiment.simulated import Noise, SimulatedTrials
from flushlab.experiment.tune import Tune
from flushlab.record import Arm, Launch, Machine, Trial, Value
from flushlab.settings.catalog import load_catalog
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import TuneSpec
from tests.unit.campaign.test_bound_series import BASE, MARIADB, STORAGE, effect
from tests.unit.campaign.test_so_far import simulate, tune_request

MACHINE = Machine(cpu_model="a cpu", cpu_count=2, memory_bytes=24 << 30, kernel="6.1", filesystem="ext4")


class Recoveries:
    """A runner that answers with seconds, or goes wrong."""

    def __init__(self, of: Callable[[str], float | FlushlabError]) -> None:
        self.of, self.asked = of, list[str]()

    def recovery_s(self, arm: Arm) -> float:
        self.asked.append(arm.name)
        found = self.of(arm.name)
        if isinstance(found, FlushlabError):
            raise found
        return found


def tuned() -> tuple[TuneAnalysis, Tune, list[Trial]]:
    tuning = TuneAnalysis(tune_request(), MARIADB, STORAGE, Launch())
    experiment = tuning.experiment()
    return tuning, experiment, simulate(experiment, 1_000)


def up_to_the_first_look(tuning: TuneAnalysis) -> Tune:
    """With a noise that leaves more looks to come."""
    experiment, noise = tuning.experiment(), Noise(trial=0.06)
    trials = SimulatedTrials(effect, BASE, noise=noise, seed=1)
    while not experiment.result().frontier and (request := experiment.ask()) is not None:
        experiment.tell(trials.run(request))
    return experiment


def concluded(of: Callable[[str], float | FlushlabError]) -> tuple[TuneFacts, Recoveries]:
    tuning, experiment, trials = tuned()
    asked = Recoveries(of)
    runner: Any = asked
    return tuning.conclude(experiment, trials, "done", "x-1", MACHINE, load_catalog(), runner), asked


def said(facts: TuneFacts, slug: str) -> list[str]:
    return [warning.text for warning in facts.warnings if warning.slug == slug]


def test_a_winner_that_recovers_too_slowly_or_not_at_all_is_rejected() -> None:
    slow, _ = concluded(lambda arm: 1.0 if arm == "base" else 90.0)
    assert "recovery after SIGKILL took 90.0 s" in slow.result.rejected[0].reason
    gone, _ = concluded(lambda arm: 1.0 if arm == "base" else StartFailed("a page is torn"))
    assert gone.result.rejected[0].reason == "it did not start again after SIGKILL: a page is torn"


def test_a_load_that_ends_before_the_kill_is_tried_again() -> None:
    left = [MeasurementError("the load ended before the server was killed: 1213: Deadlock")]
    facts, asked = concluded(lambda arm: left.pop() if left and arm != "base" else 1.0)
    assert facts.result.winner is not None
    assert facts.recovery_s == {"base": 1.0, facts.result.winner.arm: 1.0}
    assert asked.asked.count(facts.result.winner.arm) == 2
    assert not said(facts, "recovery-unchecked")


@pytest.mark.parametrize("error", [MeasurementError("no row was there"), NoMemory("the memory was full")])
def test_a_recovery_that_could_not_be_checked_rejects_nobody_and_is_said(error: FlushlabError) -> None:
    facts, asked = concluded(lambda arm: 1.0 if arm == "base" else error)
    winner = facts.result.winner
    assert winner is not None and not facts.result.rejected
    assert asked.asked.count(winner.arm) == RECOVERY_ATTEMPTS
    text = f"{winner.arm}: recovery after SIGKILL could not be checked: {error.message}"
    assert said(facts, "recovery-unchecked") == [text]


@pytest.mark.parametrize("error", [MeasurementError("no row was there"), StartFailed("a page is torn")])
def test_a_base_whose_recovery_is_not_known_limits_nobody(error: FlushlabError) -> None:
    facts, _ = concluded(lambda arm: error if arm == "base" else 90.0)
    assert facts.result.winner is not None and not facts.result.rejected
    assert len(said(facts, "recovery-unchecked")) == 1


def test_a_base_that_failed_late_is_said_beside_what_was_proven() -> None:
    tuning = TuneAnalysis(tune_request(), MARIADB, STORAGE, Launch())
    experiment = up_to_the_first_look(tuning)
    assert experiment.ask() is not None
    while (request := experiment.ask()) is not None:
        experiment.tell(
            Trial(arm=request.arm, stage="confirm", block=request.block, outcome="failed", reason="it died")
        )
    facts = tuning.conclude(experiment, (), "done", "x-1", MACHINE, load_catalog(), None)
    assert facts.result.frontier
    (text,) = said(facts, "base-failed")
    assert text.endswith("what had been proven by then holds: it died")


STRICT = TuneSpec(threads=(4,), floor=Floor.STRICT, trials=80)


def test_settings_below_the_floor_are_compared_with_the_base_that_raises_them() -> None:
    own: dict[str, Value] = {**BASE, "innodb_flush_log_at_trx_commit": 2}
    request = msgspec.structs.replace(tune_request(), spec=STRICT, original=own, yours=own)
    tuning = TuneAnalysis(request, MARIADB, STORAGE, Launch())
    experiment = tuning.experiment()
    trials = simulate(experiment, 1_000)
    facts = tuning.conclude(experiment, trials, "done", "x-1", MACHINE, load_catalog(), None)
    assert facts.raised == {"innodb_flush_log_at_trx_commit": 1}
    assert facts.yours == "second"
    assert facts.cost is not None and facts.cost.high < 1
    assert facts.handed_over is not None
    assert facts.changes(facts.handed_over)["innodb_flush_log_at_trx_commit"] == 1
    assert "may be lost" in facts.guarantees["yours"]["os_crash"]
    assert "nothing is lost" in facts.guarantees["base"]["os_crash"]


def test_settings_that_do_not_run_are_still_told_to_be_below_the_floor() -> None:
    own: dict[str, Value] = {**BASE, "innodb_flush_log_at_trx_commit": 2}
    request = msgspec.structs.replace(tune_request(), spec=STRICT, original=own)
    tuning = TuneAnalysis(request, MARIADB, STORAGE, Launch())
    experiment = tuning.experiment()
    trials = simulate(experiment, 1_000)
    facts = tuning.conclude(experiment, trials, "done", "x-1", MACHINE, load_catalog(), None)
    assert (facts.cost, facts.yours) == (None, "second")
    assert facts.handed_over is not None
