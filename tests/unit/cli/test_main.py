from __future__ import annotations

import os
import subprocess
import sys

import pytest

from flushlab import __version__
from flushlab.cli.app import COMMANDS

HEAVY = ("scipy", "numpy", "matplotlib")


def flushlab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flushlab.cli.main", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["server", "list"],
        ["settings", "sync_binlog"],
        ["tune", "--help"],
        ["series", "--help"],
        ["test", "--help"],
        ["probe", "--help"],
    ],
    ids=" ".join,
)
def test_quick_commands_load_no_heavy_library(words: list[str]) -> None:
    program = (
        "import sys\nfrom flushlab.cli.main import main\n"
        f"sys.argv = ['flushlab', *{words!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_named_command_loads_no_other() -> None:
    program = (
        "import sys\nfrom flushlab.cli.main import main\nsys.argv = ['flushlab', 'test', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in sys.modules if m.startswith('flushlab.cli.')], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = eval(done.stderr.splitlines()[-1])
    assert set(loaded) == {f"flushlab.cli.{name}" for name in ("main", "app", "output", "options", "test")}


def test_help_lists_every_command() -> None:
    said = flushlab("--help").stdout
    assert all(f" {name} " in said for name in COMMANDS)


def test_version_is_printed_alone() -> None:
    assert flushlab("--version").stdout == f"flushlab {__version__}\n"


@pytest.mark.parametrize(
    "command", ["tune", "series", "bench", "test", "probe", "server start", "settings", "cache prune"]
)
def test_help_has_an_example_and_fits_80_columns(command: str) -> None:
    done = flushlab(*command.split(), "--help")
    assert done.returncode == 0
    assert f"flushlab {command}" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("words", [["nonsense"], ["bench", "--nonsense"], ["bench", "--threads", "many"]])
def test_a_wrong_word_is_a_usage_error(words: list[str]) -> None:
    done = flushlab(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_closed_pipe_ends_quietly() -> None:
    done = subprocess.run(
        f"{sys.executable} -m flushlab.cli.main settings | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout
