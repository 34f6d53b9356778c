"""Stop: ends the fleet on this machine, and on all machines if this is the first.

Fleet layer. The others are asked by a task on each; one that cannot be asked ends by itself, because its Ray
gives up 60 s after the first machine is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from flushlab.errors import FlushlabError
from flushlab.fleet import local_node, reach
from flushlab.fleet.connect import connected
from flushlab.fleet.local_node import NodeRecord

_ASK_S = 10.0


def stop(progress: Callable[[str], None]) -> NodeRecord | None:
    """Ends it; None if no fleet ran here.

    Raises:
        FleetError: another command starts or stops it.
        HarnessError: a process survives SIGKILL.
    """
    with local_node.locked():
        record = local_node.read()
        if record is not None and record.role == "head" and record.is_alive and record.listens:
            try:
                _ask_members(record)
            except FlushlabError as error:
                progress(f"the other machines cannot be asked, and end within a minute: {error}")
        return local_node.stop()


def _ask_members(record: NodeRecord) -> None:
    address = reach.parse_address(record.fleet)
    with connected(address) as connection:
        members = [one for one in connection.nodes if not one.is_head]
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        task = ray.remote(num_cpus=0, max_retries=0)(local_node.ask_to_stop)
        calls = [
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(one.node_id, soft=False)).remote()
            for one in members
        ]
        with suppress(ray.exceptions.RayError):
            ray.wait(calls, num_returns=len(calls), timeout=_ASK_S)
