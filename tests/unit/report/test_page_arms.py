from __future__ import annotations

import io

import msgspec
from rich.console import Console

from flushlab.record import FileActivity, KindTime, RowCounts
from flushlab.report.arms import activity, by_arm, throughput
from flushlab.report.bench import document
from tests.unit.records import trial
from tests.unit.report.campaigns import series_of


def test_an_arm_is_shown_by_what_proves_it_and_else_by_what_there_is() -> None:
    own = by_arm([trial(stage="screen", result=1.0), trial(stage="confirm", result=2.0)])
    assert [one.result for one in own["base"]] == [2.0]
    assert [one.result for one in by_arm([trial(stage="screen", result=1.0)])["base"]] == [1.0]


def test_a_repeated_trial_counts_once_and_one_without_a_figure_never() -> None:
    trials = [
        trial(stage="confirm", block=2, result=3.0),
        trial(stage="confirm", block=1, outcome="discarded", result=1.0),
        trial(stage="confirm", block=1, result=2.0),
        trial(stage="confirm", block=3, outcome="failed"),
    ]
    assert [one.result for one in by_arm(trials)["base"]] == [2.0, 3.0]


def test_a_disturbed_trial_that_was_not_repeated_is_shown() -> None:
    assert [one.result for one in by_arm([trial(outcome="discarded", result=1.0)])["base"]] == [1.0]


def test_windows_stand_end_to_end_and_stalls_are_judged_by_their_own_window() -> None:
    slow = series_of(100.0, 5)
    fast = series_of(10_000.0, 5, stalled=True)
    line = throughput("x", [trial(load=slow), trial(load=fast, block=2)])
    assert line is not None
    assert line.seconds == (*slow.per_second, *fast.per_second)
    assert line.borders == (5,)
    assert line.stalled == (7,)
    assert line.p99_ms == 1.9


def test_a_workload_without_seconds_has_no_line() -> None:
    assert throughput("x", [trial(load=None)]) is None


def test_file_activity_is_per_event_over_all_windows() -> None:
    told = {"redo": FileActivity(fsyncs=40, bytes=4_000, flags=("O_DSYNC",)), "data": FileActivity(bytes=0)}
    load = series_of(10.0, 1)
    found = activity("x", [trial(load=load, file_activity=told), trial(load=load, file_activity=told)])
    assert found is not None
    assert found.fsyncs == {"redo": 4.0}
    assert found.bytes == {"redo": 400.0, "data": 0.0}
    assert found.flags == {"redo": ("O_DSYNC",)}


def test_nothing_told_is_nothing_shown() -> None:
    assert activity("x", [trial(deltas={})]) is None


def test_each_workload_is_counted_per_unit_of_its_own() -> None:
    told = {"redo": FileActivity(fsyncs=30)}
    kind = KindTime(kind="INSERT", count=1201, seconds=1.0, slowest_s=0.1, slowest_line=1)
    script = msgspec.structs.replace(series_of(1201.0, 1), kinds=(kind,))
    upsert = msgspec.structs.replace(series_of(4.0, 1), rows=RowCounts(committed=60, updated=0, commits=2))
    for load, unit, higher_is_better, per, fsyncs in (
        (None, "s", False, "run", 30),
        (script, "s", False, "run", 30),
        (upsert, "rows/s", True, "row", 0.5),
        (series_of(10.0, 1), "transactions/s", True, "transaction", 3),
    ):
        one = trial(load=load, unit=unit, higher_is_better=higher_is_better, file_activity=told)
        found = activity("x", [one, one])
        assert found is not None
        assert (found.per, found.fsyncs) == (per, {"redo": fsyncs})
        console = Console(file=io.StringIO(), record=True, width=80)
        console.print(document(one))
        assert f"redo {fsyncs} per {per}" in console.export_text()
