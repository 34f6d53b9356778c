from __future__ import annotations

import codecs
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flushlab as flushlab_package
from flushlab import __version__
from flushlab.cli.app import COMMANDS
from flushlab.cli.main import in_ascii
from tests.loading import loaded_by_command
from tests.unit.cli.inside import flushlab
from tests.waiting import PATIENCE_S

HEAVY = {"scipy", "numpy", "matplotlib", "prometheus_client"}


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["server", "list"],
        ["settings", "sync_binlog"],
        ["tune", "--help"],
        ["tune", "--help-all"],
        ["series", "--help"],
        ["compare", "--help"],
        ["test", "--help"],
        ["probe", "--help"],
    ],
    ids=" ".join,
)
def test_quick_commands_load_no_heavy_library(words: list[str]) -> None:
    assert not loaded_by_command(*words)[0] & HEAVY


def test_a_named_command_loads_no_other() -> None:
    loaded = {one for one in loaded_by_command("test", "--help")[0] if one.startswith("flushlab.cli.")}
    needed = ("main", "app", "consoles", "declare", "output", "options", "plain", "test")
    assert loaded == {f"flushlab.cli.{name}" for name in needed}


def test_help_lists_every_command() -> None:
    said = flushlab("--help").stdout
    assert all(f" {name} " in said for name in COMMANDS)


def test_version_is_printed_alone() -> None:
    assert flushlab("--version").stdout == f"flushlab {__version__}\n"


@pytest.mark.parametrize(
    "command",
    ["tune", "series", "compare", "bench", "test", "probe", "server start", "settings", "cache prune"],
)
def test_help_has_an_example_and_fits_80_columns(command: str) -> None:
    done = flushlab(*command.split(), "--help")
    assert done.returncode == 0
    assert f"flushlab {command}" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ("tuen", "no such command 'tuen'", "did you mean tune?"),
        ("server stat", "no such command 'stat'", "did you mean start or status?"),
        ("server start --servr mysql", "no such option: --servr", "did you mean --server?"),
        ("compare --seconds 4", "no such option: --seconds", "did you mean --duration?"),
        ("doctor --duration 4", "no such option: --duration", "did you mean --seconds?"),
        ("bench --thread 4", "no such option: --thread", "did you mean --threads?"),
        (
            "tune --floor Strickt",
            "--floor: 'Strickt' is not one of strict, second, relaxed, throwaway",
            "did you mean strict?",
        ),
        ("crash --disk-iops 120", "no such option: --disk-iops", "write --disk iops=120"),
        ("test --disk-iops=9 -- true", "no such option: --disk-iops", "write --disk iops=9"),
        ("bench --iops --threads 4", "no such option: --iops", "write --disk iops=N"),
        ("server start --bogus", "no such option: --bogus", "see flushlab server start --help"),
        ("tune --config my.cnf", "no such option: --config", "did you mean --base?"),
        ("bench --connections 4", "no such option: --connections", "did you mean --threads?"),
        ("fleet start --port 99999", "--port 99999 is out of range", "it takes 1 to 65535"),
        ("fill --seed -1", "--seed -1 is out of range", "it takes 0 to 9223372036854775807"),
        ("fill --rows 1" + 16 * "0", f"--rows 1{16 * '0'} is out of range", f"it takes 1 to 1{15 * '0'}"),
        (
            "fill --print-plan --json x",
            "--print-plan and --json cannot be combined",
            "remove one of them",
        ),
        (
            "test --print-compose --json x",
            "--print-compose and --json cannot be combined",
            "remove one of them",
        ),
        ("bench --threads many", "--threads is 'many'; it takes a whole number", "it takes 1 to 4096"),
        (
            "fill t --rows abc",
            "--rows is 'abc'; it takes a whole number",
            "it takes 1 to 1000000000000000",
        ),
        ("test --workers 99 -- true", "--workers 99 is out of range", "it takes 1 to 64"),
        ("tune --minutes inf", "--minutes inf is out of range", "it takes more than 0, up to 525600"),
        ("server list mine", "unexpected argument: mine", "see flushlab server list --help"),
        ("server get", "missing argument 'name'", "see flushlab server get --help"),
        ("bench --duration", "--duration requires an argument", "Length of the measurement in seconds."),
    ],
)
def test_a_wrong_word_is_an_error_like_every_other_with_what_was_meant(
    words: str, error: str, hint: str
) -> None:
    done = flushlab(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {error}\nhint: {hint}\n"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("compare --resume compare-1 --duration 5", "--duration"),
        ("compare --resume compare-1 --tables 4", "--tables"),
        ("series --resume series-1 --blocks 7", "--blocks"),
        ("tune --resume tune-1 --set sync_binlog=0", "--set"),
        ("tune --resume tune-1 --point-selects 4", "--point-selects"),
    ],
)
def test_what_a_campaign_keeps_cannot_be_given_again(words: str, option: str) -> None:
    done = flushlab(*words.split())
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --resume takes no {option}\nhint: ")


@pytest.mark.parametrize("group", ["", "server", "cache"])
def test_what_a_command_is_for_is_said_in_full(group: str) -> None:
    commands = flushlab(*group.split(), "--help").stdout.partition("Show this message and exit.\n\n")[2]
    assert commands and "..." not in commands


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (
            ["compare", "base", "--workload upsert"],
            "no such option: '--workload upsert'",
            "write 'base --workload upsert'",
        ),
        (["tune", "--out", ""], "--out is empty", "name one, or leave it out"),
        (
            ["settings", "--check", os.fsdecode(b"\xff.cnf")],
            r"not UTF-8: '\udcff.cnf'",
            "rename the file, or pass a link to it",
        ),
    ],
)
def test_words_that_a_shell_makes_are_errors_like_every_other(
    words: list[str], error: str, hint: str
) -> None:
    done = flushlab(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {error}\nhint: {hint}\n"


def test_a_group_without_a_command_shows_what_it_has() -> None:
    done = flushlab("server")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == flushlab("server", "--help").stdout


@pytest.mark.parametrize(
    "words", ["--help", "tune --help", "settings", "settings innodb_flush_method", "server"]
)
def test_a_pipe_gets_no_frames_no_blanks_at_line_ends_and_whole_addresses(words: str) -> None:
    done = flushlab(*words.split())
    said = done.stdout + done.stderr
    assert said and not any(line.endswith(" ") or "─" in line for line in said.splitlines())
    assert words != "settings innodb_flush_method" or "html#sysvar_innodb_flush_method\n" in said


@pytest.mark.parametrize("no_color", ["", "1"])
def test_no_color_means_plain_text_on_a_terminal(no_color: str) -> None:
    command = f"{sys.executable} -m flushlab tuen"
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": no_color},
    )
    assert "error:" in done.stdout
    assert ("\x1b[" in done.stdout) == (not no_color)


@pytest.mark.parametrize(("encoding", "dots"), [("ascii", "..."), ("latin-1", "..."), ("cp1252", "…")])
def test_what_the_terminals_encoding_lacks_is_spelled_in_ascii(encoding: str, dots: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flushlab", "test"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.stderr.decode(encoding).endswith(f"hint: flushlab test [OPTIONS] -- COMMAND ARGS{dots}\n")


@pytest.mark.parametrize(("encoding", "dots"), [("ascii", "..."), ("cp1252", "…")])
def test_help_is_spelled_in_the_terminals_encoding_too(encoding: str, dots: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flushlab", "tune", "--help"],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert f"7200rpm, {dots}" in done.stdout.decode(encoding)


def test_every_character_that_flushlab_prints_has_a_spelling_in_ascii() -> None:
    codecs.register_error("spelled", in_ascii)
    for file in Path(flushlab_package.__file__).parent.rglob("*.py"):
        text = file.read_text().replace("?", "")
        assert "?" not in text.encode("ascii", "spelled").decode(), file


@pytest.mark.parametrize("imports", [4, 5, 6, 8, 12, 30, 60, 100, 150])
def test_ctrl_c_at_any_import_ends_it_without_a_word(imports: int) -> None:
    """From the entry's first line on; before it come three modules that import nothing themselves."""
    program = f"""
import os, runpy, sys
class Finder:
    left = {imports}
    def find_spec(self, name, path=None, target=None):
        Finder.left -= 1
        if Finder.left == -1:
            os.kill(os.getpid(), 2)
import pkgutil, importlib.util  # what run_module needs itself
sys.argv = ["flushlab", "settings", "sync_binlog"]
sys.meta_path.insert(0, Finder)
runpy.run_module("flushlab", run_name="__main__")
"""
    # Coverage would have imported what the program is interrupted at.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stderr == ""
    assert done.returncode in (130, -2)


def test_a_closed_pipe_ends_quietly() -> None:
    done = subprocess.run(
        f"{sys.executable} -m flushlab settings | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout


def test_nothing_waits_for_what_a_lost_fleet_has_left_open() -> None:
    program = (
        "import atexit, threading\nfrom flushlab.cli import main\nfrom flushlab.fleet import connect\n"
        "threading.Thread(target=threading.Event().wait).start()\n"  # sys.exit would wait for it
        "atexit.register(print, 'the last step')\n"
        "connect._left_open.append(connect.FleetAddress('10.0.0.5', 9377))\n"
        "print('a result')\n"
        "main._exit(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stdout) == (3, "a result\nthe last step\n")


@pytest.mark.parametrize("error", ["KeyboardInterrupt()", "flushlab.errors.ServerError('it is gone')"])
def test_what_could_not_be_undone_is_told_of_beside_the_error(error: str) -> None:
    program = (
        "import sys\nimport flushlab.errors\nfrom flushlab.cli import main\n"
        f"error = {error}\nerror.add_note('node 2 stays relaxed')\nsys.exit(main._print_ending(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("warning: node 2 stays relaxed\n")
    assert done.returncode in (130, 3)


@pytest.mark.parametrize(
    ("dsn", "warned"),
    [("mysql://me:se%40cret@127.0.0.1:1/app", True), ("mysql://me@127.0.0.1:1/app", False)],
)
def test_a_password_on_the_command_line_is_warned_of_and_not_repeated(dsn: str, warned: bool) -> None:
    done = flushlab("bench", "--dsn", dsn)
    assert ("history show the password in --dsn; use -p, or an option file" in done.stderr) == warned
    assert "cret" not in done.stderr


def test_several_passwords_on_the_command_line_are_warned_of_once() -> None:
    replicas = ("--replica", "mysql://me:se%40cret@127.0.0.1:1/", "--replica", "mysql://me:x@127.0.0.1:2/")
    done = flushlab("fill", "--dsn", "mysql://me:se%40cret@127.0.0.1:1/app", *replicas)
    assert done.stderr.count("history show the password") == 1
    replica = flushlab("fill", "--dsn", "mysql://me@127.0.0.1:1/app", *replicas)
    assert replica.stderr.count("history show the password in --replica") == 1
    schema = flushlab("fill", "--from-schema", "mysql://me:se%40cret@127.0.0.1:1/app")
    assert schema.stderr.count("history show the password in --from-schema") == 1


@pytest.mark.parametrize("word", ["-pse@cret", "--password=se@cret"])
@pytest.mark.parametrize(
    "command", [("tune",), ("compare", "base"), ("fill",), ("watch",), ("settings",), ("bench",)]
)
def test_a_password_as_a_flag_is_refused_and_not_repeated(command: tuple[str, ...], word: str) -> None:
    done = flushlab(*command, "-h", "127.0.0.1", word)
    assert done.returncode == 2
    assert "takes no password on the command line" in done.stderr
    assert "hint: use -p alone, which asks for the password" in done.stderr
    assert "cret" not in done.stderr


def test_the_prompt_needs_a_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flushlab", "settings", "-h", "127.0.0.1", "-P", "1", "-u", "me", "-p"],
        capture_output=True,
        text=True,
        check=False,
        input="secret\n",
        start_new_session=True,
    )
    assert done.returncode == 2
    assert "there is no terminal to ask for the password" in done.stderr
    assert "hint: use an option file such as ~/.my.cnf" in done.stderr
