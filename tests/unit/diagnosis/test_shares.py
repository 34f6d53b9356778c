"""Shares of the writers' time, and what they bound."""

from __future__ import annotations

import tracemalloc
from random import Random

import msgspec
import pytest

from flushlab.diagnosis.shares import STRETCHES, Tally, TimeShare, WriteTime, times
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK
from flushlab.record import ServerIdentity
from flushlab.telemetry.live.questions import ThreadState
from tests.unit.diagnosis.watched import COMMITTING, MARIADB, MYSQL97, client, time_of, writer

DOES = (COMMITTING, COMMITTING, "updating", "updating", "deleting from main table")


def committing(one: int) -> ThreadState:
    return writer(one, COMMITTING)


def test_connections_in_a_state_are_its_part_of_the_time() -> None:
    found = time_of([writer(1, COMMITTING), writer(2, COMMITTING), writer(3), client(4), writer(4)])
    assert found.samples == STRETCHES
    assert found.writers == 4
    assert found.connections == {"commit": 2.0, "statement": 2.0, "client": 1.0}
    assert found.total == 5.0
    assert found.in_server == 4.0
    share = found.share("commit")
    assert share is not None and share.mid == pytest.approx(0.4)
    both = found.share("commit", "client")
    assert both is not None and both.mid == pytest.approx(0.6)


def test_a_connection_that_never_wrote_counts_nowhere() -> None:
    reader = ThreadState(9, "Query", 0, "statistics", "select")
    found = time_of([writer(1, COMMITTING), reader, client(8)])
    assert found.writers == 1
    assert found.connections == {"commit": 1.0}


def test_a_writer_counts_from_its_first_sample_on() -> None:
    """Its client's turn before the first write is of the same loop."""
    found = time_of([client(1)], [writer(1)])
    assert found.connections == {"client": 0.5, "statement": 0.5}


def test_row_locks_are_taken_out_of_statements() -> None:
    found = time_of([writer(1), writer(2), writer(3), writer(4, COMMITTING)], row_locks=2.0)
    assert found.connections == pytest.approx({"statement": 1.0, ROW_LOCK: 2.0, "commit": 1.0})
    assert time_of([writer(1)], row_locks=7.0).connections == {"statement": 0.0, ROW_LOCK: 1.0}


def test_row_locks_that_statements_cannot_hold_are_those_of_locking_reads() -> None:
    """SELECT … FOR UPDATE waits as long as an UPDATE does, and reads meanwhile."""
    reader = writer(1, "statistics", "select")
    found = time_of([reader], [reader], [writer(1, COMMITTING)], [writer(1)], row_locks=0.625)
    assert found.connections == pytest.approx(
        {"statement": 0.0, "reading": 0.125, ROW_LOCK: 0.625, "commit": 0.25}
    )
    assert found.each[0].connections == pytest.approx(found.connections)
    assert sum(found.each[0].stretches[ROW_LOCK]) / STRETCHES == pytest.approx(0.625)


def test_busy_readers_are_no_writers() -> None:
    """A statement that reads passes the state of a commit."""
    found = time_of([writer(1, COMMITTING), writer(2, COMMITTING, "select")])
    assert (found.writers, found.connections) == (1, {"commit": 1.0})


def test_stretches_that_differ_widen_the_interval() -> None:
    steady, changing = Tally(MYSQL97), Tally(MYSQL97)
    for stretch in range(STRETCHES):
        for number in range(100):
            state = COMMITTING if number < 50 else "updating"
            steady.add(stretch, [writer(1, state)])
            changing.add(stretch, [writer(1, COMMITTING if stretch < STRETCHES / 2 else "updating")])
    narrow, wide = steady.write_time().share("commit"), changing.write_time().share("commit")
    assert narrow is not None and wide is not None
    assert narrow.mid == wide.mid == 0.5
    assert 0.46 < narrow.low < 0.5 < narrow.high < 0.54
    assert wide.low < 0.2 and wide.high > 0.8


def test_a_share_near_one_has_a_bound() -> None:
    """Seen with a disk's neighbor: 96 % of 117 samples in commits, no bound, and mending brought 13×."""
    tally = Tally(MYSQL97)
    for number in range(120):
        busy = number % 24
        tally.add(number / 10, [writer(busy), *(committing(one) for one in range(24) if one != busy)])
    found = tally.write_time().share("commit")
    assert found is not None and found.mid == pytest.approx(0.96, abs=0.01)
    assert found.at_most is not None and 25 < found.at_most < 100


def test_all_or_nothing_in_few_samples_is_not_sure() -> None:
    found = time_of([writer(1)]).share("statement")
    none = time_of([writer(1)]).share("commit")
    assert found is not None and none is not None
    assert (found.high, none.low) == (1.0, 0.0)
    assert found.low == pytest.approx(1 - none.high) and 0.6 < found.low < 0.7


def test_time_with_fewer_samples_counts_as_much() -> None:
    """Slow answers make samples rare just while the server is slow."""
    tally = Tally(MYSQL97)
    for number in range(60):
        tally.add(number / 10, [writer(1)])
    for second in (6, 9, 12):
        tally.add(second, [committing(1)])
    found = tally.write_time()
    assert found.samples == 63
    assert found.connections == pytest.approx({"statement": 6 / 13, "commit": 7 / 13}, abs=0.1)
    assert found.each[0].connections == pytest.approx(found.connections)
    assert sum(map(sum, zip(*found.each[0].stretches.values(), strict=True))) == pytest.approx(
        len(found.stretches)
    )


def test_thousands_of_writers_take_little_memory() -> None:
    """A counter took some 100 bytes for each connection, state and second."""
    ids, seconds = range(1000, 3000), 10
    tally = Tally(MYSQL97)
    tracemalloc.start()
    for moment in range(3 * seconds):
        tally.add(moment / 3, [(writer, committing, client)[(one + moment) % 3](one) for one in ids])
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 35 * 3 * len(ids) * seconds


def test_a_moment_may_come_late() -> None:
    tally = Tally(MYSQL97)
    for at_s in (0.0, 1.0, 0.5):
        tally.add(at_s, [writer(1), committing(2)])
    found = tally.write_time()
    assert (found.samples, found.writers) == (3, 2)
    assert found.connections == {"statement": 1.0, "commit": 1.0}


def test_where_row_locks_are_not_told_a_statement_may_be_one() -> None:
    tally = Tally(MYSQL97)
    for stretch in range(10):
        tally.add(stretch, [committing(1), writer(2), writer(3)])
    told, untold = tally.write_time(0.0), tally.write_time(None)
    bounded, open_ended = (one.share("commit", delays=(ROW_LOCK,)) for one in (told, untold))
    assert bounded is not None and bounded.at_most is not None
    assert open_ended is not None and open_ended.at_most is None


@pytest.mark.parametrize(
    ("identity", "point", "held"),
    [
        (MYSQL97, "", True),
        (MARIADB, "AFTER_SYNC", True),
        (MARIADB, "AFTER_COMMIT", False),
        (MARIADB, "", False),
    ],
)
def test_a_group_is_held_by_a_replica_that_its_leader_waits_for(
    identity: ServerIdentity, point: str, held: bool
) -> None:
    tally = Tally(identity, variables={"rpl_semi_sync_master_wait_point": point})
    waiting = ThreadState(1, "Query", 0, "Waiting for semi-sync ACK from slave", "commit")
    tally.add(0.0, [waiting, ThreadState(2, "Query", 0, "Commit", "commit")])
    assert tally.write_time().connections.get("commit", 0.0) == (0.0 if held else 1.0)


def test_nobody_who_writes_has_no_share() -> None:
    assert WriteTime().share("commit") is None
    assert time_of([client(1)]).share("client") is None


@pytest.mark.parametrize(
    ("high", "at_most"), [(0.0, 1.0), (0.5, 2.0), (0.9, 10.0), (1.0, None), (0.995, None)]
)
def test_the_bound_is_what_is_left_without_the_wait(high: float, at_most: float | None) -> None:
    assert TimeShare(0.0, 0.0, high).at_most == (at_most and pytest.approx(at_most))


def test_a_bound_in_words() -> None:
    assert [times(1.04), times(9.94), times(16.3)] == ["1.0×", "9.9×", "16×"]


@pytest.mark.parametrize(("identity", "shared"), [(MYSQL97, 1.0), (MARIADB, 0.5)])
def test_commits_wait_behind_the_one_that_waits_for_a_replica(
    identity: ServerIdentity, shared: float
) -> None:
    """MySQL's group commit waits as a whole; MariaDB's connections wait each for its own."""
    committing = COMMITTING if identity is MYSQL97 else "Commit"
    waiting = writer(1, "Waiting for semi-sync ACK from replica")
    time = time_of([waiting, writer(2, committing)], identity=identity)
    assert time.connections.get("semi-sync") == pytest.approx(2 * shared)


def idle_holder() -> WriteTime:
    """Eight writers wait for rows nearly all of their time; the ninth holds these in its client's turn."""
    moments = []
    for moment in range(60):
        waiting = [client(number) if (moment + number) % 20 == 0 else writer(number) for number in range(8)]
        moments.append([*waiting, writer(9, COMMITTING) if moment == 0 else client(9)])
    return time_of(*moments, row_locks=7.6)


def test_a_bound_is_that_of_the_connections_that_wait() -> None:
    """Seen on MariaDB 10.11: 49× was the bound of all of them, and mending brought 195×."""
    found = idle_holder().share(ROW_LOCK)
    assert found is not None and found.affected == 8
    assert found.mid == pytest.approx(7.6 / 9) and 1 / (1 - found.high) < 10
    assert found.at_most is not None and found.at_most > 20  # a twentieth of their time is their clients'


def test_connections_that_live_for_one_transaction_are_judged_together() -> None:
    """Each is seen once, in one state."""
    moments = [
        [writer(10 * moment + number, COMMITTING if number < 5 else "updating") for number in range(10)]
        for moment in range(40)
    ]
    found = time_of(*moments).share("commit")
    assert found is not None and found.mid == pytest.approx(0.5) and found.affected is None
    assert found.at_most == pytest.approx(1 / (1 - found.high))


@pytest.mark.parametrize(
    "kinds",
    [
        [(8, 0.05, 0.2)],
        [(8, 0.01, 0.19), (1, 1.5, 0.0)],
        [(8, 0.02, 0.1), (8, 0.02, 0.01)],
        [(1, 0.005, 0.05), (12, 0.05, 0.005)],
        [(4, 0.003, 0.1), (4, 0.05, 0.1), (4, 0.3, 0.1)],
    ],
)
def test_no_mending_gains_more_than_the_bound(kinds: list[tuple[int, float, float]]) -> None:
    """Closed loops, for each kind a number of them with the mean seconds of work and of the wait."""
    random = Random(20)
    tally, waits = Tally(MYSQL97, 1.0), list[tuple[float, float]]()
    for count, work_s, wait_s in kinds:
        waits += [(work_s, wait_s)] * count
    ends, commits = [0.0] * len(waits), [False] * len(waits)
    for moment in range(300):
        states = []
        for number, both in enumerate(waits):
            while ends[number] <= moment / 10:
                commits[number] = not commits[number]
                mean = both[commits[number]]
                ends[number] += random.expovariate(1 / mean) if mean else 0.0
            states.append(writer(number, COMMITTING) if commits[number] else writer(number))
        tally.add(moment / 10, states)
    found = tally.write_time().share("commit")
    gain = sum(1 / work for work, _ in waits) / sum(1 / (work + wait) for work, wait in waits)
    assert found is not None and (found.at_most is None or found.at_most >= gain)


def test_a_bound_has_what_the_wait_delays() -> None:
    time = time_of(*[[writer(1), writer(2, COMMITTING), client(3), writer(3)]] * 4)
    alone, both = time.share("statement"), time.share("statement", delays=("commit",))
    assert alone is not None and both is not None and both.at_most is None
    assert (both.low, both.mid, both.high) == (alone.low, alone.mid, alone.high)


def test_a_bound_has_the_time_in_which_threads_waited_for_a_processor() -> None:
    """It may be in any state, but there is no more of it than of the other states."""
    moments = [[writer(number, DOES[(number + moment) % 5]) for number in range(10)] for moment in range(5)]
    time = time_of(*moments)
    alone = time.share("commit")
    assert alone is not None and alone.mid == 0.4
    for queued, more in ((1.0, 0.1), (50.0, 0.6)):
        found = msgspec.structs.replace(time, queued=queued).share("commit", delays=(PROCESSOR,))
        assert found is not None and found.bounding == pytest.approx(min(1.0, alone.high + more))
