"""Observation: telemetry on both ends of a window.

The samples lie outside the window: the first is taken before it opens, the last after it closes.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from flushlab import machine
from flushlab.machine import proc_stat
from flushlab.machine.pressure import parse_cpu_line
from flushlab.record import FileActivity, NodeActivity, Performance, ServerSample
from flushlab.server.protocol import Server
from flushlab.telemetry import activity, performance, status


class CpuTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds so far, `busy_s` of the whole machine without idle, I/O wait and steal; `own_s` includes ended
    children. `server_s` is None if it cannot be seen."""

    busy_s: float
    own_s: float
    server_s: float | None


def cpu_times(*server_pids: int | None) -> CpuTimes:
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    servers = [None if pid is None else _process_s(pid) for pid in server_pids]
    return CpuTimes(
        busy_s=busy_s(),
        own_s=sum(usage.ru_utime + usage.ru_stime for usage in own),
        server_s=None if None in servers else sum(one for one in servers if one is not None),
    )


def foreign_share(before: CpuTimes, after: CpuTimes, seconds: float, cpu_count: int) -> float | None:
    if before.server_s is None or after.server_s is None or seconds <= 0:
        return None
    ours = (after.own_s - before.own_s) + (after.server_s - before.server_s)
    return max(0.0, after.busy_s - before.busy_s - ours) / (seconds * cpu_count)


def wanted_by_others(server_pids: Collection[int | None], seconds: float) -> float | None:
    """Share of the machine's CPU time while no load runs; None if it cannot be seen. Beside a load without
    idle time, what others take is what the server does not get, and tells more of the server than of them."""
    before, began = cpu_times(*server_pids), time.monotonic()
    time.sleep(seconds)
    return foreign_share(before, cpu_times(*server_pids), time.monotonic() - began, os.cpu_count() or 1)


def busy_s() -> float:
    return parse_cpu_line(Path("/proc/stat").read_text())[0] / os.sysconf("SC_CLK_TCK")


def processes_s(pids: Iterable[int]) -> dict[int, float]:
    return {pid: seconds for pid in pids if (seconds := _process_s(pid)) is not None}


def _process_s(pid: int) -> float | None:
    fields = proc_stat.fields(pid)
    if fields is None:
        return None
    ticks = int(fields[proc_stat.USER_TICKS]) + int(fields[proc_stat.SYSTEM_TICKS])
    return ticks / os.sysconf("SC_CLK_TCK")


ANSWER_S = 10.0
"""Longest wait for an answer of a node: the node, or its disk, may be frozen."""

Status = Mapping[str, float]


def cluster_snapshot(server: Server) -> tuple[Status, ...]:
    if len(server.nodes) == 1:
        return ()
    statuses = list[Status]()
    for node in server.nodes:
        rows = list[tuple[object, ...]]()
        if node.alive():
            rows += node.query("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'", answer_s=ANSWER_S)
            rows += node.query("SHOW GLOBAL VARIABLES LIKE 'wsrep\\_slave\\_threads'", answer_s=ANSWER_S)
        statuses.append(numbers(rows))
    return tuple(statuses)


def nodes_between(
    before: Sequence[Status], after: Sequence[Status], seconds: float
) -> tuple[NodeActivity, ...]:
    pairs = zip(before, after, strict=True)
    return tuple(_activity(number, *pair, seconds) for number, pair in enumerate(pairs, 1) if all(pair))


def numbers(rows: Sequence[tuple[object, ...]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in rows:
        try:
            found[str(name).lower()] = float(str(value))
        except ValueError:
            continue
    return found


def _activity(number: int, before: Status, after: Status, seconds: float) -> NodeActivity:
    def counted(name: str) -> int:
        return max(0, round(after.get(name, 0.0) - before.get(name, 0.0)))

    paused_s = counted("wsrep_flow_control_paused_ns") / 1e9
    return NodeActivity(
        node=number,
        commits=counted("wsrep_local_commits"),
        received=counted("wsrep_received"),
        cert_failures=counted("wsrep_local_cert_failures"),
        bf_aborts=counted("wsrep_local_bf_aborts"),
        paused_share=min(1.0, paused_s / seconds) if seconds > 0 else 0.0,
        pauses_asked=counted("wsrep_flow_control_sent"),
        recv_queue_avg=_mean_queue(before, after),
        recv_queue_end=round(after.get("wsrep_local_recv_queue", 0.0)),
        deps_distance=after.get("wsrep_cert_deps_distance"),
        apply_window=after.get("wsrep_apply_window"),
        commit_window=after.get("wsrep_commit_window"),
        appliers=round(after["wsrep_slave_threads"]) if "wsrep_slave_threads" in after else None,
    )


def _mean_queue(before: Status, after: Status) -> float | None:
    """The receive queue's mean over the window; the server's own is over all that it ever received."""
    average, received = "wsrep_local_recv_queue_avg", "wsrep_received"
    if not {average, received} <= before.keys() & after.keys() or after[received] <= before[received]:
        return None
    waited = after[average] * after[received] - before[average] * before[received]
    return max(0.0, waited / (after[received] - before[received]))


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
    told: tuple[performance.Readings, performance.Readings] | None = None
    nodes: tuple[NodeActivity, ...] = ()

    def file_activity(self, commits: int | None = None) -> dict[str, FileActivity]:
        binlog = None
        if self.told is not None:
            before, after = self.told
            binlog = performance.binlog_between(before.files, after.files, commits)
        return activity.file_activity(self.watched, self.deltas, self.redo_bytes, binlog)

    @property
    def performance(self) -> Performance | None:
        return performance.between(*self.told, self.watched.fsyncs_by_file) if self.told else None

    @property
    def checkpointed(self) -> bool:
        before, after = self.before, self.after
        if before is None or after is None or before.redo_written_bytes is None:
            return False
        if after.redo_written_bytes is None or after.checkpoint_age_bytes is None:
            return False
        return after.redo_written_bytes - after.checkpoint_age_bytes > before.redo_written_bytes

    @property
    def redo_bytes(self) -> int | None:
        ends = (self.before, self.after)
        marks = [end.redo_written_bytes for end in ends if end and end.redo_written_bytes is not None]
        return marks[1] - marks[0] if len(marks) == 2 else None


@contextmanager
def observe(server: Server, into: Observation) -> Iterator[None]:
    """Counters embrace the samples, so that whatever led to a sample's state was counted. Raises ServerDied
    if the server is gone at either end."""
    with activity.watch(server, into.watched):
        nodes, told = cluster_snapshot(server), performance.snapshot(server)
        counters = status.counters(server)
        into.before = status.innodb(server)
        pids, speaker = [node.pid for node in server.nodes], _speaker(server)
        machine_before, cpu_before, started = machine.sample(), cpu_times(*pids), time.monotonic()
        yield
        into.seconds = time.monotonic() - started
        machine_after, cpu_after = machine.sample(), cpu_times(*pids)
        into.nodes = nodes_between(nodes, cluster_snapshot(server), into.seconds)
        if _speaker(server) == speaker:
            into.after = status.innodb(server)
            into.deltas = status.deltas(counters, status.counters(server))
            into.told = (told, performance.snapshot(server))
        else:  # a node that died took what it had counted with it
            into.before = None
        shares = machine.between(machine_before, machine_after)
        into.steal_share = shares.steal_share
        into.cpu_pressure_share, into.io_pressure_share = shares.cpu_pressure_share, shares.io_pressure_share
        into.foreign_cpu_share = foreign_share(cpu_before, cpu_after, into.seconds, os.cpu_count() or 1)
    if into.before is None:
        into.watched = activity.Watched()


def _speaker(server: Server) -> int | None:
    return next((number for number, node in enumerate(server.nodes) if node.alive()), None)
