from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flushlab.errors import UsageError
from flushlab.probe.against import cells, of_campaign, of_trial, shares
from flushlab.probe.ceilings import SyncSettings
from flushlab.record import Arm, RowCounts, Storage, Trial
from tests.unit.probes import CEILINGS, MEDIUM
from tests.unit.records import load_result, trial

SETTINGS = {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 1000, "log_bin": "ON"}
HERE = Storage(filesystem="xfs", device="nvme0n1p2")


def by_variant(trial: Trial) -> int | None:
    """The connections of a tuning's trials."""
    return (16, 64)[trial.variant]


def measured(result: float = 30_000.0, **changes: Any) -> Trial:
    settings = {**SETTINGS, **changes.get("settings", {})}
    facts: dict[str, Any] = {"storage": HERE, **changes, "settings": settings}
    return trial(result=result, **facts)


def test_the_share_is_of_the_serial_ceiling_at_the_same_policy_and_threads() -> None:
    server = of_trial("bench", measured(), 64)
    assert server.sync_settings == SyncSettings(2, 1000)
    (share,) = shares([server], CEILINGS, MEDIUM)
    assert share.share == pytest.approx(30_000 / 150_000)
    assert (share.best_strategy, share.best_per_s) == ("parallel", 240_000)
    assert share.warnings == ()


def test_a_ceiling_that_was_not_measured_gives_no_share() -> None:
    assert shares([of_trial("bench", measured(), 32)], CEILINGS, MEDIUM) == ()


def test_another_disk_and_a_missing_binlog_are_caveats() -> None:
    other = measured(storage=Storage(filesystem="tmpfs"), settings={"log_bin": "OFF", "sync_binlog": 1})
    server = of_trial("bench", other, 64)
    assert server.sync_settings == SyncSettings(2, 0)
    ceiling = msgspec.structs.replace(CEILINGS[6], sync_binlog=0)
    (share,) = shares([server], [ceiling], MEDIUM)
    assert [one.slug for one in share.warnings] == ["no-binlog", "other-disk"]


def test_rows_are_no_commits() -> None:
    load = msgspec.structs.replace(
        load_result(),
        rows=RowCounts(committed=500_000, updated=0, rolled_back=0, commits=5_000),
        seconds=5.0,
    )
    assert of_trial("upsert", measured(load=load, unit="rows/s"), 16).commits_per_s == 1_000


@pytest.mark.parametrize(
    ("changes", "threads"),
    [
        ({"result": None, "outcome": "failed"}, 16),
        ({"unit": "s", "load": None}, 16),
        ({}, None),
        ({}, 257),
    ],
)
def test_what_has_no_ceiling_is_refused(changes: dict[str, object], threads: int | None) -> None:
    with pytest.raises(UsageError) as raised:
        of_trial("x:1", msgspec.structs.replace(measured(), **changes), threads)
    assert raised.value.hint


def test_a_campaign_gives_the_median_trial_of_every_arm_and_variant() -> None:
    trials = [
        measured(result, arm=Arm(name=arm, settings={}), variant=variant)
        for arm, variant, result in [
            ("base", 0, 10.0), ("base", 0, 30.0), ("base", 0, 20.0), ("base", 1, 40.0), ("second", 0, 50.0),
        ]
    ]  # fmt: skip
    found = of_campaign("tune-1", None, by_variant, trials)
    assert [(one.trial, one.threads, one.commits_per_s) for one in found] == [
        ("tune-1:3", 16, 20.0),
        ("tune-1:4", 64, 40.0),
        ("tune-1:5", 16, 50.0),
    ]


def test_a_trial_is_named_by_its_number() -> None:
    (one,) = of_campaign("tune-1", 2, by_variant, [measured(10.0), measured(20.0)])
    assert (one.trial, one.commits_per_s) == ("tune-1:2", 20.0)
    with pytest.raises(UsageError, match="has no trial 3"):
        of_campaign("tune-1", 3, by_variant, [measured(10.0), measured(20.0)])


def test_a_campaign_without_commits_is_refused() -> None:
    with pytest.raises(UsageError, match="no trial that counts commits"):
        of_campaign("series-1", None, by_variant, [measured(unit="s", load=None)])


def test_every_flush_mode_is_asked_for_at_the_servers_policy() -> None:
    found = cells([of_trial("bench", measured(), 64)])
    assert {(one.sync_settings, one.threads) for one in found} == {(SyncSettings(2, 1000), 64)}
    assert len({one.binlog_strategy for one in found}) == 4
