"""Each: one run on every machine of a fleet, on all at once. Sits in `campaign.fleet`, on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flushlab.campaign.fleet.machines import Ended, Failed, Lost, Machines, Task
from flushlab.errors import UsageError
from flushlab.experiment.protocol import BlockAhead
from flushlab.record import Arm, Trial

POLL_S = 1.0


def run_on_each(machines: Machines, names: Iterable[str]) -> Mapping[str, Trial | str]:
    """What each machine has measured, by name, or why it has nothing.

    A machine that joins meanwhile takes no part.

    Args:
        machines: open, with these names.

    Raises:
        UsageError: a machine refuses the run.
    """
    waiting, found = set(names), dict[str, Trial | str]()
    for number, name in enumerate(sorted(waiting)):
        block = BlockAhead(stage="bench", block=number, arms=(Arm(name="bench", settings={}),))
        machines.submit(name, number, Task(block=block))
    while waiting:
        for event in machines.wait(POLL_S):
            if event.machine not in waiting:
                continue
            waiting.remove(event.machine)
            if isinstance(event, Ended):
                found[event.machine] = event.trials[-1]
            elif isinstance(event, Failed):
                error = event.failure.error(event.machine)
                if isinstance(error, UsageError):
                    raise error
                found[event.machine] = event.failure.message
            else:
                assert isinstance(event, Lost), "nothing is cancelled"
                found[event.machine] = event.reason
    return found
