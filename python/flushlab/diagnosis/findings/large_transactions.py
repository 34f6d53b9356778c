"""Large transactions: one that changes very many rows stalls the commits of the others. Pure.

Its events go into the binary log as one piece, while every other commit waits; its pages and its redo push
those of the others out.
"""

from __future__ import annotations

import itertools

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK

_MANY = 50_000
_OPEN = "SELECT * FROM information_schema.INNODB_TRX ORDER BY trx_rows_modified DESC LIMIT 5"


def find(evidence: Evidence) -> Finding | None:
    """Transactions with very many changed rows beside other writers."""
    every = itertools.chain(evidence.transactions.values(), *evidence.looks)
    large = [one for one in every if one.rows_modified >= _MANY]
    if not large:
        return None
    largest = max(large, key=lambda one: one.rows_modified)
    # One that is seen at its begin has few changes yet.
    threads = {one.thread for one in large}
    often = [any(one.thread in threads and one.rows_modified for one in look) for look in evidence.looks]
    # Where commits sync, they wait for the disk already.
    waits = ("statement", ROW_LOCK, *(() if any(evidence.syncs_at_commit()) else ("commit",)))
    return Finding(
        name="large_transactions",
        title="large transactions beside small ones: their pages, redo and binary log delay the others",
        share=evidence.time.within(sum(often) / len(often), *waits, delays=("commit", "reading", PROCESSOR))
        if often and evidence.time.writers > len(threads)
        else None,
        waits=waits,
        shows_in=("cpu", "client"),
        seen=(
            Seen(
                f"connection {largest.thread} has changed {largest.rows_modified:,} rows in one transaction,"
                f" open for {largest.age_s:,} s",
                _OPEN,
            ),
        ),
        advice="Change some thousands of rows in each transaction, and let others commit in between.",
    )
