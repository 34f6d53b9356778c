"""Servers that stay on a slow disk of their own: the disk lives as long as they do, and ends with them."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flushlab.cli.app import run
from flushlab.datadir import slow_disk
from flushlab.process import all_records, reap, run_folder
from flushlab.server import Sandbox
from flushlab.server.galera.cluster import Cluster
from tests.command import flushlab
from tests.conftest import require_build, require_galera
from tests.integration.test_disk_refused import ALONE, said
from tests.integration.test_fault_disk import mounts, processes_of, served_loops, why_not
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
NAME = "on-a-disk"
DISK = "flush=3ms,write=0.2ms"
BELIEVING = """
import math, sys
from flushlab.cli.main import main
from flushlab.datadir import slow_disk
slow_disk.BELIEVED = (0.0, math.inf)
main()
"""
"""flushlab in a process of its own, as `slow_disk_is_believed` makes it in the test's."""


@pytest.fixture
def home(furnished_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    require_build("mariadb@10.11")
    if why := why_not(tmp_path_factory.getbasetemp()):
        pytest.skip(why)
    yield furnished_home
    flushlab("server", "stop", "--all")
    assert nothing_is_left(furnished_home)


@pytest.fixture
def slow_disk_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other tests adds to what a disk takes, and nothing here is measured."""
    monkeypatch.setattr(slow_disk, "BELIEVED", (0.0, math.inf))


def nothing_is_left(home: Path) -> bool:
    wait_until(lambda: not processes_of(home), "no process is left")
    wait_until(lambda: not served_loops(), "no loop device is left")  # other tests have some for a while
    wait_until(lambda: str(home) not in mounts(), "nothing is mounted")
    return list(run_folder().iterdir()) == []


def kill_the_disk() -> None:
    (disk,) = (record.server for record in all_records() if record.goes_with == NAME)
    assert disk is not None
    os.kill(disk.pid, signal.SIGKILL)
    wait_until(lambda: not disk.alive(), "the disk's program ends")


def test_the_disk_of_a_server_that_stays_lives_as_long_as_it(home: Path, slow_disk_is_believed: None) -> None:
    asked = ("server", "start", "--server", "mariadb@10.11", "--name", NAME, "--disk", DISK)
    little = 'mount -t tmpfs -o size=80m,mode=755 tmpfs /mnt; exec "$@"'
    start = (sys.executable, "-c", BELIEVING, *asked, "--data-root", "/mnt")
    refused = said([*ALONE, little, "sh", *start], 5)
    assert "is free in /mnt/flushlab-disk-" in refused
    assert "--data-root" in refused.partition("hint: ")[2]
    assert nothing_is_left(home), "of a start whose data do not fit"

    run(asked)
    (status,) = json.loads(flushlab("server", "status", "--json", "-").stdout)["sandboxes"]
    assert (status["name"], status["state"], status["disk"]) == (NAME, "running", DISK)
    with Sandbox.attach(NAME) as server:
        assert f" {server.datadir.parent.parent} ext4 " in mounts()
        server.query("CREATE DATABASE app")

    flushlab("server", "stop", "--keep-data", NAME)
    assert reap() == []
    flushlab("server", "start", "--name", NAME)
    with Sandbox.attach(NAME) as server:
        assert server.query("SHOW DATABASES LIKE 'app'") == [("app",)]
    flushlab("server", "reset", NAME)
    with Sandbox.attach(NAME) as server:
        assert server.query("SHOW DATABASES LIKE 'app'") == []

    kill_the_disk()
    flushlab("server", "stop", "--keep-data", NAME)
    refused = flushlab("server", "start", "--name", NAME, code=5).stderr
    assert f"the disk of {NAME} is gone, and its data with it" in refused
    assert f"hint: remove what is left with: flushlab server stop {NAME}" in refused
    flushlab("server", "stop", NAME)
    assert nothing_is_left(home)


def test_rows_are_filled_into_a_new_server_on_a_disk(
    home: Path, slow_disk_is_believed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("fill", "users", "--rows", "500", "--server", "mariadb@10.11", "--disk", DISK, "--json", "-")
    run(asked)
    name = json.loads(capsys.readouterr().out)["sandbox"]
    with Sandbox.attach(name) as server:
        assert server.query("SELECT COUNT(*) FROM app.users") == [(500,)]
        assert server.disk is not None
        assert server.disk.profile.name == DISK
    refused = flushlab("fill", "--server", f"sandbox:{name}", "--disk", DISK, code=2).stderr
    assert "--disk needs a new server" in refused


def test_each_node_of_a_cluster_that_stays_has_a_disk(home: Path, slow_disk_is_believed: None) -> None:
    require_galera()
    asked = ("server", "start", "--server", "mariadb@10.11", "--cluster", "2", "--name", NAME)
    run([*asked, "--disk", DISK])
    with Cluster.attach(NAME) as cluster:
        assert len({node.datadir.parent.parent for node in cluster.nodes}) == 2
    assert sorted(one.goes_with for one in all_records() if one.goes_with) == [f"{NAME}-1", f"{NAME}-2"]
    flushlab("server", "stop", NAME)
    assert nothing_is_left(home)
