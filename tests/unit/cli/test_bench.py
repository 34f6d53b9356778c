"""`flushlab bench` without a server: what Ctrl-C leaves, what is written besides."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from flushlab.cli.app import make_app
from flushlab.record import Interval, LoadResult
from flushlab.report.bench import per_second_csv
from flushlab.workload.engine import LoadInterrupted
from tests.unit.records import load_result


def measured() -> LoadResult:
    latency = load_result().latency_us
    return msgspec.structs.replace(
        load_result(),
        intervals=(
            Interval(second=0, figure=10, events=10, errors=1, latency_us=latency),
            Interval(second=1, figure=0, events=0, errors=0),
        ),
        hdr_log="#[a log]\n",
    )


def test_ctrl_c_prints_what_was_measured_and_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(**_: object) -> None:
        raise LoadInterrupted(measured(), "transactions/s")

    monkeypatch.setattr("flushlab.campaign.bench.bench", interrupted)
    log, seconds = tmp_path / "log", tmp_path / "seconds.csv"
    words = ["bench", "--server", "sandbox:x", "--hdr-log", str(log), "--per-second", str(seconds)]
    done = CliRunner().invoke(make_app(), words)
    assert done.exit_code == 130
    assert "transactions/s" in done.stdout
    assert "interrupted" in done.stdout
    assert log.read_text() == "#[a log]\n"
    assert seconds.read_text() == per_second_csv(measured())


def test_the_csv_has_a_line_per_second_and_nothing_where_no_event_ended() -> None:
    head, first, second = per_second_csv(measured()).splitlines()
    assert head == "second,figure,events,errors,mean_us,p50_us,p90_us,p95_us,p99_us,p999_us,max_us"
    assert first == "0,10,10,1,800.0,750,,1200,1900,4000,9000"
    assert second == "1,0,0,0,,,,,,,"


def test_a_workload_without_latencies_has_none_per_second(tmp_path: Path) -> None:
    words = ["bench", "--workload", "command: true", "--server", "sandbox:x"]
    done = CliRunner().invoke(make_app(), [*words, "--hdr-log", str(tmp_path / "log")])
    assert done.exit_code != 0
    assert "no latencies per second" in str(done.exception)
