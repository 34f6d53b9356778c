"""Where a recorded run is cut."""

from __future__ import annotations

from flushlab.crashed.recorded import Moments, choose_points, kill_points
from flushlab.record import CrashPoint


def chosen(crashes: int = 40, seed: int = 7) -> list[CrashPoint]:
    return choose_points(Moments(10, 500, [20, 30, 5, 900], {11: 1, 9: 2, 400: 9}), crashes, seed)


def test_the_same_seed_gives_the_same_points_and_another_one_others() -> None:
    assert chosen() == chosen()
    assert chosen() != chosen(seed=8)


def test_more_images_begin_with_the_same_ones() -> None:
    assert chosen(40)[:15] == chosen(15)


def test_all_points_lie_in_the_load() -> None:
    assert all(10 <= point.at <= 500 for point in chosen(400))


def test_a_quarter_is_chosen_after_acknowledgements_and_before_flushes_and_large_ones() -> None:
    points = chosen()
    assert {point.at for point in points if point.kind == "after_ack"} <= {20, 30}
    assert {point.at for point in points if point.kind == "before_flush"} <= {10, 399}
    assert {point.at for point in points if point.kind == "most_unsynced"} == {399}
    kinds = [point.kind for point in points]
    counts = [kinds.count(kind) for kind in ("random", "after_ack", "before_flush", "most_unsynced")]
    assert counts == [30, 4, 3, 3]


def test_a_file_that_is_written_once_is_cut_as_often_as_the_log() -> None:
    writes = {"log": range(10, 400), "accounts": [401], "before the load": [3]}
    points = choose_points(Moments(10, 500, writes=writes), 400, 7)
    places = [point.at for point in points if point.kind == "after_write"]
    assert len(places) == 100
    assert 30 < places.count(401) < 70
    assert min(places) >= 10


def test_random_points_are_moments_in_time_however_many_records_there_are_of_it() -> None:
    times = [0, *range(1000, 1100), 2000]  # nothing for a second, a hundred at once, nothing for a second
    points = choose_points(Moments(5, 105, times=times, recovery=True), 400, 7)
    for kind in ("random", "in_recovery"):
        places = [point.at for point in points if point.kind == kind]
        assert 0.35 < places.count(5) / len(places) < 0.65, "the last record before the silence"
        assert 0.3 < places.count(105) / len(places) < 0.6
        assert len({5, 105, *places}) > 3, "and some among the hundred"


def test_the_end_of_the_run_is_a_moment_of_its_last_record() -> None:
    assert {point.at for point in choose_points(Moments(3, 3, times=[7, 7]), 20, 1)} == {3}


def test_recoveries_crash_at_any_point_where_they_may() -> None:
    points = choose_points(Moments(10, 500, [20], recovery=True), 40, 7)
    kinds = [point.kind for point in points]
    assert (kinds.count("in_recovery"), kinds.count("after_ack")) == (5, 5)
    places = {point.at for point in points if point.kind == "in_recovery"}
    assert len(places) > 1
    assert all(10 <= at <= 500 for at in places)


def test_without_acknowledgements_and_flushes_all_are_random() -> None:
    assert {point.kind for point in choose_points(Moments(1, 9), 20, 1)} == {"random"}


def test_every_fourth_kill_is_one_of_the_recovery_too() -> None:
    kinds = [point.kind for point in kill_points(8, 100, recovery=True)]
    assert kinds == ["random", "random", "random", "in_recovery"] * 2
    assert {point.kind for point in kill_points(8, 100, recovery=False)} == {"random"}
    assert [point.seed for point in kill_points(3, 100, recovery=True)] == [100, 101, 102]
