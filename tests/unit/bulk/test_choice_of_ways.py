"""Which way is chosen, by what slices of rows took; server and loader are stand-ins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.bulk import choice, native
from flushlab.bulk.choice import Possible
from flushlab.bulk.filled import Tried, Way
from flushlab.bulk.native import Spec
from flushlab.bulk.source import SourceTable
from flushlab.record import Endpoint

POSSIBLE = Possible(
    load_data=True, indexes_may_wait=True, bulk=True, connections=4, fixed=False, packet_bytes=1 << 20
)
TABLE = SourceTable(name="t", rows=10_000_000, columns=("id",), create="")


def named(way: Way) -> str:
    insert = "insert, " if way.method == "insert" else ""
    return "bulk" if way.bulk else f"{insert}{way.indexes} × {way.connections}"


def chosen(
    monkeypatch: pytest.MonkeyPatch, rates: Mapping[str, list[float]], *, turns: bool = False
) -> tuple[str, tuple[Tried, ...]]:
    """What is chosen where the slices of a way come at these rates, the last one for all that follow."""
    slices: dict[str, int] = defaultdict(int)

    def run(spec: Spec, _server: object) -> Any:
        way, rows = spec.plan, sum(one.end - one.first for one in spec.ranges)
        if rows < 50_000:  # the one that warms up
            return SimpleNamespace(counts=SimpleNamespace(seconds=1.0))
        rate = rates[way][min(slices[way], len(rates[way]) - 1)]
        slices[way] += 1
        return SimpleNamespace(counts=SimpleNamespace(seconds=rows / rate))

    def spec(way: Way) -> Spec:
        return Spec(
            endpoint=Endpoint(user="u", password=""),
            database="d",
            plan=named(way),
            table="t",
            into="t",
            method="load-data",
            connections=way.connections,
            ranges=(),
        )

    @contextmanager
    def scratch(*_: object) -> Iterator[str]:
        yield "scratch"

    monkeypatch.setattr(choice, "cpu_count", lambda: 2)
    monkeypatch.setattr(choice, "scratch_table", scratch)
    monkeypatch.setattr(choice, "late_parts", lambda *_: ("DROP KEY k", "ADD KEY k (k)"))
    monkeypatch.setattr(native, "run", run)
    monkeypatch.setattr(choice, "definition", lambda *_: "`id` int NOT NULL AUTO_INCREMENT")
    server: Any = SimpleNamespace(query=lambda *_: [(1 if turns else 2,)])
    way, tried = choice.choose(server, spec, "d", TABLE, POSSIBLE)
    return named(way), tried


RATES = {
    "after × 1": [100.0],
    "after × 2": [60.0],
    "before × 1": [70.0],
    "bulk": [50.0],
    "insert, after × 2": [60.0],
    "insert, before × 2": [50.0],
}


@pytest.mark.parametrize(
    ("changed", "way"),
    [
        ({}, "after × 1"),
        ({"after × 2": [120.0], "after × 4": [90.0], "before × 2": [70.0]}, "after × 2"),
        ({"after × 2": [120.0], "after × 4": [140.0], "before × 4": [70.0]}, "after × 4"),
        ({"before × 1": [112.0]}, "after × 1"),
        ({"before × 1": [130.0]}, "before × 1"),
        ({"before × 1": [130.0], "bulk": [140.0]}, "bulk"),
        ({"bulk": [140.0]}, "after × 1"),
    ],
)
def test_the_fastest_way_is_chosen_and_indexes_wait_in_doubt(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, list[float]], way: str
) -> None:
    assert chosen(monkeypatch, {**RATES, **changed})[0] == way


def test_ways_that_are_close_have_a_second_slice_which_may_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    way, tried = chosen(monkeypatch, {**RATES, "after × 2": [108.0, 70.0]})
    assert way == "after × 1"
    rows = {named(one.way): one.rows for one in tried}
    assert rows == {"after × 1": 100_000, "after × 2": 100_000, "before × 1": 50_000}


def test_trying_ends_when_it_has_taken_a_twelfth_of_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    _, tried = chosen(monkeypatch, {name: [1e12] for name in RATES})
    assert [named(one.way) for one in tried] == ["after × 1", "after × 2"]


@pytest.mark.parametrize(("rate", "chosen_way"), [(112.0, "after × 1"), (120.0, "insert, after × 2")])
def test_where_loads_take_turns_several_connections_insert_if_that_is_much_faster(
    monkeypatch: pytest.MonkeyPatch, rate: float, chosen_way: str
) -> None:
    way, tried = chosen(monkeypatch, {**RATES, "insert, after × 2": [rate]}, turns=True)
    assert way == chosen_way
    assert "after × 2" not in [named(one.way) for one in tried]
