"""Running a command as a shell would: exit codes, signals, untouched streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flushlab.suite.command import NOT_EXECUTABLE, NOT_FOUND, find_problem, run
from tests.waiting import PATIENCE_S

RUNNER = """
import os, sys
from flushlab.suite.command import run
ended = run(sys.argv[1:], dict(os.environ))
sys.exit(ended.exit_code)
"""


def start(*words: str) -> subprocess.Popen[bytes]:
    """It takes a SIGHUP, even if these tests run under `nohup`."""
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n{RUNNER}",
            *words,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_code_is_passed_on(code: int) -> None:
    assert run(["/bin/sh", "-c", f"exit {code}"], dict(os.environ)).exit_code == code


def test_death_by_a_signal_is_128_and_its_number() -> None:
    assert run(["/bin/sh", "-c", "kill -KILL $$"], dict(os.environ)).exit_code == 128 + signal.SIGKILL


def test_what_cannot_be_executed_is_known_before_anything_starts(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    environment = {"PATH": "/usr/bin:/bin"}
    cases = {"no-such-command": NOT_FOUND, "/no/such": NOT_FOUND, str(plain): NOT_EXECUTABLE}
    for word, code in cases.items():
        found = find_problem([word], environment)
        assert found is not None
        assert (found.exit_code, word in found.problem) == (code, True)
    assert find_problem(["sh", "-c", "true"], environment) is None


def test_a_script_whose_interpreter_is_missing_is_not_found(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    ended = run([str(script)], dict(os.environ))
    assert ended.exit_code == NOT_FOUND
    assert ended.problem


def test_streams_are_the_commands_own() -> None:
    child = start("/bin/sh", "-c", "printf 'out\\0x'; printf err >&2; exit 3")
    out, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, out, err) == (3, b"out\0x", b"err")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_flushlab_alone_is_the_commands_to_answer(number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    child = start(
        "/bin/sh", "-c", f"trap 'echo got; exit 7' {name}; echo ready; while :; do sleep 0.05; done"
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(number)
    out, _ = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, out) == (7, b"got\n")


def test_a_signal_that_flushlab_was_started_to_ignore_ends_neither_it_nor_the_command() -> None:
    script = "kill -HUP $$; echo lived; read line; exit 7"
    child = subprocess.Popen(
        ["nohup", sys.executable, "-c", RUNNER, "/bin/sh", "-c", script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == b"lived\n"
    for _ in range(4):  # at the third one that counts, the command would be killed
        child.send_signal(signal.SIGHUP)
    child.communicate(b"\n", timeout=PATIENCE_S)
    assert child.returncode == 7


def test_a_command_that_goes_on_after_signals_is_killed_at_the_third() -> None:
    child = start("/bin/sh", "-c", "trap 'echo got' INT; echo ready; while :; do sleep 0.05; done")
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    for _ in range(2):
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == b"got\n"
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 128 + signal.SIGKILL


def test_a_signal_in_the_terminal_reaches_the_command_once() -> None:
    """The terminal sends to the whole group; flushlab must not send it again."""
    script = "trap 'echo got' INT; echo ready; read line; echo end; exit 5"
    primary, secondary = os.openpty()
    leader = f"import os; os.setsid(); import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n{RUNNER}"
    child = subprocess.Popen(
        [sys.executable, "-c", leader, "/bin/sh", "-c", script], stdin=secondary, stdout=secondary, stderr=2
    )
    os.close(secondary)
    seen = b""
    while b"ready" not in seen:
        seen += os.read(primary, 1024)
    os.write(primary, b"\x03")
    while b"got" not in seen:
        seen += os.read(primary, 1024)
    os.write(primary, b"\n")
    while b"end" not in seen:
        seen += os.read(primary, 1024)
    assert child.wait(PATIENCE_S) == 5
    os.close(primary)
    assert seen.count(b"got") == 1
