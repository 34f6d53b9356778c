"""The terminal report of fixed series, compared with files; see test_reports for how to renew them."""

from __future__ import annotations

from typing import Any

import msgspec

from flushlab.campaign.facts import ArmResult, CampaignFacts, ClaimFacts, PlanFacts
from flushlab.record import FactorEffect, Machine, Ratio, Value, Warning
from flushlab.report import campaign
from tests.golden.test_reports import check, decoded, text_of
from tests.unit.changed import changed
from tests.unit.records import MARIADB
from tests.unit.report.campaigns import comparison, ratio

SAFE = {"process_crash": "nothing is lost", "os_crash": "nothing is lost", "power_loss": "nothing is lost"}


def measured(name: str, text: str, of: Ratio, **facts: Any) -> ArmResult:
    given: dict[str, Any] = {"floor": "strict", "result": 9_000.0 * of.estimate, **facts}
    return ArmResult(name=name, text=text, outcome="measured", comparison=comparison(name, of), **given)


ARMS = (
    measured(
        "A",
        "the server's defaults",
        ratio(0.81, 0.78, 0.84),
        changes={"sync_binlog": 0},
        p99=comparison("A", ratio(0.75, 0.60, 0.94)),
    ),
    measured("B", "the key is primary", ratio(1.22, 1.18, 1.26), workload_changes={"key": "primary"}),
    measured("C", "", ratio(1.01, 0.97, 1.05), changes={"innodb_log_file_size": 48 << 20}),
    measured(
        "G flush at trx commit is 0",
        "the log is written once a second",
        ratio(3.31, 3.20, 3.42),
        changes={"innodb_flush_log_at_trx_commit": 0},
        floor="relaxed",
    ),
    measured(
        "no binlog",
        "",
        ratio(1.11, 1.02, 1.21),
        changes={"log_bin": "OFF"},
        fixed=("log_bin",),
    ),
    ArmResult(
        name="F",
        text="flush by O_DSYNC",
        outcome="not_in_version",
        reason="mariadb@12.0.1 has no innodb_flush_method (it exists in mysql; mariadb before 12.0)",
        changes={"innodb_flush_method": "O_DSYNC"},
    ),
    ArmResult(
        name="K",
        text="checksums off",
        outcome="refused",
        reason="[ERROR] unknown variable 'innodb_checksums=OFF'\n[ERROR] Aborting",
        changes={"innodb_checksums": "OFF"},
        floor="throwaway",
    ),
    ArmResult(
        name="J",
        text="ZFS with records of 16 KiB, without doublewrite",
        outcome="skipped",
        reason="the environment variable FLUSHLAB_ZFS, which names its data root, is not set",
        data_root="${FLUSHLAB_ZFS}",
        changes={"innodb_doublewrite": "OFF"},
    ),
    measured(
        "best",
        "all that proved faster, together",
        ratio(4.12, 3.90, 4.35),
        changes={"innodb_flush_log_at_trx_commit": 0, "log_bin": "OFF"},
        workload_changes={"key": "primary"},
        floor="relaxed",
        composed_of=("no binlog", "B", "G flush at trx commit is 0"),
    ),
)
CONTROL = ArmResult(name="control", comparison=comparison("control", ratio(1.01, 0.98, 1.04)))
FACTS = CampaignFacts(
    campaign_id="series-20261121-120000-abcd",
    kind="series",
    ending="done",
    title="What does each change buy for INSERT … ON DUPLICATE KEY UPDATE?",
    server=MARIADB,
    workload="upsert, threads 8, table_size 100,000",
    unit="rows/s",
    floor="throwaway",
    base=ArmResult(
        name="base",
        text="the story's settings where the version has them",
        settings={"sync_binlog": 1},
        result=9_012.3,
        floor="strict",
        guarantees=SAFE,
    ),
    arms=ARMS,
    control=CONTROL,
    blocks=5,
    machine=Machine(cpu_model="a cpu", cpu_count=2, memory_bytes=24 << 30, kernel="6.1", filesystem="ext4"),
    warnings=(Warning("fits-in-pool", "the data (22 MiB) fits in the buffer pool (128 MiB)"),),
    data_bytes=22 << 20,
    pool_bytes=128 << 20,
    redo_bytes=96 << 20,
    plan=PlanFacts(
        name="insert-on-duplicate",
        blocks=5,
        window_s=10.0,
        claims=(
            ClaimFacts(
                text="writing the log once a second is 3.3 times as fast",
                arm="G flush at trx commit is 0",
                against="base",
                wanted="3.3",
                answer="confirmed",
                ratio=ratio(3.31, 3.20, 3.42),
                source="https://example.org/story",
            ),
            ClaimFacts(
                text="the size of the log does not matter",
                arm="C",
                against="A",
                wanted="at most 1.05",
                answer="refuted",
                ratio=ratio(1.25, 1.20, 1.30),
            ),
            ClaimFacts(
                text="ZFS makes up for doublewrite",
                arm="J",
                against="base",
                wanted="1",
                answer="not measured",
            ),
        ),
    ),
)


def without_comparison(arm: ArmResult) -> ArmResult:
    return msgspec.structs.replace(arm, comparison=None, p99=None)


INTERRUPTED = changed(
    FACTS,
    ending="interrupted",
    resume="flushlab series --resume series-20261121-120000-abcd",
    blocks=1,
    scale=0.1,
    arms=(
        *(without_comparison(arm) for arm in ARMS[:2]),
        ArmResult(name="C", outcome="skipped", reason="the series was stopped before its turn"),
        ArmResult(name="best", outcome="skipped", reason="the series was stopped before its turn"),
    ),
    control=None,
    claims=(),
)
NOTHING_FASTER = changed(
    FACTS,
    arms=(ARMS[0], ARMS[2], ArmResult(name="best", outcome="skipped", reason="no arm proved faster")),
    claims=(),
)
NOT_HERE = changed(
    FACTS,
    arms=tuple(
        ArmResult(
            name=name,
            outcome="not_in_version",
            reason="the plan needs binlog_parallel_flush, which mariadb@10.11.19 does not have",
        )
        for name in ("OFF", "ON")
    ),
    base_result=None,
    control=None,
    claims=(),
    blocks=0,
)


def effect(*factors: str, of: Ratio) -> FactorEffect:
    return FactorEffect.of(factors, of, 33, 0.03)


POLICY_2: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2}
FACTORIAL = changed(
    FACTS,
    name="binlog-flush",
    title="What do the binary log and trx_commit=2 do, each by itself and together?",
    base_settings={"log_bin": "OFF", "innodb_flush_log_at_trx_commit": 1},
    base_text="",
    arms=(
        measured("binlog", "", ratio(0.97, 0.93, 1.01), changes={"log_bin": "ON"}, fixed=("log_bin",)),
        measured("flush 2", "", ratio(1.12, 1.08, 1.16), changes=POLICY_2, floor="second"),
        measured(
            "binlog + flush 2",
            "",
            ratio(1.14, 1.10, 1.18),
            changes={"log_bin": "ON", **POLICY_2},
            floor="second",
            fixed=("log_bin",),
        ),
    ),
    factors=("binlog", "flush 2"),
    effects=(
        effect("binlog", of=ratio(0.99, 0.96, 1.02)),
        effect("flush 2", of=ratio(1.15, 1.11, 1.19)),
        effect("binlog", "flush 2", of=ratio(1.05, 1.01, 1.10)),
    ),
    claims=(
        ClaimFacts(
            text="without the binary log, trx_commit=2 is ignored",
            arm="flush 2",
            against="base",
            wanted="at least 0.5",
            answer="refuted",
            ratio=ratio(0.021, 0.018, 0.03),
            source="a DBA",
            quantity="redo syncs per commit",
            counts=(0.0132, 0.628),
        ),
    ),
)
UNCROSSED = changed(
    FACTORIAL,
    arms=(
        ArmResult(name="binlog", outcome="refused", reason="[ERROR] Aborting"),
        *FACTORIAL.arms[1:],
    ),
    effects=(),
    claims=(),
)


def test_series_report() -> None:
    check("series.txt", text_of(campaign.document(FACTS)))


def test_series_report_after_ctrl_c() -> None:
    check("series-interrupted.txt", text_of(campaign.document(INTERRUPTED)))


def test_a_series_that_was_stopped_before_its_first_window_says_that_and_no_more() -> None:
    never = tuple(
        ArmResult(name=one.name, outcome="skipped", reason="stopped before its turn")
        for one in INTERRUPTED.arms
    )
    asked = FACTS.plan.claims if FACTS.plan is not None else ()
    facts = changed(INTERRUPTED, arms=never, base_result=None, blocks=0, claims=asked)
    assert text_of(campaign.document(facts)).splitlines()[2:] == [
        "Nothing was measured: it was stopped before the first window.",
        "",
        "interrupted; resume with: flushlab series --resume series-20261121-120000-abcd",
    ]


def test_series_report_without_a_faster_arm() -> None:
    check("series-nothing.txt", text_of(campaign.document(NOTHING_FASTER)))


def test_series_report_where_nothing_could_be_measured() -> None:
    check("series-not-here.txt", text_of(campaign.document(NOT_HERE)))


def test_factorial_report() -> None:
    check("series-factorial.txt", text_of(campaign.document(FACTORIAL)))


def test_without_a_combination_the_factors_have_no_effects() -> None:
    assert "Not known: binlog was not measured" in text_of(campaign.document(UNCROSSED))


def test_best_that_is_not_proven_says_so() -> None:
    best = msgspec.structs.replace(ARMS[-1], comparison=comparison("best", ratio(1.02, 0.97, 1.08)))
    text = text_of(campaign.document(changed(FACTS, arms=(*ARMS[:-1], best))))
    assert "Together, they are not proven to be faster" in text


def test_json_document() -> None:
    document = decoded(FACTS)
    assert (document["schema"], document["kind"]) == ("flushlab.campaign/1", "series")
    outcomes = {arm["name"]: arm["outcome"] for arm in document["arms"]}
    assert outcomes["F"] == "not_in_version"
    assert outcomes["K"] == "refused"
    assert outcomes["J"] == "skipped"
    by_name = {arm["name"]: arm for arm in document["arms"]}
    assert by_name["B"]["comparison"]["ratio"] == {"estimate": 1.22, "low": 1.18, "high": 1.26}
    assert by_name["B"]["comparison"]["verdict"] == "faster"
    assert by_name["K"]["comparison"] is None
    assert "unknown variable" in by_name["K"]["reason"]
    assert by_name["best"]["composed_of"][0] == "no binlog"
    assert document["control"]["comparison"]["ratio"]["estimate"] == 1.01
    claims = document["plan"]["claims"]
    assert [claim["answer"] for claim in claims] == ["confirmed", "refuted", "not measured"]
    assert claims[0]["ratio"]["low"] == 3.2
    assert claims[0]["text"]
    assert document["warnings"][0]["slug"] == "fits-in-pool"


def test_ratios_of_a_cluster_on_one_machine_are_said_not_to_carry_over() -> None:
    cluster = changed(FACTS, server=msgspec.structs.replace(FACTS.server, nodes=3))
    assert text_of(campaign.document(cluster)).startswith("3-node Galera cluster of mariadb@10.11.19 · ")
    document = decoded(cluster)
    assert document["server"]["nodes"] == 3
    assert [line["carries"] for line in document["carry_over"] if line["what"] == "ratios"] == ["no"]


def test_of_your_own_server_nothing_is_said_of_this_machine() -> None:
    seen = changed(FACTS, interleaved=True, warnings=(Warning("external", "not flushlab's"),))
    text = text_of(campaign.document(seen))
    assert "Measured in alternating slices on your server, switched by SET GLOBAL" in text
    assert "What carries over to the load that your server has" in text
    assert "this machine" not in text
