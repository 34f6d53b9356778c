"""The main job, run as `make tune` runs it: how long it takes, and how narrow what it proves is.

Five tunings of the embedded MariaDB on a quiet machine and five while a neighbour eats one processor. Bars:
each takes less than five minutes of wall time; flush=2 is proven every time, with a half-width of at most 6 %
on the quiet machine.

    python benchmarks/tune_runs.py [--runs 5] [--only quiet] [--fresh] [--json FILE]

A run takes three to five minutes. With `--json` every run leaves a line in the file, and what stands there is
not run again. `--fresh` is the way before: fresh servers, ten minutes, no bars.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from kept_running import half_width, measured_s, neighbour, words

from flushlab.record import OtherLoad, Ratio, Value

WALL_BAR_S = 300.0
STATES = {"quiet": 0.06, "one processor eaten": None}
"""Of the machine, and the widest that half of the winner's interval may be."""
COMMAND = ("tune", "--server", "mariadb", "--workload", "oltp_update_non_index", "--floor", "second")


class Point(msgspec.Struct, frozen=True):
    """The winner, as `tune.json` has it."""

    arm: str
    settings: dict[str, Value]
    ratio: Ratio


class Tuning(msgspec.Struct, frozen=True):
    """The part of a tuning."""

    winner: Point | None


class Compared(msgspec.Struct, frozen=True):
    """A comparison."""

    ratio: Ratio


class Control(msgspec.Struct, frozen=True):
    """The base once more."""

    comparison: Compared


class Document(msgspec.Struct, frozen=True):
    """What is needed of `tune.json`."""

    campaign_id: str
    tuning: Tuning
    control: Control | None
    others: OtherLoad | None


class Run(msgspec.Struct, frozen=True):
    """One tuning."""

    name: str
    found: Document
    wall_s: float
    measured: float

    def lines(self, widest: float | None) -> Iterator[tuple[str, bool]]:
        """What it found, and whether it met the bars."""
        others = f", before it {self.found.others.words}" if self.found.others else ""
        yield (
            f"{self.name}: {self.wall_s:.0f} s, {self.measured:.0%} measured{others}",
            self.wall_s < WALL_BAR_S,
        )
        winner = self.found.tuning.winner
        proven = winner is not None and winner.settings.get("innodb_flush_log_at_trx_commit") == 2
        narrow = winner is not None and (widest is None or half_width(winner.ratio) <= widest)
        name = winner.arm if winner else "nothing proven"
        yield f"  {words(name, winner.ratio if winner else None)}", proven and narrow
        yield (
            f"  {words('control', self.found.control.comparison.ratio if self.found.control else None)}",
            True,
        )


def run(name: str, state: str, *, fresh: bool) -> Run:
    """Runs a tuning, as users do."""
    how = ("--minutes", "10", "--fresh") if fresh else ("--minutes", "5")
    with tempfile.TemporaryDirectory() as folder, neighbour(state):
        out = Path(folder, "out")
        began = time.monotonic()
        command = [sys.executable, "-m", "flushlab", *COMMAND, *how, "--out", str(out)]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        wall_s = time.monotonic() - began
        found = msgspec.json.decode((out / "tune.json").read_bytes(), type=Document)
    return Run(name, found, wall_s, measured_s(found.campaign_id) / wall_s)


def main() -> int:
    """Prints what was found; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="runs whose name has these words")
    parser.add_argument("--fresh", action="store_true", help="on fresh servers, as before")
    parser.add_argument("--json", type=Path, help="a line per run; those that are there are not run again")
    given = parser.parse_args()
    kept = given.json.read_bytes().splitlines() if given.json and given.json.exists() else []
    found = {one.name: one for one in (msgspec.json.decode(line, type=Run) for line in kept)}
    good = True
    for state, widest in STATES.items():
        for number in range(1, given.runs + 1):
            name = f"{state}{', fresh' if given.fresh else ''}, run {number}"
            if given.only not in name:
                continue
            if name not in found:
                found[name] = run(name, state, fresh=given.fresh)
                if given.json:
                    with given.json.open("ab") as file:
                        file.write(msgspec.json.encode(found[name]) + b"\n")
            for line, met in found[name].lines(widest):
                good &= met or given.fresh
                sys.stdout.write(f"{line}{'' if met or given.fresh else '   MISSED'}\n")
                sys.stdout.flush()
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
