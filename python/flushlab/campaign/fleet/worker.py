"""Worker: runs blocks of a campaign on one machine of a fleet, as `--resume` of that campaign would.

Sits in `campaign.fleet`; lives in a process of its own on that machine. It knows no experiment: a task has
all that a block needs. Its servers end with it (`process/guard.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import msgspec

from flushlab.campaign.fleet.machines import Opening, Task
from flushlab.campaign.pool.work import CrashTask, RunCrashes, RunTrial
from flushlab.experiment.blocks import run_block
from flushlab.fleet.transfer import Recipient
from flushlab.machine import cpu_count, memory_bytes
from flushlab.progress import silent
from flushlab.record import CrashRow, Trial
from flushlab.version import __version__


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`cpu_count`: processors that a process can keep busy; `is_root`: disks can be made slow."""

    flushlab: str
    cpu_count: int
    memory_bytes: int
    is_root: bool
    now_s: float

    @classmethod
    def here(cls) -> MachineFacts:
        return cls(
            flushlab=__version__,
            cpu_count=cpu_count(),
            memory_bytes=memory_bytes(),
            is_root=os.geteuid() == 0,
            now_s=time.time(),
        )


class Worker(Recipient):
    def __init__(self, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self._is_cancelled = is_cancelled
        self.best_of: tuple[str, ...] = ()
        self._stack = ExitStack()
        self._run: Any = None

    def facts(self) -> bytes:
        """JSON of `MachineFacts`: who asks may have another version."""
        return msgspec.json.encode(MachineFacts.here())

    def open(self, opening: Opening) -> None:
        self._run = self._stack.enter_context(opening.enter(opening.request, self, silent))

    def run(self, task: Task | CrashTask) -> list[Trial] | list[CrashRow]:
        """In the order in which they ended; a block that is cancelled ends early, and nobody reads its
        answer."""
        assert self._run is not None, "it was opened"
        if isinstance(task, CrashTask):
            return rows_of(task, self._run, self._is_cancelled)
        self.best_of = task.best_of
        return trials_of(task, self._run, self._is_cancelled)

    def close(self) -> None:
        self._stack.close()


def trials_of(
    task: Task, run_trial: RunTrial, is_cancelled: Callable[[], bool] = lambda: False
) -> list[Trial]:
    trials = list[Trial]()
    steps = run_block(task.block)
    try:
        request = next(steps)
        while not is_cancelled():
            trials.append(run_trial(request))
            request = steps.send(trials[-1])
    except StopIteration:
        pass
    return trials


def rows_of(
    task: CrashTask, crash: RunCrashes, is_cancelled: Callable[[], bool] = lambda: False
) -> list[CrashRow]:
    rows, judged = list[CrashRow](), crash(task)
    with closing(judged):
        for row in judged:
            rows.append(row)
            if is_cancelled():
                break
    return rows
