"""The ring of samples: numbers grow, nobody who comes back misses one, an hour is kept."""

from __future__ import annotations

import threading

from flushlab.watch.threads import Ring


def ids(ring: Ring, after: int | None) -> list[int]:
    return [number for number, _ in ring.after(after)]


def filled(count: int, room: int = 10) -> Ring:
    ring = Ring(100, room)
    for number in range(count):
        ring.push(b"%d" % number)
    return ring


def test_who_comes_back_gets_what_came_meanwhile() -> None:
    assert ids(filled(5), 102) == [103, 104]
    assert ids(filled(5), 104) == []


def test_who_was_away_too_long_gets_all_that_is_kept() -> None:
    ring = filled(25)
    assert ids(ring, 101) == list(range(115, 125))
    assert ring.after(101)[0][1] == b"15"


def test_a_number_of_an_earlier_process_or_of_none_gets_all() -> None:
    assert ids(filled(3), 7) == [100, 101, 102]
    assert ids(filled(3), 999) == [100, 101, 102]


def test_who_comes_first_gets_the_newest() -> None:
    assert ids(filled(3), None) == [102]
    assert ids(filled(0), None) == []


def test_waiting_ends_with_the_next_sample_and_with_the_end() -> None:
    ring = filled(1)
    assert ring.wait(99, 0)
    assert not ring.wait(100, 0)
    threading.Timer(0.05, lambda: ring.push(b"new")).start()
    assert ring.wait(100, 60)
    threading.Timer(0.05, ring.close).start()
    assert not ring.wait(101, 60)
