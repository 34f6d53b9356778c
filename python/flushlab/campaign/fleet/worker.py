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

from flushlab.campaign.fleet.machines import Failure, Opening, Task
from flushlab.campaign.pool.work import CrashTask, RunCrashes, RunTrial
from flushlab.experiment.blocks import run_block
from flushlab.fleet.recipient import Needed, Recipient
from flushlab.machine import cpu_count, memory_bytes
from flushlab.progress import silent
from flushlab.record import CrashRow, Trial
from flushlab.version import __version__


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether a machine is fit for a campaign; `MachineStatus` is what a user sees of it.

    Attributes:
        flushlab: version.
        cpu_count: processors that a process can keep busy.
        memory_bytes: that processes may use.
        is_root: whether disks can be made slow.
        now_s: Unix time.
    """

    flushlab: str
    cpu_count: int
    memory_bytes: int
    is_root: bool
    now_s: float

    @classmethod
    def here(cls) -> MachineFacts:
        """This machine."""
        return cls(
            flushlab=__version__,
            cpu_count=cpu_count(),
            memory_bytes=memory_bytes(),
            is_root=os.geteuid() == 0,
            now_s=time.time(),
        )


def never() -> bool:
    """Blocks run to their ends."""
    return False


class Worker:
    """Runs blocks, one at a time. Its answers are JSON: nothing of them depends on how it is reached.

    Args:
        is_cancelled: whether nobody waits for the block that runs.
    """

    def __init__(self, is_cancelled: Callable[[], bool] = never) -> None:
        self._is_cancelled = is_cancelled
        self.best_of: tuple[str, ...] = ()
        """Arms that `best` is composed of, by the latest task."""
        self._stack = ExitStack()
        self._recipient = Recipient()
        self._run: Any = None

    def facts(self) -> bytes:
        """JSON of `MachineFacts`."""
        return msgspec.json.encode(MachineFacts.here())

    def expect(self, needed: bytes) -> bytes:
        """What of a campaign's content is missing here, from JSON of `Needed`: see `Recipient.expect`."""
        return _answer(lambda: self._recipient.expect(msgspec.json.decode(needed, type=Needed)))

    def take(self, digest: str, packed: bytes) -> bytes:
        """Takes a chunk: see `Recipient.take`."""
        return _answer(lambda: self._recipient.take(digest, packed))

    def finish(self) -> bytes:
        """Puts the content in place: see `Recipient.finish`."""
        return _answer(self._recipient.finish)

    def open(self, opening: Opening) -> bytes:
        """Opens the campaign's servers and data; JSON of a `Failure`, or null."""
        try:
            self._run = self._stack.enter_context(opening.enter(opening.plan, self, silent))
        except Exception as error:  # noqa: BLE001  it travels as words, or the driver has only Ray's
            return msgspec.json.encode(Failure.of(error))
        return b"null"

    def run(self, task: bytes) -> bytes:
        """Runs a block or crashes; JSON of the rows in the order in which they ended, or of a `Failure`.

        A block that is cancelled ends early, and nobody reads its answer."""
        try:
            return msgspec.json.encode(self._rows(msgspec.json.decode(task, type=Task | CrashTask)))
        except Exception as error:  # noqa: BLE001  it travels as words, or the driver has only Ray's
            return msgspec.json.encode(Failure.of(error))

    def close(self) -> None:
        """Ends the servers."""
        self._stack.close()

    def _rows(self, task: Task | CrashTask) -> list[Trial] | list[CrashRow]:
        assert self._run is not None, "it was opened"
        if isinstance(task, CrashTask):
            return rows_of(task, self._run, self._is_cancelled)
        self.best_of = task.best_of
        return trials_of(task, self._run, self._is_cancelled)


def _answer(work: Callable[[], object]) -> bytes:
    """JSON of a result or of a `Failure`."""
    try:
        return msgspec.json.encode(work())
    except Exception as error:  # noqa: BLE001  it travels as words, or the driver has only Ray's
        return msgspec.json.encode(Failure.of(error))


def trials_of(task: Task, run_trial: RunTrial, is_cancelled: Callable[[], bool] = never) -> list[Trial]:
    """The trials of a block in the order in which they ended; none is begun once it is cancelled."""
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


def rows_of(task: CrashTask, crash: RunCrashes, is_cancelled: Callable[[], bool] = never) -> list[CrashRow]:
    """What became of the crashes, in the order in which they were judged; none is begun once nobody waits."""
    rows, judged = list[CrashRow](), crash(task)
    with closing(judged):
        for row in judged:
            rows.append(row)
            if is_cancelled():
                break
    return rows
