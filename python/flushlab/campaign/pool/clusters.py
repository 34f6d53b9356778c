"""Clusters: Galera clusters that flushlab starts, a fresh one for each trial, or a few that arms share.

Sits in `campaign.pool`; implements `ServerPool`. Arms that differ only in what a running node takes share a
cluster and switch its settings between slices (docs/decisions/0026-slices-on-clusters.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from flushlab.build import Progress
from flushlab.campaign.pool.protocol import RunnerInput
from flushlab.campaign.pool.sandboxes import SandboxPool, connection_arguments
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.scheduling import BESIDE_MOST, Capacity, on_places
from flushlab.errors import UsageError
from flushlab.record import Launch, Warning
from flushlab.trial import ArmRunner
from flushlab.trial.sliced import CLUSTER_SLICE_S
from flushlab.trial.switching import restart_settings
from flushlab.units import counted, format_latency

CLUSTERS_MOST = 3
"""Clusters of a tuning that run at once at most, where candidates take a restart: their nodes do not only
wait, they talk to each other."""


@dataclass(frozen=True)
class ClusterPool(SandboxPool):
    """Galera clusters of one build."""

    slice_s: ClassVar[float] = CLUSTER_SLICE_S
    crashes: ClassVar[int] = 8
    crash_nodes: ClassVar[Literal["all"] | None] = "all"
    """All: nodes that stay would make good what the settings lose."""

    def warnings(self, changed: Iterable[str] = ()) -> tuple[Warning, ...]:
        """All nodes are on this machine."""
        return (co_located(self.nodes, self.latency_s), *super().warnings(changed))

    def launch(self, each: int, together: int) -> Launch:
        """Lets the connections of all arms in: each arm keeps its own while others have their slices."""
        return Launch(arguments=connection_arguments(together))

    def _kept_running(self, request: TuneRequest, found: Capacity) -> Capacity:
        changed = [one.settings for one in request.candidates]
        changed += [request.raised] if request.yours is not None else []
        if any(restart_settings(one, self.identity) for one in changed):
            servers = min(found.servers, CLUSTERS_MOST)
        else:
            servers = BESIDE_MOST * min(found.servers, 1)
        return Capacity(servers) if servers >= 2 else Capacity(0, found.why)

    def _why_never(self, *disks: str | None) -> str:
        """Nothing: only one cluster writes at a time, and each node has a disk of its own."""
        return ""

    def _without_room(
        self, places: Mapping[str, str], own: str, united: Sequence[str], found: Capacity
    ) -> Sequence[str]:
        """Arms that need a cluster besides the base's, or that stay together and need more, where so many do
        not fit."""
        too_many = len({own, *(places[name] for name in united)}) > found.servers
        return [
            name
            for name, place in places.items()
            if found.servers < (1 if place == own else 2) or (too_many and name in united)
        ]

    def _grouped(
        self,
        slices: Mapping[str, float],
        together: Sequence[str],
        places: Mapping[str, str],
        own: str,
        found: Capacity,
    ) -> Iterator[tuple[str, ...]]:
        return on_places(slices, together, places, own, found.servers - 1)

    def _shared(self, names: Sequence[str], places: Mapping[str, str], own: str) -> int:
        return len({own, *(places[name] for name in names)})

    def in_slices(self, places: int = 0) -> str:
        """How arms alternate in slices, in words that follow "arms"."""
        return f"alternate in slices on {counted(places, 'cluster') if places else 'clusters'}"

    def runner(self, asked: RunnerInput, progress: Progress) -> ArmRunner:
        """Starts a cluster for each arm.

        Raises:
            UsageError: the workload goes on with the last run's data.
        """
        if any(workload.reset == "none" for workload in asked.workloads):
            raise UsageError(
                "--reset none goes on with the last run's data, but each run starts a cluster of its own",
                hint="remove it, or --cluster",
            )
        return super().runner(asked, progress)


def co_located(nodes: int, latency_s: float) -> Warning:
    """The warning on a cluster whose nodes are all on this machine.

    Args:
        nodes: how many.
        latency_s: between them, there and back; 0: as on loopback.
    """
    text = (
        f"{nodes} nodes share this machine's processors and disk (co-located): what was measured does"
        " not transfer as it is to nodes that have machines of their own"
    )
    if not latency_s:
        return Warning("co-located", f"{text}; nor is there a network between them")
    there = f"; between them are {format_latency(latency_s * 1e6)} of network, there and back"
    return Warning("co-located", text + there)
