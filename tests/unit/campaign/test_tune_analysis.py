from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from flushlab.campaign.facts import CampaignFacts, CampaignRun, TuningFacts
from flushlab.campaign.tune_analysis import RECOVERY_ATTEMPTS, TuneAnalysis, without_effect
from flushlab.errors import FlushlabError, MeasurementError, NoMemory, StartFailed
from flushlab.experiment.simulated import Noise, SimulatedTrials
from flushlab.experiment.tune import Tune
from flushlab.record import Arm, Machine, Trial, Value, Warning
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import TuneSpec
from tests.unit.campaign.test_series_analysis import BASE, MARIADB, STORAGE, effect
from tests.unit.campaign.test_so_far import simulate, tune_request
from tests.unit.records import trial

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


RUN = CampaignRun(campaign_id="x-1", ending="done", machine=MACHINE)


def tuned() -> tuple[TuneAnalysis, Tune, list[Trial]]:
    tuning = TuneAnalysis(tune_request(), MARIADB, STORAGE)
    experiment = tuning.experiment()
    return tuning, experiment, simulate(experiment, 1_000)


def up_to_the_first_analysis(tuning: TuneAnalysis) -> Tune:
    """With a noise that leaves more analyses to come."""
    experiment, noise = tuning.experiment(), Noise(trial=0.06)
    trials = SimulatedTrials(effect, BASE, noise=noise, seed=1)
    while not experiment.result().frontier and (request := experiment.ask()) is not None:
        experiment.tell(trials.run(request))
    return experiment


def concluded(of: Callable[[str], float | FlushlabError]) -> tuple[CampaignFacts, Recoveries]:
    tuning, experiment, trials = tuned()
    asked = Recoveries(of)
    runner: Any = asked
    return tuning.conclude(experiment, trials, RUN, runner), asked


def found_by(facts: CampaignFacts) -> TuningFacts:
    assert facts.tuning is not None
    return facts.tuning


def said(facts: CampaignFacts, slug: str) -> list[str]:
    return [warning.text for warning in facts.warnings if warning.slug == slug]


def test_a_winner_that_recovers_too_slowly_or_not_at_all_is_rejected() -> None:
    slow, _ = concluded(lambda arm: 1.0 if arm == "base" else 90.0)
    assert "recovery after SIGKILL took 90.0 s" in found_by(slow).rejected[0].reason
    gone, _ = concluded(lambda arm: 1.0 if arm == "base" else StartFailed("a page is torn"))
    assert found_by(gone).rejected[0].reason == "it did not start again after SIGKILL: a page is torn"


def test_a_load_that_ends_before_the_kill_is_tried_again() -> None:
    left = [MeasurementError("the load ended before the server was killed: 1213: Deadlock")]
    facts, asked = concluded(lambda arm: left.pop() if left and arm != "base" else 1.0)
    winner = found_by(facts).winner
    assert winner is not None
    assert (facts.base.recovery_s, facts.arm(winner.arm).recovery_s) == (1.0, 1.0)
    assert asked.asked.count(winner.arm) == 2
    assert not said(facts, "recovery-unchecked")


@pytest.mark.parametrize("error", [MeasurementError("no row was there"), NoMemory("the memory was full")])
def test_a_recovery_that_could_not_be_checked_rejects_nobody_and_is_said(error: FlushlabError) -> None:
    facts, asked = concluded(lambda arm: 1.0 if arm == "base" else error)
    winner = found_by(facts).winner
    assert winner is not None and not found_by(facts).rejected
    assert asked.asked.count(winner.arm) == RECOVERY_ATTEMPTS
    text = f"{winner.arm}: recovery after SIGKILL could not be checked: {error.message}"
    assert said(facts, "recovery-unchecked") == [text]


@pytest.mark.parametrize("error", [MeasurementError("no row was there"), StartFailed("a page is torn")])
def test_a_base_whose_recovery_is_not_known_limits_nobody(error: FlushlabError) -> None:
    facts, _ = concluded(lambda arm: error if arm == "base" else 90.0)
    assert found_by(facts).winner is not None and not found_by(facts).rejected
    assert len(said(facts, "recovery-unchecked")) == 1


def test_a_base_that_failed_late_is_said_beside_what_was_proven() -> None:
    tuning = TuneAnalysis(tune_request(), MARIADB, STORAGE)
    experiment = up_to_the_first_analysis(tuning)
    assert experiment.ask() is not None
    while (request := experiment.ask()) is not None:
        experiment.tell(
            Trial(arm=request.arm, stage="confirm", block=request.block, outcome="failed", reason="it died")
        )
    facts = tuning.conclude(experiment, (), RUN)
    assert found_by(facts).frontier
    (text,) = said(facts, "base-failed")
    assert text.endswith("what had been proven by then holds: it died")


STRICT = TuneSpec(threads=(4,), floor=Floor.STRICT, trials=80)


def test_settings_below_the_floor_are_compared_with_the_base_that_raises_them() -> None:
    own: dict[str, Value] = {**BASE, "innodb_flush_log_at_trx_commit": 2}
    request = msgspec.structs.replace(tune_request(), spec=STRICT, original=own, yours=own)
    tuning = TuneAnalysis(request, MARIADB, STORAGE)
    experiment = tuning.experiment()
    trials = simulate(experiment, 1_000)
    facts = tuning.conclude(experiment, trials, RUN)
    found = found_by(facts)
    assert found.raised == {"innodb_flush_log_at_trx_commit": 1}
    assert found.yours is not None and found.yours.floor == "second"
    assert found.cost is not None and found.cost.high < 1
    assert facts.handed_over is not None
    assert found.changes(facts.handed_over)["innodb_flush_log_at_trx_commit"] == 1
    assert "may be lost" in found.yours.guarantees["os_crash"]
    assert "nothing is lost" in facts.base.guarantees["os_crash"]
    assert found.yours.result is not None and found.yours.name not in [arm.name for arm in facts.arms]


def test_settings_that_do_not_run_are_still_told_to_be_below_the_floor() -> None:
    own: dict[str, Value] = {**BASE, "innodb_flush_log_at_trx_commit": 2}
    request = msgspec.structs.replace(tune_request(), spec=STRICT, original=own)
    tuning = TuneAnalysis(request, MARIADB, STORAGE)
    experiment = tuning.experiment()
    trials = simulate(experiment, 1_000)
    facts = tuning.conclude(experiment, trials, RUN)
    found = found_by(facts)
    assert found.yours is not None
    assert (found.cost, found.yours.floor) == (None, "second")
    assert facts.handed_over is not None


FLUSH = "innodb_flush_log_at_trx_commit"


def questioned(arm: str, setting: str, value: Value, result: int) -> Trial:
    warning = Warning("no-effect", f"{setting}={value} reads back, but {result} syncs were seen", setting)
    settings = {setting: value}
    return trial(settings, arm=Arm(name=arm, settings=settings), warnings=(warning, Warning("errors", "x")))


def test_the_bases_settings_are_told_once_without_a_name() -> None:
    trials = [
        questioned("base", FLUSH, 1, 3),
        questioned("control", FLUSH, 1, 4),
        questioned("screen-2", FLUSH, 1, 5),
    ]
    assert [warning.text for warning in without_effect(trials)] == [
        f"{FLUSH}=1 reads back, but 4 syncs were seen"
    ]


def test_an_arms_setting_is_told_with_the_arm_that_came_last() -> None:
    trials = [
        questioned("base", "innodb_flush_method", "O_DIRECT", 0),
        questioned("screen-2", FLUSH, 2, 700),
        questioned("flush 2", FLUSH, 2, 800),
    ]
    found = without_effect(trials)
    assert [warning.setting for warning in found] == ["innodb_flush_method", FLUSH]
    assert found[1].text == f"arm flush 2: {FLUSH}=2 reads back, but 800 syncs were seen"


def test_a_mixture_that_kept_a_setting_from_working_is_not_told() -> None:
    mixture = msgspec.structs.replace(questioned("screen-2", FLUSH, 2, 700), stage="screen")
    works = trial({FLUSH: 2}, arm=Arm(name="flush 2", settings={FLUSH: 2}))
    assert without_effect([mixture, works]) == []
    assert len(without_effect([mixture])) == 1
    confirmed = msgspec.structs.replace(mixture, stage="confirm")
    assert len(without_effect([confirmed, works])) == 1


def test_two_values_of_one_setting_are_two_warnings() -> None:
    found = without_effect([questioned("a", FLUSH, 0, 1), questioned("b", FLUSH, 2, 1)])
    assert [warning.text.split(":")[0] for warning in found] == ["arm a", "arm b"]


def test_settings_that_work_leave_nothing_to_tell() -> None:
    assert without_effect([trial(), trial(warnings=(Warning("errors", "x"),))]) == []
