from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from flushlab.errors import MeasurementError
from flushlab.server import FakeServer
from flushlab.workload import CommandWorkload, Timing
from tests.waiting import wait_until


def run(command: str, timing: Timing = Timing(max_seconds=20)) -> float:  # noqa: B008  # frozen
    return CommandWorkload(command=command).run(FakeServer(), timing, nullcontext()).figure


def test_figure_is_the_seconds_that_the_command_takes() -> None:
    assert 0.2 <= run("sleep 0.2") < 5


def test_command_finds_the_server_in_its_environment(tmp_path: Path) -> None:
    seen = tmp_path / "environment"
    run(f"env > {seen}")
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert names >= {
        "DATABASE_URL",
        "FLUSHLAB_DATABASE",
        "FLUSHLAB_HOST",
        "FLUSHLAB_PASSWORD",
        "FLUSHLAB_PORT",
        "FLUSHLAB_SOCKET",
        "FLUSHLAB_USER",
    }


def test_a_failing_command_shows_its_own_words() -> None:
    with pytest.raises(MeasurementError, match=r"ended with exit code 3\nno such table"):
        run("echo no such table; exit 3")


def test_a_killed_command_names_the_signal() -> None:
    with pytest.raises(MeasurementError, match="was killed by SIGTERM"):
        run("kill $$")


def test_a_command_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(MeasurementError, match="did not end within 1 s"):
        run(f"sleep 60 & echo $! > {pid_file}; wait", Timing(max_seconds=1))
    pid = int(pid_file.read_text())
    assert os.getpid() != pid
    wait_until(lambda: has_ended(pid), f"process {pid} ends")


def has_ended(pid: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1]
    except (FileNotFoundError, ProcessLookupError):
        return True
