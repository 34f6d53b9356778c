"""A series with real servers on a fleet of four machines against the same on a fleet of one: its verdicts.

Run by `make soak`; needs root (namespaces, control groups, a slow disk) and Ray:

    python benchmarks/fleet_servers.py [--machines 4] [--arms 12] [--blocks 8] [--window 1] [--cpus 0.4]

Each machine has a small share of a processor. The servers' disk is emulated: a sync sleeps for 20 ms, so the
effects of the arms are far larger than any noise of the machine, and equal on all machines. Some arms save
syncs, some wait before each commit, the others change nothing that the load meets (A/A). Exits with 1 unless

- every arm and the control have the same verdict on both fleets,
- no arm has the opposite of its known effect.

Wall times are printed besides. Servers and drivers share the processors of one machine, so no efficiency is
asked for: `fleet_scheduling.py` measures that, with trials that sleep.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from fleet_scheduling import running, say
from tests.fleet_testbed import Node

from flushlab.build import find_build

WHOLE_CPUS = 2.0
"""Of a machine while its Ray starts."""
SERVER, DISK = "mariadb@10.11", "flush=20ms"
FASTER, SLOWER, EQUAL = "faster", "slower", "no difference found"
OPPOSITE = {FASTER: SLOWER, SLOWER: FASTER}


class Known(NamedTuple):
    """An arm and its effect."""

    name: str
    settings: Mapping[str, int | bool]
    effect: str


ARMS = (
    Known("neither synced", {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0}, FASTER),
    Known("wait 200 ms", {"binlog_commit_wait_count": 2, "binlog_commit_wait_usec": 200_000}, SLOWER),
    Known("lock timeout", {"innodb_lock_wait_timeout": 60}, EQUAL),
    Known("binary log unsynced", {"sync_binlog": 0}, FASTER),
    Known("connections", {"max_connections": 200}, EQUAL),
    Known("wait 400 ms", {"binlog_commit_wait_count": 2, "binlog_commit_wait_usec": 400_000}, SLOWER),
    Known("neither written", {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}, FASTER),
    Known("read timeout", {"net_read_timeout": 60}, EQUAL),
    Known("binary log each 100", {"sync_binlog": 100}, FASTER),
    Known("idle timeout", {"wait_timeout": 20_000}, EQUAL),
    Known("both now and then", {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 100}, FASTER),
    Known("write timeout", {"net_write_timeout": 120}, EQUAL),
)
BASE = {
    "log_bin": True,
    "innodb_flush_log_at_trx_commit": 1,
    "sync_binlog": 1,
    "innodb_buffer_pool_size": 64 << 20,
    "innodb_log_file_size": 48 << 20,
}


class Found(NamedTuple):
    """What a fleet has found.

    Attributes:
        seconds: of the command, from its start to its end.
        verdicts, ratios: by arm; `control` is one.
        blocks: by machine.
    """

    seconds: float
    verdicts: dict[str, str]
    ratios: dict[str, str]
    blocks: dict[str, int]


def plan(asked: argparse.Namespace) -> str:
    """The series, as a file."""
    lines = [
        'title = "Known effects"',
        f"blocks = {asked.blocks}",
        f"window = {asked.window}",
        "best = false",
        "[workload]",
        'name = "oltp_update_non_index"',
        "threads = 1",
        "tables = 1",
        "table_size = 1000",
        f"[base]\nsettings = {_inline(BASE)}",
    ]
    for arm in ARMS[: asked.arms]:
        lines.append(f'[[arm]]\nname = "{arm.name}"\nsettings = {_inline(arm.settings)}')
    return "\n".join(lines) + "\n"


def _inline(settings: Mapping[str, int | bool]) -> str:
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in settings.items()) + " }"


def on_fleet(machines: int, asked: argparse.Namespace) -> Found:
    """The series on a fleet of so many machines."""
    with running(machines, cpus=WHOLE_CPUS) as nodes, tempfile.TemporaryDirectory() as folder:
        for node in nodes:
            node.lend_builds()
            node.limit_cpus(asked.cpus)
        path = Path(folder) / "plan.toml"
        path.write_text(plan(asked))
        return _driven(nodes[0], path)


def _driven(node: Node, path: Path) -> Found:
    words = ["series", str(path), "--server", SERVER, "--disk", DISK]
    began = time.monotonic()
    done = node.flushlab(*words, "--fleet", node.address, "--json", "-", timeout_s=3600.0)
    seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"the series ended with {done.returncode}\n{done.stderr}")
    facts = json.loads(done.stdout)
    rows = {arm["name"]: arm for arm in facts["arms"]} | {"control": facts["control"]}
    return Found(
        seconds,
        {name: _verdict(row) for name, row in rows.items()},
        {name: _ratio(row) for name, row in rows.items()},
        {one["name"]: one["blocks"] for one in facts["machines"]},
    )


def _verdict(row: Mapping[str, Any]) -> str:
    return str(row["comparison"]["verdict"]) if row["comparison"] else "not measured"


def _ratio(row: Mapping[str, Any]) -> str:
    ratio = (row["comparison"] or {}).get("ratio")
    return f"{ratio['estimate']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]" if ratio else "–"


def main() -> int:
    """Runs the series on both fleets and compares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machines", type=int, default=4)
    parser.add_argument("--arms", type=int, default=len(ARMS), help=f"the first ones of {len(ARMS)}")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--window", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--cpus", type=float, default=0.4, help="share of each machine")
    asked = parser.parse_args()
    find_build(SERVER, progress=say)
    one = on_fleet(1, asked)
    say(f"1 machine: {one.seconds:.0f} s; blocks {one.blocks}")
    fleet = on_fleet(asked.machines, asked)
    say(f"{asked.machines} machines: {fleet.seconds:.0f} s; blocks {fleet.blocks}")
    effects = {arm.name: arm.effect for arm in ARMS[: asked.arms]} | {"control": EQUAL}
    differ = opposite = 0
    for name, effect in effects.items():
        verdicts = one.verdicts[name], fleet.verdicts[name]
        differ += verdicts[0] != verdicts[1]
        opposite += OPPOSITE.get(effect) in verdicts
        say(
            f"{name:24} {effect:20} one {verdicts[0]:20} {one.ratios[name]:22}"
            f" {asked.machines} {verdicts[1]:20} {fleet.ratios[name]:22}"
            f" {'same' if verdicts[0] == verdicts[1] else 'DIFFER'}"
        )
    right = sum(fleet.verdicts[name] == effect for name, effect in effects.items())
    say(
        f"verdicts: same {len(effects) - differ} of {len(effects)}, as the known effect {right}, opposite"
        f" {opposite}; efficiency {one.seconds / asked.machines / fleet.seconds:.2f}, the start included"
    )
    return int(differ > 0 or opposite > 0)


if __name__ == "__main__":
    raise SystemExit(main())
