"""`flushlab bench` without a server: what Ctrl-C leaves, what is written besides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from flushlab.cli.app import make_app
from flushlab.errors import MeasurementError, NotWritable, UsageError
from flushlab.record import FileActivity, Performance
from flushlab.workload.engine import LoadInterrupted
from tests.unit.records import load_result, trial

UNWRITTEN = "/full/seconds.csv is incomplete: No space left on device"


def test_ctrl_c_prints_what_was_measured_and_tells_of_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {}

    def interrupted(**flags: object) -> None:
        asked.update(flags)
        raise LoadInterrupted(msgspec.structs.replace(load_result(), unwritten=UNWRITTEN), "transactions/s")

    monkeypatch.setattr("flushlab.campaign.bench.bench", interrupted)
    log, seconds = tmp_path / "log", tmp_path / "seconds.csv"
    words = ["bench", "--server", "sandbox:x", "--hdr-log", str(log), "--per-second", str(seconds)]
    done = CliRunner().invoke(make_app(), words)
    assert "transactions/s" in done.stdout
    assert "interrupted" in done.stdout
    assert isinstance(done.exception, NotWritable)
    assert done.exception.message == UNWRITTEN
    assert (asked["hdr_log"], asked["per_second"]) == (str(log), str(seconds))


@pytest.mark.parametrize(
    "words",
    [["--defaults-file", "db1.cnf"], ["--socket", "db1.sock"], ["-h", "db1"], ["--server", "sandbox:x"]],
)
def test_a_server_that_is_named_runs_by_itself_whatever_fleet_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def interrupted(**_: object) -> None:
        raise LoadInterrupted(load_result(), "transactions/s")

    monkeypatch.setenv("FLUSHLAB_FLEET", "127.0.0.1:1")
    monkeypatch.setattr("flushlab.campaign.bench.bench", interrupted)
    assert CliRunner().invoke(make_app(), ["bench", *words]).exit_code == 130


@pytest.mark.parametrize("words", [["--wait-for-quiet"], ["--per-second", "seconds.csv"]])
def test_what_one_machine_alone_can_do_runs_here_if_only_the_environment_names_a_fleet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    def interrupted(**_: object) -> None:
        raise LoadInterrupted(load_result(), "transactions/s")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLUSHLAB_FLEET", "127.0.0.1:1")
    monkeypatch.setattr("flushlab.campaign.bench.bench", interrupted)
    done = CliRunner().invoke(make_app(), ["bench", *words])
    assert done.exit_code == 130
    assert f"not on the fleet of FLUSHLAB_FLEET: {words[0]}" in " ".join(done.stderr.split())


def test_ctrl_c_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise LoadInterrupted(load_result(), "transactions/s")

    monkeypatch.setattr("flushlab.campaign.bench.bench", interrupted)
    done = CliRunner().invoke(make_app(), ["bench", "--server", "sandbox:x"])
    assert done.exit_code == 130
    assert "interrupted" in done.stdout


def test_a_disk_that_is_full_costs_the_files_of_the_seconds_and_not_the_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load = msgspec.structs.replace(load_result(), unwritten=UNWRITTEN)
    measured = msgspec.structs.replace(trial(), load=load)
    monkeypatch.setattr("flushlab.campaign.bench.bench", lambda **_: measured)
    words = ["bench", "--server", "sandbox:x", "--json", str(tmp_path / "json")]
    done = CliRunner().invoke(make_app(), words)
    assert isinstance(done.exception, NotWritable)
    assert done.exception.message == UNWRITTEN
    assert done.exception.hint
    assert "transactions/s" in done.stdout
    assert (tmp_path / "json").exists()


def test_a_workload_without_latencies_has_none_per_second(tmp_path: Path) -> None:
    words = ["bench", "--workload", "command: true", "--server", "sandbox:x"]
    done = CliRunner().invoke(make_app(), [*words, "--hdr-log", str(tmp_path / "log")])
    assert done.exit_code != 0
    assert "no latencies per second" in str(done.exception)


def test_a_kept_sandbox_cannot_start_each_run_from_fresh_data() -> None:
    words = ["bench", "--workload", "command: true", "--server", "sandbox:x", "--reset", "each"]
    done = CliRunner().invoke(make_app(), words)
    assert isinstance(done.exception, UsageError)
    assert "--reset each" in done.exception.message
    assert done.exception.hint and "flushlab server reset x" in done.exception.hint


def test_a_disturbed_window_is_discarded_first_and_an_error_of_measurement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disturbed = trial(outcome="discarded", reason="other programs used 38% of the CPU time")
    monkeypatch.setattr("flushlab.campaign.bench.bench", lambda **_: disturbed)
    words = ["bench", "--server", "sandbox:x", "--json", str(tmp_path / "json")]
    done = CliRunner().invoke(make_app(), words)
    assert done.stdout.splitlines()[1].startswith("Discarded: other programs used 38% of the CPU time, so")
    assert "transactions/s" in done.stdout
    assert isinstance(done.exception, MeasurementError)
    assert done.exception.exit_code == 4
    document = msgspec.json.decode((tmp_path / "json").read_bytes())
    assert (document["outcome"], document["reason"]) == ("discarded", disturbed.reason)


def test_the_right_that_hides_the_fsyncs_of_the_binary_log_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = "the account lacks SELECT on performance_schema"
    measured = trial(
        file_activity={"binlog": FileActivity(bytes=7)},
        performance=Performance(
            untold={"io_by_file": f"{lacks} (GRANT SELECT ON performance_schema.* TO 'me')"}
        ),
    )
    monkeypatch.setattr("flushlab.campaign.bench.bench", lambda **_: measured)
    said = " ".join(CliRunner().invoke(make_app(), ["bench", "--server", "sandbox:x"]).stdout.split())
    assert f"of the binlog not visible: {lacks}" in said
    assert "GRANT" not in said
