"""Servers kept running and fresh servers compared: how narrow intervals are; whether they agree.

`--part width`: base, control, flush=2 and the double write off, 16 connections, three minutes of wall time on
each server: on a quiet machine, while a neighbour eats one processor, and while another server writes to the
same disk; after each, fresh servers in the same time. Bars: every half-width at most 3 % quiet, 5 % with the
neighbour and 6 % with the other server; at least 80 % of the time is measured.

`--part truth`: ten effects of known direction on two flavors, in slices and, five times as long, on fresh
servers. Bar: the two intervals overlap.

    python benchmarks/kept_running.py [--part width | truth] [--server …] [--only WORDS] [--json FILE]

A piece takes three to six minutes. With `--json` every piece leaves a line in the file, and what stands there
is not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

import flushlab
from flushlab.campaign.facts import CampaignFacts
from flushlab.record import Ratio
from flushlab.store import open_store

BARS = {"quiet": 0.03, "one processor eaten": 0.05, "another server writes": 0.06}
MEASURED_BAR = 0.80
NEIGHBOUR = """
import hashlib, os, sys
while os.getppid() == int(sys.argv[1]):  # whatever ended it
    hashlib.sha256(bytes(1 << 16))
"""
WRITER = ("bench", "--server", "mariadb@10.11", "--duration", "600", "--threads", "2")
SERVERS = {"width": ["mariadb@10.11", "mysql@5.7", "mysql@8.0"], "truth": ["mariadb@10.11", "mysql@8.0"]}
WRITES_AFTER_S = 12.0
"""Until the other server has been started and warmed up."""
WIDTH_TIMING = {False: (5, 7.2), True: (3, 8.0)}  # blocks and seconds that fill three minutes; fresh or not
TRUTH_TIMING = {False: (5, 2.0), True: (5, 10.0)}
COMMITS = {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1}
BINLOG = {**COMMITS, "log_bin": "ON"}
FOUR = """title = "four arms"
best = false
[workload]
name = "oltp_update_non_index"
threads = 16
[base.settings]
innodb_flush_log_at_trx_commit = 1
[[arm]]
name = "flush-2"
settings = { innodb_flush_log_at_trx_commit = 2 }
[[arm]]
name = "doublewrite-off"
settings = { innodb_doublewrite = "OFF" }
"""


class Effect(NamedTuple):
    """One change against a base: settings, or options of upsert."""

    base: Mapping[str, object]
    arm: Mapping[str, object]
    upsert: bool = False


EFFECTS = {
    "flush 1 → 2": Effect(COMMITS, {"innodb_flush_log_at_trx_commit": 2}),
    "flush 1 → 0": Effect(COMMITS, {"innodb_flush_log_at_trx_commit": 0}),
    "sync_binlog 1 → 0": Effect(BINLOG, {"sync_binlog": 0}),
    "O_DSYNC": Effect(COMMITS, {"innodb_flush_method": "O_DSYNC"}),
    "a small log buffer": Effect(COMMITS, {"innodb_log_buffer_size": 2 << 20}),
    "double write off": Effect(COMMITS, {"innodb_doublewrite": "OFF"}),
    "binary log on → off": Effect(BINLOG, {"log_bin": "OFF"}),
    "performance_schema": Effect({**COMMITS, "performance_schema": "OFF"}, {"performance_schema": "ON"}),
    "upsert 1 → 20 rows": Effect(COMMITS, {"rows": 20}, upsert=True),
    "upsert, a commit a second": Effect(COMMITS, {"commit": "1 s"}, upsert=True),
}


def table(values: Mapping[str, object]) -> str:
    """The values as TOML's inline table."""
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items()) + " }"


def plan_of(effect: Effect) -> str:
    """A plan with one arm."""
    name, key = ("upsert", "workload") if effect.upsert else ("oltp_update_non_index", "settings")
    return (
        f'title = "an effect"\nbest = false\nworkload = {table({"name": name, "threads": 16})}\n'
        f'base = {{ settings = {table(effect.base)} }}\n[[arm]]\nname = "arm"\n{key} = {table(effect.arm)}\n'
    )


def run(plan: str, server: str, *, blocks: int, seconds: float, fresh: bool) -> CampaignFacts:
    """A series of a plan's text."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "plan.toml")
        file.write_text(plan)
        found = flushlab.series(file, server=server, blocks=blocks, window=seconds, fresh=fresh)
    assert found.interleaved is not fresh, found.why_fresh
    return found


@contextmanager
def neighbour(state: str) -> Iterator[None]:
    """Somebody else on the machine, as the state says."""
    programs = {
        "quiet": (),
        "one processor eaten": ("-c", NEIGHBOUR, str(os.getpid())),
        "another server writes": ("-m", "flushlab", *WRITER),
    }
    if not programs[state]:
        yield
        return
    program = subprocess.Popen(
        [sys.executable, *programs[state]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(0.0 if state == "one processor eaten" else WRITES_AFTER_S)
    try:
        yield
        assert program.poll() is None, f"{state}: ended before the measurement did"
    finally:
        program.kill()  # a server of its own ends with it
        program.wait()


def half_width(ratio: Ratio) -> float:
    """Half of the interval, as a share of the estimate."""
    return (ratio.high - ratio.low) / 2 / ratio.estimate


def measured_s(campaign_id: str) -> float:
    """Seconds of a campaign in which something was measured."""
    with open_store() as store:
        return sum(trial.seconds.get("window", 0.0) for trial in store.trials(campaign_id))


def words(name: str, ratio: Ratio | None) -> str:
    """`flush-2 1.600 [1.560, 1.640] ± 2.5 %`."""
    if ratio is None:
        return f"{name} not measured"
    return f"{name} {ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] ± {half_width(ratio):.1%}"


class Piece(NamedTuple):
    """One campaign of the benchmark.

    Attributes:
        name: in the lines.
        plan: its text.
        server: build.
        state: of the machine.
        fresh: on fresh servers.
        timing: blocks and seconds.
    """

    name: str
    plan: str
    server: str
    state: str
    fresh: bool
    timing: tuple[int, float]


class Outcome(msgspec.Struct, frozen=True):
    """What a piece found: ratios by arm, seconds of wall time and the share of them that was measured."""

    name: str
    ratios: dict[str, Ratio | None]
    wall_s: float
    measured: float
    others: str

    def lines(self, bar: float) -> Iterator[tuple[str, bool]]:
        """Lines, and whether they meet their bar."""
        yield f"{self.name}: {self.wall_s:.0f} s, {self.measured:.0%} measured ({self.others})", True
        for arm, ratio in self.ratios.items():
            yield f"  {words(arm, ratio)}", ratio is not None and half_width(ratio) <= bar


def pieces(part: str, servers: list[str], scale: float) -> Iterator[Piece]:
    """All of a part, so many times as long; first in slices, then fresh."""

    def timing(way: Mapping[bool, tuple[int, float]], fresh: bool) -> tuple[int, float]:
        blocks, seconds = way[fresh]
        return blocks, seconds * scale

    for server in servers:
        if part == "width":
            for state in BARS:
                for fresh in (False, True):
                    name = f"{server}, {state}, {'fresh' if fresh else 'in slices'}"
                    yield Piece(name, FOUR, server, state, fresh, timing(WIDTH_TIMING, fresh))
        else:
            for effect, values in EFFECTS.items():
                for fresh in (False, True):
                    name = f"{server}, {effect}, {'fresh' if fresh else 'in slices'}"
                    yield Piece(name, plan_of(values), server, "quiet", fresh, timing(TRUTH_TIMING, fresh))


def measure(piece: Piece) -> Outcome:
    """Runs a piece."""
    blocks, seconds = piece.timing
    began = time.monotonic()
    with neighbour(piece.state):
        began = time.monotonic()
        found = run(piece.plan, piece.server, blocks=blocks, seconds=seconds, fresh=piece.fresh)
        wall_s = time.monotonic() - began
    every = [one for one in (found.control, *found.arms) if one is not None]
    compared = {one.name: one.comparison for one in every}
    return Outcome(
        name=piece.name,
        ratios={name: one.ratio if one is not None else None for name, one in compared.items()},
        wall_s=wall_s,
        measured=measured_s(found.campaign_id) / wall_s,
        others=found.others.words if found.others else "",
    )


def judged(part: str, piece: Piece, found: Mapping[str, Outcome]) -> Iterator[tuple[str, bool]]:
    """Lines of a piece, and whether they meet their bar; those of two ways stand with the second."""
    own = found[piece.name]
    if part == "width":
        yield from own.lines(math.inf if piece.fresh else BARS[piece.state])
        if piece.state == "quiet" and not piece.fresh:
            yield f"  {own.measured:.0%} of the wall time is measured", own.measured >= MEASURED_BAR
        return
    yield from own.lines(math.inf)
    if piece.fresh:
        ratios = own.ratios["arm"], found[piece.name.removesuffix("fresh") + "in slices"].ratios["arm"]
        one, other = ratios
        agree = one is not None and other is not None and one.low <= other.high and other.low <= one.high
        yield f"  the two intervals {'overlap' if agree else 'exclude each other'}", agree


def main() -> int:
    """Prints what was found; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("width", "truth"))
    parser.add_argument("--server", nargs="+", help="those of the part, if none is named")
    parser.add_argument("--only", default="", help="pieces whose name has these words")
    parser.add_argument("--scale", type=float, default=1.0, help="measure so many times as long")
    parser.add_argument("--json", type=Path, help="a line per piece; those that are there are not run again")
    given = parser.parse_args()
    kept = given.json.read_bytes().splitlines() if given.json and given.json.exists() else []
    found = {one.name: one for one in (msgspec.json.decode(line, type=Outcome) for line in kept)}
    good = True
    for part in [given.part] if given.part else SERVERS:
        for piece in pieces(part, given.server or SERVERS[part], given.scale):
            if given.only not in piece.name:
                continue
            if piece.name not in found:
                found[piece.name] = measure(piece)
                if given.json:
                    with given.json.open("ab") as file:
                        file.write(msgspec.json.encode(found[piece.name]) + b"\n")
            for line, met in judged(part, piece, found):
                good &= met
                sys.stdout.write(f"{line}{'' if met else '   MISSED'}\n")
                sys.stdout.flush()
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
