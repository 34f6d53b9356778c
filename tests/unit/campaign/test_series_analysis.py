from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from flushlab.campaign.binding import ServerHere, bind
from flushlab.campaign.facts import CampaignFacts, CampaignRun, PlanFacts
from flushlab.campaign.loop import Ending
from flushlab.campaign.pool.room import Volumes
from flushlab.campaign.recommended import recommended
from flushlab.campaign.request import ArmGroup, SeriesRequest
from flushlab.campaign.series_analysis import SeriesAnalysis
from flushlab.datadir import DataRoot, Volume
from flushlab.experiment.simulated import Noise, SimulatedTrials
from flushlab.plan.plan import ArmPlan, Claim, Plan
from flushlab.record import Launch, LoadResult, Machine, ServerIdentity, Slice, Storage, Trial, Value, Warning
from flushlab.report import campaign
from flushlab.report.answer import answer
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import CompareSpec, SeriesSpec
from flushlab.spec.parts import ServersSpec, WorkloadSpec
from flushlab.workload.protocol import Timing
from tests.golden.test_reports import text_of

MARIADB = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB")
STORAGE = Storage(filesystem="ext4", volatile_cache=False)
MACHINE = Machine(cpu_model="a cpu", cpu_count=2, memory_bytes=1 << 34, kernel="6", filesystem="ext4")
NO_BINLOG: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1}
BASE: dict[str, Value] = {**NO_BINLOG, "log_bin": "ON"}
FLUSH = ArmPlan(name="flush", settings={"innodb_flush_log_at_trx_commit": 2})
SYNC = ArmPlan(name="sync", settings={"sync_binlog": 0})
BOTH = ArmPlan(name="both", settings={"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 0})
GONE = ArmPlan(name="gone", settings={"innodb_redo_log_capacity": "1G"})
IDLE = ArmPlan(name="idle", settings={"innodb_io_capacity": 400})

Change = Callable[[Trial], Trial]


def effect(settings: Mapping[str, Value]) -> float:
    flush = {1: 0.0, 2: math.log(1.5), 0: math.log(1.7)}[int(settings["innodb_flush_log_at_trx_commit"])]
    return flush + (math.log(1.2) if settings.get("sync_binlog") == 0 else 0.0)


def series(tmp_path: Path, *arms: ArmPlan, claims: tuple[Claim, ...] = (), **changes: Any) -> SeriesAnalysis:
    plan = Plan(
        name="test",
        title="a test",
        workload=WorkloadSpec(name="oltp_update_non_index", options={"threads": 4}),
        base=changes.pop("settings", BASE),
        base_text="the defaults",
        arms=arms,
        claims=claims,
    )
    here = ServerHere(
        identity=MARIADB,
        values=BASE,
        launch=Launch(),
        storage=STORAGE,
        folder=tmp_path,
    )
    bound = bind(plan, here, Volumes(Volume(DataRoot(path=tmp_path, storage=STORAGE), None)))
    facts: dict[str, Any] = {
        "spec": CompareSpec(server=ServersSpec(servers=changes.pop("servers", ())))
        if changes.pop("kind", "") == "compare"
        else SeriesSpec(precision=changes.pop("precision", None)),
        "build": "mariadb@10.11.19",
        "floor": Floor.THROWAWAY,
        "build_id": "x",
        "machine": MACHINE,
        "plan": plan.name,
        "title": plan.title,
        "folder": "",
        "base": bound.base,
        "arms": bound.arms,
        "claims": claims,
        "blocks": 5,
        "timing": Timing(seconds=2.0),
        "notes": bound.notes,
        **changes,
    }
    request = SeriesRequest(**facts)
    request = msgspec.json.decode(msgspec.json.encode(request), type=SeriesRequest)  # as a resumed one is
    return SeriesAnalysis(request=request, identity=MARIADB, storage=STORAGE)


def run(
    bound: SeriesAnalysis,
    *,
    stop: int = 10_000,
    change: Change = lambda trial: trial,
    refuses: Callable[[Mapping[str, Value]], str | None] = lambda _: None,
) -> CampaignFacts:
    """A whole series of simulated trials, or its first `stop` ones."""
    experiment, trials = bound.experiment(), list[Trial]()
    simulated = SimulatedTrials(effect, BASE, noise=Noise(trial=0.01), seed=1, refuses=refuses)
    while len(trials) < stop and (request := experiment.ask()) is not None:
        trial = simulated.run(request)
        if trial.outcome == "measured":
            read_back = {"innodb_io_capacity": 200, **request.arm.settings}
            trial = msgspec.structs.replace(trial, settings=read_back, server=MARIADB, data_bytes=1 << 20)
        trials.append(change(trial))
        experiment.tell(trials[-1])
    ending: Ending = "done" if experiment.ask() is None else "interrupted"
    facts = bound.conclude(
        experiment, trials, CampaignRun(campaign_id="series-1", ending=ending, machine=MACHINE)
    )
    return msgspec.json.decode(msgspec.json.encode(facts), type=CampaignFacts)


def plan_of(facts: CampaignFacts) -> PlanFacts:
    assert facts.plan is not None
    return facts.plan


def outcomes(facts: CampaignFacts) -> dict[str, str]:
    return {arm.name: arm.outcome for arm in facts.arms}


def slugs(facts: CampaignFacts) -> list[str]:
    return [warning.slug for warning in facts.warnings]


def test_every_arm_is_told_and_best_is_composed_of_what_proved_faster(tmp_path: Path) -> None:
    facts = run(series(tmp_path, FLUSH, SYNC, GONE, IDLE))
    assert outcomes(facts) == {
        "flush": "measured",
        "sync": "measured",
        "gone": "not_in_version",
        "idle": "measured",
        "best": "measured",
    }
    best = facts.arms[-1]
    assert best.composed_of == ("sync", "flush")
    assert best.changes == {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 2}
    assert best.comparison is not None
    assert best.comparison.ratio.low < 1.8 < best.comparison.ratio.high
    assert (best.floor, facts.base.floor) == ("throwaway", "strict")
    assert (facts.blocks, plan_of(facts).blocks, facts.ending) == (5, 5, "done")
    assert facts.base.result is not None
    assert facts.arms[0].result is not None
    assert facts.arms[0].result > 1.4 * facts.base.result
    assert facts.arms[2].comparison is None


def test_the_larger_ratio_has_the_last_word_on_a_setting(tmp_path: Path) -> None:
    facts = run(series(tmp_path, BOTH, FLUSH))
    best = facts.arms[-1]
    assert best.composed_of == ("flush", "both")
    assert best.changes == {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}
    assert [w.text for w in facts.warnings if w.slug == "best-conflict"] == [
        "flush, both change innodb_flush_log_at_trx_commit differently; best takes it from the fastest, both"
    ]


def test_a_place_is_no_part_of_best(tmp_path: Path) -> None:
    there = ArmPlan(name="there", settings={"sync_binlog": 0}, data_root="/dev/shm")
    facts = run(series(tmp_path, there))
    assert facts.arms[0].comparison is not None
    assert facts.arms[0].comparison.verdict == "faster"
    assert (facts.arms[-1].outcome, facts.arms[-1].reason) == (
        "skipped",
        "what proved faster is a place, not a setting: there",
    )
    facts = run(series(tmp_path, there, FLUSH))
    assert facts.arms[-1].composed_of == ("flush",)


def test_what_is_below_the_floor_is_no_part_of_best(tmp_path: Path) -> None:
    larger = ArmPlan(name="larger", settings={"innodb_log_buffer_size": 64 << 20})
    bound = series(tmp_path, FLUSH, larger, floor=None)  # that of the base, strict
    assert [arm.floor for arm in bound.request.arms] == ["second", "strict"]
    assert [arm.name for arm in bound._composable(["flush", "larger"])] == ["larger"]
    facts = run(series(tmp_path, FLUSH, floor=None))
    assert facts.arms[-1].reason == "only arms below the floor strict proved faster: flush"


def test_a_value_that_the_base_has_already_is_no_change(tmp_path: Path) -> None:
    both = ArmPlan(name="both", settings={"innodb_flush_log_at_trx_commit": 2, "innodb_io_capacity": 200})
    (arm, _) = run(series(tmp_path, both)).arms  # the simulated base reports 200
    assert arm.changes == {"innodb_flush_log_at_trx_commit": 2}


def test_a_workload_variant_is_a_part_of_best(tmp_path: Path) -> None:
    bound = series(
        tmp_path, ArmPlan(name="threads", workload=WorkloadSpec(name="", options={"threads": 8})), FLUSH
    )
    best = bound.best(("threads", "flush"))
    assert best.workload.options["threads"] == 8
    assert best.workload_changes == {"threads": 8}
    assert best.changes == {"innodb_flush_log_at_trx_commit": 2}


def test_a_setting_that_goes_back_to_its_default_stays_so_in_best(tmp_path: Path) -> None:
    bound = series(tmp_path, ArmPlan(name="default", defaults=("sync_binlog",)), FLUSH)
    best = bound.best(("default", "flush"))
    assert "sync_binlog" not in best.settings
    facts = run(bound)
    assert facts.arms[0].changes == {"sync_binlog": 0}, "MariaDB's default, as nothing was read back"


def test_without_a_faster_arm_best_is_skipped_with_that_reason(tmp_path: Path) -> None:
    facts = run(series(tmp_path, IDLE))
    assert (facts.arms[-1].outcome, facts.arms[-1].reason) == ("skipped", "no arm proved faster")
    assert "best" not in outcomes(run(series(tmp_path, IDLE, best=False)))


def test_a_refused_arm_carries_the_servers_reason(tmp_path: Path) -> None:
    def refuses(settings: Mapping[str, Value]) -> str | None:
        return "unknown variable 'x'" if settings.get("sync_binlog") == 0 else None

    facts = run(series(tmp_path, SYNC, FLUSH), refuses=refuses)
    assert (facts.arms[0].outcome, facts.arms[0].reason) == ("refused", "unknown variable 'x'")
    assert facts.arms[0].result is None
    assert facts.arms[-1].composed_of == ("flush",)


def test_an_arm_that_dies_or_reads_back_differently_says_so(tmp_path: Path) -> None:
    def invalid(trial: Trial) -> Trial:
        if trial.arm.name != "sync":
            return trial
        return msgspec.structs.replace(trial, outcome="invalid", reason="it reads 1", result=None)

    facts = run(series(tmp_path, SYNC, FLUSH), change=invalid)
    assert (facts.arms[0].outcome, facts.arms[0].reason) == ("refused", "invalid: it reads 1")


def test_an_arm_that_failed_in_a_window_is_not_called_refused(tmp_path: Path) -> None:
    def failed(trial: Trial) -> Trial:
        if trial.arm.name != "sync" or trial.block != 2:
            return trial
        return msgspec.structs.replace(trial, outcome="failed", reason="the load stopped", result=None)

    arm, *_ = run(series(tmp_path, SYNC, FLUSH), change=failed).arms
    assert (arm.outcome, arm.reason, arm.comparison) == ("failed", "the load stopped", None)


def test_an_arm_with_a_stalled_window_is_in_the_table_with_that_fact(tmp_path: Path) -> None:
    nothing = LoadResult(seconds=8.0, events=0, throughput=0.0, per_second=(), latency_us=None).stalled()

    def stalls(trial: Trial) -> Trial:
        if trial.arm.name != "sync" or trial.block != 2:
            return trial
        caveat = Warning("nothing-committed", "nothing was committed in a window of 8.0 s")
        return msgspec.structs.replace(trial, result=nothing.throughput, load=nothing, warnings=(caveat,))

    facts, calm = (
        run(series(tmp_path, SYNC, FLUSH, best=False), change=one) for one in (stalls, lambda t: t)
    )
    sync, flush = facts.arms
    assert sync.outcome == "measured"
    assert sync.comparison is not None and flush.comparison is not None
    assert sync.comparison.ratio.estimate == pytest.approx(1.2 * 4 / 5, rel=0.05)
    assert sync.comparison.ratio.half_width > 0.5
    assert calm.arms[1].comparison is not None
    assert flush.comparison.ratio.half_width == pytest.approx(
        calm.arms[1].comparison.ratio.half_width, rel=0.5
    )
    assert sync.result == pytest.approx(1200 * 4 / 5, rel=0.05)
    said = [warning.text for warning in facts.warnings if warning.slug == "nothing-committed"]
    assert said == ["sync: nothing was committed in a window of 8.0 s"]


def test_claims_are_answered_by_the_intervals(tmp_path: Path) -> None:
    claims = (
        Claim(text="flush helps", arm="flush", expected=1.5),
        Claim(text="flush helps a lot", arm="flush", at_least=3.0),
        Claim(text="idle does nothing", arm="idle", expected=1.0),
        Claim(text="flush beats sync", arm="flush", against="sync", at_least=1.1),
        Claim(text="all together", arm="best", at_least=1.6),
        Claim(text="all against one", arm="best", against="sync", at_least=1.2),
        Claim(text="it is not here", arm="gone", expected=2.0),
    )
    facts = run(series(tmp_path, FLUSH, SYNC, IDLE, GONE, claims=claims))
    assert [claim.answer for claim in plan_of(facts).claims] == [
        "confirmed",
        "refuted",
        "confirmed",
        "confirmed",
        "confirmed",
        "confirmed",
        "not measured",
    ]
    ratio = plan_of(facts).claims[3].ratio
    assert ratio is not None
    assert ratio.low < 1.25 < ratio.high


def test_what_is_proven_so_far_can_be_told_at_any_moment(tmp_path: Path) -> None:
    bound = series(tmp_path, FLUSH, SYNC)
    for stop in range(36):
        facts = run(bound, stop=stop)
        assert facts.ending == ("interrupted" if stop < 35 else "done")
        compared = [arm for arm in facts.arms if arm.comparison is not None]
        assert (len(compared) > 0) == (stop >= 8)
        assert ("interrupted" in slugs(facts)) == (8 <= stop < 35)
    assert outcomes(run(bound, stop=0)) == {"flush": "skipped", "sync": "skipped", "best": "skipped"}
    assert run(bound, stop=20).arms[-1].reason == "stopped before its turn"


def test_nothing_that_can_run_is_no_error(tmp_path: Path) -> None:
    facts = run(series(tmp_path, GONE))
    assert outcomes(facts) == {"gone": "not_in_version", "best": "skipped"}
    assert (facts.base.result, facts.control, facts.blocks) == (None, None, 0)


def test_an_arm_that_reads_back_as_the_base_is_named(tmp_path: Path) -> None:
    def ignored(trial: Trial) -> Trial:
        return msgspec.structs.replace(trial, settings={**trial.settings, "innodb_io_capacity": 200})

    assert "same-as-base" not in slugs(run(series(tmp_path, IDLE)))
    facts = run(series(tmp_path, IDLE), change=ignored)
    assert [w.text for w in facts.warnings if w.slug == "same-as-base"] == [
        "idle reads back the same as the base: its ratio is only noise"
    ]


def test_arms_that_read_back_alike_are_named(tmp_path: Path) -> None:
    same = ArmPlan(name="same", settings={"innodb_flush_log_at_trx_commit": 2, "innodb_io_capacity": 200})
    facts = run(series(tmp_path, FLUSH, same))
    (found,) = [one.text for one in facts.warnings if one.slug == "same-as-another"]
    assert found == "same reads back the same as flush: their difference is only noise"


def test_what_acts_on_a_binary_log_alone_is_not_recommended_without_one(tmp_path: Path) -> None:
    both = ArmPlan(name="both", settings={"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 1000})
    with_log = run(series(tmp_path, both, kind="compare", best=False))
    assert [dict(one.settings) for one in recommended(with_log)] == [both.settings]
    facts = run(series(tmp_path, both, kind="compare", best=False, settings=NO_BINLOG))
    assert facts.arms[0].no_effect == ("sync_binlog",)
    (advised,) = recommended(facts)
    assert advised.settings == {"innodb_flush_log_at_trx_commit": 2}
    assert "Left out, as it has no effect without a binary log: sync_binlog." in advised.not_shown
    lines = Console(record=True, width=80, file=StringIO())
    lines.print(campaign.document(facts))
    assert "no effect without a binary log: sync_binlog" in lines.export_text()


def test_an_arm_is_the_same_as_one_that_lacks_only_what_has_no_effect(tmp_path: Path) -> None:
    longer = ArmPlan(name="longer", settings={"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 1000})
    facts = run(series(tmp_path, longer, FLUSH, SYNC, kind="compare", best=False, settings=NO_BINLOG))
    assert {arm.name: arm.same_as for arm in facts.arms} == {"longer": "flush", "flush": "", "sync": ""}
    assert [one.text for one in facts.warnings if one.slug.startswith("same-as")] == [
        "longer reads back the same as flush, but for what has no effect without a binary log (sync_binlog):"
        " their difference is only noise",
        "sync reads back the same as the base, but for what has no effect without a binary log (sync_binlog):"
        " its ratio is only noise",
    ]
    assert [one.arm for one in recommended(facts)] == ["flush"]


def test_a_lucky_arm_that_changes_nothing_is_neither_an_answer_nor_a_part_of_best(tmp_path: Path) -> None:
    def lucky(trial: Trial) -> Trial:
        gain = 3.0 if trial.settings.get("sync_binlog") == 0 else 1.0
        return msgspec.structs.replace(trial, result=(trial.result or 0.0) * gain)

    alone = run(series(tmp_path, SYNC, kind="compare", best=False, settings=NO_BINLOG), change=lucky)
    assert alone.arms[0].comparison is not None
    assert alone.arms[0].comparison.verdict == "faster"
    assert recommended(alone) == ()
    assert "\n".join(answer(alone)).startswith("Nothing proved faster than")
    facts = run(series(tmp_path, BOTH, SYNC, settings=NO_BINLOG, floor=Floor.THROWAWAY), change=lucky)
    assert facts.arms[-1].composed_of == ("both",)
    assert facts.arms[-1].changes == {"innodb_flush_log_at_trx_commit": 0}


@pytest.mark.parametrize("longer_first", [False, True])
def test_of_arms_that_read_back_alike_the_one_with_fewer_changes_is_recommended(
    longer_first: bool, tmp_path: Path
) -> None:
    def favoured(trial: Trial) -> Trial:
        gain = 1.1 if trial.arm.name == "same" else 1.0
        return msgspec.structs.replace(trial, result=(trial.result or 0.0) * gain)

    same = ArmPlan(name="same", settings={"innodb_flush_log_at_trx_commit": 2, "innodb_io_capacity": 200})
    arms = (same, FLUSH) if longer_first else (FLUSH, same)
    facts = run(series(tmp_path, *arms, kind="compare", best=False), change=favoured)
    assert {arm.name: arm.same_as for arm in facts.arms} == {"flush": "", "same": "flush"}
    assert [one.text for one in facts.warnings if one.slug == "same-as-another"] == [
        "same reads back the same as flush: their difference is only noise"
    ]
    assert [one.arm for one in recommended(facts)] == ["flush"]
    assert "\n".join(answer(facts)).startswith("flush is 1.5")


def test_caveats_of_trials_are_told_once_with_the_arm_they_are_about(tmp_path: Path) -> None:
    def questioned(trial: Trial) -> Trial:
        found = [
            Warning("disturbed", f"{trial.block} % was used by others"),
            Warning("shared", "it was like this"),
        ]
        if trial.arm.name == "flush":
            found.append(Warning("rounded", f"a was set to 5; the server changed it to {trial.block}"))
        return msgspec.structs.replace(trial, warnings=tuple(found))

    facts = run(series(tmp_path, FLUSH, IDLE), change=questioned)
    assert [w for w in slugs(facts) if w in ("disturbed", "shared", "rounded")] == [
        "disturbed",
        "shared",
        "rounded",
    ]
    assert any(warning.text.startswith("flush: a was set to 5") for warning in facts.warnings)


def test_short_windows_are_held_against_those_that_need_long_ones(tmp_path: Path) -> None:
    def short(trial: Trial) -> Trial:
        return msgspec.structs.replace(trial, warnings=(Warning("window-too-short", "0.1 of the redo"),))

    facts = run(series(tmp_path, FLUSH, IDLE), change=short)
    (warning,) = [w for w in facts.warnings if w.slug == "window-too-short"]
    assert "idle (innodb_io_capacity)" in warning.text
    assert "flush" not in warning.text.split(":")[1]


def test_a_composition_of_what_needs_long_windows_needs_them_too(tmp_path: Path) -> None:
    def short_and_fast(trial: Trial) -> Trial:
        gain = 2.0 if trial.settings.get("innodb_io_capacity") == 400 else 1.0
        caveat = (Warning("window-too-short", "0.1 of the redo"),)
        return msgspec.structs.replace(trial, warnings=caveat, result=(trial.result or 0.0) * gain)

    facts = run(series(tmp_path, FLUSH, IDLE), change=short_and_fast)
    (warning,) = [w for w in facts.warnings if w.slug == "window-too-short"]
    assert "best (" in warning.text


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (20_000_000, "flush still wrote 19.5 KiB per transaction, the base 7.8 KiB. … favours flush;"),
        (2_048_000, "flush still wrote 2 KiB per transaction, the base 7.8 KiB. … favours the base;"),
        (9_000_000, None),
    ],
)
def test_writes_after_an_arms_slices_are_told_with_whom_they_favour(
    left: int, told: str | None, tmp_path: Path
) -> None:
    def kept_running(trial: Trial) -> Trial:
        debts = left if trial.arm.name == "flush" else 8_000_000
        slices = (Slice(round=0, start_s=0, seconds=0.5 if trial.block else 0.8, events=1000),)
        return msgspec.structs.replace(trial, slices=slices, later_bytes=debts)

    group = ArmGroup(arms=("flush",), kept_running=True, blocks=5, seconds=2.0)
    facts = run(series(tmp_path, FLUSH, asked_groups=(group,)), change=kept_running)
    debts = [warning.text for warning in facts.warnings if warning.slug == "debts"]
    assert len(debts) == (told is not None)
    assert all(part in text for text in debts for part in (told or "").split("…"))
    assert (facts.interleaved, plan_of(facts).rounds, plan_of(facts).slice_s) == (True, 5, (0.5, 0.8))
    assert "5 rounds of 0.5 s to 0.8 s each" in " ".join(text_of(campaign.document(facts)).split())


def test_a_control_that_fails_is_a_warning(tmp_path: Path) -> None:
    def failing(trial: Trial) -> Trial:
        if trial.arm.name != "control":
            return trial
        return msgspec.structs.replace(trial, outcome="failed", reason="died", result=None)

    facts = run(series(tmp_path, FLUSH), change=failing)
    assert facts.control is None
    assert "control-failed" in slugs(facts)
    assert facts.arms[0].comparison is not None


def test_a_control_that_differs_is_a_warning(tmp_path: Path) -> None:
    def lifted(trial: Trial) -> Trial:
        if trial.arm.name != "control" or trial.result is None:
            return trial
        return msgspec.structs.replace(trial, result=trial.result * 1.5)

    assert "control-differs" not in slugs(run(series(tmp_path, FLUSH)))
    facts = run(series(tmp_path, FLUSH), change=lifted)
    (caveat,) = [one for one in facts.warnings if "control" in one.slug + one.text]
    assert caveat.slug == "control-differs"
    assert "came out at 1.50" in caveat.text
    assert "beside best at 1.50" in caveat.text


def test_factors_have_effects_and_without_one_of_them_none(tmp_path: Path) -> None:
    factors = ("flush", "sync")
    both = ArmPlan(name="flush + sync", on="flush", settings=SYNC.settings)
    facts = run(series(tmp_path, FLUSH, SYNC, both, factors=factors))
    effects = {one.name: one.ratio for one in plan_of(facts).effects}
    assert effects["flush"].low <= 1.5 <= effects["flush"].high
    assert effects["flush × sync"].verdict == "no difference found"
    lacking = run(
        series(
            tmp_path,
            FLUSH,
            GONE,
            ArmPlan(name="flush + gone", on="flush", settings=GONE.settings),
            factors=("flush", "gone"),
        )
    )
    assert (plan_of(lacking).factors, plan_of(lacking).effects) == (("flush", "gone"), ())


def two_servers(tmp_path: Path) -> SeriesAnalysis:
    bound = series(tmp_path, FLUSH, kind="compare", best=False, base_name="one base", servers=("one", "two"))
    request, flush = bound.request, bound.request.arms[0]
    own = {"build": "two", "server": MARIADB}
    arms = (
        msgspec.structs.replace(flush, name="one flush"),
        msgspec.structs.replace(request.base, name="two base", **own),
        msgspec.structs.replace(flush, name="two flush", against="two base", **own),
    )
    return SeriesAnalysis(msgspec.structs.replace(request, arms=arms), MARIADB, STORAGE)


def test_a_caveat_that_arms_of_two_servers_share_is_told_of_each_server(tmp_path: Path) -> None:
    def questioned(trial: Trial) -> Trial:
        if trial.arm.name in ("base", "control"):
            return trial
        return msgspec.structs.replace(trial, warnings=(Warning("x", f"{trial.block} connections"),))

    facts = run(two_servers(tmp_path), change=questioned)
    told = {one.arms: one.text for one in facts.warnings if one.slug == "x"}
    assert {tuple(sorted(arms)) for arms in told} == {("one flush",), ("two base", "two flush")}
    for arms, text in told.items():
        assert text == f"{arms[0]}: 0 connections" + "".join(f"; likewise {name}" for name in arms[1:])


def test_with_several_servers_a_caveat_on_a_base_names_its_server(tmp_path: Path) -> None:
    """Both bases scatter; only the second server's has a caveat in its trials."""

    def noisy(trial: Trial) -> Trial:
        lifted = {"base": 1.5, "two base": 2.0}.get(trial.arm.name, 1.0) if trial.block % 2 else 1.0
        found = (Warning("rounded", "a was changed"),) if trial.arm.name == "two base" else ()
        return msgspec.structs.replace(trial, result=(trial.result or 0.0) * lifted, warnings=found)

    facts = run(two_servers(tmp_path), change=noisy)
    told = [(one.arms, one.text) for one in facts.warnings if one.slug in ("noisy", "rounded")]
    assert [(arms, text.partition(" vary")[0]) for arms, text in told] == [
        (("two base",), "two base: a was changed"),
        (("one base",), "one: the base's results"),
        (("two base",), "two: the base's results"),
    ]


@pytest.mark.parametrize(
    ("figures", "told", "arms"),
    [
        ({"base": 7}, "base: 7 transactions in the last seconds", ("base",)),
        (
            {"base": 7, "control": 8, "flush": 9},
            "*: * transactions in the last seconds; likewise *, *",
            ("base", "control", "flush"),
        ),
        ({"base": 7, "control": 7, "flush": 7}, "7 transactions in the last seconds", ()),
    ],
)
def test_a_caveat_that_quotes_a_figure_names_the_arm_that_has_it(
    figures: Mapping[str, int], told: str, arms: tuple[str, ...], tmp_path: Path
) -> None:
    def questioned(trial: Trial) -> Trial:
        if trial.arm.name not in figures:
            return trial
        text = f"{figures[trial.arm.name]} transactions in the last seconds"
        return msgspec.structs.replace(trial, warnings=(Warning("not-level", text),))

    facts = run(series(tmp_path, FLUSH, best=False), change=questioned)
    (caveat,) = [one for one in facts.warnings if one.slug == "not-level"]
    assert fnmatch(caveat.text, told)
    assert tuple(sorted(caveat.arms)) == arms
    first, colon, rest = caveat.text.partition(": ")
    assert not colon or rest.startswith(f"{figures[first]} transactions")


def test_defaults_that_differ_between_servers_stand_below_a_base_that_is_an_option_file(
    tmp_path: Path,
) -> None:
    def other(trial: Trial) -> Trial:
        own = "ON" if trial.arm.name == "two my.cnf" else "OFF"
        return msgspec.structs.replace(trial, settings={**trial.settings, "log_bin": own})

    bound = series(
        tmp_path,
        FLUSH,
        kind="compare",
        best=False,
        base_name="one my.cnf",
        servers=("one", "two"),
        settings=NO_BINLOG,
    )
    base = msgspec.structs.replace(bound.request.base, name="two my.cnf", text="my.cnf", build="two")
    arms = (*bound.request.arms, base)
    request = msgspec.structs.replace(bound.request, arms=arms)
    facts = run(SeriesAnalysis(request, MARIADB, STORAGE), change=other)
    assert facts.arms[-1].text == "by default log_bin=ON (OFF)"
