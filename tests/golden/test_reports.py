"""Terminal reports of fixed records, compared with files; `FLUSHLAB_UPDATE_GOLDEN=1` writes them anew."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import RenderableType

from flushlab.campaign.facts import BASE_BROKE, ArmResult, CampaignFacts, TuningFacts
from flushlab.campaign.recommended import recommended
from flushlab.cli.consoles import PlainConsole
from flushlab.experiment.protocol import Objective
from flushlab.experiment.tune_plan import Excluded, FrontierPoint, Rejected
from flushlab.record import (
    Comparison,
    FailedAttempts,
    KindTime,
    Latency,
    Launch,
    Machine,
    RowCounts,
    ServerIdentity,
    Storage,
    TransactionLatency,
    Warning,
)
from flushlab.report import bench, campaign, terminal
from flushlab.report.answer import answer
from flushlab.report.document import Document
from flushlab.settings.floor import Floor
from tests.unit.changed import changed
from tests.unit.crashes import LOSING as CRASHED
from tests.unit.crashes import facts
from tests.unit.records import MARIADB, load_result, trial
from tests.unit.report.campaigns import LOSSY, SAFE, comparison, ratio

HERE = Path(__file__).parent
WIDTH = 80


def text_of(thing: Document | RenderableType, *, full: bool = False) -> str:
    if isinstance(thing, Document):
        thing = terminal.render(thing, full=full)
    console = PlainConsole(file=io.StringIO(), width=WIDTH)
    console.print(thing, crop=False)  # as `stdout` does
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def decoded(facts: CampaignFacts) -> dict[str, Any]:
    """The document as whoever reads it has it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(campaign.as_json(facts)))
    return found


def check(name: str, text: str) -> None:
    file = HERE / name
    if os.environ.get("FLUSHLAB_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()
    assert max(map(len, text.splitlines())) <= WIDTH


STRICT = FrontierPoint(
    floor=Floor.STRICT,
    arm="innodb_log_file_buffering=ON",
    settings={"innodb_log_file_buffering": "ON"},
    ratio=ratio(1.08, 1.03, 1.13),
    free_ratio=ratio(1.08, 1.03, 1.13),
)
SECOND = FrontierPoint(
    floor=Floor.SECOND,
    arm="innodb_flush_log_at_trx_commit=2 + innodb_log_buffer_size=67108864",
    settings={"innodb_flush_log_at_trx_commit": 2, "innodb_log_buffer_size": 67108864},
    ratio=ratio(1.62, 1.55, 1.70),
    free_ratio=ratio(1.04, 1.01, 1.07),
)
BASE = ArmResult(
    name="base",
    settings={"sync_binlog": 1},
    result=12_345.6,
    p99_us=1_900.0,
    guarantees=SAFE,
    recovery_s=1.2,
)
FACTS = CampaignFacts(
    campaign_id="tune-20261120-120000-abcd",
    kind="tune",
    ending="done",
    server=MARIADB,
    workload="oltp_update_non_index, 16 threads, 8 × 10,000 rows",
    unit="transactions/s",
    floor="second",
    base=BASE,
    arms=(
        ArmResult(
            name=STRICT.arm,
            comparison=comparison(STRICT.arm, STRICT.ratio),
            p99=comparison(STRICT.arm, ratio(1.09, 0.93, 1.27)),
            guarantees=SAFE,
            result=13_333.0,
            p99_us=1_750.0,
        ),
        ArmResult(
            name=SECOND.arm,
            comparison=comparison(SECOND.arm, SECOND.ratio),
            p99=comparison(SECOND.arm, ratio(1.92, 1.64, 2.25)),
            guarantees=LOSSY,
            result=20_000.0,
            p99_us=987.0,
            recovery_s=1.4,
        ),
    ),
    control=ArmResult(
        name="control",
        comparison=comparison("control", ratio(1.01, 0.97, 1.05)),
        p99=comparison("control", ratio(1.03, 0.88, 1.20)),
        result=12_410.0,
        p99_us=1_850.0,
    ),
    blocks=8,
    data_bytes=22 << 20,
    pool_bytes=128 << 20,
    redo_bytes=96 << 20,
    machine=Machine(cpu_model="a cpu", cpu_count=2, memory_bytes=24 << 30, kernel="6.1", filesystem="ext4"),
    warnings=(
        Warning("short-measurement", "short measurement, not steady state: commit-path settings only"),
    ),
    files=("out/my.cnf",),
    tuning=TuningFacts(
        frontier=(STRICT, SECOND), winner=SECOND, tried=2, detectable=0.031, interim_analyses=2
    ),
)
ONLY_BASE = FrontierPoint(floor=Floor.STRICT, arm="base", settings={})
NOTHING = changed(
    FACTS,
    winner=None,
    frontier=(ONLY_BASE,),
    ending="interrupted",
    resume="flushlab tune --resume tune-20261120-120000-abcd",
    files=(),
    arms=(),
    base_recovery_s=None,
)
OFFER = FrontierPoint(
    floor=Floor.SECOND,
    arm=SECOND.arm,
    settings=SECOND.settings,
    ratio=SECOND.ratio,
    beats_safer=True,
)
OFFERED = changed(
    FACTS,
    floor="strict",
    winner=None,
    frontier=(ONLY_BASE, OFFER),
    offers=(OFFER,),
    lowest="second",
    files=(),
)
"""Nothing gains at strict."""
COST = ratio(0.45, 0.40, 0.50)
RAISED_POINT = FrontierPoint(floor=Floor.STRICT, arm="base", settings={}, versus_yours=COST)
YOURS = ArmResult(
    name="yours",
    comparison=comparison("yours", COST.inverse()),
    floor="second",
    guarantees=LOSSY,
    result=27_434.0,
    p99_us=850.0,
)
RAISED = changed(
    FACTS,
    floor="strict",
    base_settings={"innodb_flush_log_at_trx_commit": 1},
    base_recovery_s=None,
    arms=(),
    raised_why=(
        "innodb_flush_log_at_trx_commit = 1 so that a crash loses no more commits than the floor allows",
    ),
    raised={"innodb_flush_log_at_trx_commit": 1},
    yours=YOURS,
    winner=None,
    frontier=(RAISED_POINT,),
)
"""Settings that lose a second, raised to strict; nothing else gains."""


ROWS = RowCounts(
    committed=50_000,
    updated=24_900,
    rolled_back=120,
    commits=40,
    commit_latency_us=Latency(mean=3_000.0, p50=2_900, p95=5_000, p99=7_000, p999=9_000, max=9_100),
)
KINDS = (
    KindTime(kind="ALTER TABLE", count=120, seconds=9.4, slowest_s=0.91, slowest_line=1_208),
    KindTime(kind="CREATE TABLE", count=80, seconds=3.1, slowest_s=0.08, slowest_line=14),
)


def test_tune_gives_the_answer_first() -> None:
    check("tune.txt", text_of(campaign.document(FACTS)))


def test_nothing_at_the_floor_keeps_the_settings_and_offers_the_next_floor() -> None:
    check("tune-offer.txt", text_of(campaign.document(OFFERED)))
    document = decoded(OFFERED)
    (offer,) = document["offered"]
    assert (document["recommended"], offer["floor"], offer["offer"]) == ([], "second", True)
    assert "about 1 s" in offer["costs"][0]


def test_a_winner_at_the_floor_is_the_headline_above_an_offer() -> None:
    said = "\n".join(answer(changed(OFFERED, winner=STRICT, frontier=(STRICT, OFFER)))).splitlines()
    assert said == [
        "1.08× as fast as the base at floor strict [1.03, 1.13]",
        "No durability loss: no guarantee is weakened.",
        "If you can lose about a second of commits: 1.62× as fast as the base [1.55, 1.70] with "
        "innodb_flush_log_at_trx_commit=2, innodb_log_buffer_size=64M.",
    ]


def test_tune_without_improvement_says_what_it_would_have_seen() -> None:
    check("tune-nothing.txt", text_of(campaign.document(NOTHING)))


def test_settings_below_the_floor_are_told_what_meeting_it_costs() -> None:
    check("tune-raised.txt", text_of(campaign.document(RAISED)))
    document = decoded(RAISED)
    (strict,) = document["tuning"]["frontier"]
    assert strict["versus_yours"] == {"estimate": 0.45, "low": 0.40, "high": 0.50}
    (handed_over,) = document["recommended"]
    assert handed_over["settings"] == {"innodb_flush_log_at_trx_commit": 1}
    assert "about 1 s" not in str(handed_over["guarantees"]) + str(document["base"]["guarantees"])
    assert document["tuning"]["yours"]["floor"] == "second"
    assert "about 1 s" in document["tuning"]["yours"]["guarantees"]["os_crash"]


def test_a_gain_on_raised_settings_says_against_which_settings() -> None:
    free = msgspec.structs.replace(STRICT, versus_yours=ratio(0.49, 0.44, 0.54))
    lines = "\n".join(answer(changed(RAISED, winner=free, frontier=(free,)))).splitlines()
    assert lines[:3] == [
        "Your settings do not meet strict; meeting it costs: 0.45× as fast [0.40, 0.50]",
        "1.08× as fast as your settings raised to strict at floor strict [1.03, 1.13]",
        "Against your settings as they are: 0.49× as fast [0.44, 0.54]",
    ]


def test_a_cost_that_was_not_seen_or_not_measured_is_not_claimed() -> None:
    def said(yours: Comparison | None, objective: Objective = "throughput") -> str:
        own = msgspec.structs.replace(YOURS, comparison=yours)
        return "\n".join(answer(changed(RAISED, yours=own, objective=objective))).splitlines()[0]

    no_cost = comparison("yours", ratio(1.02, 0.97, 1.07))
    assert "no cost of meeting it was found: 0.98× as fast [0.93, 1.03]" in said(no_cost)
    assert said(None) == "Your settings do not meet strict; the cost of meeting it was not measured."
    assert "costs: 2.22× higher p99 latency [2.00, 2.50]" in said(YOURS.comparison, "p99")


def test_raised_settings_that_break_the_floor_in_crashes_are_not_handed_over() -> None:
    broke = (Warning(BASE_BROKE, "your base breaks the floor strict in crashes"),)
    facts = changed(RAISED, warnings=broke)
    assert facts.handed_over is None
    assert recommended(facts) == ()
    assert "Nothing is handed over" in "\n".join(answer(facts))


def test_tune_that_rejects_what_is_faster_says_so() -> None:
    rejected = (
        Rejected(arm="innodb_flush_log_at_trx_commit=2", reason="p99 latency is 2.8 times the base's"),
    )
    fast = ArmResult(
        name="innodb_flush_log_at_trx_commit=2",
        comparison=comparison("innodb_flush_log_at_trx_commit=2", ratio(1.62, 1.55, 1.70)),
    )
    check("tune-rejected.txt", text_of(campaign.document(changed(NOTHING, rejected=rejected, arms=(fast,)))))


def test_tune_whose_rejected_arm_was_not_faster_found_no_improvement() -> None:
    rejected = (Rejected(arm="sync_binlog=0", reason="failed: the server died"),)
    slow = ArmResult(name="sync_binlog=0", comparison=comparison("sync_binlog=0", ratio(1.01, 0.95, 1.07)))
    for arms in ((), (slow,)):
        said = "\n".join(answer(changed(NOTHING, rejected=rejected, arms=arms)))
        assert said.startswith("No improvement found"), said


def test_tune_that_had_nothing_to_try_says_so_and_why() -> None:
    facts = changed(NOTHING, tried=0, detectable=None)
    short = "\n".join(answer(facts))
    assert short == (
        "Nothing is left to try at floor second in a short window. Keep your settings.\n"
        "--minutes 60 or more also tries redo size, buffer pool, flushing and doublewrite."
    )
    assert "detected" not in text_of(campaign.document(facts))
    longer = changed(facts, warnings=())
    assert "\n".join(answer(longer)) == "Nothing is left to try at floor second. Keep your settings."
    last = "\n".join(answer(changed(RAISED, tried=0))).splitlines()[1]
    assert last.endswith("Raise your settings to strict, and change nothing else.")


def test_tune_whose_changes_were_all_left_out_gives_the_reason_of_each() -> None:
    excluded = (
        Excluded(settings={"sync_binlog": 9}, reason="refused: unknown value", refused=True),
        Excluded(settings={"sync_binlog": 7}, reason="its windows would have to last an hour", refused=False),
    )
    said = text_of(campaign.document(changed(NOTHING, tried=0, detectable=None, excluded=excluded)))
    assert "Nothing is left to try: all 2 changes dropped out, for the reasons below." in said
    assert "refused sync_binlog=9: unknown value" in said
    assert "excluded sync_binlog=7: its windows would have to last an hour" in said
    assert "detected" not in said


def test_a_change_that_failed_is_not_called_refused() -> None:
    excluded = (
        Excluded(settings={"sync_binlog": 0}, reason="failed: no memory", refused=False),
        Excluded(settings={"sync_binlog": 9}, reason="refused: unknown value", refused=True),
        Excluded(settings={"sync_binlog": 7}, reason="the base has this value", refused=False),
    )
    said = text_of(campaign.document(changed(NOTHING, excluded=excluded)))
    assert "failed sync_binlog=0: no memory" in said
    assert "refused sync_binlog=9: unknown value" in said
    assert "sync_binlog=7" not in said


def test_tune_that_a_busy_machine_left_without_a_result_says_so_first() -> None:
    busy: dict[str, Any] = {"ending": "budget spent", "trials": 40, "disturbed": 31, "blocks": 0}
    base = ArmResult(name="base", settings={"sync_binlog": 1})
    facts = changed(FACTS, **busy, base=base, arms=(), control=None, files=(), tuning=TuningFacts())
    check("tune-busy.txt", text_of(campaign.document(facts)))


def test_tune_on_a_busy_machine_that_proved_a_gain_does_not_blame_it() -> None:
    assert "\n".join(answer(changed(FACTS, trials=40, disturbed=31))) == "\n".join(answer(FACTS))


def test_bench_that_was_disturbed_starts_with_discarded() -> None:
    record = trial(outcome="discarded", reason="other programs used 38% of the CPU time")
    check("bench-discarded.txt", text_of(bench.document(record)))


def test_tune_of_a_command_says_how_to_time_it_there() -> None:
    (one,) = recommended(changed(FACTS, load_command="./load.sh --all", unit="s"))
    assert "time ./load.sh --all" in one.next_steps[1].commands


def test_a_server_that_persists_is_asked_first_for_what_its_user_had_persisted() -> None:
    mysql = ServerIdentity(flavor="mysql", version=(8, 0, 15), version_text="8.0.15")
    (one,) = recommended(changed(FACTS, server=mysql))
    assert one.next_steps[2].commands == ("mysql -N < settings.sql >> persisted.sql",)
    assert one.next_steps[4].commands == ("cat rollback.sql persisted.sql | mysql",)


def test_bench_shows_figure_latency_and_caveats() -> None:
    record = trial(warnings=(Warning("rounded", "innodb_buffer_pool_size was rounded"),))
    check("bench.txt", text_of(bench.document(record)))


def test_bench_shows_the_floor_that_its_settings_meet_and_the_condition() -> None:
    unseen = trial(storage=Storage(visible=False), launch=Launch())
    assert "floor    strict, if the disk honors flushes" in text_of(bench.document(unseen))
    document = bench.as_json(unseen)
    assert document.floor == "strict"
    assert document.guarantees["floor"] == "strict, if the disk honors flushes"
    preloaded = trial(storage=Storage(), launch=Launch(preload="libeatmydata.so"))
    assert "floor    throwaway" in text_of(bench.document(preloaded))
    assert "libeatmydata.so" in bench.as_json(preloaded).guarantees["os_crash"]


def test_bench_of_a_command_shows_seconds() -> None:
    output = "connected\nloaded 2,000 orders\n"
    record = trial(result=1.2345, unit="s", higher_is_better=False, load=None, output=output)
    assert bench.as_json(record).output == output
    check("bench-command.txt", text_of(bench.document(record)))


def test_bench_says_how_far_its_figure_can_be_trusted() -> None:
    load = msgspec.structs.replace(load_result(), per_second=(900, 12_000, 11_000, 10_000))
    record = trial(load=load, foreign_cpu_share=0.55, steal_share=0.08)
    text = text_of(bench.document(record))
    assert "900 to 12,000 a second, median 10,000" in text
    assert "other programs took 55% of the CPU, the hypervisor 8%" in text
    document = bench.as_json(record)
    assert document.range_per_s == bench.SecondRange(slowest=900, median=10_000, fastest=12_000)
    assert (document.foreign_cpu_share, document.steal_share) == (0.55, 0.08)
    assert bench.as_json(trial(load=None)).range_per_s is None


def test_bench_of_an_upsert_shows_rows_and_commits() -> None:
    load = msgspec.structs.replace(load_result(), rows=ROWS)
    check("bench-upsert.txt", text_of(bench.document(trial(unit="rows/s", load=load))))


def test_bench_shows_the_time_of_failed_attempts_that_no_other_latency_includes() -> None:
    waited = Latency(
        mean=2_500_000.0, p50=2_000_000, p95=5_000_000, p99=5_000_000, p999=5_000_000, max=5_000_000
    )
    load = msgspec.structs.replace(load_result(), failed=FailedAttempts(count=12, latency_us=waited))
    (line,) = (line for line in text_of(bench.document(trial(load=load))).splitlines() if "failed" in line)
    assert line == "failed   12 attempts, 30 s in all: p50 2,000 ms · p99 5,000 ms · max 5,000 ms"


def test_bench_of_transactions_shows_each_kind_with_its_rate_and_latency() -> None:
    latency = load_result().latency_us
    assert latency is not None
    kinds = (
        TransactionLatency(transaction="new_order", count=37_500, throughput=7_500.0, latency_us=latency),
        TransactionLatency(
            transaction="status",
            count=12_500,
            throughput=2_500.0,
            latency_us=msgspec.structs.replace(latency, p50=45, p95=80, p99=99, max=12_345),
        ),
        TransactionLatency(transaction="never", count=0, throughput=0.0, latency_us=None),
    )
    record = trial(load=msgspec.structs.replace(load_result(), transactions=kinds))
    check("bench-txn.txt", text_of(bench.document(record)))
    assert msgspec.to_builtins(bench.as_json(record))["load"]["transactions"][1]["count"] == 12_500


def test_bench_of_one_kind_of_transaction_does_not_repeat_it() -> None:
    latency = load_result().latency_us
    kind = TransactionLatency(transaction="pay", count=50_000, throughput=10_000.0, latency_us=latency)
    record = trial(load=msgspec.structs.replace(load_result(), transactions=(kind,)))
    assert "pay" not in text_of(bench.document(record))


def test_bench_of_a_script_shows_time_per_kind() -> None:
    load = msgspec.structs.replace(load_result(), latency_us=None, per_second=(), kinds=KINDS)
    record = trial(result=12.5, unit="s", higher_is_better=False, load=load)
    check("bench-sql.txt", text_of(bench.document(record)))


@pytest.mark.parametrize(
    ("document", "schema", "keys"),
    [
        (
            bench.as_json(trial()),
            "flushlab.bench/1",
            {
                *("result", "unit", "load", "warnings", "server", "settings"),
                *("range_per_s", "floor", "guarantees"),
            },
        ),
        (
            campaign.as_json(FACTS),
            "flushlab.campaign/1",
            {"base", "arms", "control", "tuning", "recommended", "carry_over", "warnings", "files"},
        ),
    ],
)
def test_documents_keep_their_schema(document: object, schema: str, keys: set[str]) -> None:
    shown = msgspec.json.decode(msgspec.json.encode(document))
    assert shown["schema"] == schema
    assert keys <= shown.keys()


def test_a_point_of_the_frontier_names_the_arm_that_has_its_results() -> None:
    document = decoded(FACTS)
    point = document["tuning"]["frontier"][1]
    assert point["ratio"] == {"estimate": 1.62, "low": 1.55, "high": 1.7}
    (arm,) = [one for one in document["arms"] if one["name"] == point["arm"]]
    assert (arm["result"], arm["p99_us"]) == (20_000.0, 987.0)
    assert arm["p99"]["ratio"] == {"estimate": 1.92, "low": 1.64, "high": 2.25}
    assert arm["guarantees"]["os_crash"] == "about 1 s of commits"
    assert document["control"]["p99"]["ratio"] == {"estimate": 1.03, "low": 0.88, "high": 1.20}


def test_a_tuning_whose_winner_was_crashed() -> None:
    crashed = msgspec.structs.replace(CRASHED, name=SECOND.arm)
    check("tune-crashed.txt", text_of(campaign.document(changed(FACTS, crash=facts(crashed)))))
