"""Program of a test, on a machine of a fleet: cancels a block and runs another one on the same worker.

`python -m tests.fleet_program ADDRESS MACHINE` prints JSON: the kinds of the two blocks' events, the results
of the second block's trials, and the version of flushlab that a plain task finds on the machine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flushlab.build import silent
from flushlab.campaign.fleet.machines import Composed, Ended, Event, Opening, RunTrial, Task
from flushlab.experiment.protocol import BlockAhead, Request
from flushlab.fleet.connect import connected
from flushlab.fleet.reach import parse_address
from flushlab.record import Arm, Trial

ARMS = tuple(Arm(name=name, settings={}) for name in ("base", "control", "fast"))
CANCELLED, WHOLE = 1, 2
PATIENCE_S = 300.0


@contextmanager
def waiting(plan: bytes, composed: Composed, progress: Callable[[str], None]) -> Iterator[RunTrial]:
    """What runs trials on the machine: one of the first block ends once the block is cancelled."""
    import ray

    def run(request: Request) -> Trial:
        deadline = time.monotonic() + PATIENCE_S
        while request.block == CANCELLED and not ray.get_runtime_context().is_canceled():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody cancelled the block")
            time.sleep(0.01)
        ran.append(request.block)
        return Trial(
            arm=request.arm, stage=request.stage, block=request.block, outcome="measured", result=len(ran)
        )

    ran = list[int]()
    yield run


def main(address: str, machine: str) -> None:
    """Cancels one block, runs another."""
    with connected(parse_address(address)):
        from flushlab.campaign.fleet import ray_machines

        def only_event() -> Event:
            while not (events := machines.wait(1.0)):
                pass
            (event,) = events
            return event

        with ray_machines.claimed(silent) as opened:
            machines = opened.machines
            machines.open(Opening(waiting, b""))
            machines.submit(
                machine, CANCELLED, Task(block=BlockAhead(stage="arms", block=CANCELLED, arms=ARMS))
            )
            machines.cancel(machine)
            cancelled = only_event()
            machines.submit(machine, WHOLE, Task(block=BlockAhead(stage="arms", block=WHOLE, arms=ARMS)))
            ended = only_event()
            (node,) = [one for one in ray_machines.nodes() if one.name == machine]
            sys.stdout.write(
                json.dumps(
                    {
                        "events": [type(one).__name__ for one in (cancelled, ended)],
                        "results": [one.result for one in ended.trials] if isinstance(ended, Ended) else [],
                        "flushlab": ray_machines._installed(node),
                    }
                )
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
