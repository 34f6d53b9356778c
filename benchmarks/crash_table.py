"""What configurations lose when the power fails: the tables of docs/results/crash.md, by recordings.

    python benchmarks/crash_table.py cells.jsonl [--crashes 32] [--minutes 4] [--only mariadb@10.11]
        [--fs xfs] [--failure os] [--match sync_binlog=0] [--replica] [--save-recording records]

Cells that the file has already are left out, so that it can be run piece by piece; with nothing left to do it
prints the table of all that the file has. `--failure os` is a power cut on a disk whose cache survives.
`--seed` makes another recording of each cell. `--save-recording` keeps the records of cells in which a crash
was inconsistent, did not start or could not be judged. Needs root.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

import flushlab
from flushlab.datadir import remove_record
from flushlab.record import Value
from flushlab.report.crash import as_json

SERVERS = ("mariadb@10.11", "mysql@5.7", "mysql@8.0", "mysql@9.7", "mariadb@11.8")
BINLOG: Mapping[str, Value] = {"log_bin": "ON"}
HEAD = """\
| server | settings | file system | failure | crashes | kept | lost | inconsistent | not started |\
 random that fail | lost commits | binary log | replica |
|---|---|---|---|---|---|---|---|---|---|---|---|---|"""
PAGES: Mapping[str, Any] = {"workload": "oltp_update_non_index", "tables": 1, "table_size": 50_000}
"""A load that changes many pages: of what is written, most are pages and their doublewrite copies."""
FLUSH, SYNC = "innodb_flush_log_at_trx_commit", "sync_binlog"
MARIADB_ALONE = 3
"""A flush policy that MySQL does not have."""
METHOD, DOUBLEWRITE = "innodb_flush_method", "innodb_doublewrite"


def cells(servers: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, Value], Mapping[str, Any]]]:
    """Server, settings and load of each cell, those that matter most first."""
    direct: dict[str, Value] = {FLUSH: 1, SYNC: 1, METHOD: "O_DIRECT", DOUBLEWRITE: "ON"}
    through: dict[str, Value] = {**direct, METHOD: "fsync"}
    for settings in (direct, through, {**direct, DOUBLEWRITE: "OFF"}):
        yield from ((server, settings, PAGES) for server in servers)
    for flush, sync in ((1, 1), (1, 0), (2, 1), (2, 0), (0, 1), (0, 0), (1, 100), (3, 1)):
        taking = [server for server in servers if flush != MARIADB_ALONE or server.startswith("mariadb")]
        yield from ((server, {FLUSH: flush, SYNC: sync}, {}) for server in taking)
    for method in ("O_DSYNC", "O_DIRECT_NO_FSYNC"):
        yield from ((server, {**direct, METHOD: method}, PAGES) for server in servers)


def main() -> None:
    """Runs what is missing, then prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--crashes", type=int, default=32)
    parser.add_argument("--duration", type=float, default=2.0)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--fs", default="ext4")
    parser.add_argument("--failure", default="power")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append")
    parser.add_argument("--match", default="", help="only cells with this in their settings")
    parser.add_argument(
        "--save-recording", type=Path, help="folder for the records of cells with broken crashes"
    )
    parser.add_argument(
        "--replica", action="store_true", help="with replicas, where acked_inserts runs alone"
    )
    asked = parser.parse_args()
    lines = asked.file.read_text().splitlines() if asked.file.exists() else []
    done = {json.loads(line)["cell"]: json.loads(line) for line in lines}
    until = time.monotonic() + 60 * asked.minutes
    for server, settings, load in cells(tuple(asked.only or SERVERS)):
        words = " ".join(f"{name}={value}" for name, value in settings.items())
        replica = asked.replica and not load
        more = " replica" if replica else ""
        cell = f"{server} {words} {asked.fs} {asked.failure}{more} seed={asked.seed}"
        if cell in done or asked.match not in words:
            continue
        if time.monotonic() > until:
            return
        record = asked.save_recording / cell.replace(" ", "_") if asked.save_recording else None
        facts = flushlab.crash(
            server=server,
            crashes=asked.crashes,
            duration=asked.duration,
            settings={**BINLOG, **settings},
            positive_control=False,
            **load,
            fs=asked.fs if asked.failure != "process" else "ext4",
            failure=asked.failure,
            replica=replica,
            seed=asked.seed,
            save_recording=record,
            progress=say,
        )
        arm = as_json(facts).arms[0]
        outcomes = {crash.outcome for crash in arm.crashes}
        cut_short = facts.ending == "interrupted"
        if arm.folder and (cut_short or (outcomes and outcomes <= {"kept", "lost"})):
            remove_record(Path(arm.folder))  # only with flushlab's mark in it; the folder around it stays
        if cut_short:
            say(f"interrupted; this cell is not written: {cell}")
            raise SystemExit(130)
        where = {"fs": facts.fs, "failure": asked.failure}
        done[cell] = {"cell": cell, "server": server, "settings": settings, **where, "arm": arm}
        line = msgspec.json.encode(done[cell])
        done[cell] = json.loads(line)
        with asked.file.open("ab") as file:
            file.write(line + b"\n")
    say(HEAD, *map(row, done.values()))


def say(*lines: str) -> None:
    """Prints lines."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def row(one: Mapping[str, Any]) -> str:
    """A cell as a line of the table; random and chosen points together, but for those that fail at random."""
    details = one["arm"]["crashes"]
    outcomes = [crash["outcome"] for crash in details]
    lost = sorted(crash["lost"] for crash in details if crash["outcome"] == "lost")
    logs = [crash["binlog"] for crash in details if crash["binlog"]]
    gone = sorted(log["lost"] for log in logs if log["lost"])
    behind, ahead = (sum(log[way] > 0 for log in logs) for way in ("behind", "ahead"))
    counts = (outcomes.count(name) for name in ("kept", "lost", "inconsistent", "not_started"))
    settings = ", ".join(
        f"{name.removeprefix('innodb_').removesuffix('_log_at_trx_commit')}={value}"
        for name, value in one["settings"].items()
    )
    span = f"{lost[0]:,}–{lost[-1]:,}" if lost else ""
    binlog = f"lacks {gone[0]:,}–{gone[-1]:,} in {len(gone)}" if gone else "complete"
    random = one["arm"]["random"]
    judged = random["crashes"] - random["unknown"]
    bound = "" if random["bound_95"] is None else f" (at most {random['bound_95']:.1%})"
    words = [
        one["server"],
        settings,
        one.get("fs", "ext4"),
        one.get("failure", "power"),
        len(details),
        *counts,
        f"{judged - random['kept']} of {judged}{bound}",
        span,
        f"{binlog}; behind {behind}, ahead {ahead}" if logs else "",
        *(_replicas(details)),
    ]
    return "| " + " | ".join(map(str, words)) + " |"


def _replicas(details: list[Mapping[str, Any]]) -> Iterator[str]:
    """What became of the replicas, those that had followed and the new ones, with the errors."""
    words = []
    for name, title in (("replica", ""), ("new_replica", "new: ")):
        found = [crash[name] for crash in details if crash.get(name)]
        ends = Counter(f"{one['outcome']} {one['error'] or ''}".strip() for one in found)
        if found:
            words.append(title + ", ".join(f"{count} {end}" for end, count in ends.most_common()))
    yield "; ".join(words)


if __name__ == "__main__":
    main()
