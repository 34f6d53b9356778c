"""Rows a second of one core, without a server: at least 1,500,000 of sbtest and 2,000,000 of users.

Pieces are written into memory again and again; what counts is the CPU time of the thread that writes, and the
best of several rounds, for other programs only make it longer.
"""

from __future__ import annotations

import sys
import time
from typing import Literal

from flushlab import _core
from flushlab.generate.plan import read_plan

BARS = {"sbtest": 1_500_000, "users": 2_000_000}
FORMATS: tuple[Literal["tsv", "sql", "csv"], ...] = ("tsv", "sql", "csv")
ROWS = 1_000_000
PIECE = 5_000
ROUNDS = 3


def rows_per_s(name: str, form: Literal["tsv", "sql", "csv"]) -> float:
    """Of one core."""
    rows = _core.Rows(read_plan(name, rows=ROWS).json)
    best = 0.0
    for _ in range(ROUNDS):
        began = time.thread_time()
        for first in range(0, ROWS, PIECE):
            rows.write(0, first, first + PIECE, form)
        best = max(best, ROWS / (time.thread_time() - began))
    return best


def main() -> int:
    """Prints what each plan and format gives; 1 if LOAD DATA's format misses a bar."""
    missed = 0
    for name, bar in BARS.items():
        for form in FORMATS:
            rate = rows_per_s(name, form)
            held = form != "tsv" or rate >= bar
            missed += not held
            verdict = "" if form != "tsv" else f"  (bar {bar:,}: {'held' if held else 'MISSED'})"
            sys.stdout.write(f"{name} {form}: {rate:,.0f} rows/s{verdict}\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
