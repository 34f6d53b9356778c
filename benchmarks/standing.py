"""Arms side by side on standing servers, beside fresh servers: how narrow intervals are; whether they agree.

`--part width`: base, control, flush=2 and the double write off, 16 connections, three minutes on each server,
with and without a neighbour that eats one processor; beside it fresh servers in the same time. Bars: every
half-width at most 3 % on a quiet machine and 5 % with the neighbour; at least 80 % of the time is measured.

`--part truth`: ten effects of known direction, 30 s of each arm in turns, five times as long on fresh
servers. Bar: the two intervals overlap.

Run: .venv/bin/python benchmarks/standing.py [--part width | truth] [--server mariadb@10.11 …] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import flushlab
from flushlab.campaign.facts import SeriesFacts
from flushlab.record import Comparison, Ratio
from flushlab.store import open_store

QUIET_BAR, BUSY_BAR, MEASURED_BAR = 0.03, 0.05, 0.80
NEIGHBOUR = "import hashlib\nwhile True: hashlib.sha256(bytes(1 << 16))"
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


def run(plan: str, server: str, *, blocks: int, seconds: float, fresh: bool) -> SeriesFacts:
    """A series of a plan's text."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "plan.toml")
        file.write_text(plan)
        found = flushlab.series(file, server=server, blocks=blocks, seconds=seconds, fresh=fresh)
    assert found.interleaved is not fresh, found.why_fresh
    return found


@contextmanager
def neighbour(wanted: bool) -> Iterator[None]:
    """Another program that eats one processor, if one is wanted."""
    program = subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) if wanted else None
    try:
        yield
    finally:
        if program is not None:
            program.kill()
            program.wait()


def half_width(ratio: Ratio) -> float:
    """Half of the interval, as a share of the estimate."""
    return (ratio.high - ratio.low) / 2 / ratio.estimate


def measured_share(campaign_id: str) -> float:
    """Share of a campaign's time that is measured slices."""
    with open_store() as store:
        trials = list(store.trials(campaign_id))
    slices = sum(one.seconds for trial in trials for one in trial.slices)
    return slices / sum(trial.spent_s for trial in trials)


def words(name: str, comparison: Comparison | None) -> str:
    """`flush-2 1.60 [1.56, 1.64] ± 2.5 %`."""
    if comparison is None:
        return f"{name} not measured"
    ratio = comparison.ratio
    return f"{name} {ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] ± {half_width(ratio):.1%}"


def width(servers: list[str]) -> Iterator[tuple[str, bool]]:
    """Lines, and whether they meet their bar."""
    for server in servers:
        for busy in (False, True):
            for fresh in (False, True):
                began = time.monotonic()
                with neighbour(busy):
                    blocks, seconds = (2, 8.0) if fresh else (5, 6.0)
                    found = run(FOUR, server, blocks=blocks, seconds=seconds, fresh=fresh)
                compared = {"control": found.control, **{arm.name: arm.comparison for arm in found.arms}}
                bar = BUSY_BAR if busy else QUIET_BAR
                good = all(one is not None and half_width(one.ratio) <= bar for one in compared.values())
                share = 1.0 if fresh else measured_share(found.campaign_id)
                state = (
                    f"{'one processor eaten' if busy else 'quiet'}, {'fresh' if fresh else 'side by side'}"
                )
                yield f"{server}, {state}, {time.monotonic() - began:.0f} s, {share:.0%} measured", True
                for name, one in compared.items():
                    yield f"  {words(name, one)}", fresh or good
                yield (
                    f"  others: {found.others.words if found.others else 'unknown'}",
                    fresh or share >= MEASURED_BAR,
                )


def truth(servers: list[str]) -> Iterator[tuple[str, bool]]:
    """Lines, and whether both ways agree."""
    for server in servers:
        for name, effect in EFFECTS.items():
            found = []
            for fresh in (False, True):
                seconds = 30.0 if fresh else 6.0
                facts = run(plan_of(effect), server, blocks=5, seconds=seconds, fresh=fresh)
                found.append(facts.arms[0].comparison)
            turns, long = found
            agree = turns is not None and long is not None
            if turns is not None and long is not None:
                agree = turns.ratio.low <= long.ratio.high and long.ratio.low <= turns.ratio.high
            yield f"{server} {words(f'{name}: in turns', turns)}, {words('fresh', long)}", agree


def main() -> int:
    """Prints what was found; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("width", "truth"))
    parser.add_argument("--server", nargs="+", default=["mariadb@10.11", "mysql@5.7", "mysql@8.0"])
    parser.add_argument("--json", type=Path, help="write the lines to a file")
    given = parser.parse_args()
    parts = {"width": width, "truth": truth}
    lines = []
    for part in [given.part] if given.part else parts:
        for line, good in parts[part](given.server):
            lines.append((line, good))
            sys.stdout.write(f"{line}{'' if good else '   MISSED'}\n")
            sys.stdout.flush()
    if given.json:
        given.json.write_text(json.dumps(lines) + "\n")
    return int(not all(good for _, good in lines))


if __name__ == "__main__":
    sys.exit(main())
