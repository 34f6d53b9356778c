"""Servers for tests of what watches them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flushlab.datadir import Snapshots
from flushlab.machine import home as home_folder
from flushlab.server import Sandbox
from flushlab.server.sandbox.option_files import SandboxPaths
from flushlab.telemetry.live import session
from tests.conftest import require_build
from tests.integration.suite_project import Project


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other tests is no reason to leave a question out."""
    monkeypatch.setattr(session, "DEADLINE_S", 30.0)


@pytest.fixture
def unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that make what others have made: the kernel refuses them no folder."""
    monkeypatch.setattr(SandboxPaths, "of_server", None)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    require_build("mariadb@10.11")
    return Project(tmp_path)


@pytest.fixture
def home(furnished_home: Path) -> Path:
    require_build("mariadb@10.11")
    return furnished_home


@pytest.fixture
def snapshots() -> Iterator[Snapshots]:
    """Empty; initialised data directories are those of the home."""
    folder = home_folder() / f"snapshots-{os.getpid()}"
    yield Snapshots(folder)
    if folder.exists():
        subprocess.run(["/bin/chmod", "-R", "u+w", str(folder)], check=True)  # snapshots are sealed
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def servers(shared_sandbox: Any) -> Callable[[str], Sandbox]:
    """A server by the name of its build, with a table `test.t` of ten rows, the same one for all tests of a
    module."""

    @cache
    def server(build: str) -> Sandbox:
        started: Sandbox = shared_sandbox(build)
        started.query("CREATE DATABASE IF NOT EXISTS test")
        started.query("CREATE TABLE test.t (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB")
        started.query("INSERT INTO test.t VALUES " + ", ".join(f"({one}, 0)" for one in range(10)))
        return started

    return server
