from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from flushlab.campaign.fleet.machines import Failure, Opening, Task
from flushlab.campaign.fleet.worker import Worker, trials_of
from flushlab.campaign.pool.work import Composed, RunTrial
from flushlab.errors import HarnessError, NoSpace
from flushlab.experiment.protocol import BlockAhead, Request
from flushlab.progress import Progress
from flushlab.record import Arm, Trial
from tests.unit.records import trial


def entering(error: Exception) -> Opening:
    @contextmanager
    def enter(plan: bytes, composed: Composed, progress: Progress) -> Iterator[RunTrial]:
        raise error
        yield

    return Opening(enter, b"")


def test_an_error_that_is_not_flushlabs_travels_as_words_from_the_opening() -> None:
    failure = msgspec.json.decode(Worker().open(entering(ValueError("no such plan"))), type=Failure)
    error = failure.error("m2")
    assert isinstance(error, HarnessError)
    assert str(error) == "machine m2: ValueError: no such plan"


def test_a_full_disk_keeps_its_kind_on_the_way() -> None:
    error = NoSpace("/data is full", hint="free some")
    failure = msgspec.json.decode(Worker().open(entering(error)), type=Failure)
    assert (failure.kind, failure.message, failure.hint) == ("NoSpace", "/data is full", "free some")


def test_an_error_that_is_not_flushlabs_travels_as_words_from_a_block() -> None:
    def breaks(request: Request) -> Trial:
        raise ZeroDivisionError("float division by zero")

    @contextmanager
    def enter(plan: bytes, composed: Composed, progress: Progress) -> Iterator[RunTrial]:
        yield breaks

    worker = Worker()
    assert worker.open(Opening(enter, b"")) == b"null"
    arms = (Arm(name="base", settings={}),)
    task = Task(block=BlockAhead(stage="arms", block=0, arms=arms))
    failure = msgspec.json.decode(worker.run(msgspec.json.encode(task)), type=Failure)
    assert (failure.kind, failure.message) == ("HarnessError", "ZeroDivisionError: float division by zero")


def test_a_cancelled_block_stops_before_its_next_trial() -> None:
    ran = list[str]()

    def keeps(request: Request) -> Trial:
        ran.append(request.arm.name)
        return trial(arm=request.arm)

    arms = tuple(Arm(name=name, settings={}) for name in ("base", "control", "fast"))
    task = Task(block=BlockAhead(stage="arms", block=0, arms=arms))
    assert len(trials_of(task, keeps, lambda: len(ran) == 2)) == 2
    assert len(ran) == 2
    assert trials_of(task, keeps, lambda: True) == []
