from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flushlab.campaign.fleet.machines import Opening, Task
from flushlab.campaign.fleet.worker import Worker, trials_of
from flushlab.campaign.pool.work import Composed, RunTrial
from flushlab.campaign.request import TuneRequest
from flushlab.experiment.protocol import BlockAhead, Request
from flushlab.progress import Progress
from flushlab.record import Arm, Trial
from tests.unit.records import trial
from tests.unit.report.campaigns import tune_request

ARMS = tuple(Arm(name=name, settings={}) for name in ("base", "control", "fast"))


def test_a_worker_runs_blocks_on_what_the_request_opened_and_knows_what_best_is_composed_of() -> None:
    known = list[object]()

    @contextmanager
    def enter(asked: TuneRequest, composed: Composed, progress: Progress) -> Iterator[RunTrial]:
        known.append(asked)

        def run(request: Request) -> Trial:
            known.append(composed.best_of)
            return trial(arm=request.arm)

        yield run
        known.append("left")

    worker, request = Worker(), tune_request()
    worker.open(Opening(enter, request))
    task = Task(block=BlockAhead(stage="arms", block=0, arms=ARMS[:1]), best_of=("a", "b"))
    assert [row.arm for row in worker.run(task) if isinstance(row, Trial)] == [ARMS[0]]
    worker.close()
    assert known == [request, ("a", "b"), "left"]


def test_a_cancelled_block_stops_before_its_next_trial() -> None:
    ran = list[str]()

    def keeps(request: Request) -> Trial:
        ran.append(request.arm.name)
        return trial(arm=request.arm)

    task = Task(block=BlockAhead(stage="arms", block=0, arms=ARMS))
    assert len(trials_of(task, keeps, lambda: len(ran) == 2)) == 2
    assert len(ran) == 2
    assert trials_of(task, keeps, lambda: True) == []
