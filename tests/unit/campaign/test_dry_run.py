"""Dry runs: what they foretell, and that they touch nothing."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import flushlab
from flushlab.build.inspect import Answer
from flushlab.campaign import target
from flushlab.campaign.facts import CampaignFacts, Forecast
from flushlab.campaign.scheduling import START_S
from flushlab.datadir import DataRoot
from flushlab.errors import BudgetTooSmall, UsageError
from flushlab.record import Storage
from tests.unit.builds import MARIADB

MIB = 1 << 20


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home that does not exist, and a build that nothing can start."""
    home = tmp_path / "home"
    monkeypatch.setenv("FLUSHLAB_HOME", str(home))
    root = DataRoot(path=tmp_path, storage=Storage(filesystem="ext4"))
    monkeypatch.setattr(target, "find_build", lambda *_, **__: MARIADB)
    monkeypatch.setattr(target, "paper_root", lambda _: root)
    help_of = "flushlab.campaign.pool.settings.verbose_help"
    monkeypatch.setattr(help_of, lambda *_: Answer("", "", refuses=False))
    return home


def seen(facts: CampaignFacts) -> Forecast:
    assert facts.ending == "dry run"
    assert facts.forecast is not None
    return facts.forecast


def test_a_tuning_is_foretold_by_its_own_planner(nowhere: Path) -> None:
    found = seen(flushlab.tune(minutes=6, fresh=True, dry_run=True))
    assert "innodb_flush_log_at_trx_commit=2" in [one.name for one in found.arms]
    assert found.trials_most is not None
    assert 20 <= found.trials_least < found.trials_most <= 6 * 60 / 8
    assert found.least_s is not None and found.likely_s is not None
    assert found.least_s < found.likely_s <= 360 == found.most_s
    assert found.resources.pool_bytes == 128 * MIB < found.resources.memory_bytes
    assert found.resources.data_bytes == pytest.approx(21.4 * MIB, rel=0.01)
    assert list(found.writes) == [str(nowhere / name) for name in ("store.sqlite", "snapshots", "run")]
    assert not nowhere.exists()


def test_servers_that_run_at_once_are_foretold_with_their_memory_and_disk(nowhere: Path) -> None:
    one, all_of_them = (seen(flushlab.tune(minutes=6, fresh=fresh, dry_run=True)) for fresh in (True, False))
    assert (one.resources.servers, all_of_them.resources.servers) == (1, 8)
    assert all_of_them.resources.memory_bytes == 8 * one.resources.memory_bytes
    assert one.resources.disk_bytes is not None and all_of_them.resources.disk_bytes is not None
    assert all_of_them.resources.disk_bytes == one.resources.disk_bytes / 2 * 9
    assert not nowhere.exists()


def test_what_only_the_first_run_can_tell_stays_unknown(tmp_path: Path) -> None:
    found = seen(flushlab.tune(workload="command: true", minutes=30, dry_run=True))
    assert (found.trial_s, found.least_s, found.trials_most) == (None, None, None)
    assert found.trials_least >= 20
    assert found.resources.disk_bytes is None
    dump = tmp_path / "dump.sql"
    dump.write_text("CREATE DATABASE shop; USE shop; CREATE TABLE t (i INT);\n" + "-- \n" * 1000)
    with_data = seen(flushlab.tune(workload="command: true", minutes=30, dataset=dump, dry_run=True))
    assert with_data.resources.data_bytes == 2 * dump.stat().st_size


@pytest.mark.parametrize("minutes", [0.1, 2])
def test_too_short_a_budget_is_refused_alike_before_anything_starts(minutes: float) -> None:
    with pytest.raises(
        BudgetTooSmall, match=r"too short: .* at floor strict and offers down to second need"
    ) as raised:
        flushlab.tune(minutes=minutes, dry_run=True)
    assert raised.value.hint is not None
    assert "use --minutes 3 or more, or --offer strict, which measures no offers" in raised.value.hint
    assert "--fixed NAME" in raised.value.hint
    flushlab.tune(minutes=3, dry_run=True)


def test_the_least_that_is_named_is_accepted() -> None:
    assert seen(flushlab.tune(minutes=4, dry_run=True)).most_s == 240


def test_a_series_is_counted_arm_by_arm(nowhere: Path) -> None:
    found = seen(flushlab.series("insert-on-duplicate", blocks=3, fresh=True, dry_run=True))
    running = [arm for arm in found.arms if arm.outcome == "measured"]
    assert found.trials_least == 3 * (2 + len(running))
    assert found.trials_most == found.trials_least + 9
    (zfs, *_) = [one for one in found.arms if one.name.startswith("J")]
    assert zfs.outcome == "skipped"
    assert "FLUSHLAB_ZFS_ROOT" in zfs.reason
    assert not nowhere.exists()


def test_a_comparison_is_foretold_too(nowhere: Path) -> None:
    facts = flushlab.compare(
        {"now": {}, "large": {"innodb_buffer_pool_size": "1G"}}, blocks=4, duration=10, dry_run=True
    )
    found = seen(facts)
    assert [one.name for one in found.arms] == ["large"]
    assert found.trials_least == found.trials_most == 12
    assert found.resources.pool_bytes == 1024 * MIB
    assert not nowhere.exists()


def test_blocks_of_a_fleet_run_at_the_same_time(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def foretold(**more: Any) -> Forecast:
        arms: dict[str, Any] = {"now": {}, "relaxed": {"innodb_flush_log_at_trx_commit": 2}}
        return seen(flushlab.compare(arms, blocks=12, duration=60, fresh=True, dry_run=True, **more))

    machines = SimpleNamespace(foreseen=lambda: SimpleNamespace(names=("db1", "db2", "db3", "db4")))
    monkeypatch.setattr(target, "connected", lambda _: nullcontext())
    monkeypatch.setitem(sys.modules, "flushlab.campaign.fleet.ray_machines", machines)
    alone, on_four = foretold(), foretold(fleet="127.0.0.1:9377")
    assert (alone.machines, on_four.machines) == ((), ("db1", "db2", "db3", "db4"))
    assert on_four.trials_least == alone.trials_least
    assert alone.least_s is not None and on_four.least_s is not None
    assert on_four.least_s - START_S == pytest.approx((alone.least_s - START_S) / 4)


def test_what_has_begun_is_no_dry_run() -> None:
    with pytest.raises(UsageError, match="--dry-run cannot be combined with --resume"):
        flushlab.tune(resume="tune-1", dry_run=True)


def test_nothing_is_advised_that_does_not_make_the_search_smaller() -> None:
    with pytest.raises(BudgetTooSmall) as raised:
        flushlab.tune(minutes=0.1, offer="strict", dry_run=True)
    assert "--offer" not in (raised.value.hint or "") and "--floor" not in (raised.value.hint or "")
    with pytest.raises(BudgetTooSmall) as raised:
        flushlab.tune(minutes=0.1, floor="relaxed", offer="relaxed", dry_run=True)
    assert "or a safer --floor, or --fixed NAME" in (raised.value.hint or "")
