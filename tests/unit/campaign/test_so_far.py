from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from flushlab.campaign.facts import CampaignRun
from flushlab.campaign.recommended import recommended
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.series_analysis import SeriesAnalysis
from flushlab.campaign.so_far import facts_so_far
from flushlab.campaign.tune_analysis import TuneAnalysis
from flushlab.experiment.protocol import Experiment
from flushlab.experiment.simulated import Noise, SimulatedTrials
from flushlab.machine import describe_client
from flushlab.record import Launch, Storage, Trial, Value
from flushlab.settings.candidates import Candidate
from flushlab.settings.durability import FLOOR
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import TuneSpec
from flushlab.spec.parts import RemoteAccess, WorkloadSpec
from flushlab.store import CampaignRow
from flushlab.workload.protocol import Timing
from tests.unit.campaign.test_series_analysis import BASE, FLUSH, MACHINE, MARIADB, STORAGE, effect, series

UNSEEN = Storage(visible=False)


def row(request: msgspec.Struct, kind: str) -> CampaignRow:
    return CampaignRow(
        id="x-1",
        kind=kind,
        created_at="2026-11-21T10:42:06.705+00:00",
        plan=msgspec.json.encode(request),
        state="running",
        result=None,
        trials=0,
    )


def simulate(
    experiment: Experiment[Trial],
    stop: int,
    storage: Storage = STORAGE,
    has: Mapping[str, Value] | None = None,
) -> list[Trial]:
    trials: list[Trial] = []
    simulated = SimulatedTrials(effect, BASE, noise=Noise(trial=0.01), seed=1)
    while len(trials) < stop and (request := experiment.ask()) is not None:
        trial = msgspec.structs.replace(
            simulated.run(request),
            settings={**(has or {}), **request.arm.settings},
            server=MARIADB,
            storage=storage,
            launch=Launch(),
        )
        trials.append(trial)
        experiment.tell(trial)
    return trials


def tune_request() -> TuneRequest:
    return TuneRequest(
        build="mariadb@10.11.19",
        build_id="x",
        machine=MACHINE,
        spec=TuneSpec(threads=(4,), trials=40, floor=Floor.SECOND),
        lowest=Floor.SECOND,
        base=BASE,
        original=BASE,
        candidates=(
            Candidate(settings={"innodb_flush_log_at_trx_commit": 2}, group="commit", why="a test"),
            Candidate(settings={"innodb_log_buffer_size": 1 << 26}, group="commit", why="a test"),
        ),
        timing=Timing(seconds=2.0),
    )


def test_a_killed_series_shows_the_arms_of_its_finished_blocks(tmp_path: Path) -> None:
    bound = series(tmp_path, FLUSH)
    trials = simulate(bound.experiment(), 10)
    facts = facts_so_far(row(bound.request, "series"), trials)
    assert facts is not None and facts.plan is not None
    assert (facts.blocks, facts.plan.blocks) == (3, 5)
    flush = facts.arms[0].comparison
    assert flush is not None and flush.ratio.low < 1.5 < flush.ratio.high


def test_a_command_with_options_can_be_timed_as_the_next_step_says(tmp_path: Path) -> None:
    command = WorkloadSpec(name="command: ./load.sh -n 5", options={"reset": "none"})
    bound = series(tmp_path, FLUSH)
    base = msgspec.structs.replace(bound.request.base, workload=command)
    compared = msgspec.structs.replace(bound.request, base=base)
    tuned = tune_request()
    tuned = msgspec.structs.replace(tuned, spec=msgspec.structs.replace(tuned.spec, workload=command))
    for kind, request, experiment in (
        ("series", compared, bound.experiment()),
        ("tune", tuned, TuneAnalysis(tuned, MARIADB, STORAGE).experiment()),
    ):
        facts = facts_so_far(row(request, kind), simulate(experiment, 1_000))
        assert facts is not None
        (one,) = recommended(facts)
        assert [line for step in one.next_steps for line in step.commands if line.startswith("time ")] == [
            "time ./load.sh -n 5"
        ]


OWN = RemoteAccess(dsn="mysql://USER:PASSWORD@db.example:3306", allow_writes=True, allow_set_global=True)


def test_a_killed_tuning_shows_its_last_analysis() -> None:
    request = tune_request()
    experiment = TuneAnalysis(request, MARIADB, STORAGE).experiment()
    trials = simulate(experiment, 1_000)
    facts = facts_so_far(row(request, "tune"), trials)
    assert facts is not None and facts.tuning is not None
    assert facts.tuning.frontier == experiment.result().frontier
    assert facts.tuning.winner is not None
    assert facts.tuning.winner.settings["innodb_flush_log_at_trx_commit"] == 2


def test_a_killed_tuning_of_somebodys_own_server_is_judged_as_it_ran() -> None:
    request = tune_request()
    spec = msgspec.structs.replace(request.spec, remote=OWN)
    request = msgspec.structs.replace(request, spec=spec, machine=describe_client())
    experiment = TuneAnalysis(request, MARIADB, UNSEEN).experiment()
    facts = facts_so_far(row(request, "tune"), simulate(experiment, 1_000, UNSEEN))
    assert facts is not None and facts.tuning is not None
    assert facts.tuning.frontier == experiment.result().frontier
    assert facts.base.guarantees[FLOOR] == "strict, if the disk honors flushes"
    assert (
        facts.resume
        == f"flushlab tune --resume {facts.campaign_id} --dsn … --allow-writes --allow-set-global"
    )
    assert facts.machine.is_client, "flushlab ran there; the server's host is not known"


def test_a_killed_series_judges_best_with_the_settings_that_somebodys_own_server_has(tmp_path: Path) -> None:
    has: dict[str, Value] = {"innodb_doublewrite": "OFF"}
    bound = series(tmp_path, FLUSH)
    own = msgspec.structs.replace(bound.request.spec, remote=OWN)
    request = msgspec.structs.replace(bound.request, spec=own, has=has)
    bound = SeriesAnalysis(request, MARIADB, UNSEEN)
    experiment = bound.experiment()
    trials = simulate(experiment, 1_000, UNSEEN, has)
    facts = facts_so_far(row(bound.request, "series"), trials)
    assert facts is not None
    best = facts.arms[-1]
    run = CampaignRun(campaign_id="x-1", ending="interrupted", machine=MACHINE)
    assert (best.name, best.floor) == ("best", "throwaway"), "without the doublewrite buffer pages are torn"
    assert facts.arms == bound.conclude(experiment, trials, run).arms


@pytest.mark.parametrize("stop", [0, 1, 4])
def test_trials_that_prove_nothing_are_no_facts(tmp_path: Path, stop: int) -> None:
    bound, request = series(tmp_path, FLUSH), tune_request()
    assert facts_so_far(row(bound.request, "series"), simulate(bound.experiment(), stop)) is None
    tune = TuneAnalysis(request, MARIADB, STORAGE).experiment()
    assert facts_so_far(row(request, "tune"), simulate(tune, stop)) is None


def test_trials_or_plans_of_another_flushlab_are_no_facts(tmp_path: Path) -> None:
    bound = series(tmp_path, FLUSH)
    trials = simulate(bound.experiment(), 10)
    assert facts_so_far(row(bound.request, "series"), trials[1:]) is None
    assert facts_so_far(msgspec.structs.replace(row(bound.request, "series"), plan=b"{}"), trials) is None
    assert facts_so_far(row(bound.request, "crash"), trials) is None
