"""A machine of a fleet: crashes a campaign's configurations there. Sits in `campaign.crash`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import msgspec

from flushlab.build import Progress
from flushlab.campaign.crash.load import load_of
from flushlab.campaign.crash.plan import CrashPlan
from flushlab.campaign.crash.request import CrashRequest, require_disk
from flushlab.campaign.crash.runner import CrashNumbers, crashing
from flushlab.campaign.fleet.machines import Composed, CrashRows, CrashTask, RunCrashes
from flushlab.campaign.loop import require_same_build
from flushlab.campaign.pool.target import open_servers
from flushlab.campaign.watcher import Watcher


@contextmanager
def on_machine(plan: bytes, composed: Composed, progress: Progress) -> Iterator[RunCrashes]:
    """Everything that crashes need on a machine of a fleet, which has the build and the load's files.

    Args:
        plan: JSON of the `CrashRequest`.
        composed: not used: nothing is composed of configurations.
        progress: takes a line at a time.
    """
    request = msgspec.json.decode(plan, type=CrashRequest)
    load = load_of(request)
    require_disk(request.spec)
    with open_servers(request.spec.server, request.spec.storage, progress) as target:
        require_same_build(request, target.key)
        here = CrashPlan(target=target, watcher=Watcher(progress), load=load, spec=request.spec)
        with Configurations(request, here) as configurations:
            yield configurations.crash


class Configurations:
    """Crashes configurations in turn. A recording, or a server that is killed, lives until another
    configuration is due."""

    def __init__(self, request: CrashRequest, plan: CrashPlan) -> None:
        self._plan = plan
        self._experiment = plan.experiment(request.planned)
        self._stack = ExitStack()
        self._name = ""
        self._crash: CrashNumbers | None = None

    def __enter__(self) -> Configurations:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what lives."""
        self._name, self._crash = "", None
        self._stack.close()

    def crash(self, task: CrashTask) -> CrashRows:
        """The crashes of a task, as they are judged; errors: as of `crashing`."""
        arm = self._experiment.arm(task.arm)
        assert arm is not None, "the campaign has it"
        began = time.monotonic()
        try:
            if self._crash is None or task.arm != self._name:
                self.close()
                crashing_it = crashing(self._plan, arm, self._experiment.crashes(arm.name))
                self._crash = self._stack.enter_context(crashing_it)
                self._name = arm.name
            with closing(self._crash(task.numbers)) as rows:
                for row in rows:
                    seconds = time.monotonic() - began - sum(row.seconds.values())
                    yield msgspec.structs.replace(row, seconds={**row.seconds, "crash": max(0.0, seconds)})
                    began = time.monotonic()
        except GeneratorExit:  # nobody waits for the task; the next one finds all as it is
            raise
        except BaseException as error:
            self._name, self._crash = "", None
            if not self._stack.__exit__(type(error), error, error.__traceback__):
                raise
