"""Trials on a real server: what an arm, a server or the disk does becomes a fact in the record."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.datadir import DataRoot
from flushlab.errors import MeasurementError
from flushlab.record import Arm, Value
from flushlab.server import Server
from flushlab.trial.runner import TrialRunner
from flushlab.workload.command import CommandWorkload
from flushlab.workload.protocol import Measured, Reset, Timing, Window, Workload
from flushlab.workload.tables import OltpWorkload
from tests.conftest import flavors
from tests.integration.trials import trial_runner
from tests.waiting import PATIENCE_S

SMALL = OltpWorkload(name="oltp_update_non_index", threads=4, tables=1, table_size=1000)
TIMING = Timing(warm_up_s=0.1, max_warm_up_s=0.2, seconds=0.1, redo_bytes=200_000, max_seconds=PATIENCE_S)
"""Windows that go on until some hundred updates were written in them, however slow the machine is."""


def runner(build: Build, *workloads: Workload) -> TrialRunner:
    return trial_runner(build, *(workloads or (SMALL,)), timing=TIMING)


def arm(**settings: Value) -> Arm:
    return Arm(name="arm", settings=settings)


@pytest.mark.parametrize("name", ["mariadb@10.11", "mysql@5.7"])
def test_a_trial_records_both_ends_of_its_window(name: str, build: Callable[[str], Build]) -> None:
    trial = runner(build(name)).run(arm(innodb_flush_log_at_trx_commit=2), stage="bench", block=1)
    assert trial.outcome in ("measured", "discarded")
    assert trial.result is not None and trial.result > 0
    assert trial.before is not None and trial.after is not None
    for sample in (trial.before, trial.after):
        assert sample.checkpoint_age_bytes is not None and sample.checkpoint_age_bytes >= 0
        assert sample.dirty_pages is not None and sample.history_length is not None
    assert trial.after.redo_written_bytes is not None and trial.before.redo_written_bytes is not None
    written = trial.after.redo_written_bytes - trial.before.redo_written_bytes
    assert trial.load is not None
    assert 100 < written / trial.load.events < 5000  # bytes of redo per update of one row
    assert trial.settings["innodb_flush_log_at_trx_commit"] == 2
    assert trial.data_bytes is not None and trial.data_bytes > 100_000
    assert {"restore", "start", "warm_up", "window"} <= trial.seconds.keys()
    assert "window-too-short" in {warning.slug for warning in trial.warnings}


def test_a_refused_setting_is_a_result_with_the_servers_line(build: Callable[[str], Build]) -> None:
    trial = runner(build("mariadb@10.11")).run(arm(innodb_redo_log_capacity=8 << 20), stage="screen", block=1)
    assert trial.outcome == "refused"
    assert "innodb_redo_log_capacity" in trial.reason.replace("-", "_")
    assert trial.result is None


class Unloadable(OltpWorkload, frozen=True):
    def prepare(self, server: Server) -> None:
        raise MeasurementError("the rows are not there")


def test_data_that_cannot_be_loaded_fail_the_trial_and_leave_nothing(build: Callable[[str], Build]) -> None:
    workload = Unloadable(name="oltp_update_non_index", threads=4, tables=1, table_size=1001)
    ran = runner(build("mariadb@10.11"), workload)
    for _ in range(2):  # the second one finds no snapshot either
        trial = ran.run(arm(), stage="screen", block=1)
        assert (trial.outcome, trial.reason) == ("failed", "the rows are not there")


def test_a_rounded_value_is_recorded_as_it_is_with_a_warning(build: Callable[[str], Build]) -> None:
    asked = 200_000_000
    trial = runner(build("mariadb@10.11")).run(arm(innodb_buffer_pool_size=asked), stage="screen", block=1)
    assert trial.outcome in ("measured", "discarded")
    assert trial.settings["innodb_buffer_pool_size"] != asked
    assert "rounded" in {warning.slug for warning in trial.warnings}


class Fatal(OltpWorkload, frozen=True):
    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSEGV)
        return super().run(server, timing, window)


@pytest.mark.parametrize("name", flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", "mysql@9.7", first=2))
def test_a_server_that_dies_in_mid_trial_fails_that_trial_alone_with_its_last_words(
    name: str, build: Callable[[str], Build]
) -> None:
    fatal = Fatal(name=SMALL.name, threads=4, tables=1, table_size=1000)
    ran = runner(build(name), fatal, SMALL)
    trial = ran.run(arm(), stage="screen", block=1)
    assert trial.outcome == "failed"
    assert "its log says:\n" in trial.reason
    assert trial.launch is not None and trial.launch.redo_enabled
    after = ran.run(arm(), stage="screen", block=1, variant=1)
    assert after.outcome in ("measured", "discarded")


@pytest.mark.parametrize(("reset", "seen"), [("each", ["1", "1"]), ("none", ["1", "2"])])
def test_a_command_finds_fresh_data_each_time_or_what_the_last_run_left(
    reset: Reset, seen: list[str], build: Callable[[str], Build]
) -> None:
    found = build("mariadb@10.11")
    client = f"{found.client} --defaults-file=$FLUSHLAB_OPTION_FILE -N $FLUSHLAB_DATABASE"
    sql = "CREATE TABLE IF NOT EXISTS run (id INT); INSERT INTO run VALUES (1); SELECT COUNT(*) FROM run"
    ran = runner(found, CommandWorkload(command=f"echo '{sql}' | {client}", reset=reset))
    with ran:
        first = ran.run(arm(innodb_log_file_size=8 << 20), stage="bench", block=1)
        second = ran.run(arm(innodb_log_file_size=12 << 20), stage="bench", block=2)
    assert [trial.output.strip() for trial in (first, second)] == seen, (first.reason, second.reason)
    assert second.settings["innodb_log_file_size"] == 12 << 20
    assert ("restore" in second.seconds) == (reset == "each")


def test_recovery_is_measured_from_kill_to_the_first_answer(build: Callable[[str], Build]) -> None:
    start = time.monotonic()
    seconds = runner(build("mariadb@10.11")).recovery_s(arm())
    assert 0.05 < seconds < time.monotonic() - start


def test_a_trial_leaves_no_server_and_no_folder(
    build: Callable[[str], Build], private_home_with_builds: Path
) -> None:
    root = DataRoot.open().path
    before = set(root.iterdir())
    runner(build("mariadb@10.11")).run(arm(), stage="bench", block=1)
    assert set(root.iterdir()) <= before
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    names = []
    for child in children:
        with suppress(OSError):  # it has ended
            names.append(Path(f"/proc/{child}/comm").read_text().strip())
    assert not [name for name in names if "mariadbd" in name or "guard" in name]
