"""Campaigns on a fleet while its machines, workers, driver and head are killed, cut off, slowed or filled.

Run by `make soak` (root, MariaDB's client, the extra `fleet`):

    python benchmarks/fleet_chaos.py --runs 100 --seed 1 --budget 90

Several Ray nodes on one machine, each in a network namespace and a control group of its own, with a disk in
memory. A run is `flushlab compare --fleet` with real MariaDB servers and a command that sleeps as long as
`innodb_io_capacity` says: the ratios are known. A fault comes at a random moment, in some runs two. A
campaign that ends with an error, or whose driver is killed, is resumed on the mended fleet. A row per run; at
the end the sums. Exits with 1 unless in every run

- the campaign ended, at once or resumed,
- no server is left, nor a guard of one,
- every record that the driver had stored when the fault came is in the result,
- every cell was stored once,
- no arm has the opposite of its verdict; verdicts that the machine's noise left open are counted,
- no traceback was printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.fleet_testbed import Node, fleet_testbed

from flushlab.build import find_build
from flushlab.fleet import local_node

FAULTS = ("worker", "node", "driver", "head", "disk", "partition", "slow", "ctrl-c")
PARTITION_S = 20.0
SLOW_CPUS = 0.1
DISK_BYTES = 1600 << 20
WHOLE_CPUS = 2.0
CLEAN_S = 60.0
"""Longest wait for the end of servers."""
MOST_RESUMES = 3
LONGEST_S = 240.0
SLEEP_MS = {"base": 600, "fast": 300, "slow": 1200}
_SETTING = "innodb_io_capacity"
_WORKLOAD = "command: sleep $(mariadb -u $MYSQL_USER -NBe 'SELECT @@innodb_io_capacity / 1000')"
_CELLS = "SELECT record FROM trial WHERE campaign_id = ? ORDER BY number"


@dataclass
class Row:
    """What a run has shown.

    Attributes:
        faults: with their moments, in seconds from the start of the driver.
        resumes: sessions after the first.
        seconds: of the whole run, resumed sessions included.
        clean_s: from the end of the last session until no server was left.
        stored: records that were stored when a driver ended; `lost` of them are gone.
        undecided: verdicts that the noise of the machine left open.
        problems: what must not be.
    """

    faults: list[str] = field(default_factory=list)
    resumes: int = 0
    seconds: float = 0.0
    clean_s: float = 0.0
    stored: int = 0
    lost: int = 0
    orphans: int = 0
    ended: bool = False
    verdicts: bool = False
    claims: int = 0
    undecided: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def words(self) -> str:
        """The row."""
        end = ("resumed ×" + str(self.resumes) if self.resumes else "ended") if self.ended else "DID NOT END"
        rest = "; ".join((*self.undecided, *self.problems)) or "ok"
        return (
            f"{', '.join(self.faults) or 'no fault':34} {end:12} {self.seconds:6.1f} s"
            f"  orphans {self.orphans} (clean in {self.clean_s:4.1f} s)"
            f"  lost {self.lost} of {self.stored:2}  {rest}"
        )


class Fleet:
    """The nodes with Ray on them. The first is the head; drivers run on any."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.head = nodes[0]

    def mend(self) -> None:
        """Every node runs, is in the fleet, has its processors and room on its disk."""
        for node in self.nodes:
            node.heal()
            node.limit_cpus(WHOLE_CPUS)
            (node.home / "filler").unlink(missing_ok=True)
        if not self._runs(self.head):
            for node in reversed(self.nodes):
                self._done(node.flushlab("fleet", "stop"))
            self.head.start_fleet(self.head.name)
        for node in self.nodes[1:]:
            if not self._runs(node):
                self.join(node)
        for node in self.nodes:
            node.lend_builds()

    def join(self, node: Node) -> None:
        """The node joins, or joins again."""
        join = ("fleet", "join", "--key", "-", self.head.address, "--name", node.name)
        for _ in range(4):
            done = node.flushlab(*join, given=self.head.key)
            if "has a machine of the address" not in done.stderr:
                break
            time.sleep(10.0)  # Ray has not missed the node yet
        self._done(done)

    def stop(self) -> None:
        """Ends it on all nodes."""
        for node in reversed(self.nodes):
            node.heal()
            node.flushlab("fleet", "stop")

    def _runs(self, node: Node) -> bool:
        """Whether the node's Ray runs and the head knows it."""
        path = node.home / "fleet" / "node.json"
        if not path.exists() or not _alive(json.loads(path.read_text())["keeper"]["pid"], node):
            return False
        if node is self.head:
            return True
        return node.address in self._known()

    def _known(self) -> set[str]:
        environment = local_node.variables(self.head.home / "fleet", listens=True)
        words = [f"{name}={value}" for name, value in environment.items()]
        done = self.head.run(
            "env", *words, sys.executable, "-m", "flushlab.fleet.nodes_main", f"{self.head.address}:9377"
        )
        try:
            return {one["address"] for one in json.loads(done.stdout)["nodes"]}
        except ValueError:
            return set()

    def _done(self, done: subprocess.CompletedProcess[str]) -> None:
        if done.returncode:
            raise SystemExit(f"the fleet does not run: {done.stderr}")


def _alive(pid: int, node: Node) -> bool:
    return pid in node.pids()


class Driver:
    """A `flushlab compare` on a node, its output in files."""

    def __init__(self, fleet: Fleet, node: Node, folder: Path, resume: str = "") -> None:
        self.node, self._folder = node, folder
        self.began = time.monotonic()
        self._result, self._said = folder / "result.json", folder / "said"
        self._result.unlink(missing_ok=True)
        arms = [f"{_SETTING}={ms}" for ms in SLEEP_MS.values()]
        words = ["--resume", resume] if resume else [*arms, "--workload", _WORKLOAD, "--blocks", "6"]
        words += [] if resume else ["--server", "mariadb@10.11"]
        command = [sys.executable, "-m", "flushlab", "compare", *words, "--json", str(self._result)]
        command += ["--fleet", fleet.head.address]
        with self._said.open("ab") as said:
            self.process = subprocess.Popen(
                node.command(*command),
                env=node.environment(),
                stdout=subprocess.DEVNULL,
                stderr=said,
                preexec_fn=node.enter,
            )

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within so long."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, seconds))
        return self.process.poll() is not None

    @property
    def said(self) -> str:
        """What all sessions have said."""
        return self._said.read_text(errors="replace")

    @property
    def campaign(self) -> str:
        """The campaign's id; empty as long as there is none."""
        lines = [line for line in self.said.splitlines() if line.startswith("campaign compare-")]
        return lines[0].split()[1].rstrip(":") if lines else ""

    @property
    def result(self) -> dict[str, object] | None:
        """What it has found, if it has ended well."""
        if self.process.returncode != 0 or not self._result.exists():
            return None
        return dict(json.loads(self._result.read_text()))


Cell = tuple[str, int, str, int, float | None]


def stored(node: Node, campaign: str) -> list[Cell]:
    """The records in a driver's store, those of arrived blocks last."""
    if not campaign:
        return []
    with sqlite3.connect(f"file:{node.home}/store.sqlite?mode=ro", uri=True) as store:
        records = [json.loads(row[0]) for row in store.execute(_CELLS, (campaign,))]
        arrived = store.execute("SELECT block FROM arrived WHERE campaign_id = ?", (campaign,)).fetchall()
    found = [*map(_cell, records)]
    for (block,) in arrived:
        found += [cell for trial in json.loads(block)["trials"] if (cell := _cell(trial)) not in found]
    return found


def _cell(record: Mapping[str, Any]) -> Cell:
    number = record.get("variant", 0)
    return (
        record.get("stage", ""),
        record.get("block", 0),
        record["arm"]["name"],
        number,
        record.get("result"),
    )


def servers(root: Path) -> list[int]:
    """Servers below a folder, and guards of the nodes there."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            is_server = str(root).encode() in words and b"mariadbd" in words
            is_guard = b"guard_main" in words and str(root).encode() in (entry / "environ").read_bytes()
            if is_server or is_guard:
                found.append(int(entry.name))
    return found


def workers(node: Node) -> list[int]:
    """The processes that run blocks on a node."""
    found = []
    for pid in node.pids():
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::Worker"):
                found.append(pid)
    return found


class Run:
    """One campaign with its faults."""

    def __init__(self, fleet: Fleet, root: Path, folder: Path, random: Random) -> None:
        self.fleet, self.root, self.folder, self.random = fleet, root, folder, random
        self.row = Row()
        self._undo: list[tuple[float, Callable[[], None]]] = []

    def carry_out(self, faults: Sequence[str], typical_s: float) -> Row:
        """Runs it to its end."""
        began = time.monotonic()
        row, node = self.row, self.random.choice(self.fleet.nodes)
        moments = sorted(self.random.uniform(0.0, 0.9 * typical_s) for _ in faults)
        driver = Driver(self.fleet, node, self.folder)
        known: list[Cell] = []
        for fault, at_s in zip(faults, moments, strict=True):
            self._wait(driver, at_s - (time.monotonic() - driver.began))
            if driver.process.poll() is None:
                self._strike(fault, driver, at_s)
        while True:
            self._wait(driver, LONGEST_S, until_end=True)
            if driver.process.poll() is None:
                row.problems.append(f"the driver runs after {LONGEST_S:.0f} s")
                driver.process.kill()
                driver.process.wait()
            known = self._check_store(driver, known)
            if driver.result is not None:
                break
            self._require_none_left(driver)
            if row.resumes == MOST_RESUMES:
                break
            self._run_undo(everything=True)
            self.fleet.mend()
            row.resumes += 1
            driver = Driver(self.fleet, node, self.folder, resume=driver.campaign)
        self._run_undo(everything=True)
        row.seconds = time.monotonic() - began
        self._judge(driver, known)
        return row

    def _strike(self, fault: str, driver: Driver, at_s: float) -> None:
        nodes = self.fleet.nodes
        where = self.random.choice(nodes)
        if fault == "head":
            where = self.fleet.head
        elif fault == "node":
            where = self.random.choice(nodes[1:])
        elif fault in ("driver", "ctrl-c"):
            where = driver.node
        name = where.name + (
            " (driver)" if where is driver.node and fault not in ("driver", "ctrl-c") else ""
        )
        self.row.faults.append(f"{fault} {name} {at_s:.1f} s")
        if fault == "worker":
            for pid in workers(where)[:1]:
                os.kill(pid, signal.SIGKILL)
        elif fault in ("node", "head"):
            where.kill_all()
            if fault == "node" and where is not driver.node and self.random.random() < 0.5:
                self._undo.append((time.monotonic() + 1.0, lambda: self.fleet.join(where)))
        elif fault == "driver":
            driver.process.kill()
        elif fault == "ctrl-c":
            driver.process.send_signal(signal.SIGINT)
        elif fault == "disk":
            _fill(where.home / "filler")
            self._undo.append((time.monotonic() + 60.0, (where.home / "filler").unlink))
        elif fault == "partition":
            where.cut()
            self._undo.append((time.monotonic() + PARTITION_S, where.heal))
        elif fault == "slow":
            where.limit_cpus(SLOW_CPUS)
            self._undo.append((time.monotonic() + 60.0, lambda: where.limit_cpus(WHOLE_CPUS)))

    def _wait(self, driver: Driver, seconds: float, *, until_end: bool = False) -> None:
        """Waits, and undoes faults whose time has come."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._run_undo()
            if driver.wait(0.1) and until_end:
                return
            if not until_end and driver.process.poll() is not None:
                return

    def _run_undo(self, *, everything: bool = False) -> None:
        due = [one for one in self._undo if everything or time.monotonic() >= one[0]]
        for one in due:
            self._undo.remove(one)
            one[1]()

    def _check_store(self, driver: Driver, known: Sequence[Cell]) -> list[Cell]:
        now = stored(driver.node, driver.campaign)
        gone = [cell for cell in known if cell not in now]
        self.row.lost += len(gone)
        if gone:
            self.row.problems.append(f"lost records: {gone}")
        self.row.stored = max(self.row.stored, len(now))
        return now

    def _require_none_left(self, driver: Driver) -> None:
        """Servers end by themselves after each session. A node that is cut off learns of the end late."""
        began = time.monotonic()
        while (left := servers(self.root)) and time.monotonic() - began < CLEAN_S:
            self._run_undo()
            time.sleep(0.1)
        took = time.monotonic() - began
        self.row.clean_s = max(self.row.clean_s, took)
        self.row.orphans += len(left)
        if left:
            self.row.problems.append(f"{len(left)} servers or guards left after {CLEAN_S:.0f} s")
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if (
            any(fault.startswith("ctrl-c") for fault in self.row.faults)
            and len(self.row.faults) == 1
            and took > 10
        ):
            self.row.problems.append(f"clean only {took:.1f} s after Ctrl-C")

    def _judge(self, driver: Driver, known: Sequence[Cell]) -> None:
        row = self.row
        self._require_none_left(driver)
        if "Traceback (most recent call last)" in driver.said:
            row.problems.append("a traceback")
        facts = driver.result
        if facts is None:
            row.problems.append("not ended: " + (driver.said.strip().splitlines() or ["it said nothing"])[-1])
            return
        row.ended = True
        cells = Counter((stage, block, arm, variant) for stage, block, arm, variant, _ in known)
        if twice := [cell for cell, count in cells.items() if count > 1]:
            row.problems.append(f"stored twice: {twice}")
        row.verdicts = True
        for name, verdict in (("fast", "faster"), ("slow", "slower")):
            comparison = _arm(facts, f"{_SETTING}={SLEEP_MS[name]}")["comparison"]
            found = comparison["verdict"] if comparison else "not measured"
            if found != verdict:
                row.verdicts = False
                where = row.undecided if found == "no difference found" else row.problems
                where.append(f"{name} is {found}, {comparison['ratio'] if comparison else ''}")
        control = facts["control"]
        assert isinstance(control, dict)
        if (control["comparison"] or {}).get("verdict") in ("faster", "slower"):
            row.claims = 1


def _arm(facts: dict[str, object], name: str) -> dict[str, dict[str, object] | None]:
    arms = facts["arms"]
    assert isinstance(arms, list)
    return dict(next(one for one in arms if one["name"] == name))


def _fill(path: Path) -> None:
    with path.open("wb") as file, suppress(OSError):
        while True:
            file.write(b"\0" * (1 << 20))
            file.flush()
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)


def _chosen(random: Random, kinds: Sequence[str]) -> Iterator[list[str]]:
    """Faults of each run: every kind equally often, now and then a second one."""
    while True:
        order = [*kinds]
        random.shuffle(order)
        for one in order:
            yield [one] if random.random() < 0.8 else [one, random.choice(kinds)]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Runs campaigns under faults, and sums up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="of the faults and their moments")
    parser.add_argument("--budget", type=float, default=90.0, metavar="MINUTES")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    parser.add_argument(
        "--typical", type=float, metavar="SECONDS", help="a calm campaign takes so long: run none first"
    )
    parser.add_argument("--logs", type=Path, help="keep here what the drivers said")
    parser.add_argument(
        "--rows", type=Path, help="append the rows as JSON, to be summed with those of others"
    )
    asked = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("mariadb") is None:
        raise SystemExit("needs root, and the client `mariadb`")
    find_build("mariadb@10.11", progress=_say)
    seed = asked.seed if asked.seed is not None else Random().randrange(10**6)
    random, deadline = Random(seed), time.monotonic() + 60 * asked.budget
    rows: list[Row] = []
    with fleet_testbed(asked.nodes, cpus=WHOLE_CPUS, disk_bytes=DISK_BYTES) as nodes:
        fleet = Fleet(nodes)
        try:
            fleet.mend()
            _carry_out(asked, fleet, random, deadline, seed, rows)
        finally:
            fleet.stop()
    return _summed(rows)


def _carry_out(
    asked: argparse.Namespace, fleet: Fleet, random: Random, deadline: float, seed: int, rows: list[Row]
) -> None:
    root = fleet.head.home.parents[1]
    typical_s = asked.typical
    if typical_s is None:
        calm = Run(fleet, root, _folder(root, 0), random).carry_out([], 0.0)
        _say(f"seed {seed}, {asked.nodes} nodes; without a fault: {calm.words}")
        if calm.problems:
            raise SystemExit("a campaign without a fault has problems")
        typical_s = calm.seconds
    for number, faults in enumerate(_chosen(random, asked.faults), 1):
        if number > asked.runs or time.monotonic() > deadline:
            break
        fleet.mend()
        folder = _folder(root, number)
        run = Run(fleet, root, folder, random)
        row = run.carry_out(faults, typical_s)
        rows.append(row)
        _say(f"{number:4} {row.words}")
        if asked.logs is not None:
            asked.logs.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "said", asked.logs / f"{seed}-{number}.log")
        if asked.rows is not None:
            with asked.rows.open("a") as file:
                file.write(json.dumps(row.__dict__) + "\n")


def _folder(root: Path, number: int) -> Path:
    folder = root / f"run{number}"
    folder.mkdir()
    return folder


def _summed(rows: Sequence[Row]) -> int:
    if not rows:
        return 0
    kinds = Counter(fault.split()[0] for row in rows for fault in row.faults)
    _say(
        f"{len(rows)} runs with faults: {', '.join(f'{kind} {count}' for kind, count in kinds.most_common())}"
    )
    _say(
        f"ended {sum(row.ended and not row.resumes for row in rows)}, resumed"
        f" {sum(row.ended and row.resumes > 0 for row in rows)}, neither {sum(not row.ended for row in rows)}"
    )
    _say(
        f"servers and guards left {sum(row.orphans for row in rows)}; records lost"
        f" {sum(row.lost for row in rows)} of {sum(row.stored for row in rows)}; verdicts right in"
        f" {sum(row.verdicts for row in rows)} of {len(rows)}, left open in"
        f" {sum(bool(row.undecided) for row in rows)}; claims for the control"
        f" {sum(row.claims for row in rows)}"
    )
    _say(
        f"a run took {statistics.median(row.seconds for row in rows):.1f} s, at most"
        f" {max(row.seconds for row in rows):.1f} s; servers had ended after at most"
        f" {max(row.clean_s for row in rows):.1f} s"
    )
    problems = [row for row in rows if row.problems]
    _say(f"runs with problems: {len(problems)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
