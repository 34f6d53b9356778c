"""Rows a second of one core, without a server: at least 1,500,000 of sbtest and 2,000,000 of users.

Pieces are written into memory as VALUES again and again; what counts is the CPU time of the thread that
writes, and the best of several rounds, for other programs only make it longer.
"""

from __future__ import annotations

import sys
import time

from flushlab import _core
from flushlab.generate.plan import read_plan

BARS = {"sbtest": 1_500_000, "users": 2_000_000}
ROWS = 1_000_000
PIECE = 5_000
ROUNDS = 3


def rows_per_s(name: str) -> float:
    """Of one core."""
    plan = read_plan(name, rows=ROWS)
    text, table = plan.json.decode(), plan.tables[0].name
    best = 0.0
    for _ in range(ROUNDS):
        began = time.thread_time()
        for first in range(0, ROWS, PIECE):
            _core.sample_rows(text, table, list(range(first, first + PIECE)))
        best = max(best, ROWS / (time.thread_time() - began))
    return best


def main() -> int:
    """Prints what each plan gives; 1 if one misses its bar."""
    missed = 0
    for name, bar in BARS.items():
        rate = rows_per_s(name)
        missed += rate < bar
        verdict = "held" if rate >= bar else "MISSED"
        sys.stdout.write(f"{name}: {rate:,.0f} rows/s  (bar {bar:,}: {verdict})\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
