"""Observation: telemetry on both ends of a window.

The samples lie outside the window: the first is taken before it opens, the last after it closes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from flushlab import machine
from flushlab.record import FileActivity, NodeActivity, Performance, ServerSample
from flushlab.server.protocol import Server
from flushlab.telemetry import activity, cpu, file_io, galera, performance, status


@dataclass
class Observation:
    """Filled when the window closes; see `record.Trial` for the fields' meaning.

    `wanted_by_others` is the most of the machine's CPU time that others took before and after the load.
    """

    seconds: float = 0.0
    before: ServerSample | None = None
    after: ServerSample | None = None
    deltas: dict[str, int] = field(default_factory=dict)
    steal_share: float = 0.0
    foreign_cpu_share: float | None = None
    wanted_by_others: float | None = None
    cpu_pressure_share: float | None = None
    io_pressure_share: float | None = None
    watched: activity.Watched = field(default_factory=activity.Watched)
    told: tuple[performance.Snapshot, performance.Snapshot] | None = None
    nodes: tuple[NodeActivity, ...] = ()

    def file_activity(self, commits: int | None = None) -> dict[str, FileActivity]:
        """Syncs, bytes and open flags per class of files; see `record.FileActivity`.

        Args:
            commits: of the load in its window, if it knows them; see `file_io.binlog`.
        """
        binlog = None
        if self.told is not None:
            before, after = self.told
            binlog = file_io.binlog(before.files, after.files, commits)
        return activity.file_activity(self.watched, self.deltas, self.redo_bytes, binlog)

    @property
    def performance(self) -> Performance | None:
        """What the server told of its own work; None until the window has closed."""
        return performance.between(*self.told, self.watched.fsyncs_by_file) if self.told else None

    @property
    def checkpointed(self) -> bool:
        """A checkpoint was made of redo that was written in the window."""
        before, after = self.before, self.after
        if before is None or after is None or before.redo_written_bytes is None:
            return False
        if after.redo_written_bytes is None or after.checkpoint_age_bytes is None:
            return False
        return after.redo_written_bytes - after.checkpoint_age_bytes > before.redo_written_bytes

    @property
    def redo_bytes(self) -> int | None:
        """Redo written in the window, or None where the server does not tell."""
        ends = (self.before, self.after)
        marks = [end.redo_written_bytes for end in ends if end and end.redo_written_bytes is not None]
        return marks[1] - marks[0] if len(marks) == 2 else None


@contextmanager
def observe(server: Server, into: Observation) -> Iterator[None]:
    """The window: opens after the first sample, closes before the last.

    Counters embrace the samples, so that whatever led to a sample's state was counted.

    Raises:
        ServerDied: the server is gone at either end.
    """
    with activity.watch(server, into.watched):
        yield from _window(server, into)
    if into.before is None:
        into.watched = activity.Watched()


def _speaker(server: Server) -> int | None:
    """The number of the node that tells the counters, from 0: the first that lives."""
    return next((number for number, node in enumerate(server.nodes) if node.alive()), None)


def _window(server: Server, into: Observation) -> Iterator[None]:
    nodes, told = galera.snapshot(server), performance.snapshot(server)
    counters = status.counters(server)
    into.before = status.innodb(server)
    pids, speaker = [node.pid for node in server.nodes], _speaker(server)
    machine_before, cpu_before, started = machine.sample(), cpu.cpu_times(*pids), time.monotonic()
    yield
    into.seconds = time.monotonic() - started
    machine_after, cpu_after = machine.sample(), cpu.cpu_times(*pids)
    into.nodes = galera.between(nodes, galera.snapshot(server), into.seconds)
    if _speaker(server) == speaker:
        into.after = status.innodb(server)
        into.deltas = status.deltas(counters, status.counters(server))
        into.told = (told, performance.snapshot(server))
    else:  # a node that died took what it had counted with it
        into.before = None
    shares = machine.between(machine_before, machine_after)
    into.steal_share = shares.steal_share
    into.cpu_pressure_share, into.io_pressure_share = shares.cpu_pressure_share, shares.io_pressure_share
    into.foreign_cpu_share = cpu.foreign_share(cpu_before, cpu_after, into.seconds, os.cpu_count() or 1)
