"""Which campaigns are measured on servers kept running, told by dry runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flushlab
from flushlab.build.inspect import Answer
from flushlab.campaign import target, tune
from flushlab.campaign.facts import CampaignFacts, PlanFacts
from flushlab.campaign.pool import room
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.scheduling import BESIDE_MOST, blocks_of
from flushlab.datadir import DataRoot
from flushlab.record import Storage
from tests.unit.builds import MARIADB


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home that does not exist, a disk with room, and a build that nothing can start."""
    monkeypatch.setenv("FLUSHLAB_HOME", str(tmp_path / "home"))
    root = DataRoot(path=tmp_path, storage=Storage(filesystem="ext4"))
    monkeypatch.setattr(target, "find_build", lambda *_, **__: MARIADB)
    monkeypatch.setattr(target, "paper_root", lambda _: root)
    monkeypatch.setattr(DataRoot, "free_bytes", lambda _: 100 << 30)
    help_of = "flushlab.campaign.pool.settings.verbose_help"
    monkeypatch.setattr(help_of, lambda *_: Answer("", "", refuses=False))


def planned(
    tmp_path: Path,
    arm: str,
    *,
    workload: str = 'name = "oltp_update_non_index"',
    before: str = "",
    **arguments: Any,
) -> CampaignFacts:
    plan = tmp_path / "plan.toml"
    head = f'title = "A plan"\nblocks = 5\nwindow = 10\n{before}\n[workload]\n{workload}\n'
    plan.write_text(f'{head}[[arm]]\nname = "one"\ntext = "An arm."\n{arm}\n')
    return flushlab.series(plan, dry_run=True, **arguments)


def plan_of(facts: CampaignFacts) -> PlanFacts:
    assert facts.plan is not None
    return facts.plan


FLUSH = "settings = { innodb_flush_log_at_trx_commit = 2 }"


def test_the_commit_path_is_measured_side_by_side_in_many_short_blocks(tmp_path: Path) -> None:
    found = planned(tmp_path, FLUSH)
    assert (found.interleaved, found.why_fresh) == (True, "")
    assert plan_of(found).blocks == 31
    assert plan_of(found).window_s == pytest.approx(50 / 31)


def test_fresh_servers_are_used_where_they_are_asked_for(tmp_path: Path) -> None:
    found = planned(tmp_path, FLUSH, fresh=True)
    assert (found.interleaved, found.why_fresh) == (False, "")
    assert (plan_of(found).blocks, plan_of(found).window_s) == (5, 10)


def test_what_a_server_does_later_is_measured_on_fresh_servers(tmp_path: Path) -> None:
    found = planned(tmp_path, "settings = { innodb_io_capacity = 4000 }")
    assert not found.interleaved
    assert "innodb_io_capacity" in found.why_fresh
    assert plan_of(found).blocks == 5


MIXED = f"""{FLUSH}
[[arm]]
name = "later"
settings = {{ innodb_io_capacity = 4000 }}
[[arm]]
name = "by the clock"
workload = {{ commit = "0.2 s" }}
"""


def test_one_series_measures_each_arm_in_the_way_that_is_right_for_it(tmp_path: Path) -> None:
    said = list[str]()
    found = planned(tmp_path, MIXED, workload='name = "upsert"', progress=said.append)
    assert (found.interleaved, found.why_fresh) == (True, "")
    assert plan_of(found).blocks == 31 + 12 + 5
    assert {arm.name: arm.why_fresh for arm in found.arms} == {
        "one": "",
        "later": "innodb_io_capacity shows its effect later, in background work",
        "by the clock": "",
        "best": "",
    }
    assert [line for line in said if "side by side" in line or "fresh" in line] == [
        "one: arms run side by side and alternate in slices: 31 blocks, at least 1.6 s of each arm in each",
        "by the clock: arms run side by side and alternate in slices: 12 blocks,"
        " at least 4.2 s of each arm in each",
        "later: each window gets a fresh server: innodb_io_capacity shows its effect later, in background"
        " work",
    ]


def test_doublewrite_may_be_measured_side_by_side_where_the_data_fit_the_pool(tmp_path: Path) -> None:
    arm = 'settings = { innodb_doublewrite = "OFF" }'
    assert planned(tmp_path, arm).interleaved
    large = 'name = "oltp_update_non_index"\ntable_size = 1_000_000'
    assert "innodb_doublewrite" in planned(tmp_path, arm, workload=large).why_fresh


def test_a_workload_that_runs_whole_and_a_profile_need_fresh_servers(tmp_path: Path) -> None:
    assert not planned(tmp_path, FLUSH, workload='name = "command: true"').interleaved
    profile = 'name = "upsert"\nprofile = "ramp:100-5000/60s"'
    assert not planned(tmp_path, FLUSH, workload=profile).interleaved


def test_a_plan_that_alternates_does_as_it_says(tmp_path: Path) -> None:
    assert not planned(tmp_path, FLUSH, before="alternate = true").interleaved


def test_servers_that_do_not_fit_side_by_side_are_fresh_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 1 << 30)
    assert planned(tmp_path, FLUSH).why_fresh.endswith("of memory")


TWO_MORE = """
[[arm]]
name = "two"
settings = { innodb_flush_log_at_trx_commit = 0 }
[[arm]]
name = "three"
settings = { sync_binlog = 0 }
"""


def test_where_few_servers_fit_arms_of_a_series_run_in_groups_against_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = planned(tmp_path, FLUSH + TWO_MORE)
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 9 << 28)
    found = planned(tmp_path, FLUSH + TWO_MORE)
    assert found.interleaved and found.forecast is not None and together.forecast is not None
    assert found.forecast.resources.servers == 4
    assert plan_of(found).blocks == 2 * plan_of(together).blocks
    assert found.forecast.trials_least == together.forecast.trials_least + 2 * plan_of(together).blocks


def test_a_pool_larger_than_the_data_counts_for_what_will_be_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option file of production is tried on a laptop: its pool alone would fill the memory."""
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 12 << 30)
    base = "[base.settings]\ninnodb_buffer_pool_size = 6_442_450_944\n"
    assert planned(tmp_path, f"{FLUSH}\n{base}").interleaved
    large = 'name = "oltp_update_non_index"\ntable_size = 4_000_000'
    assert "of memory" in planned(tmp_path, f"{FLUSH}\n{base}", workload=large).why_fresh


def test_short_campaigns_have_short_blocks_as_intervals_rest_on_their_number() -> None:
    assert blocks_of(5, 32) == (80, 2)
    assert blocks_of(5, 7) == (35, 1)
    assert blocks_of(5, 3) == (38, 15 / 38)
    assert blocks_of(2, 1) == (10, 0.2)


def test_slices_are_long_against_commits_by_the_clock(tmp_path: Path) -> None:
    workload = 'name = "upsert"\ncommit = "0.2 s"'
    found = planned(tmp_path, FLUSH, workload=workload)
    assert plan_of(found).blocks == 12
    assert plan_of(found).window_s == pytest.approx(50 / 12)


def test_as_much_is_measured_as_was_asked_for() -> None:
    for blocks, seconds in [(5, 10.0), (2, 0.5), (40, 1.0), (5, 3600.0), (3, 7.3)]:
        count, each_s = blocks_of(blocks, seconds)
        assert count * each_s == pytest.approx(max(blocks * seconds, count * 0.2))
        assert count >= blocks


# -- tune ------------------------------------------------------------------------------------------------


def tuning(**arguments: Any) -> tuple[CampaignFacts, int, list[str]]:
    """A dry run, the number of servers that would run at once, and what is said before."""
    said = list[str]()
    found = flushlab.tune(dry_run=True, progress=said.append, **arguments)
    assert found.forecast is not None
    return found, found.forecast.resources.servers, said


def test_a_short_measurement_is_tuned_side_by_side_in_five_minutes() -> None:
    found, servers, said = tuning()
    assert (found.interleaved, found.why_fresh, servers) == (True, "", BESIDE_MOST)
    assert found.forecast is not None and found.forecast.most_s == 300
    assert "servers run side by side and alternate in slices" in said


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"fresh": True}, ""),
        ({"minutes": 90.0}, "some candidates take effect later, in background work"),
        ({"workload": "command: true", "minutes": 20.0}, "command cannot be paused"),
        ({"disk": "gp3"}, "waiting servers would write beyond the disk's limit"),
    ],
)
def test_tune_uses_fresh_servers_where_it_must_and_says_why(arguments: dict[str, Any], why: str) -> None:
    found, servers, said = tuning(**arguments)
    assert (found.interleaved, found.why_fresh, servers) == (False, why, 1)
    assert any(why in line for line in said) or not why or "command" in why


def test_where_memory_is_short_arms_run_in_groups_against_the_base_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 2 << 30)
    found, servers, said = tuning()
    assert (found.interleaved, servers) == (True, 3)
    (line,) = [line for line in said if "side by side" in line]
    assert line.startswith(
        "servers run side by side and alternate in slices, 3 at a time against the base (each may"
    )
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 1 << 30)
    found, servers, said = tuning()
    assert (found.interleaved, servers) == (False, 1)
    assert found.why_fresh.endswith("of memory")


def test_a_floor_with_many_candidates_has_the_time_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flushlab.campaign.tune_analysis.STARTUP_S", 9.0)
    found, _, _ = tuning(floor="relaxed")
    assert found.forecast is not None and found.forecast.most_s == 600


FACTORS = """
[[factor]]
name = "f"
settings = { innodb_flush_log_at_trx_commit = 2 }
[[factor]]
name = "g"
"""
CAPACITY = "settings = { innodb_io_capacity = 4000 }\n"
BINLOG = "settings = { sync_binlog = 0 }\n"


def test_all_combinations_of_factors_are_measured_in_the_same_blocks(tmp_path: Path) -> None:
    found = planned(tmp_path, FLUSH.replace("2", "0") + FACTORS + CAPACITY)
    why = {arm.name: arm.why_fresh for arm in found.arms if arm.name != "best"}
    assert why["one"] == ""
    assert why["g"] == why["f + g"] == "innodb_io_capacity shows its effect later, in background work"
    assert why["f"] == f"{why['g']}; all combinations of factors run in the same blocks"


def test_where_few_servers_fit_combinations_of_factors_stay_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 12 << 28)
    said = list[str]()
    planned(tmp_path, FLUSH + TWO_MORE + FACTORS + BINLOG, progress=said.append)
    groups = [line.split(":")[0] for line in said if "side by side" in line]
    assert "f, g, f + g" in groups
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 9 << 28)
    found = planned(tmp_path, FLUSH + TWO_MORE + FACTORS + BINLOG)
    why = {arm.name: arm.why_fresh for arm in found.arms}
    assert why["f"] == why["g"] == why["f + g"] != ""
    assert why["one"] == ""


TWO_PLACES = """
[[arm]]
name = "binlog"
settings = { log_bin = "ON" }
[[arm]]
name = "both"
on = "binlog"
settings = { innodb_flush_log_at_trx_commit = 2 }
"""


def sliced_of(said: list[str]) -> list[str]:
    return [line for line in said if "alternate in slices" in line or "fresh" in line]


def test_arms_that_differ_in_dynamic_settings_alternate_on_one_cluster(tmp_path: Path) -> None:
    said = list[str]()
    found = planned(tmp_path, FLUSH + TWO_MORE, cluster=3, progress=said.append)
    assert sliced_of(said) == [
        "arms alternate in slices on 1 cluster: 25 blocks, at least 2.0 s of each arm in each"
    ]
    assert found.forecast is not None
    assert found.forecast.resources.servers == 3
    assert found.server.title == f"3-node Galera cluster of {MARIADB.name}"
    assert [one.slug for one in found.warnings] == ["co-located"]


def test_arms_with_and_without_a_binlog_alternate_on_two_clusters(tmp_path: Path) -> None:
    said = list[str]()
    found = planned(tmp_path, FLUSH + TWO_PLACES, before="cluster = 3", progress=said.append)
    assert sliced_of(said) == [
        "arms alternate in slices on 2 clusters: 25 blocks, at least 2.0 s of each arm in each"
    ]
    assert found.forecast is not None
    assert found.forecast.resources.servers == 6


def test_where_one_cluster_fits_what_it_cannot_be_switched_to_gets_fresh_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 3 << 30)
    found = planned(tmp_path, FLUSH + TWO_PLACES, cluster=3)
    fresh = {arm.name: arm.why_fresh for arm in found.arms if arm.why_fresh}
    assert list(fresh) == ["binlog", "both"]
    assert fresh["binlog"].endswith("of memory")


def test_more_places_than_clusters_that_fit_make_groups_each_beside_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 4 << 30)
    method = """
[[arm]]
name = "fsync"
settings = { innodb_flush_method = "fsync" }
"""
    said = list[str]()
    planned(tmp_path, FLUSH + TWO_PLACES + method, cluster=3, progress=said.append)
    assert [line.partition(":")[0] for line in sliced_of(said)] == ["one, binlog, both", "fsync"]
    assert all("on 2 clusters" in line for line in sliced_of(said))


def test_nodes_with_a_slow_disk_each_may_alternate(tmp_path: Path) -> None:
    assert not planned(tmp_path, FLUSH, disk="iops=500").interleaved
    assert planned(tmp_path, FLUSH, disk="iops=500", cluster=3).interleaved


def test_a_tuning_whose_candidates_are_dynamic_needs_one_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert flushlab.tune(dry_run=True, cluster=3).interleaved
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 1 << 30)
    assert flushlab.tune(dry_run=True, cluster=3).why_fresh.endswith("of memory")


def test_short_slices_of_tune_have_a_short_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[tuple[float, ...]]()
    decide = tune.decide

    def noting(*asked: Any) -> TuneRequest:
        request = decide(*asked)
        timing = request.timing
        seen.append((timing.warm_up_s, timing.max_warm_up_s, timing.seconds))
        return request

    monkeypatch.setattr(tune, "decide", noting)
    for window in (0.5, None):
        flushlab.tune(server="mariadb", trials=200, window=window, dry_run=True)
    assert seen == [(0.5, 1.0, 0.5), (1.5, 4.0, 1.0)]
