"""Program of a test, on a machine of a fleet: what becomes of a call whose answer is lost with the link.

`python -m tests.fleet_lost_answer ADDRESS MACHINE` prints `sent` once the call is under way, and then what
became of it: `answered`, or the reason why it was lost.
"""

from __future__ import annotations

import sys
import time

from flushlab.errors import HarnessError
from flushlab.fleet.connect import connected, parse_address
from flushlab.progress import silent

WORK_S = 1.0


class Sleeper:
    """A worker."""

    def sleep(self, seconds: float) -> None:
        """Answers after so long."""
        time.sleep(seconds)


def main(address: str, machine: str) -> None:
    """Makes the call."""
    with connected(parse_address(address)):
        import ray

        from flushlab.campaign.fleet.ray_workers import RayWorker, first_machine, nodes, worker_on

        (node,) = [one for one in nodes() if one.name == machine]
        actor = worker_on(node.id, Sleeper)
        assert actor is not None
        ray.get(actor.sleep.remote(0.0))
        answer = RayWorker(node, actor, first_machine(silent)).call("sleep", WORK_S)
        _say("sent")
        try:
            answer()
        except HarnessError as error:
            _say(error.message)
        else:
            _say("answered")


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
