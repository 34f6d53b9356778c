"""Facts of a series whose blocks ran on machines of a fleet."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from flushlab.campaign.analysis import of_fleet
from flushlab.campaign.facts import ArmResult, CampaignFacts, CampaignRun
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.experiment.simulated import Noise, SimulatedTrials
from flushlab.record import Launch, Trial
from flushlab.report.results import carry_over
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import TuneSpec
from tests.unit.campaign.test_series_analysis import (
    BASE,
    FLUSH,
    MACHINE,
    MARIADB,
    STORAGE,
    SYNC,
    effect,
    run,
    series,
    slugs,
)
from tests.unit.campaign.test_so_far import tune_request

SPEED = {"db0": 1.0, "db1": 0.4, "db2": 2.5, "db3": 1.1}
SYNC_GAIN = {"db0": 0.8, "db1": -0.3, "db2": 0.5, "db3": 0.1}
"""Of the arm `sync`, besides what it gains everywhere."""


def on(machines: int, tmp_path: Path) -> CampaignFacts:
    def placed(trial: Trial) -> Trial:
        name = f"db{trial.block % machines}"
        gain = SYNC_GAIN[name] if trial.arm.name == "sync" else 0.0
        assert trial.result is not None
        result = trial.result * SPEED[name] * math.exp(gain)
        return msgspec.structs.replace(trial, machine=name, result=result)

    return run(series(tmp_path, FLUSH, SYNC, blocks=12), change=placed)


def test_the_facts_tell_the_machines_and_each_arms_ratio_on_them(tmp_path: Path) -> None:
    facts = on(4, tmp_path)
    assert [(one.name, one.blocks) for one in facts.machines] == [(f"db{n}", 3) for n in range(4)]
    assert facts.machines[1].result == pytest.approx(400, rel=0.05)
    flush, sync = facts.arm("flush"), facts.arm("sync")
    assert flush.comparison is not None
    assert flush.comparison.verdict == "faster"
    assert flush.machines is not None
    assert len(flush.machines.better_on) == 4
    assert sync.comparison is not None
    assert sync.comparison.verdict == "no difference found"
    assert sync.machines is not None
    assert sync.machines.slowest.machine == "db1"
    assert facts.control is not None
    assert facts.control.machines is not None
    assert not facts.control.machines.unstable


def test_an_arm_that_depends_on_the_machine_is_a_warning_and_slow_machines_are_not_noise(
    tmp_path: Path,
) -> None:
    facts = on(4, tmp_path)
    (warning,) = [one for one in facts.warnings if one.slug == "depends-on-machine"]
    assert warning.arms == ("sync",)
    assert "on db1" in warning.text
    assert "on db0" in warning.text
    assert not {"noisy", "two-machines"} & set(slugs(facts))


def test_of_two_machines_the_intervals_are_said_to_be_about_them(tmp_path: Path) -> None:
    assert "two-machines" in slugs(on(2, tmp_path))


def test_arms_that_ran_on_two_machines_each_but_not_the_same_are_not_said_to_share_them(
    tmp_path: Path,
) -> None:
    arms = list[ArmResult]()
    for number, arm in enumerate(on(3, tmp_path).arms[:2]):
        assert arm.machines is not None
        two = arm.machines.ratios[number : number + 2]
        over = msgspec.structs.replace(arm.machines, ratios=two, unstable=False)
        arms.append(msgspec.structs.replace(arm, machines=over))
    (warning,) = of_fleet(arms)
    assert warning.text == (
        "each of the intervals holds for the two machines that its arm ran on, not for others like them,"
        " which takes 3 machines or more"
    )


def test_one_machine_of_a_fleet_is_as_no_fleet(tmp_path: Path) -> None:
    facts = on(1, tmp_path)
    assert [one.name for one in facts.machines] == ["db0"]
    assert all(arm.machines is None for arm in facts.arms)
    assert not {"two-machines", "depends-on-machine"} & set(slugs(facts))


def test_results_of_a_fleet_are_not_said_to_be_of_the_machine_that_asks(tmp_path: Path) -> None:
    of_fleet, alone = (
        {line.what: line.why for line in carry_over(facts)}["results"]
        for facts in (on(3, tmp_path), run(series(tmp_path, FLUSH, SYNC, blocks=12)))
    )
    assert "the fleet's 3 machines" in of_fleet
    assert "this machine's" in alone


def tuned(selecting: int, confirming: int, both: int = 0) -> CampaignFacts:
    """A tuning whose first machines select; the others confirm, and so many of the first ones do both."""
    spec = TuneSpec(threads=(4,), trials=80, floor=Floor.SECOND)
    request = msgspec.structs.replace(tune_request(), fleet="10.0.0.5:9377", spec=spec)
    tuning = TuneAnalysis(request, MARIADB, STORAGE)
    experiment, told = tuning.experiment(), list[Trial]()
    simulated = SimulatedTrials(effect, BASE, noise=Noise(trial=0.01), seed=1)
    while (asked := experiment.ask()) is not None:
        confirms = asked.stage == "confirm"
        number = asked.block % selecting
        if confirms:
            number = selecting - both + asked.block % (confirming + both)
        trial = msgspec.structs.replace(
            simulated.run(asked),
            machine=f"db{number}",
            settings=dict(asked.arm.settings),
            server=MARIADB,
            storage=STORAGE,
            launch=Launch(),
        )
        told.append(trial)
        experiment.tell(trial)
    return tuning.conclude(experiment, told, CampaignRun(campaign_id="x-1", ending="done", machine=MACHINE))


def told(facts: CampaignFacts, slug: str) -> str:
    return next((warning.text for warning in facts.warnings if warning.slug == slug), "")


def test_machines_of_a_tuning_that_only_select_are_not_counted_among_those_that_intervals_are_about() -> None:
    assert [(one.name, one.compared) for one in tuned(2, 3).machines] == [
        ("db0", False),
        ("db1", False),
        ("db2", True),
        ("db3", True),
        ("db4", True),
    ]


def test_of_a_series_all_machines_are_counted(tmp_path: Path) -> None:
    assert all(one.compared for one in on(4, tmp_path).machines)


def test_a_tuning_that_one_machine_confirms_says_that_its_intervals_are_about_that_machine() -> None:
    facts = tuned(1, 1)
    text = told(facts, "confirmed-elsewhere")
    assert text == (
        "selected on db0; confirmed on db1, which did not select: the intervals hold for db1, not for others"
        " like it, which takes a fleet of 5 machines or more"
    )
    assert "two-machines" not in slugs(facts)


def test_a_tuning_that_two_machines_confirm_says_how_large_a_fleet_it_takes() -> None:
    facts = tuned(2, 2)
    assert told(facts, "two-machines").endswith("takes a fleet of 5 machines or more")
    assert told(facts, "confirmed-elsewhere").endswith("confirmed on db2, db3, which did not select")


def test_a_tuning_that_three_machines_confirm_is_about_all_like_them() -> None:
    facts = tuned(2, 3)
    assert "two-machines" not in slugs(facts)
    assert told(facts, "confirmed-elsewhere").endswith("confirmed on db2, db3, db4, which did not select")


def test_a_machine_that_confirmed_what_it_had_selected_is_told_from_those_that_had_not() -> None:
    text = told(tuned(2, 1, both=1), "confirmed-where-selected")
    assert text == (
        "db1 both selected and confirmed, so the selection may flatter the ratios; only the blocks on db2 are"
        " independent of it"
    )
    assert "nothing shows" in told(tuned(1, 0, both=1), "confirmed-where-selected")
