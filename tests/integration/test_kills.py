"""No server outlives flushlab: SIGKILL at any moment leaves no process, and after the janitor no folder.

What others have in the data root stays as it was.

The victim is a program that starts a sandbox, loads it, restarts it and kills it, over and over, in a home of
its own; every process that serves it names that home in its command line. FLUSHLAB_KILLS says how many kills
there are over both servers: 4, and 200 in `make soak`. Four are one each of a victim that initialises a data
directory or has one, and whose guard dies first or goes on.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.datadir import Snapshots
from flushlab.process import all_records, reap, run_folder
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.sandbox.contents import initialised
from tests.conftest import require_build
from tests.left import processes_of
from tests.trees import Tree, plant, tree
from tests.waiting import wait_until

KILLS = int(os.environ.get("FLUSHLAB_KILLS", "4"))

VICTIM = """
import sys
from contextlib import suppress
from pathlib import Path
from flushlab.build import find_build
from flushlab.datadir import DataRoot
from flushlab.errors import UsageError
from flushlab.server import Sandbox, SandboxSpec

build = find_build(sys.argv[1], get=False)
while True:
    root = DataRoot.open(Path(sys.argv[2]))
    with suppress(UsageError):
        Sandbox.start(SandboxSpec(build, data_root=root, name="mysql"))
        sys.exit("it took the place of somebody's folder")
    settings = {"innodb_flush_log_at_trx_commit": 0}
    with Sandbox.start(SandboxSpec(build, settings=settings, data_root=root, name="k")) as server:
        server.query("CREATE DATABASE victim")
        server.query("CREATE TABLE victim.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200))")
        for _ in range(50):
            server.query("INSERT INTO victim.t (v) VALUES (REPEAT('x', 200))")
        server.restart()
        server.kill()
        server.start_again()
"""


SOMEBODYS: Tree = {
    "mysql": {"ibdata1": b"precious", ".flushlab": b"{}"},
    "k.json": b"precious",
    ".flushlab-0123": {"file": b"precious"},
    "flushlab-trial-0123": {},
    "link": "mysql",
    "nowhere": "nowhere",
}
"""What lies in the data root before, and must lie there afterwards."""


@pytest.fixture
def home(private_home_with_builds: Path) -> Path:
    return private_home_with_builds


@pytest.fixture
def made(name: str) -> Path:
    """The data directory of the build in the usual home, which is asked for before the test has its own."""
    return initialised(require_build(name), {}).path.parent


def start_victim(build: Build, data_root: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", VICTIM, build.id, str(data_root)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def let_run(victim: subprocess.Popen[bytes], seconds: float) -> None:
    """Lets the victim run for a while; it never ends by itself."""
    try:
        _, complaint = victim.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return
    pytest.fail(f"the victim ended by itself: {complaint.decode()}")


def kill(victim: subprocess.Popen[bytes], *, guard_first: bool) -> None:
    if guard_first:
        for record in all_records():
            if record.guard is not None and record.guard.alive():
                with suppress(ProcessLookupError):  # it has ended by itself
                    os.kill(record.guard.pid, signal.SIGKILL)
    victim.kill()
    victim.communicate()


@pytest.mark.timeout(600 + 15 * KILLS)
@pytest.mark.parametrize("name", ["mariadb@10.11", "mysql@5.7"])
def test_kill_at_any_moment_leaves_no_server(name: str, made: Path, home: Path) -> None:
    build = require_build(name)
    (home / "snapshots").mkdir()
    subprocess.run(["cp", "-a", made, home / "snapshots"], check=True)
    data_root = home / "data"
    plant(data_root, SOMEBODYS)
    before = tree(data_root)
    longest_s = {"mariadb": 2.5, "mysql": 7.0}[build.flavor]
    for number in range(KILLS // 2):
        moment = random.Random(f"{name} {number}")
        while_initialising = number % 2 == 1
        if while_initialising:
            for snapshot in Snapshots().list():
                Snapshots().remove(snapshot.key)
        after_s = moment.uniform(0.2, longest_s)
        context = f"kill {number} after {after_s:.3f} s, initialising: {while_initialising}"
        victim = start_victim(build, data_root)
        let_run(victim, after_s)
        kill(victim, guard_first=(number % 4 in (0, 3)) is (build.flavor == "mariadb"))
        wait_until(lambda: not processes_of(home), f"all processes of {home} gone; {context}")
        reap()
        assert list(run_folder().iterdir()) == [], context
        assert tree(data_root) == before, context
    with Sandbox.start(SandboxSpec(build)) as server:  # and the home is as good as before
        assert server.query("SELECT 1") == [(1,)]


def test_victim_is_seen_by_what_the_kill_test_looks_at(home: Path) -> None:
    victim = start_victim(require_build("mariadb@10.11"), home / "data")
    try:
        # It starts and ends one server after the other: none need be there for long.
        wait_until(
            lambda: {one.server.pid for one in all_records() if one.server} & {*processes_of(home)},
            "a server that is recorded is seen",
        )
        wait_until(lambda: list(run_folder().iterdir()), "it has files")
    finally:
        kill(victim, guard_first=False)
    wait_until(lambda: not processes_of(home), "all gone")
