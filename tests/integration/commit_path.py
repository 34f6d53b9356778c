"""Runs of the commit path whose files tests look at: threads, rotation, every pipeline by turns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from flushlab import _core
from tests.integration.binlog_files import binlogs, read

WAIT_S = 300.0

ALL_WAYS: tuple[dict[str, Any], ...] = (
    {"binlog_strategy": "parallel"},
    {"binlog_strategy": "redo", "trx_commit": 1, "sync_binlog": 1},
    {"binlog_strategy": "two-syncs"},
    {"binlog_strategy": "serial"},
    {"binlog_strategy": "parallel", "sync_binlog": 1000},
)
"""Changes of the policy, from serial with redo 2 and sync_binlog 1000 on."""


def run(folder: Path, version: str, *, threads: int, transactions: int = 2000, **more: Any) -> dict[str, Any]:
    """Commits through every pipeline by turns, and leaves the files."""
    # All changes in the first half: the run must not be over before the last.
    changes = [
        {"after_commits": (1 + step) * transactions // 10, **change} for step, change in enumerate(ALL_WAYS)
    ]
    spec = {
        "directory": str(folder),
        "keep": True,
        "format": version,
        "trx_commit": 2,
        "sync_binlog": 1000,
        "binlog_strategy": "serial",
        "threads": threads,
        "shape": {"kind": "oltp_update_non_index", "tables": 4, "rows": 100},
        "transactions": transactions,
        "rotate_bytes": 200_000,
        "seed": 7,
        "changes": changes,
        **more,
    }
    path = _core.CommitPath(msgspec.json.encode(spec))
    path.start()
    answer = path.wait(WAIT_S)
    assert answer is not None, "the commit path is still at it"
    result: dict[str, Any] = msgspec.json.decode(answer)
    return result


Row = tuple[Any, ...]


@dataclass
class Images:
    """Rows by table and id: before their first change in a log, and after their last."""

    first: dict[tuple[str, int], Row] = field(default_factory=dict)
    last: dict[tuple[str, int], Row] = field(default_factory=dict)


UPDATE = re.compile(r"^### UPDATE `sbtest`\.`(\w+)`\n((?:### .*\n)+)", re.MULTILINE)
COLUMN = re.compile(r"^###   @\d+=(?:'(.*?)'|(-?\d+)) /\*", re.MULTILINE)


def images(version: str, folder: Path) -> Images:
    """What the server's own tool reads in the files; it must have nothing to complain of."""
    done = read(version, binlogs(folder))
    assert (done.returncode, done.stderr) == (0, "")
    found = Images()
    for update in UPDATE.finditer(done.stdout):
        before, after = (
            tuple(text or int(number) for text, number in COLUMN.findall(image))
            for image in update[2].split("### SET\n")
        )
        key = (update[1], before[0])
        assert found.last.get(key, before) == before, "an update finds the row that the last one left"
        found.first.setdefault(key, before)
        found.last[key] = after
    return found
