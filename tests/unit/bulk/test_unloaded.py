"""Rows that are loaded in slices and then the rest: every row once, whatever is tried."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flushlab.bulk.bound import Evidence
from flushlab.bulk.choice import split
from flushlab.bulk.filled import Way
from flushlab.bulk.native import Counts, Loaded, Range
from flushlab.bulk.unloaded import Unloaded

EVIDENCE = Evidence(
    seconds=1.0,
    cores=2,
    connections=1,
    rows=1,
    statements=1,
    commits=1,
    client_cpu_s=0.0,
    server_cpu_s=None,
    send_s=0.0,
    answer_s=0.0,
    commit_s=0.0,
)


def way(connections: int) -> Way:
    return Way(method="load-data", connections=connections, batch_rows=1, packet_bytes=1024)


class Server:
    """Takes rows, ten thousand a second."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.before: list[int] = []

    def load(self, _way: Way, ranges: tuple[Range, ...], before: Counts) -> Loaded:
        self.before.append(before.committed)
        new = [row for one in ranges for row in range(one.first, one.end)]
        self.rows += new
        counts = Counts(seconds=len(new) / 10_000, rows=len(new), committed=len(new), notes={"a": 1})
        return Loaded(counts=counts, evidence=EVIDENCE)


@given(st.integers(1_000, 20_000), st.integers(1, 8), st.lists(st.sampled_from([1, 2, 4, 8]), max_size=12))
def test_every_row_is_loaded_once_whatever_is_tried(rows: int, parts: int, tried: list[int]) -> None:
    server = Server()
    unloaded = Unloaded(split(0, rows, parts), server.load)
    for connections in tried:
        unloaded.slice(way(connections))
    loaded = unloaded.rest(way(1))
    assert sorted(server.rows) == list(range(rows))
    assert (loaded.counts.committed, loaded.counts.notes) == (rows, {"a": len(tried) + 1})


def test_a_slice_is_a_fortieth_of_the_rows_shared_by_the_connections() -> None:
    server = Server()
    unloaded = Unloaded(split(0, 40_000, 4), server.load)
    assert unloaded.slice(way(1)) == (1000, 0.1)
    assert unloaded.slice(way(4)) == (1000, 0.1)
    assert server.rows[1000:] == [
        *range(10_000, 10_250),
        *range(20_000, 20_250),
        *range(30_000, 30_250),
        *range(1000, 1250),
    ]
    assert server.before == [0, 1000]
