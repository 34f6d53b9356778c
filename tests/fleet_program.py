"""Program of a test, on a machine of a fleet: cancels every second block, on the same worker.

`python -m tests.fleet_program ADDRESS MACHINE` prints JSON: the kinds of the blocks' events, the numbers of
trials of those that ended, and the version of flushlab that a plain task finds on the machine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from flushlab.campaign.fleet.machines import Ended, Event, Opening, Task
from flushlab.campaign.pool.work import Composed, RunTrial
from flushlab.experiment.protocol import BlockAhead, Request
from flushlab.fleet.connect import connected, parse_address
from flushlab.progress import Progress, silent
from flushlab.record import Arm, Trial

ARMS = tuple(Arm(name=name, settings={}) for name in ("base", "control", "fast"))
ROUNDS = 20
"""Of two blocks. Every second time the first is cancelled as soon as it is submitted: in about one of six
cases Ray has not sent it yet. The other times it runs."""
PATIENCE_S = 300.0
RUNS_S = 0.3
"""After which a block that was submitted runs; nothing fails if it does not yet."""


@contextmanager
def waiting(campaign: None, composed: Composed, progress: Progress) -> Iterator[RunTrial]:
    """What runs trials on the machine: those of odd blocks end once their block is cancelled."""
    import ray

    def run(request: Request) -> Trial:
        deadline = time.monotonic() + PATIENCE_S
        while request.block % 2 and not ray.get_runtime_context().is_canceled():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody cancelled the block")
            time.sleep(0.01)
        return Trial(
            arm=request.arm, stage=request.stage, block=request.block, outcome="measured", result=1.0
        )

    yield run


def main(address: str, machine: str) -> None:
    """Cancels every second block."""
    with connected(parse_address(address)):
        from flushlab.campaign.fleet import ray_machines, ray_workers

        def only_event() -> Event:
            while not (events := machines.wait(1.0)):
                pass
            (event,) = events
            return event

        def task(number: int) -> Task:
            return Task(block=BlockAhead(stage="arms", block=number, arms=ARMS))

        with ray_machines.claimed(silent) as opened:
            machines = opened.machines
            machines.open(Opening(waiting))
            events = list[Event]()
            for number in range(1, 2 * ROUNDS, 2):
                machines.submit(machine, number, task(number))
                if number % 4 == 1:
                    time.sleep(RUNS_S)
                machines.cancel(machine)
                events.append(only_event())
                machines.submit(machine, number + 1, task(number + 1))
                events.append(only_event())
            (node,) = [one for one in ray_workers.nodes() if one.name == machine]
            sys.stdout.write(
                json.dumps(
                    {
                        "events": [type(one).__name__ for one in events],
                        "trials": [len(one.rows) for one in events if isinstance(one, Ended)],
                        "flushlab": ray_machines._installed(node),
                    }
                )
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
