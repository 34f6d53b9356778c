"""Sampler: once a second, what is known becomes a sample. It never waits for the watched server. If an
error inside flushlab keeps one from being taken, a sample says so in its place.

Rates and shares come from the monotonic clock; Unix time only says when a sample was taken, so that a clock
that jumps moves points and bends none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

import msgspec

from flushlab import machine
from flushlab.diagnosis.finding import Strength
from flushlab.record.running import FillProgress, Running, ShownRatio
from flushlab.telemetry import observation
from flushlab.telemetry.live.status import (
    FILE_KINDS,
    ROW_KINDS,
    Connections,
    LockWaits,
    Rates,
    Redo,
    ServerStatus,
)
from flushlab.units import format_seconds
from flushlab.watch.live_diagnosis import JudgedWindow
from flushlab.watch.poller import PollResult, inside
from flushlab.watch.threads import Meter, Repeating, Ring


class ServerNow(msgspec.Struct, frozen=True, kw_only=True):
    up: bool
    name: str = ""
    since: float | None = None
    missing: tuple[str, ...] = ()
    slow_s: float | None = None
    why: str = ""


class RunningNow(msgspec.Struct, frozen=True, kw_only=True):
    """Of flushlab on this machine.

    Attributes:
        campaign: its id; empty for what is not stored.
        arm, stage, round: of the current measurement; round counts the blocks.
        left_s: until it ends, at most or about.
    """

    kind: str
    campaign: str = ""
    arm: str = ""
    stage: str = ""
    round: int | None = None
    left_s: float | None = None
    server: str = ""
    workload: str = ""
    floor: str = ""


class MachineNow(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that flushlab runs on, as shares of the last second.

    Attributes:
        cpu_pressure, io_pressure, memory_pressure: of the time in which some task waited.
        others: of all CPU time that neither the watched server nor flushlab used.
        steal: of all CPU time that the hypervisor took.
    """

    cpu_pressure: float | None = None
    io_pressure: float | None = None
    memory_pressure: float | None = None
    others: float | None = None
    steal: float | None = None


class FindingNow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    strength: Strength
    low: float | None = None
    mid: float | None = None
    high: float | None = None
    at_most: float | None = None
    seen: tuple[str, ...] = ()


class DiagnosisNow(msgspec.Struct, frozen=True, kw_only=True):
    """Over the last half minute, but `waits` is of the last two seconds alone; the most binding finding is
    first."""

    answer: str
    seconds: float
    samples: int
    writers: int
    waits: Mapping[str, float]
    findings: tuple[FindingNow, ...] = ()


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    t: float
    kind: str
    text: str = ""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One second.

    Attributes:
        t: Unix time.
        throughput: rate of flushlab's own load, else of the server's statements.
        p50_ms, p99_ms: latency of flushlab's own load.
        commits_per_group: transactions that one sync of the binary log made durable, on average.
        diagnosis: None while there is too little to judge, and of a server that flushlab measures.
        own_cpu_s: CPU time that watching has taken since it began.
    """

    t: float
    server: ServerNow
    failed: str = ""
    running: RunningNow | None = None
    throughput: float | None = None
    unit: str = ""
    p50_ms: float | None = None
    p99_ms: float | None = None
    redo: Redo = Redo()
    dirty: float | None = None
    fsyncs: Mapping[str, float | None] = msgspec.field(default_factory=lambda: dict.fromkeys(FILE_KINDS))
    commits_per_group: float | None = None
    lock_waits: LockWaits = LockWaits()
    binlog_bytes_per_s: float | None = None
    rows_per_s: Mapping[str, float | None] = msgspec.field(default_factory=lambda: dict.fromkeys(ROW_KINDS))
    machine: MachineNow = MachineNow()
    connections: tuple[Connections, ...] = ()
    diagnosis: DiagnosisNow | None = None
    wait_timeout: int | None = None
    max_connections: int | None = None
    fill: FillProgress | None = None
    ratios: tuple[ShownRatio, ...] = ()
    marks: tuple[Mark, ...] = ()
    own_cpu_s: float = 0.0


GAP_S = 5.0
"""Samples that lie so far apart have a gap between them: the machine slept, or this process was stopped."""
STALE_S = 3.5
"""A report that is older is not shown as present."""


class Sampler(Repeating):
    def __init__(
        self,
        ring: Ring,
        known: Callable[[], PollResult],
        running: Callable[[], Running | None],
        pids: Callable[[], tuple[int, ...]],
        meter: Meter,
    ) -> None:
        super().__init__("watch-sampler", meter, 5.0)
        self.latest: Sample | None = None
        self.running: Running | None = None
        self.failures = 0
        self._ring = ring
        self._known = known
        self._running = running
        self._pids = pids
        self._looked: tuple[machine.MachineSample, float, dict[int, float]] | None = None
        self._marked = 0
        self._second = 0
        self._taken_s: float | None = None
        self._pid: int | None = None
        self._due = time.monotonic()

    def _turn(self) -> float:
        self.take()
        now = time.monotonic()
        self._due = max(self._due + 1.0, now)
        return self._due - now

    def take(self) -> None:
        known = self._known()
        self.running, failed, data = None, known.failed, b""
        sample = Sample(t=time.time(), server=_OFF, own_cpu_s=round(self._meter.seconds, 4))
        if not failed:
            try:
                self.running = self._running()
                taken = self._sample(sample, known, self.running)
                sample, data = taken, msgspec.json.encode(taken)
            except Exception as error:  # noqa: BLE001 - it is shown
                self.running, failed = None, inside(error)
        if failed:
            self.failures += 1
            sample = msgspec.structs.replace(sample, failed=failed)
            data = msgspec.json.encode(sample)
        self.latest = sample
        self._ring.push(data)

    def _sample(self, empty: Sample, known: PollResult, running: Running | None) -> Sample:
        seen = known.seen
        facts: dict[str, object] = {
            "server": ServerNow(
                up=known.up,
                name=seen.identity.name if seen else "",
                since=known.since,
                missing=seen.missing if seen else (),
                slow_s=seen.took_s.get("global_status") if seen else None,
                why=known.why,
            ),
            "machine": self._machine(running.pid if running else None),
        }
        if known.up and seen is not None and time.monotonic() - seen.at_s < STALE_S:
            facts |= _of_server(known.before, seen)
            facts["diagnosis"] = _diagnosed(known.judged) if known.judged is not None else None
        if running is not None:
            facts |= self._of_running(running)
        sample = msgspec.structs.replace(empty, **facts)
        now = time.clock_gettime(time.CLOCK_BOOTTIME)  # goes on while the machine sleeps
        if self._taken_s is not None and now - self._taken_s > GAP_S:
            gap = Mark(t=sample.t, kind="gap", text=format_seconds(now - self._taken_s))
            sample = msgspec.structs.replace(sample, marks=(gap, *sample.marks))
        self._taken_s = now
        return sample

    def _machine(self, flushlab: int | None) -> MachineNow:
        servers = self._pids()
        pids = {os.getpid(), *servers, *([flushlab] if flushlab else [])}
        before, now = self._looked, (machine.sample(), observation.busy_s(), observation.processes_s(pids))
        self._looked = now
        if before is None:
            return MachineNow()
        shares, seconds = machine.between(before[0], now[0]), now[0].at_s - before[0].at_s
        others = None
        if servers and seconds > 0:
            ours = sum(used - before[2].get(pid, used) for pid, used in now[2].items())
            others = min(1.0, max(0.0, now[1] - before[1] - ours) / (seconds * (os.cpu_count() or 1)))
        return MachineNow(
            cpu_pressure=shares.cpu_pressure_share,
            io_pressure=shares.io_pressure_share,
            memory_pressure=shares.memory_pressure_share,
            others=others,
            steal=shares.steal_share,
        )

    def _of_running(self, running: Running) -> dict[str, object]:
        if running.pid != self._pid:
            self._pid, self._marked, self._second = running.pid, 0, 0
        news = [mark for mark in running.marks if mark.number > self._marked]
        self._marked = max((mark.number for mark in news), default=self._marked)
        seconds = [one for one in running.seconds if one.number > self._second]
        self._second = max((one.number for one in seconds), default=self._second)
        told: dict[str, object] = {
            "running": msgspec.convert(running, RunningNow, from_attributes=True),
            "marks": tuple(Mark(t=mark.at, kind=mark.kind, text=mark.text) for mark in news),
            "ratios": running.ratios,
        }
        if running.unit:
            last = seconds[-1] if seconds else None
            told |= {
                "unit": running.unit,
                "throughput": sum(one.per_second for one in seconds) / len(seconds) if seconds else None,
                "p50_ms": last.p50_ms if last else None,
                "p99_ms": last.p99_ms if last else None,
            }
        if (fill := running.fill) is not None:
            told |= {"throughput": fill.rows_per_s, "unit": "rows/s", "fill": fill}
        return told


_OFF = ServerNow(up=False)


def _of_server(before: ServerStatus | None, seen: ServerStatus) -> dict[str, object]:
    rates = Rates(before, seen)
    return {
        "throughput": rates.per_s("questions"),
        "unit": "statements/s",
        "redo": seen.redo,
        "dirty": seen.dirty,
        "fsyncs": rates.syncs,
        "commits_per_group": rates.commits_per_group,
        "lock_waits": rates.lock_waits,
        "binlog_bytes_per_s": rates.binlog_bytes,
        "rows_per_s": rates.rows,
        "connections": seen.connections,
        "wait_timeout": seen.variable("wait_timeout"),
        "max_connections": seen.variable("max_connections"),
    }


def _diagnosed(judged: JudgedWindow) -> DiagnosisNow:
    evidence = judged.diagnosis.evidence
    findings = []
    for one in judged.diagnosis.findings:
        ends = (one.share.low, one.share.mid, one.share.high) if one.share else (None, None, None)
        low, mid, high = (None if end is None else round(end, 4) for end in ends)
        findings.append(
            FindingNow(
                name=one.name,
                title=one.title,
                strength=one.strength,
                low=low,
                mid=mid,
                high=high,
                at_most=round(one.at_most, 2) if one.at_most is not None else None,
                seen=() if one.strength == "hint" else tuple(seen.text for seen in one.seen),
            )
        )
    return DiagnosisNow(
        answer=judged.diagnosis.answer,
        seconds=round(evidence.seconds, 1),
        samples=evidence.time.samples,
        writers=evidence.time.writers,
        waits={wait: round(mean, 3) for wait, mean in judged.now.items()},
        findings=tuple(findings),
    )
