"""The Flyway example on a stock server, on servers tuned by hand, and under `flushlab test`.

Run by `make bench`, in parts; needs Java and Maven:

    .venv/bin/python benchmarks/flyway_suite.py [--part setup|suite] [--server mysql@5.7] [--rounds 3]
    .venv/bin/python benchmarks/flyway_suite.py --part suite --server mysql@5.7 --disk iops=120      (root)

Arms, alternating:

- `stock`: a data directory is initialised on the disk and a server with the build's defaults started on it
- `story`: the same with the settings that the story in plan `test-server` came to ("1-5 all steps")
- `hand`: initialised in memory, durability off, as a good DBA does it by hand
- `first`: `flushlab test`, no template yet
- `hit`: `flushlab test` on its template

`setup` is what stands before the first test: initialising, start, and the 400 migrations by Flyway.
`suite` adds the tests (those that ask for a reset or a database of their own are skipped: not every arm can).
The database's part is the server's: up, down, and in statements as performance_schema sums them (on in every
arm); the rest is Java's, and no server makes it faster. `--disk` slows the servers on disk, not their
initialising.
Exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pymysql

from flushlab.build import Build, find_build
from flushlab.datadir import DataRoot, volume_in
from flushlab.machine import server_user
from flushlab.plan.parse import find_plan, read_plan
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.sandbox.contents import initialise
from flushlab.server.sandbox.option_files import give
from flushlab.suite.request import fields_of, variables

FLYWAY = Path(__file__).parents[1] / "examples" / "flyway-suite"
LIBRARIES = "target/classes:target/lib/*"
MIGRATE = ("java", "-cp", LIBRARIES, "example.Migrate")
LAUNCHER = "org.junit.platform.console.ConsoleLauncher"
JUNIT = (
    *("java", "-cp", f"target/test-classes:{LIBRARIES}", LAUNCHER),
    *("execute", "--disable-banner", "--details=none", "--scan-classpath=target/test-classes"),
)
SERVERS = ("mysql@5.7", "mysql@8.0", "mariadb")
ARMS = {"setup": ("stock", "story", "hand", "hit"), "suite": ("stock", "story", "hand", "first", "hit")}
SHOWN = {
    "setup": ("up", "migrating", "migrating_statements"),
    "suite": ("up", "migrating_statements", "testing_statements", "down"),
}
COUNTED = {"performance_schema": "ON"}
DBA = {"innodb_flush_log_at_trx_commit": 0, "innodb_doublewrite": "OFF", "sync_binlog": 0}
FIRST_RATIO, HIT_RATIO, SETUP_RATIO = 10.0, 15.0, 10.0
BY_HAND_RATIO = {"mariadb": 2.0, "mysql@5.7": 2.0, "mysql@8.0": 10.0}


class Took(msgspec.Struct, frozen=True):
    """Seconds of one arm: `server` up and down, `statements` and the whole of migrations and of tests."""

    up: float
    down: float
    migrating: float
    migrating_statements: float
    testing: float = 0.0
    testing_statements: float = 0.0

    @property
    def setup(self) -> float:
        """What stands before the first test: the server and Flyway."""
        return self.up + self.migrating

    @property
    def setup_database(self) -> float:
        """The database's part of it."""
        return self.up + self.migrating_statements

    @property
    def database(self) -> float:
        """The database's part of all."""
        return self.setup_database + self.testing_statements + self.down

    @property
    def application(self) -> float:
        """The rest."""
        return self.migrating - self.migrating_statements + self.testing - self.testing_statements


def main() -> int:
    """Runs what was asked for."""
    if "--inside" in sys.argv[1:2]:
        return inside(Path(sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=["setup", "suite"])
    parser.add_argument("--server", choices=SERVERS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--disk")
    chosen = parser.parse_args()
    if not (FLYWAY / "target" / "lib").is_dir():
        subprocess.run(["mvn", "-B", "-q", "-DskipTests", "process-test-classes"], cwd=FLYWAY, check=True)
    good = True
    for server in [chosen.server] if chosen.server else SERVERS:
        for part in [chosen.part] if chosen.part else ["setup", "suite"]:
            good &= compare(part, server, chosen.rounds, chosen.disk)
    return 0 if good else 1


def compare(part: str, server: str, rounds: int, slow: str | None) -> bool:
    """Runs all arms alternately, tells medians and ratios, and whether the bars are met."""
    build, disk, memory = find_build(server), DataRoot.open(), DataRoot.open(Path("/dev/shm"))
    tests = part == "suite"
    took: dict[str, list[Took]] = {arm: [] for arm in ARMS[part]}
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(volume_in(disk, slow)).data_root
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        flushlab(server, folder, "setup", tests)  # the templates that later runs find
        for number in range(rounds):
            mark = f"{os.getpid()}-{number}"
            took["stock"].append(by_hand(build, {}, disk, own, tests))
            took["story"].append(by_hand(build, story(), disk, own, tests))
            took["hand"].append(by_hand(build, durability_off(build), memory, memory, tests))
            if tests:
                took["first"].append(flushlab(server, folder, mark, tests))
            took["hit"].append(flushlab(server, folder, mark if tests else "setup", tests))
    return tell(part, server, took, slow)


def tell(part: str, server: str, took: Mapping[str, Sequence[Took]], slow: str | None) -> bool:
    """Prints a line per arm, and one of ratios with their ranges."""
    sys.stdout.write(f"{part} {server}" + (f" on a disk of {slow}" if slow else "") + "\n")
    for arm, rounds in took.items():
        parts = [
            f"{name} {statistics.median(getattr(one, name) for one in rounds):.2f}"
            for name in (*SHOWN[part], "database", "application")
        ]
        sys.stdout.write(f"  {arm:6} {'  '.join(parts)} s\n")
    first, other = ("setup", "setup_database") if part == "setup" else ("database", "database")

    def ratio(slow: str, fast: str) -> float:
        middle, text = _ratio(took[slow], took[fast], first)
        apart = (
            "" if other == first else f"; database's part alone {_ratio(took[slow], took[fast], other)[1]}"
        )
        sys.stdout.write(f"  {slow}/{fast} {text}{apart}\n")
        return middle

    pairs = (("stock", "story"), ("stock", "first"), ("stock", "hit"), ("hand", "hit"))
    found = {f"{slow}/{fast}": ratio(slow, fast) for slow, fast in pairs if fast in took}
    sys.stdout.flush()
    by_hand_bar = BY_HAND_RATIO[server]
    if part == "setup":
        return found["stock/hit"] >= SETUP_RATIO and found["hand/hit"] >= by_hand_bar
    return found["stock/first"] >= FIRST_RATIO and found["stock/hit"] >= HIT_RATIO


def _ratio(slow: Sequence[Took], fast: Sequence[Took], result: str) -> tuple[float, str]:
    """The median of the rounds' ratios, and how it is told: with the least and the greatest."""
    values = [getattr(a, result) / getattr(b, result) for a, b in zip(slow, fast, strict=True)]
    middle = statistics.median(values)
    return middle, f"{middle:.1f} [{min(values):.1f}, {max(values):.1f}]"


def story() -> dict[str, Any]:
    """What the story's settings came to."""
    plan = read_plan(find_plan("test-server"))
    (arm,) = (arm for arm in plan.arms if arm.name == "1-5 all steps")
    return dict(arm.settings)


def durability_off(build: Build) -> dict[str, Any]:
    """What a good DBA sets for a data directory in memory."""
    return DBA | ({"log_bin": "OFF"} if build.flavor == "mysql" and build.version >= (8, 0) else {})


def by_hand(
    build: Build, settings: Mapping[str, Any], initialised: DataRoot, root: DataRoot, tests: bool
) -> Took:
    """One run without flushlab: initialise, start, migrate, perhaps test, stop.

    The initialising is timed into a folder of its own, below another root if that of the server is slow;
    flushlab's other work is not counted.
    """
    scratch = initialised.path / f"bench-{os.getpid()}"
    scratch.mkdir(mode=0o700)
    give(scratch, server_user())
    began = time.monotonic()
    try:
        initialise(build, {}, scratch)
        up = time.monotonic() - began
    finally:
        shutil.rmtree(scratch)
    with Sandbox.start(
        SandboxSpec(build, settings={**settings, **COUNTED}, data_root=root, init_sql=["CREATE DATABASE app"])
    ) as server:
        up += server.seconds["start"]
        environment = {**os.environ, **variables([fields_of(build, server.endpoint, "app")], {})}
        migrating = counted(MIGRATE, environment)
        testing = counted(JUNIT, environment) if tests else (0.0, 0.0)
        closing = time.monotonic()
        server.stop()
        return Took(up, time.monotonic() - closing, *migrating, *testing)


def flushlab(server: str, folder: Path, mark: str, tests: bool) -> Took:
    """One run of `flushlab test`; a new `mark` makes it the first one."""
    for left in folder.glob("*.json"):
        left.unlink()
    me = f"{sys.executable} {Path(__file__).resolve()} --inside {folder}"
    quoted = " ".join(f"'{word}'" if "*" in word else word for word in MIGRATE)
    words = [sys.executable, "-m", "flushlab", "test", "--server", server]
    words += ["--json", str(folder / "run.json")]
    if tests:  # else there are no statements to count
        words += ["--set", "performance_schema=ON"]
    words += ["--prepare", f"{me}/migrating.json {quoted} # {mark}"]
    words += ["--inputs", "src/main/resources/db/migration/**"]
    command = [*me.split(), *JUNIT] if tests else ["true"]
    if tests:
        command[3] = str(folder / "testing.json")
    subprocess.run([*words, "--", *command], cwd=FLYWAY, check=True, stderr=subprocess.PIPE)
    seconds = json.loads((folder / "run.json").read_text())["seconds"]
    testing = _times(folder / "testing.json")
    first = seconds["prepare"] > 0
    # Only a first run has migrations; what capturing and checking the template took besides counts as ready.
    migrating = _times(folder / "migrating.json") if first else (0.0, 0.0)
    up = seconds["ready"] + seconds["prepare"] - migrating[0]
    return Took(up, seconds["teardown"], *migrating, *testing)


def _times(path: Path) -> tuple[float, float]:
    if not path.exists():
        return 0.0, 0.0
    whole, statements = json.loads(path.read_text())
    return float(whole), float(statements)


def inside(out: Path, words: Sequence[str]) -> int:
    """Runs a command in the environment that it is in, and adds its seconds to a file."""
    before = _times(out)
    took = counted(words, os.environ)
    out.write_text(json.dumps([before[0] + took[0], before[1] + took[1]]))
    return 0


def counted(words: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Seconds of a command, and of the statements of its server within them."""
    asked = ("FLUSHLAB_RESET_URL", "FLUSHLAB_POOL_URL")
    own = {name: value for name, value in environment.items() if name not in asked}
    before = statements_s(environment)
    began = time.monotonic()
    subprocess.run(words, cwd=FLYWAY, env=own, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return time.monotonic() - began, statements_s(environment) - before


def statements_s(environment: Mapping[str, str]) -> float:
    """Seconds in statements since the server's start."""
    connection = pymysql.connect(
        unix_socket=environment["FLUSHLAB_SOCKET"],
        user=environment["FLUSHLAB_USER"],
        password=environment["FLUSHLAB_PASSWORD"],
    )
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(
            "SELECT SUM(SUM_TIMER_WAIT) / 1e12 FROM"
            " performance_schema.events_statements_summary_global_by_event_name"
        )
        ((seconds,),) = cursor.fetchall()
    return float(seconds or 0.0)


if __name__ == "__main__":
    sys.exit(main())
