"""What Galera clusters lose: the table "Galera" of docs/results/crash.md, cell by cell.

    python benchmarks/crash_cluster.py cells.jsonl [--rounds 1] [--cells 1000]

Each round adds a few crashes to every cell, with other seeds. Cells of rounds that the file has already are
left out, so that it can be run piece by piece; with nothing left to do it prints the table. Needs root.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import flushlab
from flushlab.errors import FlushlabError
from flushlab.record import Value
from flushlab.report.crash import as_json
from flushlab.statistics.limits import upper_bound

CRASHES = {
    ("power", "all"): 6,
    ("process", "all"): 2,
    ("process", "one"): 2,
    ("power", "one"): 2,
    ("process", "cascade"): 1,
    ("power", "cascade"): 1,
}
"""Crashes of a cell in a round."""
OUTCOMES = ("kept", "lost", "inconsistent", "not_started", "unknown")
HEAD = """\
| nodes | failure | network | flush | binary log | crashes | outcomes | lost | came back by | nodes alone |
|---|---|---|---|---|---|---|---|---|---|"""


class Cell(NamedTuple):
    """One cell in one round."""

    failure: str
    nodes: str
    flush: int
    binlog: str
    round: int

    @property
    def latency(self) -> str | None:
        """Nodes that crash while others live have a network between them, which they are taken off."""
        return None if self.nodes == "all" else "1ms"

    @property
    def name(self) -> str:
        """As it stands in the file."""
        return " ".join(str(one) for one in (*self, self.latency or "loopback"))


def cells(rounds: int) -> Iterator[Cell]:
    """Cells, those that matter most first."""
    for number in range(rounds):
        for flush, binlog in ((2, "ON"), (1, "ON"), (2, "OFF"), (1, "OFF"), (0, "ON"), (0, "OFF")):
            yield from (Cell(fail, nodes, flush, binlog, number) for fail, nodes in CRASHES)


def main() -> None:
    """Runs what is missing, then prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--server", default="mariadb@10.11")
    asked = parser.parse_args()
    lines = asked.file.read_text().splitlines() if asked.file.exists() else []
    done = {json.loads(line)["cell"]: json.loads(line) for line in lines}
    missing = [cell for cell in cells(asked.rounds) if cell.name not in done]
    for cell in missing[: asked.cells]:
        settings: dict[str, Value] = {"innodb_flush_log_at_trx_commit": cell.flush, "log_bin": cell.binlog}
        try:
            facts = flushlab.crash(
                server=asked.server,
                cluster=3,
                nodes=cell.nodes,
                network_latency=cell.latency,
                failure=cell.failure,
                crashes=CRASHES[cell.failure, cell.nodes],
                duration=1.5,
                settings=settings,
                positive_control=False,
                seed=1 + cell.round,
                progress=_tell,
            )
        except FlushlabError as error:
            _tell(f"{cell.name}: {error.message}")
            continue
        if facts.ending == "interrupted":
            break
        found = {"cell": cell.name, "found": as_json(facts)}
        with asked.file.open("a") as file:
            file.write(json.dumps(found, default=_plain) + "\n")
        done[cell.name] = json.loads(json.dumps(found, default=_plain))
    if len(missing) <= asked.cells:
        sys.stdout.write("".join(f"{line}\n" for line in (HEAD, *table(done))))


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _plain(value: Any) -> Any:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def table(done: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Rows, with all rounds of a cell together."""
    together: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for name, one in done.items():
        fail, nodes, flush, binlog, _, link = name.split()
        (arm,) = one["found"]["arms"]
        together.setdefault((nodes, fail, link, flush, binlog), []).extend(arm["crashes"])
    for cell, crashes in sorted(together.items()):
        outcomes = Counter(crash["outcome"] for crash in crashes)
        lost = [crash["lost"] for crash in crashes if crash["outcome"] == "lost"]
        bad = sum(outcomes[one] for one in ("lost", "inconsistent", "not_started"))
        judged = len(crashes) - outcomes["unknown"]
        bound = f"; ≤ {upper_bound(bad, judged):.0%}" if judged else ""
        each = [node for crash in crashes for node in crash["nodes"]]
        ways = Counter(node["way"] for node in each if node["way"] != "stayed")
        alone = [node["alone"]["lost"] for node in each if node["alone"]]
        spread = f"{min(lost)}–{max(lost)}" if lost else ""
        told = f"{sum(one > 0 for one in alone)} of {len(alone)}" if alone else ""
        most = f" (median {statistics.median(alone):.0f}, most {max(alone)})" if any(alone) else ""
        words = ", ".join(f"{outcomes[one]} {one.replace('_', ' ')}" for one in OUTCOMES if outcomes[one])
        by = ", ".join(f"{way} {number}" for way, number in sorted(ways.items()))
        print_as = (
            *cell,
            str(len(crashes)),
            words + bound,
            spread,
            by,
            f"lost in {told}{most}" if told else "",
        )
        yield f"| {' | '.join(print_as)} |"


if __name__ == "__main__":
    main()
