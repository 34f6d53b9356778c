"""A stored campaign as OpenMetrics: whole, in order, and taken by Prometheus' own tool."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from flushlab.record import Arm, ErrorCount, Slice, Trial
from flushlab.report.openmetrics import Dated, render
from flushlab.settings.floor import Floor
from flushlab.store import CampaignRow
from tests.unit.records import load_result, trial
from tests.unit.report import campaigns as made

ROW = CampaignRow(
    id="compare-1",
    kind="compare",
    created_at="2026-11-21T10:00:00+00:00",
    flushlab="0.1.0",
    plan=b"{}",
    state="done",
    result=None,
    trials=3,
)
PLAN = made.series_request(floor=Floor.SECOND)
BASE, FAST = Arm(name="base", settings={}), Arm(name='flush=2 "quoted"\n', settings={})


def dated() -> Dated:
    errors = (ErrorCount(errno=1213, sqlstate="40001", message="Deadlock", count=3),)
    load = msgspec.structs.replace(load_result(), seconds=3.0, per_second=(10, 20, 30), errors=errors)
    seconds = {"window": 3.0, "stop": 1.0, "other": 0.5, "between": 7.0}
    slices = tuple(Slice(round=n, start_s=50.0 + n, seconds=0.5, events=5) for n in range(3))
    return [
        (1000.0, trial(arm=BASE, block=0, load=load, seconds=seconds)),
        (1020.0, trial(arm=FAST, block=0, load=load, seconds=seconds)),
        (1040.0, trial(arm=BASE, block=1, load=load, slices=slices, seconds={})),
        (1040.0, trial(arm=FAST, block=1, load=load, slices=slices, seconds={})),
    ]


def samples(text: bytes) -> list[Any]:
    parse: Any = text_string_to_metric_families
    return [sample for family in parse(text.decode()) for sample in family.samples]


def test_seconds_stand_where_they_ended_and_counters_run_over_all_trials() -> None:
    found = samples(render(ROW, PLAN, dated(), None))
    events = [(float(one.timestamp), one.value) for one in found if one.name == "flushlab_events_total"]
    assert events[:6] == [(996.5, 10), (997.5, 30), (998.5, 60), (1016.5, 70), (1017.5, 90), (1018.5, 120)]
    assert events[6:] == [(1038, 130), (1039, 140), (1040, 150)]
    (code,) = {one.labels["code"] for one in found if one.name == "flushlab_errors_total"}
    assert code == "1213"


def test_each_trial_is_told_of_with_its_arm_and_result() -> None:
    found = samples(render(ROW, PLAN, dated(), None))
    infos = [one.labels for one in found if one.name == "flushlab_trial_info"]
    assert {one["trial"] for one in infos} == {"1", "2", "3", "4"}
    figures = [one for one in found if one.name == "flushlab_trial_events_per_second"]
    assert {one.labels["arm"] for one in figures} == {BASE.name, FAST.name}
    latencies = [one.labels["quantile"] for one in found if one.name == "flushlab_trial_latency_seconds"]
    assert set(latencies) == {"0.5", "0.99"}


def test_a_campaign_without_a_trial_is_empty_and_whole() -> None:
    assert render(ROW, PLAN, [], None).endswith(b"# EOF\n")


def test_a_trial_that_measured_nothing_has_no_result() -> None:
    refused = Trial(arm=BASE, stage="arms", block=0, outcome="refused", seconds={"failed": 1.0})
    found = samples(render(ROW, PLAN, [(1000.0, refused)], None))
    assert [one.name for one in found if "trial" in one.name] == ["flushlab_trial_info"] * 2


def test_prometheus_takes_it(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is absent")
    (tmp_path / "past").write_bytes(render(ROW, PLAN, dated(), None))
    done = subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", "past", "data"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "data").iterdir())
