"""A load that is only observed: what its stretches come to, and whether its throughput can show a gain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.analysis import demand_of, of_observed
from flushlab.campaign.arms import BoundArm
from flushlab.campaign.campaign import require_same_values
from flushlab.campaign.compare import compare
from flushlab.campaign.facts import ArmResult
from flushlab.campaign.series import require_permitted, series
from flushlab.errors import BelowFloor, UsageError
from flushlab.experiment.protocol import scores
from flushlab.record import (
    Comparison,
    ObservedLoad,
    Ratio,
    ServerIdentity,
    Storage,
    Trial,
    Value,
    WrittenStatements,
    side_by_side,
    together,
)
from flushlab.settings.floor import Floor
from flushlab.spec.parts import WorkloadSpec
from flushlab.workload import protocol
from tests.unit.records import trial
from tests.unit.report.campaigns import series_request

DSN = "mysql://me@127.0.0.1:1"
SAMPLED = ObservedLoad(
    seconds=4.0,
    commits=400,
    commits_by="binlog_commits",
    source="samples",
    write_s=8.0,
    commit_s=6.0,
    samples=80,
    syncs={"redo": 800.0},
    redo_bytes=4000.0,
)
TOLD = ObservedLoad(
    seconds=4.0,
    commits=100,
    commits_by="binlog_cache_use",
    source="statements",
    write_s=1.0,
    statements={"sql/insert": WrittenStatements(count=100, seconds=1.0)},
    histogram={1000.0: 50, 2000.0: 45, 9000.0: 5},
    errors=0,
)


def compared(low: float, high: float) -> Comparison:
    ratio = Ratio(estimate=math.sqrt(low * high), low=low, high=high)
    return Comparison(arm="a", ratio=ratio, blocks=10, verdict=ratio.verdict, detectable=0.1)


def test_latency_is_the_time_of_writers_over_commits() -> None:
    assert SAMPLED.write_us == 20_000
    assert SAMPLED.commit_us == 15_000
    assert SAMPLED.throughput == 100


def test_a_stretch_in_which_no_look_met_a_writer_counts_as_half_a_look() -> None:
    idle = msgspec.structs.replace(SAMPLED, write_s=0.0)
    assert idle.write_us == pytest.approx(4.0 / 160 / 400 * 1e6)


def test_nothing_committed_has_no_latency() -> None:
    assert msgspec.structs.replace(SAMPLED, commits=0).write_us is None


def test_an_arm_that_commits_nothing_beside_others_that_do_is_slow() -> None:
    stalled = msgspec.structs.replace(TOLD, commits=0, write_s=0.0, sampled_s=32.0, samples=80)
    found = scores([trial(observed=stalled, result=0.1)], "latency")
    assert found["latency"] == pytest.approx(-math.log(64e6))


def test_percentiles_are_upper_bounds_of_the_servers_buckets() -> None:
    assert [TOLD.percentile_us(share) for share in (0.5, 0.95, 0.99)] == [1000.0, 2000.0, 9000.0]
    assert SAMPLED.percentile_us(0.5) is None


def test_stretches_add_up_and_what_one_lacks_is_left_out() -> None:
    both = together([SAMPLED, msgspec.structs.replace(SAMPLED, commits=600, redo_bytes=None, syncs={})])
    assert (both.commits, both.seconds, both.write_us) == (1000, 8.0, 16_000)
    assert (both.redo_bytes, both.syncs, both.samples) == (None, {}, 160)
    two = together([TOLD, TOLD])
    assert two.histogram == {1000.0: 100, 2000.0: 90, 9000.0: 10}
    assert two.statements["sql/insert"] == WrittenStatements(count=200, seconds=2.0)


def test_stretches_of_two_sources_are_summed_by_samples() -> None:
    both = together([msgspec.structs.replace(TOLD, sampled_s=2.0), SAMPLED])
    assert (both.source, both.write_s) == ("samples", 10.0)
    alone = msgspec.structs.replace(TOLD, sampled_s=2.0).by_samples()
    assert (alone.source, alone.write_us, alone.statements, alone.histogram) == ("samples", 20_000, {}, {})


def test_nodes_side_by_side_commit_in_the_same_seconds() -> None:
    both = side_by_side([SAMPLED, msgspec.structs.replace(SAMPLED, commits=200, write_s=4.0)])
    assert (both.seconds, both.throughput, both.write_us) == (4.0, 150.0, 20_000)


def test_what_was_observed_is_the_same_after_it_was_stored() -> None:
    assert msgspec.json.decode(msgspec.json.encode(TOLD), type=ObservedLoad) == TOLD


def test_a_cell_is_scored_by_latency_and_by_throughput_besides() -> None:
    one: Trial = msgspec.structs.replace(trial(result=100.0), observed=SAMPLED, load=None, unit="commits/s")
    found = scores([one], "latency")
    assert found == {"latency": -math.log(20_000), "throughput": math.log(100.0)}


@pytest.mark.parametrize(
    ("latency", "throughput", "demand"),
    [
        ((1.9, 2.1), (0.99, 1.01), "fixed"),
        ((0.45, 0.55), (0.99, 1.01), "fixed"),
        ((2.053, 2.509), (1.001, 1.015), "fixed"),
        ((0.4, 0.5), (0.985, 0.999), "fixed"),
        ((1.9, 2.1), (1.8, 2.0), "closed loop"),
        ((0.45, 0.55), (0.5, 0.6), "closed loop"),
        ((1.9, 2.1), (0.8, 2.0), "unknown"),
        ((0.9, 1.1), (0.99, 1.01), "unknown"),
    ],
)
def test_throughput_that_stays_while_latency_moves_is_a_fixed_demand(
    latency: tuple[float, float], throughput: tuple[float, float], demand: str
) -> None:
    arm = ArmResult(name="a", comparison=compared(*latency), throughput=compared(*throughput))
    assert demand_of([arm]) == demand
    still = ArmResult(name="b", comparison=compared(0.9, 1.1), throughput=compared(0.9, 1.1))
    assert demand_of([arm, still]) == demand


def test_arms_that_disagree_leave_the_demand_unknown() -> None:
    fixed = ArmResult(name="a", comparison=compared(1.9, 2.1), throughput=compared(0.99, 1.01))
    closed = ArmResult(name="b", comparison=compared(1.9, 2.1), throughput=compared(1.9, 2.1))
    assert demand_of([fixed, closed]) == "unknown"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "--own-load needs your own server"),
        ({"dsn": DSN, "workload": "upsert"}, "--own-load and --workload cannot be combined"),
        ({"dsn": DSN, "threads": 4}, "--own-load and --threads cannot be combined"),
        ({"dsn": DSN, "allow_writes": True}, "--own-load and --allow-writes cannot be combined"),
        ({"dsn": DSN, "objective": "throughput"}, "--own-load and --objective cannot be combined"),
    ],
)
def test_what_is_about_a_load_of_flushlabs_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compare(["base", "sync_binlog=0"], own_load=True, **given)


def test_a_configuration_brings_no_workload_along() -> None:
    with pytest.raises(UsageError, match="has a workload of its own, but --own-load adds none"):
        compare(["base", "sync_binlog=0 --workload upsert"], own_load=True, dsn=DSN)


@pytest.mark.parametrize("server", [{}, {"dsn": DSN}])
def test_the_own_load_is_no_workload_that_a_command_could_make(server: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="own load is the load that a running server has"):
        compare(["base", "sync_binlog=0"], workload="own load", **server)


def test_a_plan_cannot_ask_for_it(tmp_path: Any) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('title = "a"\n[workload]\nname = "own load"\n[[arm]]\nname = "b"\ntext = "c"\n'
                    "settings = { sync_binlog = 0 }\n")  # fmt: skip
    with pytest.raises(UsageError, match="own load is the load that a running server has"):
        series(plan, dry_run=True)


MARIADB = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB")
STRICT: dict[str, Value] = {"log_bin": "ON", "sync_binlog": 1, "innodb_flush_log_at_trx_commit": 1}
UNSYNCED: dict[str, Value] = {**STRICT, "sync_binlog": 0}
OF_FLOOR = {"strict": 1, "second": 2, "relaxed": 0}


def bound(name: str, settings: Mapping[str, Value]) -> BoundArm:
    return BoundArm(name=name, settings=settings, workload=WorkloadSpec(name=protocol.OWN_LOAD))


def permitted(
    has: Mapping[str, Value], base: Mapping[str, Value], arm: Mapping[str, Value], floor: str | None
) -> None:
    asked = series_request(
        has=has,
        base=bound("base", base),
        arms=(bound("arm", arm),),
        floor=Floor(floor) if floor else None,
        base_name="the base",
    )
    require_permitted(asked, MARIADB, Storage(visible=False))


@pytest.mark.parametrize(
    ("base", "arm", "floor", "now", "refused"),
    [
        ("strict", "second", None, "strict", "arm"),
        ("second", "strict", None, "strict", "the base"),
        ("second", "strict", "strict", "strict", "the base"),
        ("second", "second", "second", "strict", ""),
        ("second", "second", None, "second", ""),
        ("second", "relaxed", "strict", "second", "arm"),
    ],
)
def test_a_configuration_is_held_against_what_the_server_guarantees_now(
    base: str, arm: str, floor: str | None, now: str, refused: str
) -> None:
    own, other = ({"innodb_flush_log_at_trx_commit": OF_FLOOR[one]} for one in (base, arm))
    has = {**STRICT, "innodb_flush_log_at_trx_commit": OF_FLOOR[now]}
    if refused:
        with pytest.raises(BelowFloor, match=f"^{refused} is below the floor"):
            permitted(has, own, other, floor)
    else:
        permitted(has, own, other, floor)


@pytest.mark.parametrize("floor", [None, "second", "strict"])
@pytest.mark.parametrize("value", [2, 0])
def test_a_server_that_meets_no_floor_is_not_made_to_lose_more(value: int, floor: str | None) -> None:
    arm = {"innodb_flush_log_at_trx_commit": value}
    words = f"is below the floor {floor}" if floor else "would keep less in a crash than your server does now"
    with pytest.raises(BelowFloor, match=f"^arm {words}") as refused:
        permitted(UNSYNCED, {}, arm, floor)
    assert refused.value.hint == "--floor throwaway allows it"
    permitted(UNSYNCED, {}, arm, "throwaway")


@pytest.mark.parametrize(
    "arm", [{"sync_binlog": 1}, {"sync_binlog": 100}, {"innodb_flush_log_at_trx_commit": 3}]
)
def test_a_server_that_meets_no_floor_may_have_what_loses_no_more(arm: Mapping[str, Value]) -> None:
    permitted(UNSYNCED, {}, arm, None)


def test_a_campaign_goes_on_only_with_the_values_that_it_began_with() -> None:
    arm = BoundArm(name="arm", changes={"sync_binlog": 1000})
    asked = series_request(has={"sync_binlog": 0, "innodb_io_capacity": 200}, arms=(arm,))
    settings: Any = SimpleNamespace(has=lambda also: {"sync_binlog": 0, "innodb_io_capacity": 400})
    require_same_values(asked, settings)
    require_same_values(series_request(arms=(arm,)), settings)  # a server of its own for each arm
    settings.has = lambda also: {"sync_binlog": 5}
    with pytest.raises(UsageError, match=r"began with other settings: sync_binlog is 5, and was 0$"):
        require_same_values(asked, settings)


def test_reads_among_commits_are_warned_of() -> None:
    assert not [*of_observed(TOLD), *of_observed(None)]
    (warning,) = of_observed(msgspec.structs.replace(TOLD, commits_by="handler_commit"))
    assert warning.slug == "reads-among-commits"
