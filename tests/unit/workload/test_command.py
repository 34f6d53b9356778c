"""Which files a command line names."""

from __future__ import annotations

import os
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from flushlab.errors import CommandFailed, UsageError
from flushlab.record import Endpoint
from flushlab.suite.request import variables
from flushlab.workload.command import (
    HEAD_BYTES,
    TAIL_BYTES,
    CommandWord,
    CommandWorkload,
    environment,
    files_named,
    words_of,
)
from flushlab.workload.parse import build_workload
from flushlab.workload.protocol import Measured, Timing
from tests.fakes.server import FakeServer
from tests.waiting import wait_until


def run(command: str, **options: Any) -> Measured:
    return CommandWorkload(command=command, **options).run(FakeServer(), Timing(), nullcontext())


def test_figure_is_the_seconds_that_the_command_takes() -> None:
    begun = time.monotonic()
    assert 0.2 <= run("sleep 0.2").result <= time.monotonic() - begun


def test_command_finds_the_server_in_its_environment() -> None:
    names = {line.partition("=")[0] for line in run("env").output.splitlines()}
    assert names >= {
        "DATABASE_URL",
        "FLUSHLAB_DATABASE",
        "FLUSHLAB_HOST",
        "FLUSHLAB_PASSWORD",
        "FLUSHLAB_PORT",
        "FLUSHLAB_RUN",
        "FLUSHLAB_SOCKET",
        "FLUSHLAB_USER",
    }


def test_command_and_suite_find_the_server_by_the_clients_own_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.startswith("MYSQL_")]:
        monkeypatch.delenv(name)
    endpoint = Endpoint(user="me", password="s p", socket="/run/x.sock", host="127.0.0.1", port=3310)
    found = environment(endpoint, "shop")
    own = {name: value for name, value in found.items() if name.startswith("MYSQL_")}
    assert own == {
        "MYSQL_DATABASE": "shop",
        "MYSQL_HOST": "127.0.0.1",
        "MYSQL_PASSWORD": "s p",
        "MYSQL_PORT": "3310",
        "MYSQL_PWD": "s p",
        "MYSQL_TCP_PORT": "3310",
        "MYSQL_UNIX_PORT": "/run/x.sock",
        "MYSQL_USER": "me",
    }
    names = ("host", "port", "socket", "user", "password", "database", "url")
    suite = variables([{name: found.get(f"FLUSHLAB_{name.upper()}", "") for name in names}], {})
    assert {name: value for name, value in suite.items() if name.startswith("MYSQL_")} == own


def test_a_command_runs_in_its_folder(tmp_path: Path) -> None:
    assert run("pwd", folder=str(tmp_path)).output == f"{tmp_path}\n"


def test_output_is_kept_without_the_password() -> None:
    assert run("echo loaded as $FLUSHLAB_PASSWORD; echo twice >&2").output == "loaded as ***\ntwice\n"


def test_of_a_long_output_the_beginning_and_the_end_are_kept() -> None:
    output = run("echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo last").output
    assert output.startswith("first\nxxx") and output.endswith("xxxlast\n")
    assert "bytes left out" in output
    assert len(output) < HEAD_BYTES + TAIL_BYTES + 100


def test_warm_up_runs_come_first_and_are_not_timed(tmp_path: Path) -> None:
    command = "echo $FLUSHLAB_RUN >> runs; [ $FLUSHLAB_RUN = measured ] || sleep 0.5"
    begun = time.monotonic()
    measured = run(command, folder=str(tmp_path), warm_up_runs=2)
    elapsed = time.monotonic() - begun
    assert (tmp_path / "runs").read_text().split() == ["warm-up", "warm-up", "measured"]
    assert measured.warm_up_s >= 1
    assert 0 < measured.result <= elapsed - measured.warm_up_s


def test_the_exit_code_is_the_first_thing_said() -> None:
    with pytest.raises(CommandFailed, match=r"^exit code 3 from echo no such table; exit 3\nno such table"):
        run("echo no such table; exit 3")


def test_only_the_last_lines_are_said_and_all_that_was_kept_is_handed_on() -> None:
    with pytest.raises(CommandFailed) as caught:
        run("seq 100; exit 1")
    assert caught.value.message.splitlines()[1:] == [str(number) for number in range(91, 101)]
    assert caught.value.output.startswith("1\n2\n")


def test_a_failing_warm_up_run_says_which_one() -> None:
    with pytest.raises(CommandFailed, match="exit code 1 from false in warm-up run 1; it printed nothing"):
        run("false", warm_up_runs=3)


@pytest.mark.parametrize(
    ("command", "code", "hint"),
    [("no-such-program", 127, "did not find a program"), ("/etc/passwd", 126, "chmod")],
)
def test_what_the_shell_means_by_its_exit_codes_is_a_hint(command: str, code: int, hint: str) -> None:
    with pytest.raises(CommandFailed, match=f"exit code {code}") as caught:
        run(command)
    assert hint in (caught.value.hint or "")


def test_a_killed_command_names_the_signal() -> None:
    with pytest.raises(CommandFailed, match="was killed by SIGTERM"):
        run("kill $$")


def test_a_command_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    for limit in (1, 10, 100):  # until it came to something, on a machine that stands still for a while
        with pytest.raises(CommandFailed, match=f"did not end within {limit} s") as caught:
            run(f"sleep 600 & echo $! > {pid_file}; echo waiting; wait", timeout=limit)
        if caught.value.output:
            break
    assert "--timeout" in (caught.value.hint or "")
    assert caught.value.output == "waiting\n"
    pid = int(pid_file.read_text())
    assert os.getpid() != pid
    wait_until(lambda: has_ended(pid), f"process {pid} ends")


def test_a_command_that_is_stopped_is_killed_with_its_children_and_has_not_failed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    command = CommandWorkload(command=f"sleep 600 & echo $! > {pid_file}; wait")
    stop = os.eventfd(0)
    thread = threading.Thread(target=command.run_until, args=(FakeServer(), stop))
    thread.start()
    wait_until(lambda: pid_file.exists() and pid_file.read_text().strip(), "the command runs")
    os.eventfd_write(stop, 1)
    thread.join()
    os.close(stop)
    pid = int(pid_file.read_text())
    wait_until(lambda: has_ended(pid), f"process {pid} ends")


def test_a_command_that_fails_before_it_is_stopped_has_failed() -> None:
    stop = os.eventfd(0)
    with pytest.raises(CommandFailed, match="exit code 3"):
        CommandWorkload(command="exit 3").run_until(FakeServer(), stop)
    os.close(stop)


def test_a_command_ends_when_its_shell_does_whoever_holds_its_output(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    holds = f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 600'"
    measured = run(f"{holds} & echo done; while ! [ -s {pid_file} ]; do :; done")
    assert measured.result < 600
    assert measured.output == "done\n"
    os.kill(int(pid_file.read_text()), 9)


def test_an_error_that_the_client_printed_is_a_caveat_though_the_exit_code_is_0() -> None:
    slugs = {
        one.slug: one.text
        for one in run("echo \"ERROR 1146 (42S02) at line 2: Table 'x' doesn't exist\"").warnings
    }
    assert "ERROR 1146 (42S02) at line 2" in slugs["errors-printed"]
    assert "short-run" in slugs


def test_a_script_that_is_not_there_is_found_out_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no .*/load\.sh"):
        build_workload("command: ./load.sh --fast", {}, folder=tmp_path)
    script = tmp_path / "load.sh"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match="may not be executed") as caught:
        build_workload("command: ./load.sh", {}, folder=tmp_path)
    assert (caught.value.hint or "").startswith("chmod +x")
    script.chmod(0o755)
    assert build_workload("command: ./load.sh", {}, folder=tmp_path).name == "command: ./load.sh"


def has_ended(pid: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1]
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("./load.sh --table t", ["./load.sh", "--table", "t"]),
        ("sh load.sh < in.sql; true", ["sh", "load.sh", "<", "in.sql;", "in.sql", "true"]),
        ("load --file=in.sql <in.sql", ["load", "--file=in.sql", "in.sql", "<in.sql", "in.sql"]),
        ("echo 'a", ["echo", "'a"]),
        ("sh -c 'db <in.sql'", ["sh", "-c", "db <in.sql", "db", "<in.sql", "in.sql"]),
    ],
)
def test_words_that_may_be_files(line: str, words: list[str]) -> None:
    assert [one.text for one in words_of(line)] == words


def test_files_that_are_there_are_named_once_whatever_the_other_words_are(tmp_path: Path) -> None:
    file = tmp_path / "in.sql"
    file.write_text("SELECT 1;\n")
    program = "print(1);" * 40
    line = f"python3 -c '{program}' ~nobody-of-this-name/x; db <in.sql; db <in.sql {tmp_path}/none"
    assert [*files_named(line, tmp_path)] == [(CommandWord("in.sql", is_whole=False), file)]
