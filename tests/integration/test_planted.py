"""Somebody's binary logs, data files and keys, in a folder open to all, outlive every check of a file."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from flushlab.build import Build
from flushlab.errors import FlushlabError, StartFailed
from flushlab.machine.confinement import available
from flushlab.server.settings_check import Judged, Started, judge_file
from flushlab.spec.commands import SettingsSpec
from tests.conftest import StartSandbox, flavors, require_build
from tests.contract.test_check_soak import option_of
from tests.planted import Planted

ALL = ("mariadb@10.11", "mysql@8.0", "mysql@9.7", "mysql@5.7", "mariadb@11.8", "mariadb@11.4")
SERVERS = flavors(*ALL, first=2)
FILES = int(os.environ.get("FLUSHLAB_STARTED_FILES") or 0)
SEED = int(os.environ.get("FLUSHLAB_OPTION_FILES_SEED", "34"))
PREFIXES = ("", "loose-", "skip-", "enable_", "disable-", "maximum-", "loose_skip-")
_WALKED = ("", "loose-")


@pytest.fixture
def planted() -> Iterator[Planted]:
    with TemporaryDirectory(prefix="flh-", dir="/tmp") as folder:
        yield Planted(Path(folder))


def started(file: Path, name: str, *lines: str) -> tuple[Judged, Started]:
    file.write_text("\n".join(["[mysqld]", *lines]) + "\n")
    judged = judge_file(file, SettingsSpec(server=name, start=True))
    assert judged.started is not None
    return judged, judged.started


@pytest.mark.parametrize("name", SERVERS)
def test_binary_logs_elsewhere_are_tried_inside(name: str, planted: Planted, tmp_path: Path) -> None:
    for spelled in ("log_bin = ", "loose_log-bin='"):
        end = spelled[-1].strip()
        _, told = started(tmp_path / "my.cnf", name, f"{spelled}{planted.folder}/bin{end}", "server_id = 7")
        assert (told.ran, told.refusal, told.moved) == (True, "", ("log_bin",))
        assert planted.changes() == []


@pytest.mark.parametrize("name", SERVERS)
def test_a_folder_that_is_missing_stops_no_start(name: str, tmp_path: Path) -> None:
    _, told = started(tmp_path / "my.cnf", name, "log_bin = /var/lib/not-there/bin", "server_id = 7")
    assert (told.ran, told.refusal, told.moved) == (True, "", ("log_bin",))


@pytest.mark.parametrize("name", SERVERS)
def test_no_option_of_the_server_reaches_a_file_of_theirs(
    name: str, planted: Planted, tmp_path: Path
) -> None:
    build = require_build(name)
    for prefix in _WALKED:  # behind loose_, numbers that are none become 0, which may stop the start
        included = tmp_path / f"{prefix}included.cnf"
        included.write_text("\n".join(["[server]", *planted.lines(build, prefix)]) + "\n")
        _, told = started(tmp_path / "my.cnf", name, f"!include {included}")
        assert told.ran or prefix, told.refusal
        assert planted.changes() == [], prefix


@pytest.mark.skipif(not available(), reason="this kernel has no Landlock")
@pytest.mark.parametrize("name", flavors(*ALL, first=1))
@pytest.mark.parametrize(
    "words",
    [
        ("--log-bin={}/bin", "--server-id=7", "{purge}"),
        ("--slow-query-log=1", "--slow-query-log-file={}/slow.log", "--long-query-time=0"),
        ("--general-log=1", "--general-log-file={}/general.log"),
        ("--innodb-data-home-dir={}",),
        ("--innodb-log-group-home-dir={}",),
        ("--log-error={}/error.log",),
        ("--pid-file={}/mysqld.pid",),
        ("--tmpdir={}",),
    ],
    ids=lambda words: words[0].partition("=")[0],
)
def test_the_kernel_refuses_what_the_gate_would_let_through(
    name: str, words: tuple[str, ...], planted: Planted, sandbox: StartSandbox
) -> None:
    purge = "--expire-logs-days=1" if name.startswith("ma") else "--binlog-expire-logs-seconds=1"
    purge = "--expire-logs-days=1" if name == "mysql@5.7" else purge
    with suppress(StartFailed):  # it needs the file
        sandbox(name, arguments=[one.format(planted.folder, purge=purge) for one in words]).stop()
    assert planted.changes() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("name", flavors("mariadb@10.11", "mysql@8.0", first=2))
def test_another_user_than_root_changes_nothing_of_theirs_either(name: str, planted: Planted) -> None:
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    tried = "import subprocess, sys, flushlab._core; subprocess.run([sys.executable, '-c', ''], check=True)"
    if subprocess.run([*nobody, sys.executable, "-c", tried], check=False).returncode:
        pytest.skip("flushlab lies where other users cannot read it")
    build = require_build(name)
    with TemporaryDirectory(prefix="flh-", dir="/tmp") as home:
        os.chown(home, 65534, 65534)
        file = Path(home) / "my.cnf"
        file.write_text("\n".join(["[mysqld]", *planted.lines(build), f"log_bin = {planted.folder}/bin"]))
        words = ["settings", "--check", str(file), "--basedir", build.prefix, "--start"]
        done = subprocess.run(
            [*nobody, sys.executable, "-m", "flushlab", *words],
            env={"PATH": os.environ["PATH"], "FLUSHLAB_HOME": f"{home}/home", "HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "on an empty data directory" in done.stdout, done.stdout[-2000:] + done.stderr
        assert "Tried with a path in the sandbox: log_bin." in done.stdout
        assert planted.changes() == []


def line_of(chance: random.Random, build: Build, planted: Planted) -> str:
    """A line of an option file: one option with any value, or one with a path of theirs, in any spelling."""
    if chance.random() < 0.5:
        return option_of(chance, build)
    name, _, path = chance.choice(planted.lines(build)).partition(" = ")
    name = name[: chance.randrange(3, len(name) + 1)] if chance.random() < 0.2 else name
    path = chance.choice((path, f"../../..{path}", f"{path};{path}:12M:autoextend", f"gcomm://{path}"))
    quote = chance.choice(("", "", "'", '"'))
    return f"{chance.choice(PREFIXES)}{name}{chance.choice(('=', ' = '))}{quote}{path}{quote}"


@pytest.mark.soak("FLUSHLAB_STARTED_FILES")
@pytest.mark.parametrize("name", ALL)
def test_generated_files_touch_nothing_of_theirs(
    name: str, planted: Planted, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """`FLUSHLAB_STARTED_FILES` is the number of files of all servers together."""
    build, chance, ran = require_build(name), random.Random(f"{SEED} {name}"), 0
    for number in range(FILES // 5):
        lines = [line_of(chance, build, planted) for _ in range(chance.randrange(2, 9))]
        with suppress(FlushlabError):  # one that no server is started with
            ran += started(tmp_path / "my.cnf", name, *lines)[1].ran
        assert planted.changes() == [], (number, lines)
    record_property("ran", ran)
    assert ran >= FILES // 10
