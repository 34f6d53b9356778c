"""Stored campaigns as the tests of pages and lists need them: every section has something to show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from flushlab.campaign.arms import BoundArm
from flushlab.campaign.crash.experiment import CrashRequest
from flushlab.campaign.facts import ArmResult, CampaignFacts, ClaimFacts, PlanFacts, TuningFacts
from flushlab.campaign.request import SeriesRequest, TuneRequest
from flushlab.experiment.tune_plan import Dropped, Excluded, FrontierPoint, Rejected
from flushlab.record import (
    Arm,
    Comparison,
    CrashArm,
    CrashRow,
    DiskEmulation,
    DiskProfile,
    FileActivity,
    LoadResult,
    Machine,
    Ratio,
    Trial,
    Value,
    Verdict,
    Warning,
)
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import CrashSpec, SeriesSpec, TuneSpec
from flushlab.spec.parts import BaseSpec, ServerSpec, WorkloadSpec
from flushlab.store import CampaignRow
from flushlab.workload.protocol import Timing
from tests.unit.changed import changed
from tests.unit.crashes import BASE as KEPT
from tests.unit.crashes import LOSING, rows
from tests.unit.crashes import facts as crash_facts
from tests.unit.records import MARIADB, load_result, trial

BASE: dict[str, Value] = {"sync_binlog": 1, "innodb_flush_log_at_trx_commit": 1}
FAST: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2, "innodb_log_buffer_size": 67108864}
FAST_ARM = "innodb_flush_log_at_trx_commit=2 + innodb_log_buffer_size=67108864"
FREE_ARM = "innodb_log_buffer_size=67108864"
MACHINE = Machine(
    cpu_model="a cpu",
    cpu_count=2,
    memory_bytes=24 << 30,
    kernel="6.1",
    filesystem="ext4",
    device="vda",
    volatile_cache=True,
    slow_disk=DiskEmulation(
        profile=DiskProfile(name="iops=120", iops=120.0),
        asked_sync_us_p50=8333.0,
        measured_sync_us_p50=8340.0,
        measured_sync_us_p99=8900.0,
        fastest_sync_us_p50=100.0,
    ),
)
SAFE = {
    "process_crash": "nothing is lost",
    "os_crash": "nothing is lost if the device honors flushes",
    "power_loss": "nothing is lost if the device honors flushes",
    "torn_page": "covered: doublewrite repairs torn pages",
    "replication": "no binary log; with one, replicas stay consistent if sync_binlog = 1",
}
LOSSY = {
    **SAFE,
    "os_crash": "about 1 s of commits",
    "power_loss": "about 1 s of commits",
    "replication": "with a binary log, they may be ahead of this server after an OS crash: rebuild them",
}


def ratio(estimate: float, low: float, high: float) -> Ratio:
    return Ratio(estimate=estimate, low=low, high=high)


def comparison(arm: str, of: Ratio, blocks: int = 5) -> Comparison:
    verdict: Verdict = "faster" if of.low > 1 else "slower" if of.high < 1 else "no difference found"
    return Comparison(arm=arm, ratio=of, blocks=blocks, verdict=verdict, detectable=0.03)


def tune_facts(**changes: Any) -> CampaignFacts:
    strict = FrontierPoint(
        floor=Floor.STRICT,
        arm=FREE_ARM,
        settings={"innodb_log_buffer_size": 67108864},
        ratio=ratio(1.08, 1.03, 1.13),
        free_ratio=ratio(1.08, 1.03, 1.13),
        beats_safer=True,
    )
    second = FrontierPoint(
        floor=Floor.SECOND,
        arm=FAST_ARM,
        settings=FAST,
        ratio=ratio(1.62, 1.55, 1.70),
        free_ratio=ratio(1.08, 1.03, 1.13),
        beats_safer=True,
    )
    facts = CampaignFacts(
        campaign_id="tune-1",
        kind="tune",
        ending="done",
        server=MARIADB,
        workload="oltp_update_non_index, 16 threads, 8 × 10,000 rows",
        unit="transactions/s",
        floor="second",
        base=ArmResult(name="base", settings=BASE, result=12_345.6, guarantees=SAFE, recovery_s=1.2),
        arms=(
            ArmResult(name=FREE_ARM, comparison=comparison(FREE_ARM, strict.ratio), guarantees=SAFE),
            ArmResult(
                name=FAST_ARM,
                comparison=comparison(FAST_ARM, second.ratio),
                guarantees=LOSSY,
                recovery_s=1.4,
            ),
            ArmResult(
                name="innodb_flush_method=O_DSYNC",
                comparison=comparison("innodb_flush_method=O_DSYNC", ratio(0.7, 0.66, 0.74)),
            ),
        ),
        control=ArmResult(name="control", comparison=comparison("control", ratio(1.01, 0.97, 1.05))),
        blocks=5,
        data_bytes=22 << 20,
        pool_bytes=128 << 20,
        redo_bytes=96 << 20,
        machine=MACHINE,
        warnings=(
            Warning("short-measurement", "short measurement, not steady state: commit-path settings only"),
        ),
        files=("out/my.cnf",),
        tuning=TuningFacts(
            raised_why=("innodb_doublewrite = ON so that torn pages can be repaired",),
            frontier=(strict, second),
            winner=second,
            lowest="second",
            dropped=(
                Dropped(floor=Floor.SECOND, settings={"innodb_io_capacity": 4000}, cost=0.004, error=0.006),
            ),
            rejected=(Rejected(arm="innodb_flush_method=O_DSYNC", reason="p99 is 2.8 times the base's"),),
            excluded=(
                Excluded(settings={"innodb_nonsense": 1}, reason="unknown variable", refused=True),
                Excluded(
                    settings={"innodb_log_file_size": 1 << 30}, reason="windows too short", refused=False
                ),
            ),
            tried=3,
            detectable=0.031,
            interim_analyses=2,
        ),
    )
    return changed(facts, **changes)


def series_facts(**changes: Any) -> CampaignFacts:
    facts = CampaignFacts(
        campaign_id="series-1",
        kind="series",
        ending="done",
        title="What does each change buy for INSERT … ON DUPLICATE KEY UPDATE?",
        server=MARIADB,
        workload="upsert, threads 16, table_size 100,000",
        unit="rows/s",
        base=ArmResult(
            name="base",
            text="sensible defaults of 2013",
            settings=BASE,
            result=9_876.5,
            floor="strict",
            guarantees=SAFE,
        ),
        floor="throwaway",
        arms=(
            ArmResult(
                name="B",
                text="the key is primary instead of unique",
                outcome="measured",
                workload_changes={"key": "primary"},
                floor="strict",
                guarantees=SAFE,
                comparison=comparison("B", ratio(1.31, 1.22, 1.41)),
                result=12_900.0,
            ),
            ArmResult(
                name="F",
                text="O_DSYNC",
                outcome="measured",
                changes={"innodb_flush_method": "O_DSYNC"},
                floor="strict",
                guarantees=SAFE,
                comparison=comparison("F", ratio(0.82, 0.78, 0.87)),
                result=8_100.0,
            ),
            ArmResult(
                name="G",
                text="no sync at commit",
                outcome="measured",
                changes={"innodb_flush_log_at_trx_commit": 0},
                fixed=("unique_checks",),
                floor="relaxed",
                guarantees=LOSSY,
                comparison=comparison("G", ratio(1.9, 1.7, 2.1)),
                result=18_700.0,
            ),
            ArmResult(
                name="I",
                text="half the log size",
                outcome="measured",
                changes={"innodb_log_file_size": 50331648},
                floor="strict",
                guarantees=SAFE,
                comparison=comparison("I", ratio(1.0, 0.96, 1.04)),
                result=9_800.0,
            ),
            ArmResult(name="K", outcome="refused", reason="unknown variable 'innodb_checksums=OFF'"),
            ArmResult(name="J", text="ZFS", outcome="skipped", reason="$FLUSHLAB_ZFS is not set"),
            ArmResult(name="L", outcome="not_in_version", reason="no innodb_thread_concurrency"),
            ArmResult(
                name="best",
                text="all that proved faster, together",
                outcome="measured",
                changes={"innodb_flush_log_at_trx_commit": 0},
                workload_changes={"key": "primary"},
                floor="relaxed",
                guarantees=LOSSY,
                comparison=comparison("best", ratio(2.4, 2.1, 2.7)),
                result=23_000.0,
                composed_of=("B", "G"),
            ),
        ),
        control=ArmResult(name="control", comparison=comparison("control", ratio(1.0, 0.97, 1.03))),
        blocks=5,
        machine=MACHINE,
        warnings=(Warning("noisy", "the base's results vary over 35 % of their mean"),),
        data_bytes=22 << 20,
        pool_bytes=128 << 20,
        redo_bytes=96 << 20,
        plan=PlanFacts(
            name="insert-on-duplicate",
            blocks=5,
            window_s=10.0,
            claims=(
                ClaimFacts(
                    text="a primary key is 1.3 times as fast",
                    arm="B",
                    against="base",
                    wanted="1.3",
                    answer="confirmed",
                    ratio=ratio(1.31, 1.22, 1.41),
                    source="the story",
                ),
                ClaimFacts(
                    text="O_DSYNC helps",
                    arm="F",
                    against="base",
                    wanted="at least 1",
                    answer="refuted",
                    ratio=ratio(0.82, 0.78, 0.87),
                ),
                ClaimFacts(text="ZFS wins", arm="J", against="G", wanted="at least 1", answer="not measured"),
            ),
        ),
    )
    return changed(facts, **changes)


def series_of(throughput: float, seconds: int = 10, *, stalled: bool = False) -> LoadResult:
    ripple = (0, 3, -2, 5, -4, 1, 2, -3, 4, -1)
    per_second = [int(throughput * (1 + ripple[n % 10] / 100)) for n in range(seconds)]
    if stalled:
        per_second[seconds // 2] = 0
    return msgspec.structs.replace(
        load_result(throughput), seconds=float(seconds), events=sum(per_second), per_second=tuple(per_second)
    )


def trials_of(arms: dict[str, float], stage: str, blocks: int = 5, seconds: int = 10) -> list[Trial]:
    """A trial per arm and block; the base stalls once a block and every window has a caveat."""
    return [
        trial(
            result=result,
            arm=Arm(name=arm, settings=BASE),
            stage=stage,
            block=block,
            load=series_of(result, seconds, stalled=arm == "base"),
            settings={**BASE, **(FAST if arm == FAST_ARM else {}), "innodb_page_size": 16384},
            file_activity={
                "redo": FileActivity(fsyncs=int(result), bytes=int(result) * 512, flags=("O_DIRECT",)),
                "binlog": FileActivity(fsyncs=0, bytes=0),
                "doublewrite": FileActivity(bytes=int(result) * 100),
                "data": FileActivity(fsyncs=int(result) // 10, bytes=int(result) * 300),
            },
            warnings=(Warning("window-too-short", "the window wrote 0.5 of the redo capacity"),),
        )
        for block in range(1, blocks + 1)
        for arm, result in arms.items()
    ]


TUNE_SPEC = TuneSpec(
    server=ServerSpec(server="mariadb@10.11.19"),
    workload=WorkloadSpec(options={"table_size": 20_000}),
    floor=Floor.SECOND,
    minutes=6.0,
    base=BaseSpec(settings={"sync_binlog": 1}),
    seed=7,
)
SERIES_SPEC = SeriesSpec(plan="insert-on-duplicate", server=ServerSpec(server="mariadb@10.11.19"), seed=3)
CRASH_SPEC = CrashSpec(
    configurations=("base", "innodb_flush_log_at_trx_commit=2"),
    server=ServerSpec(server="mariadb@10.11.19"),
    crashes=12,
    base=BaseSpec(settings={"log_bin": "ON"}),
    positive_control=False,
)


def tune_request(**changes: Any) -> TuneRequest:
    """What a tuning was asked for; fields of its specification by their names, too."""
    own = {name: changes.pop(name) for name in tuple(changes) if name in TuneSpec.__struct_fields__}
    spec = msgspec.structs.replace(TUNE_SPEC, **{name: own[name] for name in own if name != "base"})
    facts: dict[str, Any] = {
        "spec": spec,
        "build": "mariadb@10.11.19",
        "build_id": "mariadb-x",
        "machine": MACHINE,
        "base": own.get("base", BASE),
        "original": {"sync_binlog": 1},
        "candidates": (),
        "lowest": Floor.SECOND,
        "timing": Timing(seconds=4.0),
    }
    return TuneRequest(**{**facts, **changes})


def series_request(**changes: Any) -> SeriesRequest:
    """What a series was asked for."""
    facts: dict[str, Any] = {
        "spec": SERIES_SPEC,
        "build": "mariadb@10.11.19",
        "build_id": "mariadb-x",
        "machine": MACHINE,
        "plan": "insert-on-duplicate",
        "title": "a title",
        "folder": "/plans",
        "base": BoundArm(name="base", settings=BASE, workload=WorkloadSpec(name="upsert")),
        "arms": (),
        "blocks": 5,
        "timing": Timing(seconds=10.0),
        "seed": 3,
    }
    return SeriesRequest(**{**facts, **changes})


def crash_request(spec: CrashSpec = CRASH_SPEC) -> CrashRequest:
    """What a crash campaign was asked for."""
    return CrashRequest(
        spec=spec,
        folder="/",
        build="mariadb@10.11.19",
        server="mariadb@10.11.19",
        build_id="mariadb-x",
        workload_digest="",
        planned={},
    )


TUNE_ARMS = {"base": 12_000.0, "control": 12_000.0, FREE_ARM: 13_000.0, FAST_ARM: 19_000.0}
SERIES_ARMS = {"base": 9_800.0, "control": 9_700.0, "B": 12_900.0, "F": 8_100.0, "G": 18_700.0, "I": 9_800.0}


def row(
    kind: str,
    facts: CampaignFacts | None,
    request: TuneRequest | SeriesRequest | None = None,
    **changes: Any,
) -> CampaignRow:
    request = request or (tune_request() if kind == "tune" else series_request())
    stored = CampaignRow(
        id=f"{kind}-20261121-104206-79a6",
        kind=kind,
        created_at="2026-11-21T10:42:06.705+00:00",
        flushlab="0.1.0",
        plan=msgspec.json.encode(request),
        state="done" if facts is not None else "running",
        result=msgspec.json.encode(facts) if facts is not None else None,
        trials=0,
    )
    return msgspec.structs.replace(stored, **changes)


def crash_rows(*arms: CrashArm) -> list[CrashRow]:
    """The crashes of `crashed`."""
    return [row for arm in arms or (KEPT, LOSING) for row in rows(arm)]


def crashed(*arms: CrashArm, spec: CrashSpec = CRASH_SPEC) -> CampaignRow:
    """A stored crash campaign: of a base that kept all and one that lost, unless others are given."""
    facts = crash_facts(*(arms or (KEPT, LOSING)))
    return CampaignRow(
        id="crash-20261121-104206-79a6",
        kind="crash",
        created_at="2026-11-21T10:42:06.705+00:00",
        flushlab="0.1.0",
        plan=msgspec.json.encode(crash_request(spec)),
        state="done",
        result=msgspec.json.encode(facts),
        trials=0,
    )


def tuned() -> tuple[CampaignRow, Sequence[Trial]]:
    """A finished tuning and its trials."""
    return row("tune", tune_facts()), trials_of(TUNE_ARMS, "confirm")


def serial() -> tuple[CampaignRow, Sequence[Trial]]:
    """A finished series and its trials."""
    trials = [*trials_of(SERIES_ARMS, "arms"), *trials_of({"base": 9_900.0, "best": 23_000.0}, "best")]
    return row("series", series_facts()), trials
