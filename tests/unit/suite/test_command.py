"""Running a command as a shell would: exit codes, signals, untouched streams."""

from __future__ import annotations

import os
import shlex
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


LISTENER = """
import os, sys
from flushlab.suite.command import run_listening
ended = run_listening(["/bin/sh", "-c", sys.argv[1]], dict(os.environ))
print(ended.exit_code, *ended.errors, sep="\\n")
"""


def listened(script: str) -> tuple[list[str], bytes]:
    done = subprocess.run(
        [sys.executable, "-c", LISTENER, script], capture_output=True, timeout=PATIENCE_S, check=True
    )
    return done.stdout.decode().splitlines(), done.stderr


def test_what_is_listened_to_reaches_stderr_untouched_and_in_its_order() -> None:
    found, err = listened("printf 'a\\0b\\r'; printf 'err\\n' >&2; printf 'end'; exit 3")
    assert (found, err) == (["3"], b"a\0b\rerr\nend")


@pytest.mark.parametrize(
    "line",
    [
        "ERROR 1305 (42000) at line 2: FUNCTION app.BIN_TO_UUID does not exist",
        "ERROR 1064 (42000) at line 3 in file: 'V2.sql': You have an error in your SQL syntax",
        "ERROR: 1146 (42S02) at line 1: Table 'app.t' doesn't exist",
        'Migration of schema `app` to version "2 - rows" failed! Please restore backups and roll back!',
        "Migration failed for changeset db/changelog.xml::2::me:",
        "A migration failed to apply. New migrations cannot be applied before the error is recovered from.",
        "migration failed with error: CREATE TABLE t (id INT, - You have an error in your SQL syntax",
        "An error has occurred, all later migrations canceled",
        "An error has occurred, this and all later migrations canceled",
        "(details: Error 1064: You have an error in your SQL syntax)",
        "while executing migration 20260101000005: error returned from database: 1064 (42000): You have",
    ],
)
def test_clients_and_tools_that_fail_are_noticed_though_the_script_exits_with_0(line: str) -> None:
    found, err = listened(f"printf '%s\\n' before {shlex.quote(f'db-1 | {line}')}; echo after")
    assert found == ["0", line]
    assert err.decode() == f"before\ndb-1 | {line}\nafter\n"


@pytest.mark.parametrize(
    "line",
    [
        "ERROR 2002 (HY000): Can't connect to local MySQL server through socket",
        "ERROR: relation t does not exist at line 3",
        "0 errors, 3 migrations applied",
        "error: failed to open database: dial tcp 127.0.0.1:3306: connection refused",  # golang-migrate
        "error: error communicating with database: Connection refused (os error 111)",  # sqlx
        "Acquire connection error: Error: connect ECONNREFUSED 127.0.0.1:3306",  # Knex
        "ActiveRecord::ConnectionNotEstablished: Can't connect to server on '127.0.0.1' (115)",
    ],
)
def test_a_script_that_waits_for_its_server_has_not_failed(line: str) -> None:
    assert listened(f"echo {shlex.quote(line)}")[0] == ["0"]


def test_an_error_without_an_end_of_line_is_noticed_at_the_end() -> None:
    assert listened("printf 'ERROR 1064 (42000) at line 1: x'")[0] == ["0", "ERROR 1064 (42000) at line 1: x"]


def test_a_process_that_the_command_leaves_behind_holds_nobody_up(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    found, _ = listened(f"(read line < {fifo}; echo late) & echo done")
    assert found == ["0"]
    fifo.open("w").close()  # it ends


def test_a_command_has_a_terminal_where_flushlab_has_one() -> None:
    primary, secondary = os.openpty()
    script = "test -t 1 && test -t 2 && echo 'ERROR 1064 (42000) at line 1: x'; stty size <&1"
    child = subprocess.Popen(
        [sys.executable, "-c", LISTENER, script], stdout=subprocess.PIPE, stderr=secondary
    )
    os.close(secondary)
    out, _ = child.communicate(timeout=PATIENCE_S)
    assert out.decode().splitlines() == ["0", "ERROR 1064 (42000) at line 1: x"]
    os.close(primary)
