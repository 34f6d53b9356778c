"""Ray: content reaches workers by way of the object store. Sits in `campaign.fleet`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from flushlab.campaign.fleet.ray_workers import LOOK_S, FirstMachine, answered, pulse, reason
from flushlab.campaign.fleet.sending import Gone
from flushlab.errors import HarnessError


@dataclass(frozen=True)
class RayPost:
    """Reaches recipients in workers, by way of the object store.

    Attributes:
        actors: by the names of their machines.
        fleet: its first machine.
    """

    actors: Mapping[str, Any]
    fleet: FirstMachine

    def put(self, packed: bytes) -> Any:
        """A reference; the store forgets the chunk with it."""
        try:
            return ray.put(packed)
        except RayError as error:
            raise HarnessError(
                f"Ray's object store takes nothing: {reason(error)}",
                hint="see the memory and /dev/shm of this machine",
            ) from error

    def call(self, machine: str, method: str, *arguments: Any) -> Any:
        """A call to a worker; a chunk's reference is resolved there."""
        return getattr(self.actors[machine], method).remote(*arguments)

    def first(self, calls: Collection[Any]) -> Sequence[Any]:
        """The calls that have ended; raises `FleetError` if the first machine is not heard of."""
        while True:
            ready, _ = ray.wait([*calls], num_returns=1, timeout=LOOK_S)
            if ready:
                self.fleet.heard()
            self.fleet.look()
            if ready:
                return [*ready]
            pulse(self.actors.values())

    def result(self, call: Any) -> bytes:
        """The answer; raises `Gone`, and as `first`."""
        try:
            return bytes(answered(call, self.fleet, *self.actors.values()))
        except RayError as error:
            raise Gone(reason(error)) from error
