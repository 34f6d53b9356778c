"""Which method loads a table, on which slices; and the comparison of all methods."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.bulk import choice
from flushlab.bulk.choice import Possible, Slices, Unloaded, _ratio, fastest, first_method, split
from flushlab.bulk.filled import FillStep, LoadMethod
from flushlab.bulk.limits import Counts
from flushlab.bulk.native import Range
from flushlab.bulk.tables import sampled_rows

POSSIBLE = Possible(
    load_data=True, prepared=True, indexes_may_wait=True, connections=4, fixed=False, packet_bytes=1 << 20
)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 64))
def test_ranges_hold_every_row_once(first: int, rows: int, parts: int) -> None:
    ranges = split(first, first + rows, parts)
    assert sum(one.end - one.first for one in ranges) == rows
    assert [one.first for one in ranges[1:]] == [one.end for one in ranges[:-1]]
    assert len({one.id for one in ranges}) == len(ranges) <= parts


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_sampled_rows_have_both_ends_and_none_twice(first: int, rows: int) -> None:
    found = sampled_rows(first, first + rows, 100)
    assert (found[0], found[-1]) == (first, first + rows - 1)
    assert len(set(found)) == len(found) == min(rows, 100)


def test_rows_go_as_inserts_where_load_data_is_not_allowed() -> None:
    assert first_method(POSSIBLE, 2).kind == "load-data"
    assert first_method(msgspec.structs.replace(POSSIBLE, load_data=False), 2).kind == "insert"


@pytest.mark.parametrize("load_data", [True, False])
def test_a_small_packet_makes_smaller_batches(load_data: bool) -> None:
    small = msgspec.structs.replace(POSSIBLE, load_data=load_data, packet_bytes=4096)
    assert first_method(small, 1).packet_bytes == 4096


POSSIBLE = Possible(
    load_data=True, prepared=True, indexes_may_wait=True, connections=4, fixed=False, packet_bytes=1 << 20
)
ROWS = 25_000

RATES = {"load × 1": 100.0, "load × 2": 60.0, "insert × 1": 70.0, "insert × 2": 60.0, "insert × 4": 60.0}


def named(method: LoadMethod) -> str:
    return f"{method.kind.removesuffix('-data')} × {method.connections}"


def quiet(_method: str) -> float:
    return 1.0


class Noisy:
    """A machine that others use: what they take comes and goes, and each slice has a chance of its own."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._others = 0.0

    def __call__(self, _method: str) -> float:
        self._others = 0.8 * self._others + self._random.gauss(0, 0.15)
        return math.exp(self._others + self._random.gauss(0, 0.15))


class Rows:
    """Takes slices at given rates, and counts them."""

    def __init__(self, rates: Mapping[str, float], noise: Callable[[str], float] = quiet) -> None:
        self.rates = dict(rates)
        self.noise = noise
        self.taken: list[str] = []
        self.left = math.inf

    def slice(self, method: LoadMethod) -> tuple[int, float]:
        name = named(method)
        self.taken.append(name)
        self.left -= 1
        return ROWS, ROWS / (self.rates[name] * self.noise(name))


def chosen(rows: Rows, *, serial: bool = False, possible: Possible = POSSIBLE) -> str:
    method = first_method(possible, possible.connections if possible.fixed else 1)
    return named(fastest(Slices(rows.slice, lambda: rows.left), method, possible, serial=serial))


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "cpu_count", lambda: 2)


@pytest.mark.parametrize(
    ("changed", "method"),
    [
        ({}, "load × 1"),
        ({"load × 2": 120.0, "load × 4": 90.0}, "load × 2"),
        ({"load × 2": 120.0, "load × 4": 140.0}, "load × 4"),
        ({"insert × 1": 112.0}, "insert × 1"),
        ({"insert × 1": 104.0, "load × 2": 104.0}, "load × 1"),
    ],
)
def test_the_fastest_method_is_chosen_and_the_simplest_if_unclear(
    changed: dict[str, float], method: str
) -> None:
    assert chosen(Rows({**RATES, **changed})) == method


@pytest.mark.parametrize(
    ("changed", "method"),
    [
        ({}, "load × 1"),
        ({"insert × 2": 120.0}, "insert × 2"),
        ({"insert × 2": 120.0, "insert × 4": 130.0}, "insert × 4"),
    ],
)
def test_where_loads_are_serial_several_connections_insert(changed: dict[str, float], method: str) -> None:
    rows = Rows({**RATES, **changed})
    assert chosen(rows, serial=True) == method
    assert "load × 2" not in rows.taken


def test_a_number_of_connections_that_is_given_is_kept() -> None:
    rows = Rows({"load × 4": 100.0, "insert × 4": 120.0})
    assert chosen(rows, possible=msgspec.structs.replace(POSSIBLE, fixed=True)) == "insert × 4"
    assert set(rows.taken) == {"load × 4", "insert × 4"}


def test_where_load_data_is_refused_only_inserts_are_tried() -> None:
    rows = Rows({**RATES, "insert × 2": 120.0})
    assert chosen(rows, possible=msgspec.structs.replace(POSSIBLE, load_data=False)) == "insert × 2"
    assert not any(name.startswith("load") for name in rows.taken)


@pytest.mark.parametrize("best", ["load × 1", "insert × 2"])
def test_a_way_that_is_a_quarter_faster_is_found_on_a_noisy_machine(best: str) -> None:
    """A slice varies by a third, half of it from one moment to the next."""
    rates = {"load × 1": 100.0, "insert × 2": 100.0, "insert × 4": 80.0, best: 130.0}
    found = [chosen(Rows(rates, Noisy(seed)), serial=True) for seed in range(200)]
    assert found.count(best) >= 190


def test_what_is_much_slower_is_given_up_after_two_slices() -> None:
    rows = Rows(RATES)
    chosen(rows, serial=True)
    assert rows.taken.count("insert × 2") == 2


def test_methods_take_slices_and_no_more_than_three_quarters_of_the_rows_are_for_trying() -> None:
    rows = Rows(dict.fromkeys((*RATES, "load × 4"), 100.0))
    beats = iter([1.2, 1.2, 0.8, 0.8] * 100)
    rows.noise = lambda name: next(beats) if name != "load × 1" else 1.0
    chosen(rows)
    assert rows.taken[:6] == ["load × 1", "load × 2", "load × 2", "load × 1", "load × 1", "load × 2"]
    assert len(rows.taken) <= 30


def test_a_load_that_falls_behind_is_compared_again_and_goes_on_in_the_better_way() -> None:
    rows = Rows({**RATES, "insert × 2": 130.0})
    slices = Slices(rows.slice, lambda: rows.left)
    method = fastest(slices, first_method(POSSIBLE, 1), POSSIBLE, serial=True)
    tried = len(rows.taken)
    assert slices.after(method, 125.0) == method and len(rows.taken) == tried
    assert slices.after(method, 60.0) == method, "all are slower now"
    assert len(rows.taken) > tried
    rows.rates["insert × 2"] = 60.0
    assert named(slices.after(method, 60.0)) == "load × 1"


def test_ways_are_no_longer_compared_where_rows_run_out() -> None:
    rows = Rows({**RATES, "insert × 2": 130.0})
    slices = Slices(rows.slice, lambda: rows.left)
    method = fastest(slices, first_method(POSSIBLE, 1), POSSIBLE, serial=True)
    rows.left, tried = 3, len(rows.taken)
    assert slices.after(method, 60.0) == method
    assert (rows.left, len(rows.taken)) == (1, tried + 2)


def method(connections: int) -> LoadMethod:
    return LoadMethod(kind="load-data", connections=connections, batch_rows=1, packet_bytes=1024)


class Server:
    """Takes rows, ten thousand a second."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.before: list[int] = []

    def load(self, _method: LoadMethod, ranges: tuple[Range, ...], before: Counts) -> Counts:
        assert ranges
        self.before.append(before.committed)
        new = [row for one in ranges for row in range(one.first, one.end)]
        self.rows += new
        return Counts(seconds=len(new) / 10_000, rows=len(new), committed=len(new), notes={"a": 1})


@given(st.integers(1_000, 20_000), st.integers(1, 8), st.lists(st.sampled_from([1, 2, 4, 8]), max_size=12))
def test_every_row_is_loaded_once_whatever_is_tried(rows: int, parts: int, tried: list[int]) -> None:
    server = Server()
    unloaded = Unloaded(split(0, rows, parts), server.load)
    for connections in tried:
        unloaded.slice(method(connections))
    unloaded.rest(method(1))
    assert sorted(server.rows) == list(range(rows))
    assert server.before == sorted(server.before) and len(server.before) == len(tried) + 1


def test_the_rest_is_loaded_in_eight_pieces_and_the_way_may_change_after_each() -> None:
    server = Server()
    unloaded = Unloaded(split(0, 40_000, 4), server.load)
    unloaded.slice(method(1))
    rates: list[float] = []

    def after(now: LoadMethod, rate: float) -> LoadMethod:
        rates.append(rate)
        return method(2) if len(rates) == 3 else now

    assert unloaded.watched(method(1), after) == method(2)
    assert rates == [pytest.approx(10_000)] * len(rates) and 7 <= len(rates) <= 10
    assert sorted(server.rows) == list(range(40_000))


def test_a_slice_is_a_fortieth_of_the_rows_shared_by_the_connections() -> None:
    server = Server()
    unloaded = Unloaded(split(0, 40_000, 4), server.load)
    assert unloaded.slice(method(1)) == (1000, 0.1)
    assert unloaded.slice(method(4)) == (1000, 0.1)
    assert server.rows[1000:] == [
        *range(10_000, 10_250),
        *range(20_000, 20_250),
        *range(30_000, 30_250),
        *range(1000, 1250),
    ]
    assert server.before == [0, 1000]


def test_slices_that_take_the_last_rows_leave_no_rest() -> None:
    server = Server()
    unloaded = Unloaded(split(0, 40_000, 4), server.load)

    def after(now: LoadMethod, _rate: float) -> LoadMethod:
        while len(server.rows) > 30_000 and unloaded.slices:
            unloaded.slice(method(1))
        return now

    unloaded.watched(method(4), after)
    assert sorted(server.rows) == list(range(40_000)) and unloaded.slices == 0


def step(rate: float, ratio: float | None = 1.0) -> FillStep:
    return FillStep(name="", rows=0, seconds=1.0, rows_per_s=rate, ratio=ratio, bound_by="", why="")


@pytest.mark.parametrize(
    ("rate", "before", "ratio"),
    [(50.0, [], 1.0), (50.0, [20.0], 2.5), (50.0, [0.0], None), (0.0, [5.0], 0.0)],
)
def test_a_method_is_compared_with_the_one_before(
    rate: float, before: list[float], ratio: float | None
) -> None:
    assert _ratio(rate, [step(one) for one in before]) == ratio


def test_a_method_behind_one_without_rows_has_no_times() -> None:
    assert (step(50.0, None).times, step(50.0, 2.5).times) == ("", "2.5×")
