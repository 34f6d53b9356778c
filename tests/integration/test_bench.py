"""`flushlab bench` on real servers, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import command
from tests.conftest import flavors, require_build
from tests.waiting import unmount

SMALL = ["--tables", "2", "--table-size", "1000", "--threads", "4", "--duration", "0.9"]
"""A window below 1 s is never discarded."""
SPARSE = ["--rand-type", "uniform", "--rate", "400"]
"""Draws that seldom hit a row twice."""
UNSYNCED = ["--set", "innodb_flush_log_at_trx_commit=0", "--set", "sync_binlog=0"]
"""Settings with which the speed of a disk says little."""


def flushlab(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs it; again where a busy machine got nothing done in the whole window, which is an error."""
    for _ in range(5):
        done = command.flushlab(*words, code=None)
        if " were committed within " not in " ".join(done.stderr.split()):
            break
    return done


def events_of(result: dict[str, Any]) -> float:
    return float(result["result"] * result["seconds"]["window"])


def measured(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON document of a run; other programs may have disturbed its window, as other tests do."""
    assert done.returncode == 0 or "error: discarded: " in done.stderr, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory without a byte of room."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(tmp_path)], check=True)
    try:
        with pytest.raises(OSError, match="No space"):
            (tmp_path / "ballast").write_bytes(bytes(1 << 20))
        yield tmp_path
    finally:
        unmount(tmp_path)


def test_a_full_disk_costs_the_files_and_not_the_result(full: Path) -> None:
    require_build("mariadb@10.11")
    words = [f"--{flag}={full / flag}" for flag in ("json", "hdr-log", "per-second")]
    done = flushlab("bench", *SMALL, *UNSYNCED, *words)
    assert done.returncode == 5
    document = json.loads(done.stdout[done.stdout.index("\n{") :])
    assert f"{document['result']:,.0f} transactions/s" in done.stdout.replace("\xa0", " ")
    assert done.stderr.count("error:") == done.stderr.count("hint:") == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", first=2))
def test_bench_measures_and_reads_settings_back(name: str) -> None:
    require_build(name)
    policy = ("--set", "innodb_flush_log_at_trx_commit=2")
    done = flushlab("bench", "--server", name, *SMALL, *policy, "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["schema"] == "flushlab.bench/1"
    assert result["result"] > 0
    assert result["unit"] == "transactions/s"
    assert (
        0
        < result["load"]["latency_us"]["p50"]
        <= result["load"]["latency_us"]["p99"]
        <= result["load"]["latency_us"]["max"]
    )
    assert result["load"]["client_cpu_us_per_event"] > 0
    assert {"voluntary_switches", "involuntary_switches", "waits"} <= result["load"]["client"].keys()
    assert result["load"]["errors"] == []
    assert result["server"]["flavor"] == name.partition("@")[0]
    assert result["settings"]["innodb_flush_log_at_trx_commit"] == 2
    # The server's own counter holds what the client counted, and what came just before and after it; of each
    # connection one event may have been counted before, whose answer came in the window.
    assert events_of(result) - 4.5 <= result["deltas"]["Handler_update"]


def test_flush_policy_changes_what_it_is_for(tmp_path: Path) -> None:
    """Judged by effect: fsyncs of so many transactions, not by what the variable says."""
    require_build("mariadb@10.11")
    script, commits, fsyncs = tmp_path / "commits.sql", 200, {}
    script.write_text("CREATE TABLE t (n INT);\n" + "INSERT INTO t VALUES (1);\n" * commits)
    for policy in ("1", "2"):
        flush = ("--set", f"innodb_flush_log_at_trx_commit={policy}")
        result = measured(flushlab("bench", "--workload", f"sql:{script}", *flush, "--json", "-"))
        fsyncs[policy] = result["deltas"]["Innodb_data_fsyncs"]
    assert fsyncs["1"] >= commits
    assert fsyncs["2"] < commits / 2, "one a second, and those of pages"


def test_output_fits_80_columns_and_goes_to_stdout() -> None:
    require_build("mariadb@10.11")
    done = flushlab("bench", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "transactions/s" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "\x1b" not in done.stdout + done.stderr


def test_a_command_is_a_workload() -> None:
    require_build("mariadb@10.11")
    start = time.monotonic()
    result = measured(flushlab("bench", "--workload", "command: sleep 0.3", "--json", "-"))
    assert result["unit"] == "s"
    assert 0.3 <= result["result"] < time.monotonic() - start


def test_a_load_that_the_server_refuses_tells_the_way_out() -> None:
    require_build("mariadb@10.11")
    upsert = ("--workload", "upsert", "--rows", "200", "--tables", "1", "--table-size", "10")
    done = flushlab("bench", *upsert, "--set", "max_allowed_packet=1024", "--duration", "0.5")
    assert done.returncode == 4, done.stderr
    assert "error 1153" in done.stderr
    assert "hint: raise max_allowed_packet" in done.stderr


def test_a_kept_sandbox_is_measured_as_it_is() -> None:
    require_build("mariadb@10.11")
    name = f"bench-{os.getpid()}"
    started = flushlab("server", "start", "--name", name, "--json", "-")
    assert started.returncode == 0, started.stderr
    try:
        assert json.loads(started.stdout).keys() == {
            *("schema", "name", "flavor", "version", "socket", "host", "port", "user", "option_file")
        }
        kept = ["bench", "--server", f"sandbox:{name}", *SMALL, *SPARSE, "--json", "-"]
        done = flushlab(*kept, "--set", "sync_binlog=1", "--seed", "7")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["settings"]["sync_binlog"] == 1
        again = flushlab(*kept)
        first, second = json.loads(done.stdout), json.loads(again.stdout)
        assert second["settings"]["sync_binlog"] == 1
        assert (first["seed"], second["seed"] > 7) == (7, True)
        for one in (first, second):
            # The server counts a row only if it becomes another one; each connection may be in a statement.
            changed, updates = (one["deltas"][name] for name in ("Handler_update", "Com_update"))
            assert changed >= updates - 8, "rows are set to what they are"
        other = flushlab("bench", "--server", f"sandbox:{name}", *SMALL, "--table-size", "10")
        assert other.returncode == 4
        assert "has 1,000 rows, not 10" in other.stderr
        assert "hint: use --table-size 1000, or empty the server: flushlab server reset" in other.stderr
    finally:
        assert flushlab("server", "stop", name).returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--set", "innodb_flush_log_at_trx_comit=1"], 2, "innodb_flush_log_at_trx_commit"),
        (["--set", "innodb_flush_log_at_trx_commit=9"], 2, "innodb_flush_log_at_trx_commit"),
        (["--set", "innodb_redo_log_capacity=1G"], 2, "not a setting of mariadb 10.11"),
        (["--set", "no_such_thing=1"], 2, "no_such_thing"),
        (["--set", "sync_binlog"], 2, "NAME=VALUE"),
        (["--workload", "oltp_update_nonindex"], 2, "did you mean oltp_update_non_index"),
        (["--threads", "0"], 2, "--threads"),
        (["--duration", "0"], 2, "--duration"),
        (["--server", "mysql@4.1"], 2, "mysql@4.1"),
        (["--server", "sandbox:nobody-here"], 2, "nobody-here"),
        (["--data-root", "/proc/nowhere"], 5, "/proc/nowhere"),
        (["--json", "/nowhere/result.json"], 5, "/nowhere/result.json"),
        (
            ["--workload", "command: echo broken; exit 9"],
            4,
            "error: exit code 9 from echo broken; exit 9\nbroken",
        ),
        (["--set", "innodb_buffer_pool_size=900T"], 5, "memory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_gets_a_message_a_code_and_no_traceback(words: list[str], code: int, message: str) -> None:
    require_build("mariadb@10.11")
    small = [] if "--workload" in words else SMALL
    done = flushlab("bench", *small, *words)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
