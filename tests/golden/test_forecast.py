"""Dry runs on the terminal and as JSON, from fixed facts."""

from __future__ import annotations

import msgspec

from flushlab.campaign.facts import ArmResult, Forecast, Resources
from flushlab.report import forecast
from tests.golden.test_reports import FACTS, check, text_of
from tests.unit.report.campaigns import series_facts

MIB = 1 << 20
LONG = Forecast(
    arms=(
        ArmResult(
            name="innodb_flush_log_at_trx_commit=2",
            text="commits no longer wait for the disk",
            floor="second",
        ),
        ArmResult(name="innodb_log_buffer_size=64M", text="large transactions no longer wait for log writes"),
    ),
    trials_least=27,
    trials_most=39,
    trial_s=8.0,
    least_s=250.0,
    likely_s=346.0,
    most_s=360.0,
    resources=Resources(
        pool_bytes=128 * MIB,
        memory_bytes=895 * MIB,
        available_memory_bytes=22 << 30,
        data_bytes=21 * MIB,
        disk_bytes=535 * MIB,
        free_disk_bytes=47 << 30,
    ),
    writes={"/var/lib/flushlab/store.sqlite": "every trial, and the result"},
)
OUT = {"out": "tune.json, report.html"}


def test_a_dry_run_of_tune() -> None:
    assert FACTS.tuning is not None
    tuning = msgspec.structs.replace(FACTS.tuning, lowest="second")
    facts = msgspec.structs.replace(FACTS, floor="strict", tuning=tuning, forecast=LONG)
    check("forecast-tune.txt", text_of(forecast.document(facts, OUT)))


def test_a_dry_run_says_what_raises_the_users_settings_to_the_floor() -> None:
    assert FACTS.tuning is not None
    tuning = msgspec.structs.replace(FACTS.tuning, raised_why=("sync_binlog = 1 so that …",))
    facts = msgspec.structs.replace(FACTS, floor="strict", tuning=tuning, forecast=LONG)
    shown = text_of(forecast.document(facts, OUT))
    assert "Your settings do not meet strict. It would raise them:\n  - sync_binlog = 1 so that …\n" in shown


def test_a_dry_run_of_a_series_that_only_its_first_run_can_time() -> None:
    found = Forecast(
        arms=(
            ArmResult(name="A default"),
            ArmResult(name="J ZFS", outcome="skipped", reason="there is no ZFS here"),
        ),
        trials_least=15,
        trials_most=15,
        trial_s=None,
        least_s=None,
        likely_s=None,
        most_s=None,
        resources=msgspec.structs.replace(LONG.resources, data_bytes=None, disk_bytes=None),
        writes=LONG.writes,
    )
    check("forecast-series.txt", text_of(forecast.document(series_facts(forecast=found), {})))


def test_a_dry_run_as_json() -> None:
    facts = msgspec.structs.replace(FACTS, forecast=LONG)
    document = msgspec.json.decode(msgspec.json.encode(forecast.as_json(facts, OUT)))
    assert document["schema"] == "flushlab.forecast/1"
    shown = document["forecast"]
    assert (shown["trials_least"], shown["trials_most"], shown["trial_s"]) == (27, 39, 8.0)
    assert (shown["least_s"], shown["likely_s"], shown["most_s"]) == (250.0, 346.0, 360.0)
    assert shown["writes"]["out"] == OUT["out"]
    assert shown["arms"][0]["name"] == "innodb_flush_log_at_trx_commit=2"
