"""What runs: noted by those who do it, told to those who ask, and gone with the process."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flushlab.machine.home import home_path, make_open
from flushlab.process import running
from flushlab.process.running import FOLDER, ask, find, live_status, publish_status
from flushlab.record import Endpoint, LoadSeen, Ratio
from flushlab.record.running import FillProgress, WatchedServer
from tests.waiting import wait_until

SERVER = WatchedServer(
    key="one", arm="A", endpoint=Endpoint(user="flushlab", password="secret", socket="/s"), pid=5, pids=(5,)
)
OTHER = WatchedServer(key="two", arm="B", endpoint=SERVER.endpoint, pid=6, pids=(6,))


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home with a longer path than a socket's may be."""
    home = tmp_path / ("long" * 40)
    monkeypatch.setenv("FLUSHLAB_HOME", str(home))
    make_open(home)
    for folder in home.parents:
        if folder.owner() == home.owner() and folder.is_relative_to(tmp_path.parents[2]):
            folder.chmod(0o755)
    yield
    assert not list((home_path() / FOLDER).glob("*"))


def test_what_runs_is_found_and_what_has_ended_is_not() -> None:
    with publish_status("bench", server="mariadb@10.11", workload="upsert") as noted:
        noted.server_started(SERVER)
        (found,) = find()
        assert (found.running.kind, found.running.server, found.running.pid) == (
            *("bench", "mariadb@10.11"),
            os.getpid(),
        )
        assert found.running.servers == (SERVER,)
    assert find() == []
    assert ask(found.place) is None


def test_only_its_user_may_ask() -> None:
    with publish_status("bench"):
        (place,) = (home_path() / FOLDER).iterdir()
        assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_what_runs_within_something_else_is_part_of_that() -> None:
    with publish_status("tune") as outer, publish_status("bench") as inner:
        assert inner is outer is live_status()
        assert [one.running.kind for one in find()] == ["tune"]


def test_a_process_that_was_killed_is_found_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import time\nfrom flushlab.process.running import publish_status\n"
        "with publish_status('fill'):\n    print('ready', flush=True)\n    time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert [one.running.pid for one in find()] == [child.pid]
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert find() == []
    monkeypatch.setattr(running, "SETTLED_S", -1.0)  # a while later
    assert find() == []


@pytest.mark.parametrize("settled_s", [-1.0, 3600.0])
def test_what_killed_processes_left_does_not_pile_up_and_nothing_else_is_removed(
    settled_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket that is young may be that of a process which is about to listen."""
    monkeypatch.setattr(running, "SETTLED_S", settled_s)
    with publish_status("bench"):
        (own,) = (home_path() / FOLDER).iterdir()
        prefix = own.name.rpartition("-")[0]
    for number in range(running.LEFT_BEHIND + 1):
        with (
            socket.socket(socket.AF_UNIX) as dead,
            running.near(own.with_name(f"{prefix}-{number}")) as near,
        ):
            dead.bind(near)
    elsewhere, no_socket = own.with_name("another-machine-1-2"), own.with_name(f"{prefix}-a-file")
    elsewhere.write_text("")
    no_socket.write_text("")
    with publish_status("bench"):
        left = list((home_path() / FOLDER).iterdir())
    assert {elsewhere, no_socket} <= set(left)
    assert len(left) == 3 + (running.LEFT_BEHIND + 1 if settled_s > 0 else 0)
    for one in (home_path() / FOLDER).iterdir():
        one.unlink()


def test_a_home_that_takes_no_socket_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: str) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(running, "home_part", full)
    with publish_status("bench") as noted:
        noted.trial(stage="arms", block=1, arm="A", left_s=None)
        assert find() == []


def test_nobody_sees_notes_of_what_is_not_watched() -> None:
    live_status().trial(stage="arms", block=1, arm="A", left_s=None)
    assert running.current_status() is None
    assert not live_status().is_seen


def test_trials_stages_and_slices_are_marked_under_the_names_that_people_know() -> None:
    with publish_status("compare") as noted:
        noted.names({"A": "flush=2"})
        noted.trial(stage="arms", block=3, arm="A", left_s=80.0)
        noted.result("A", 12.5)
        noted.server_started(SERVER)
        noted.server_started(OTHER)
        with noted.driving("one", "A"):
            pass
        with noted.running_server(OTHER, trial=True):
            pass
        noted.server_started(OTHER)
        now = noted.current()
    assert (now.stage, now.round, now.arm, now.trial) == ("arms", 3, "flush=2", 1)
    assert now.left_s is not None and now.left_s <= 80
    assert now.trial_results == {"flush=2": 12.5}
    assert [(mark.kind, mark.text) for mark in now.marks] == [
        ("stage", "arms"),
        ("slice", "flush=2"),
        ("trial", "B"),
    ]
    first, second = now.servers
    assert (first.arm, second.arm, now.pids) == ("flush=2", "B", (5, 6))
    assert first.driven_s is not None and second.driven_s is None


def test_a_slice_that_lasts_counts_as_driven() -> None:
    with publish_status("compare") as noted:
        noted.server_started(SERVER)
        with noted.driving("one", "A"):
            wait_until(lambda: (noted.current().servers[0].driven_s or 0) > 0.01, "it is driven")
        noted.server_ended("one")
        assert noted.current().servers == ()


def test_counters_run_over_all_loads() -> None:
    with publish_status("bench") as noted:
        for number in range(1, 100):
            load = LoadSeen(
                events=10, errors=((1213, 1),), latencies_us=((90, 9), (1000 + number, 1)), latency_sum_s=0.5
            )
            noted.load(number, LoadSeen(events=3))
            noted.load(number, load)
        totals = noted.current().totals
    assert (totals.events, totals.errors, totals.latency_sum_s) == (990, ((1213, 99),), 49.5)
    assert dict(totals.latencies_us)[90] == 9 * 99
    assert [us for us, _ in totals.latencies_us] == sorted(us for us, _ in totals.latencies_us)


def test_seconds_of_load_are_numbered() -> None:
    with publish_status("bench") as noted:
        for rate in (10.0, 20.0):
            noted.second(rate, "transactions/s", p50_ms=1.0, p99_ms=2.0)
        now = noted.current()
    assert now.unit == "transactions/s"
    assert [(one.number, one.per_second) for one in now.seconds] == [(1, 10.0), (2, 20.0)]


def test_ratios_and_rows_of_several_tables() -> None:
    with publish_status("fill") as noted:
        noted.ratios({"A": Ratio(estimate=1.5, low=1.4, high=1.6)}, "p99", early=True)
        for table, rows in (("users", 7), ("orders", 3)):
            noted.fill(
                FillProgress(
                    table=table, rows=rows, total=9, bytes=1, rows_per_s=1.0, left_s=1.0, bound_by="the disk"
                )
            )
        now = noted.current()
    (ratio,) = now.ratios
    assert (ratio.low, ratio.mid, ratio.high, ratio.early) == (1.4, 1.5, 1.6, True)
    assert ratio.objective == "p99"
    assert now.fill is not None and now.fill.rows_by_table == {"users": 7, "orders": 3}


def test_arguments_of_a_program_may_be_secrets() -> None:
    with publish_status("bench", workload="command: ./load.sh --password=hunter2") as noted:
        assert noted.current().workload == "command: ./load.sh"
        noted.is_about(workload="command: sysbench --mysql-password=hunter2")
        assert noted.current().workload == "command: sysbench"
