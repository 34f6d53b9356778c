"""Starts of a checked file, with a sandbox that only notes what it is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import flushlab
from flushlab.build import Build
from flushlab.cli.app import make_app
from flushlab.errors import StartFailed
from flushlab.machine import confinement
from flushlab.progress import silent
from flushlab.server import SandboxSpec, settings_check
from flushlab.server.sandbox import base_file, log
from flushlab.server.settings_check import Started, judge_file
from flushlab.settings.option_names import load_option_names
from flushlab.spec.commands import SettingsSpec
from tests.unit.builds import MARIADB, MYSQL80

PATH = "/srv/theirs/bin"


@dataclass
class Sandboxes:
    """What starts are given; the first ones fail."""

    given: list[SandboxSpec] = field(default_factory=list)
    failures: list[StartFailed] = field(default_factory=list)

    @contextmanager
    def start(self, spec: SandboxSpec, _: object) -> Iterator[Any]:
        self.given.append(spec)
        if spec.settings and self.failures:
            raise self.failures.pop(0)
        yield SimpleNamespace(said_since_start=lambda: "")


@pytest.fixture(params=[MARIADB, MYSQL80], ids=lambda build: build.flavor)
def build(request: pytest.FixtureRequest) -> Build:
    found: Build = request.param
    return found


@pytest.fixture
def sandboxes(private_home: Path, build: Build, monkeypatch: pytest.MonkeyPatch) -> Sandboxes:
    made = Sandboxes()
    monkeypatch.setattr(settings_check, "Sandbox", made)
    monkeypatch.setattr(settings_check, "find_build", lambda *_, **__: build)
    lists = partial(base_file.examine, build=None)
    monkeypatch.setattr(settings_check, "examine", lambda *its, **more: lists(*its[:3], **more))
    return made


def started(folder: Path, *lines: str) -> Started:
    file = folder / "my.cnf"
    file.write_text("\n".join(["[mysqld]", *lines]) + "\n")
    told = judge_file(file, SettingsSpec(server="theirs", start=True), progress=silent).started
    assert told is not None
    return told


@pytest.mark.parametrize("prefix", ["", "loose-", "skip-", "enable_", "maximum-"])
def test_no_line_of_a_file_takes_a_path_to_a_start(
    prefix: str, build: Build, sandboxes: Sandboxes, tmp_path: Path
) -> None:
    names = load_option_names()
    own = [one for one in names.names() if names.knows(one, build.flavor, build.version)]
    started(tmp_path, *(f"{prefix}{name} = '{PATH}'" for name in sorted(own)))
    assert len(own) > 400 and sandboxes.given
    for one in sandboxes.given:
        assert "/" not in "".join(map(str, one.settings.values()))
        assert "/" not in "".join(one.written)


def test_binary_logs_elsewhere_are_tried_in_the_sandbox_and_named(
    sandboxes: Sandboxes, tmp_path: Path
) -> None:
    told = started(tmp_path, f"loose-log-bin = {PATH}", "sync_binlog = 1")
    assert (told.moved, told.left_out) == (("log_bin",), ())
    assert sandboxes.given[1].written == ("--loose-log-bin=binlog", "--sync_binlog=1")
    assert started(tmp_path, "log_bin = mysql-bin").moved == ()


def shown(folder: Path, *lines: str) -> str:
    file = folder / "my.cnf"
    file.write_text("\n".join(["[mysqld]", *lines]) + "\n")
    words = ["settings", "--check", str(file), "--server", "theirs", "--start"]
    return " ".join(CliRunner().invoke(make_app(), words, catch_exceptions=False).stdout.split())


def test_a_start_that_names_no_setting_ends_in_a_whole_sentence(sandboxes: Sandboxes, tmp_path: Path) -> None:
    sandboxes.failures.append(StartFailed("it ended"))
    text = shown(tmp_path, "sync_binlog = 1")
    assert "refused it: it ended It started with the values that flushlab reads in those lines." in text


def test_a_kernel_without_landlock_is_named(
    sandboxes: Sandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ("no Landlock" in shown(tmp_path, "sync_binlog = 1")) is not confinement.available()
    monkeypatch.setattr(confinement, "version", lambda: -1)
    assert "This kernel has no Landlock (Linux 5.19 or newer)" in shown(tmp_path, "sync_binlog = 1")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("2026-01-01 0 [ERROR] I/O error reading the header", "I/O error reading the header"),
        ("2026-01-01 0 [ERROR] /usr/sbin/mariadbd: unknown option '--x'", "mariadbd: unknown option '--x'"),
        ("0 [ERROR] [MY-010119] [Server] Aborting\n0 [ERROR] [MY-1] [Server] no space", "no space"),
        ("0 [ERROR] Aborting", "Aborting"),
    ],
)
def test_a_reason_is_whole_and_the_first_that_says_something(said: str, why: str) -> None:
    assert base_file.reason(said) == why


def test_logs_that_cannot_be_recovered_are_no_lack_of_memory() -> None:
    said = (
        "[ERROR] Crash recovery failed. Either correct the problem (if it's, for example, out of memory"
        " error) and restart, or delete bin log and start server with --tc-heuristic-recover={commit}"
    )
    assert log.no_memory(said) is None


OWN_WORDS = {
    "()",
    "[]",
    "(*self.run.arguments, _CHEAPER)",
    "['--debug-no-sync'] if build.flavor == 'mariadb' else []",
    "[BOOTSTRAP]",
    "[NO_PLUGINS]",
    "[f'--wsrep-start-position={found.group}:{found.seqno}']",
    "(f'--relay-log={RELAY}', '--relay-log-purge=0',"
    " *(('--skip-log-bin',) if mysql and build.version >= (8, 0) else ()))",
    "arguments",
    "asked.launch.arguments",
    "arguments(recipe.build, chosen.where)",
    "arguments(self.request.build, self.root.where)",
    "connection_arguments(self.spec.threads)",
    "tuple(arguments)",
    "tuple(spec.arguments)",
    *(f"{one}.arguments" for one in ("launch", "run", "saved")),
}
"""Words of flushlab's own, and names under which they are passed on."""
STARTS = ("SandboxSpec", "replace", "begin_again")


def test_only_the_check_passes_lines_of_the_user_to_a_start() -> None:
    found, written = 0, set()
    package = Path(flushlab.__file__).parent
    for file in package.rglob("*.py"):
        text = file.read_text()
        for call in ast.walk(ast.parse(text)) if "SandboxSpec" in text or "begin_again" in text else ():
            if not isinstance(call, ast.Call):
                continue
            if not any(ast.unparse(one).endswith(STARTS) for one in (call.func, *call.args)):
                continue
            found += 1
            given = {one.arg: ast.unparse(one.value) for one in call.keywords}
            assert {given.get("arguments", "()"), given.get("once", "()")} <= OWN_WORDS, file
            written |= {str(file.relative_to(package))} if "written" in given else set()
    assert found > 25
    assert written == {"server/settings_check.py"}
