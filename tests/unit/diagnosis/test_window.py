"""The window: what counts in it, all of the time or of the last seconds."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.shares import STRETCHES, Tally, step_of
from flushlab.diagnosis.window import Window
from flushlab.telemetry.live.questions import (
    ASLEEP,
    METADATA_LOCKS,
    STATES,
    TRANSACTIONS,
    MetadataLock,
    OpenTransaction,
    ThreadState,
)
from flushlab.telemetry.live.status import ServerStatus
from tests.unit.diagnosis.watched import COMMITTING, MARIADB, MYSQL97, VARIABLES, client, writer


def answers(
    at_s: float, uptime: float | None = None, questions: int | None = None, **more: object
) -> ServerStatus:
    status = {} if questions is None else {"questions": str(questions)}
    status |= {
        "uptime": str(at_s if uptime is None else uptime),
        "handler_commit": str(100 * at_s),
        "innodb_redo_log_current_lsn": str(1000 + int(at_s)),
        "innodb_redo_log_checkpoint_lsn": "1000",
    }
    transactions = (OpenTransaction(thread=int(at_s), waits=False, age_s=1, rows_locked=1, rows_modified=1),)
    states = (writer(1, COMMITTING if at_s < 10 else "updating"), client(2))
    asked = dict.fromkeys((STATES, TRANSACTIONS), at_s)
    known: dict[str, Any] = {"states": states, "transactions": transactions, "asked_s": asked, **more}
    return ServerStatus(
        key="db1:3306", identity=MYSQL97, at_s=at_s, status=status, variables=VARIABLES, **known
    )


def seen(window: Window, until_s: int) -> Evidence:
    for second in range(1, until_s + 1):
        window.note(answers(float(second)), float(second))
    return window.evidence("db1:3306")


def test_a_window_has_all_of_the_time() -> None:
    found = seen(Window(answers(0.0), 1.0), 20)
    assert (found.seconds, found.before.at_s, found.after.at_s) == (20.0, 0.0, 20.0)
    assert found.write_time is not None
    assert found.write_time.samples == 21
    assert found.write_time.connections == pytest.approx({"commit": 10 / 21, "statement": 11 / 21})
    assert sorted(found.transactions) == list(range(21))
    assert found.checkpoint_ages == tuple(range(21))
    assert found.settings["innodb_redo_log_capacity"] == 104857600


def test_a_window_that_slides_forgets_what_is_older() -> None:
    found = seen(Window(answers(0.0), 1.0, keep_s=5.0), 20)
    assert (found.seconds, found.before.at_s, found.after.at_s) == (5.0, 15.0, 20.0)
    assert found.write_time is not None
    assert found.write_time.connections == {"statement": 1.0}
    assert 5 <= found.write_time.samples <= 6
    assert sorted(found.transactions) == list(range(15, 21))
    assert found.checkpoint_ages == tuple(range(15, 21))
    assert [at_s for at_s, _ in found.commit_counts] == list(range(6))


def test_answers_that_did_not_change_count_once() -> None:
    window, again = Window(answers(0.0), 1.0), answers(1.0)
    for _ in range(3):
        window.note(again, 1.0)
    found = window.evidence("db1:3306")
    assert found.write_time is not None and found.write_time.samples == 2
    assert len(found.commit_counts) == 2 and len(found.transactions) == 2


def test_moments_without_a_connection_count() -> None:
    window = Window(answers(0.0), 1.0)
    for second in (1.0, 2.0, 3.0):
        window.note(answers(second, states=(), transactions=()), second)
    found = window.evidence("db1:3306")
    assert found.write_time is not None and found.write_time.samples == 4
    assert len(found.looks) == 4


def test_commits_over_time_are_rates_of_the_counter_that_the_server_has() -> None:
    window = Window(answers(0.0), 1.0)
    assert seen(window, 3).commit_rates == ((1.0, 100.0), (2.0, 100.0), (3.0, 100.0))
    window.note(answers(3.1), 3.1)  # the last one follows at once
    assert window.evidence("db1:3306").commit_rates == ((1.0, 100.0), (2.0, 100.0), (3.0, 100.0))


def test_a_server_that_began_anew_is_noticed() -> None:
    """Even if its uptime is longer than it was at the window's begin by now."""
    window = Window(answers(0.0, uptime=5), 1.0)
    window.note(answers(1.0, uptime=6), 1.0)
    assert not window.restarted
    for second in range(2, 12):
        window.note(answers(float(second), uptime=second - 1), float(second))
    assert window.restarted


def test_a_clock_that_goes_back_is_no_restart() -> None:
    window = Window(answers(0.0, uptime=5000, questions=70), 1.0)
    window.note(answers(1.0, uptime=1400, questions=80), 1.0)
    assert not window.restarted
    window.note(answers(2.0, uptime=1, questions=3), 2.0)
    assert window.restarted


def test_the_steps_are_where_the_time_went_when() -> None:
    tally = Tally(MYSQL97, 0.5)
    for at_s, states in ((0.0, [client(1)]), (0.4, [writer(1)]), (2.0, [writer(1, COMMITTING)])):
        tally.add(at_s, states)
    found = tally.write_time()
    assert [(one.at_s, one.connections) for one in found.steps] == [
        (0.0, {"client": 0.5, "statement": 0.5}),
        (2.0, {"commit": 1.0}),
    ]
    tally.forget(0.5)
    assert tally.write_time().connections == {"commit": 1.0}


@pytest.mark.parametrize(("seconds", "steps"), [(2.0, 10), (10.0, 10), (30.0, 30), (60.0, 60), (3600.0, 120)])
def test_a_stretch_has_whole_steps_and_a_plot_not_too_many(seconds: float, steps: int) -> None:
    assert seconds / step_of(seconds) == pytest.approx(steps)
    assert steps % STRETCHES == 0


def test_connections_that_wait_for_rows_are_counted_each_second() -> None:
    """Where open transactions are not asked for, the status has who waits."""

    def status(at_s: float, waiters: int) -> ServerStatus:
        counted = {"innodb_row_lock_current_waits": str(waiters), "innodb_row_lock_time": "0"}
        return ServerStatus(
            key="a",
            identity=MARIADB,
            at_s=at_s,
            status=counted,
            states=(writer(1), writer(2)),
            asked_s={STATES: at_s},
        )

    window = Window(status(0.0, 1), 1.0)
    for second in (1.0, 2.0, 3.0):
        window.note(status(second, 1), second)
    connections = window.evidence("a").time.connections
    assert connections == pytest.approx({"statement": 1.0, "row lock": 1.0})


def test_long_statements_and_those_asleep_are_kept_while_they_are_in_the_window() -> None:
    def at(second: int, keep_s: float) -> Evidence:
        window = Window(answers(0.0), 1.0, keep_s=keep_s)
        for now in range(1, second + 1):
            waiting = ThreadState(8, "Query", now, "Waiting for table metadata lock", "alter")
            states = (writer(1), waiting) if now < 10 else (writer(1),)
            asked = dict.fromkeys((STATES, TRANSACTIONS), float(now))
            if now < 10:
                asked |= dict.fromkeys((ASLEEP, METADATA_LOCKS), float(now))
            more: dict[str, Any] = {
                "asleep": (ThreadState(9, "Sleep", 100 + min(now, 9), "", ""),),
                "locks": (MetadataLock(thread=9, kind="SHARED_READ", granted=True, of="table app.t"),),
            }
            window.note(answers(float(now), states=states, asked_s=asked, **more), float(now))
        return window.evidence("db1:3306")

    found = at(20, 30.0)
    assert [(one.id, one.seconds) for one in found.longest.values()] == [(8, 9)]
    assert [(one.id, one.seconds) for one in found.asleep.values()] == [(9, 109)]
    assert [one.thread for one in found.locks] == [9]
    later = at(20, 5.0)
    assert (later.longest, later.asleep, later.locks) == ({}, {}, ())
