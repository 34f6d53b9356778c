"""A half minute for tests of what a diagnosis looks like: commits bind, a hot row in the middle, a gap."""

from __future__ import annotations

from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.diagnosis.shares import Tally, step_of
from flushlab.telemetry.live.questions import ThreadState
from tests.unit.diagnosis.watched import COMMITTING, MYSQL97, client, evidence, writer

SECONDS = 30
_READING = ("Query", 0, "statistics", "select")
_BEGAN = 1_763_719_366.0


def half_minute() -> Diagnosis:
    """Sixteen writers: ten commit, of the others one or two each execute, read, or wait for their client."""
    tally = Tally(MYSQL97, step_of(SECONDS))
    for moment in range(10 * SECONDS):
        if not 200 < moment < 230:
            hot = 100 <= moment < 140
            states = [
                client(number)
                if number == moment % 16
                else ThreadState(number, *_READING)
                if number == (moment + 5) % 16
                else writer(number)
                if (number + moment) % 16 < (10 if hot else 3)
                else writer(number, COMMITTING)
                for number in range(16)
            ]
            tally.add(moment / 10, states)
    counts = tuple((float(second), {"handler_commit": 1000.0 * second}) for second in range(SECONDS + 1))
    return diagnose(
        evidence(
            {
                "handler_commit": 1000 * SECONDS,
                "innodb_row_lock_waits": 40,
                "innodb_row_lock_time": 30_000,
                "questions": 100_000,
                "innodb_log_waits": 12,
            },
            seconds=float(SECONDS),
            write_time=tally.write_time(1.0),
            began=_BEGAN,
            commit_counts=counts,
        )
    )
