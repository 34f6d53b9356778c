"""Shares of the writers' time, and what they bound."""

from __future__ import annotations

import pytest

from flushlab.diagnosis.shares import STRETCHES, Share, Tally, WriteTime, times
from flushlab.diagnosis.waits import ROW_LOCK
from flushlab.record import ServerIdentity
from flushlab.telemetry.live.questions import ThreadState
from tests.unit.diagnosis.watched import COMMITTING, MARIADB, MYSQL97, client, time_of, writer


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


def test_nobody_who_writes_has_no_share() -> None:
    assert WriteTime().share("commit") is None
    assert time_of([client(1)]).share("client") is None


@pytest.mark.parametrize(
    ("high", "at_most"), [(0.0, 1.0), (0.5, 2.0), (0.9, 10.0), (1.0, None), (0.995, None)]
)
def test_the_bound_is_what_is_left_without_the_wait(high: float, at_most: float | None) -> None:
    assert Share(0.0, 0.0, high).at_most == (at_most and pytest.approx(at_most))


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
