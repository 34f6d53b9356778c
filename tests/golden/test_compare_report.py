"""The terminal report of fixed comparisons, compared with files; see test_reports for how to renew them."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.campaign.analysis import of_machine
from flushlab.campaign.facts import ArmResult
from flushlab.record import Ratio, Slice
from flushlab.report import campaign
from tests.golden.test_reports import check, decoded, text_of
from tests.golden.test_series_report import CONTROL, measured
from tests.golden.test_series_report import FACTS as SERIES
from tests.unit.changed import changed
from tests.unit.records import trial
from tests.unit.report.campaigns import comparison, ratio

KEPT = "nothing is lost: commits are in the log file"
SYNCED = "nothing is lost if the device honors flushes: commits are synced"
SECOND = "about 1 s of acknowledged commits may be lost (not a strict bound)"
STRICT = {"process_crash": KEPT, "os_crash": SYNCED, "power_loss": SYNCED, "torn_page": "repaired"}
TWO = "innodb_flush_log_at_trx_commit=2"
BOTH = "innodb_doublewrite=OFF sync_binlog=0 innodb_flush_method=O_DIRECT_NO_FSYNC"
ARMS = (
    measured(
        TWO,
        "",
        ratio(1.62, 1.55, 1.70),
        changes={"innodb_flush_log_at_trx_commit": 2},
        floor="second",
        guarantees={**STRICT, "os_crash": SECOND, "power_loss": SECOND},
        p99_us=2_310.0,
        p99=comparison(TWO, ratio(1.20, 1.05, 1.37)),
    ),
    measured(
        BOTH,
        "",
        ratio(1.01, 0.98, 1.04),
        changes={
            "innodb_doublewrite": "OFF",
            "sync_binlog": 0,
            "innodb_flush_method": "O_DIRECT_NO_FSYNC",
        },
        floor="throwaway",
        guarantees={**STRICT, "torn_page": "the data directory is at risk"},
        fixed=("log_bin",),
        p99_us=2_800.0,
        p99=comparison(BOTH, ratio(0.99, 0.85, 1.15)),
    ),
    measured(
        "new.cnf",
        "",
        ratio(0.81, 0.78, 0.84),
        p99_us=3_465.0,
        p99=comparison("new.cnf", ratio(0.80, 0.70, 0.91)),
        changes={"innodb_buffer_pool_size": 64 << 20},
        guarantees=STRICT,
    ),
    ArmResult(
        name="innodb_flush_method=nonsense",
        outcome="refused",
        reason="[ERROR] Error while setting value 'nonsense' to 'innodb_flush_method'",
        changes={"innodb_flush_method": "nonsense"},
    ),
)
FACTS = changed(
    SERIES,
    kind="compare",
    campaign_id="compare-20261121-120000-abcd",
    name="compare",
    title=f"{TWO} against base",
    workload="oltp_update_non_index, 16 threads, 8 × 10,000 rows",
    unit="transactions/s",
    base_settings={},
    base_text="",
    base_guarantees=STRICT,
    floor="",
    arms=ARMS,
    control=msgspec.structs.replace(CONTROL, p99=comparison("control", ratio(1.02, 0.88, 1.18))),
    base_p99_us=2_772.0,
    claims=(),
    window_s=2.4,
)


def with_arms(*arms: ArmResult) -> str:
    return text_of(campaign.document(changed(FACTS, arms=arms)))


def test_comparison() -> None:
    check("compare.txt", text_of(campaign.document(FACTS)))


def test_comparison_after_ctrl_c() -> None:
    stopped = changed(FACTS, ending="interrupted", resume="flushlab compare --resume x-1", blocks=3)
    text = text_of(campaign.document(stopped))
    assert "interrupted; resume with: flushlab compare --resume x-1" in text
    assert "1.55 – 1.70" in text


def test_a_comparison_that_was_stopped_before_its_first_window_claims_nothing() -> None:
    never = [
        msgspec.structs.replace(arm, outcome="skipped", reason="stopped before its turn", comparison=None)
        for arm in ARMS
    ]
    stopped = changed(
        FACTS,
        ending="interrupted",
        resume="flushlab compare --resume x-1",
        blocks=0,
        arms=(*never,),
        interleaved=True,
    )
    assert text_of(campaign.document(stopped)).splitlines()[1:] == [
        "Nothing was measured: it was stopped before the first window.",
        "",
        "interrupted; resume with: flushlab compare --resume x-1",
    ]


@pytest.mark.parametrize(
    ("arms", "due"),
    [
        ((ARMS[1], ARMS[2]), "Nothing proved faster than base."),
        ((ARMS[1],), "No difference was proven (one of 3.0% or more would probably have been detected)."),
        ((ARMS[3],), "Nothing was compared; see the reason of each configuration."),
        ((msgspec.structs.replace(ARMS[0], comparison=None),), "Nothing is proven: 5 of 5 blocks done"),
    ],
)
def test_the_answer_says_what_is_proven_and_no_more(arms: tuple[ArmResult, ...], due: str) -> None:
    assert due in " ".join(with_arms(*arms).split())


def test_a_comparison_in_slices_without_a_result_blames_the_machine_that_was_busy_meanwhile() -> None:
    part = Slice(round=0, start_s=0.0, seconds=1.0, events=50)
    (caveat,) = of_machine([trial(slices=(part,), foreign_cpu_share=0.62)], disk=None)
    alike = tuple(msgspec.structs.replace(arm, comparison=None) for arm in ARMS)
    facts = changed(FACTS, arms=alike, warnings=(caveat,))
    for kind in ("compare", "series"):
        said = text_of(campaign.document(changed(facts, kind=kind)))
        assert (
            "Other programs used 62% of the CPU time meanwhile, which makes intervals wider.\nNothing is"
            in said
        )
        assert "--wait-for-quiet waits until the machine is quiet." in said


AT_A_RATE = changed(
    FACTS,
    objective="p99",
    workload="oltp_update_non_index, 16 threads, 8 × 10,000 rows, rate 500",
    base_result=500.0,
    base_p99_us=17_500.0,
    arms=(
        measured(
            TWO,
            "",
            ratio(5.15, 4.02, 6.60),
            changes={"innodb_flush_log_at_trx_commit": 2},
            floor="second",
            result=500.0,
            p99_us=3_400.0,
            p99=comparison(TWO, ratio(5.15, 4.02, 6.60)),
        ),
        measured("new.cnf", "", ratio(0.81, 0.70, 0.94), result=500.0, p99_us=21_600.0),
    ),
)


def test_at_a_fixed_rate_the_report_is_about_latency() -> None:
    text = text_of(campaign.document(AT_A_RATE))
    check("compare-p99.txt", text)
    assert not {"faster", "slower"} & set(text.split())
    assert "as fast as base" not in text


def test_a_floor_that_depends_on_the_disk_says_so_in_headline_and_rows() -> None:
    held = "as the disk has a volatile write cache"
    base = {**STRICT, "floor": f"throwaway, {held}; strict without one"}
    arm = msgspec.structs.replace(ARMS[0], guarantees={**ARMS[0].guarantees, "floor": f"second, {held}"})
    facts = changed(FACTS, base_floor="throwaway", base_guarantees=base, arms=(arm,))
    text = " ".join(text_of(campaign.document(facts)).split())
    assert f"Its floor is second, {held}. That of base is throwaway, {held}; strict without one." in text
    assert f"floor throwaway, {held}; strict without one" in text
    assert f"floor second, {held}" in text


def test_json_document() -> None:
    document = decoded(FACTS)
    assert (document["schema"], document["kind"]) == ("flushlab.campaign/1", "compare")
    first, second, *_, refused = document["arms"]
    assert first["name"] == TWO
    assert first["comparison"]["ratio"] == {"estimate": 1.62, "low": 1.55, "high": 1.70}
    verdicts = [one["comparison"]["verdict"] for one in (first, second)]
    assert verdicts == ["faster", "no difference found"]
    assert document["objective"] == "throughput"
    assert first["p99"]["ratio"] == {"estimate": 1.20, "low": 1.05, "high": 1.37}
    assert document["control"]["p99"]["ratio"] == {"estimate": 1.02, "low": 0.88, "high": 1.18}
    assert first["guarantees"]["power_loss"] == SECOND
    assert document["server"]["version_text"] == "10.11.19-MariaDB-0+deb12u1"
    assert (refused["outcome"], refused["comparison"]) == ("refused", None)
    assert document["base"]["name"] == "base"
    assert msgspec.convert(document["control"]["comparison"]["ratio"], Ratio) == ratio(1.01, 0.98, 1.04)
