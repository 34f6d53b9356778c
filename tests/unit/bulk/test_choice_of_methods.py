"""Which method is chosen, by what slices of rows took; server and loader are stand-ins."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import msgspec
import pytest

from flushlab.bulk import choice
from flushlab.bulk.choice import Possible, Slices, fastest, first_method
from flushlab.bulk.filled import LoadMethod

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
