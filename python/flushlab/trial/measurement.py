"""One window on one running server, as a Trial record.

Reads back every setting before it measures, and judges the window afterwards. A setting that reads
back differently makes the trial invalid. A disturbed machine makes it discarded. A rounded value, a
short window or a setting without effect is a caveat that stays with the record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import msgspec

from flushlab.errors import (
    CommandFailed,
    FlushlabError,
    LoadPaused,
    MeasurementError,
    NoMemory,
    ProtocolError,
    ServerError,
    StartFailed,
)
from flushlab.process.running import live_status
from flushlab.record import (
    FILE_CLASSES,
    Arm,
    Launch,
    LoadResult,
    NodeActivity,
    Outcome,
    ServerIdentity,
    Slice,
    Stage,
    TableRows,
    Trial,
    Value,
    Warning,
)
from flushlab.server import Server
from flushlab.server.remote.server import RemoteGroup, watched
from flushlab.server.sql import SYSTEM_LIST
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.effects import SeenEffects, no_effect
from flushlab.telemetry import Observation, counted_by, observe
from flushlab.telemetry.observation import wanted_by_others
from flushlab.workload.command import CommandWorkload
from flushlab.workload.data.plan import DATABASE as PLANS
from flushlab.workload.options import EngineOptions
from flushlab.workload.protocol import Measured, Timing, Workload

DEADLOCK = 1213
"""ER_LOCK_DEADLOCK: what a client sees of a lost conflict, too."""
LEAST_PAUSED_SHARE = 0.01
LEAST_CONFLICT_SHARE = 0.001
"""Of the transactions; below, it explains no difference that an interval could show."""
LEAST_REPLICATED_SHARE = 0.9
"""Of the load's transactions; those on the way at both ends of a window are fewer than the rest."""
BEHIND_S = 0.1
"""A queue that takes so long to apply, at the rate of the window, is more than what is always on its way."""


def cluster_findings(
    nodes: Sequence[NodeActivity], load: LoadResult | None, seconds: float, *, whole: bool = True
) -> Iterator[Warning]:
    if nodes:
        yield from _paused(nodes)
        yield from _conflicts(nodes, load)
        yield from _behind(nodes, seconds)
        if whole:  # what a dead node had committed, nobody tells
            yield from _empty(nodes, load)


def _paused(nodes: Sequence[NodeActivity]) -> Iterator[Warning]:
    writers = [node for node in nodes if node.commits] or nodes
    share = max(node.paused_share for node in writers)
    if share < LEAST_PAUSED_SHARE:
        return
    asked = [node for node in nodes if node.pauses_asked]
    slow = max(asked or nodes, key=lambda node: (node.pauses_asked, node.recv_queue_avg or 0.0))
    appliers = "" if slow.appliers is None else f" (wsrep_slave_threads is {slow.appliers})"
    queue = (
        "" if slow.recv_queue_avg is None else f", with {slow.recv_queue_avg:,.0f} write sets in its queue"
    )
    text = (
        f"flow control paused writers {share:.0%} of the time: node {slow.node} asked for it "
        f"{slow.pauses_asked:,} times{queue}, so its applier is the bound{appliers}"
    )
    yield Warning("flow-control", text, "wsrep_slave_threads")


def _conflicts(nodes: Sequence[NodeActivity], load: LoadResult | None) -> Iterator[Warning]:
    failed = sum(node.cert_failures for node in nodes)
    aborted = sum(node.bf_aborts for node in nodes)
    commits = sum(node.commits for node in nodes)
    lost = failed + aborted
    if not lost or lost < LEAST_CONFLICT_SHARE * (commits + lost):
        return
    seen = sum(error.count for error in load.errors if error.errno == DEADLOCK) if load is not None else 0
    told = f"; the load saw error {DEADLOCK} {seen:,} times" if seen else ""
    text = (
        f"{lost / (commits + lost):.1%} of the transactions lost a conflict between nodes: {failed:,} in "
        f"certification, {aborted:,} to a transaction that was applied{told}. One node that takes all writes "
        "has none"
    )
    yield Warning("node-conflicts", text)


def _behind(nodes: Sequence[NodeActivity], seconds: float) -> Iterator[Warning]:
    for node in nodes:
        rate = node.received / seconds if seconds > 0 else 0.0
        if rate and node.recv_queue_end > BEHIND_S * rate:
            text = (
                f"node {node.node} had {node.recv_queue_end:,} write sets still to apply when the window "
                f"ended ({node.recv_queue_end / rate:.1f} s of them): the rate leaves that work out"
            )
            yield Warning("node-behind", text, "wsrep_slave_threads")


def _empty(nodes: Sequence[NodeActivity], load: LoadResult | None) -> Iterator[Warning]:
    commits = (load.commits or 0) if load is not None else 0
    replicated = sum(node.commits for node in nodes)
    if 0 < replicated < LEAST_REPLICATED_SHARE * commits:
        text = (
            f"the cluster replicated {replicated:,} of {commits:,} transactions: the others changed no row "
            "(rows that were inserted through a cluster have gaps between their AUTO_INCREMENT ids)"
        )
        yield Warning("changed-nothing", text)


DISCARD_STEAL_SHARE = 0.10
DISCARD_FOREIGN_CPU_SHARE = 0.25
"""Limit on CPU time that is not the trial's. A window does not count if more of the machine's CPU time was
stolen, or if other programs used more just before the load began or after it ended. CPU time of other
programs during the load is no reason. They use the time that the server leaves, so the limit would strike
slow arms more often than fast ones, and a fast arm for its slow windows."""
JUDGED_WINDOW_S = 1.0
"""Commands are not judged so, nor windows that are or were to be shorter: the kernel counts CPU time in ticks
of 10 ms."""
SAMPLE_S = 0.3
"""At others, at each end."""
CAVEAT_SHARE = 0.04
"""From here on it is said."""
_LARGEST = 5
"""Tables that are named."""
SIZES = (
    "SELECT table_schema, table_name, engine, table_rows, data_length + index_length"
    f" FROM information_schema.tables WHERE table_schema NOT IN {SYSTEM_LIST} AND table_schema <> '{PLANS}'"
    " AND engine IS NOT NULL"
)
ROUNDING_SHARE = 0.25
"""A number that reads back within this share of what was asked was rounded; beyond it, it was not taken."""
REDO_WRAPS = 1.5
"""Redo, pool, flushing, io_capacity and doublewrite are credited only in windows that write this many
times the redo capacity (measured: shorter windows credit debt, not speed)."""


NOT_STARTED = (StartFailed, NoMemory, ServerError, MeasurementError)
"""What keeps one arm's server from coming up, or its data from being loaded; the others' may be."""


def measure(
    draft: Draft,
    server: Server,
    workload: Workload,
    timing: Timing,
    *,
    outlast_redo: bool = False,
) -> Trial:
    """An error of the server is the record's outcome."""
    try:
        if broken := draft.read_back(server):
            return draft.ended("invalid", broken)
        seen = Observation()
        if outlast_redo and draft.redo_capacity_bytes:
            timing = msgspec.structs.replace(timing, redo_bytes=int(REDO_WRAPS * draft.redo_capacity_bytes))
        sampled = timing.seconds >= JUDGED_WINDOW_S and not isinstance(workload, CommandWorkload)
        pids = [node.pid for node in server.nodes]
        before = wanted_by_others(pids, SAMPLE_S) if sampled else None
        fails_over = isinstance(workload, EngineOptions) and workload.cluster_load == "failover"
        goes_on = draft.stage == "bench" and fails_over
        with (
            server.losing_nodes() if goes_on else nullcontext(),
            live_status().running_server(watched(server, draft.arm.name), trial=True),
        ):
            measured = workload.run(server, timing, observe(server, seen))
        if not goes_on:
            require_whole(server)
        judged = sampled and measured.load is not None and measured.window_s >= JUDGED_WINDOW_S
        after = wanted_by_others(pids, SAMPLE_S) if judged else None
        if draft.stage == "bench" and measured.load is not None and measured.load.is_stall:
            what = f"{workload.name}: nothing was committed within {measured.window_s:.1f} s"
            raise MeasurementError(what, hint="measure longer with --duration")
    except (ServerError, MeasurementError, ProtocolError) as error:
        return draft.failed(error)
    seen.wanted_by_others = max(before or 0.0, after or 0.0)
    return draft.measured(measured, seen, disturbance(seen) if judged else "")


@dataclass
class Draft:
    arm: Arm
    stage: Stage
    block: int
    variant: int
    seconds: dict[str, float] = field(default_factory=dict)
    settings: Mapping[str, Value] = field(default_factory=dict)
    data_bytes: int | None = None
    tables: tuple[TableRows, ...] = ()
    warnings: tuple[Warning, ...] = ()
    output: str = ""
    server: Server | None = None
    launch: Launch | None = None
    began: float = field(default_factory=time.monotonic)

    def read_back(self, server: Server) -> str:
        self.server = server
        self.launch = server.launch  # asked now: a server that dies in the trial tells nothing any more
        identity = server.identity
        names = load_catalog().names(identity.flavor, identity.version)
        self.settings = server.read_back({*names, *self.arm.settings})
        caveats, broken = compare_settings(self.arm.settings, self.settings, identity)
        if not broken and len(server.nodes) > 1:
            broken = self._other_on_a_node(server)
        if broken:
            return broken
        # Of somebody's server it is not asked: it may have so many tables that the answer takes minutes.
        bytes_of, self.tables = ({}, ()) if isinstance(server, RemoteGroup) else _sizes(server)
        self.data_bytes = sum(bytes_of.values()) if bytes_of else None
        self.warnings = (*caveats, *_other_engines(bytes_of))
        return ""

    def _other_on_a_node(self, server: Server) -> str:
        """Which node of a cluster does not have what the arm asks for, or keeps commits otherwise than the
        first one does; empty if none."""
        catalog = load_catalog()
        decide = {name for name in self.settings if name in catalog and catalog.setting(name).durability}
        wanted = {
            name: self.settings[name] for name in {*self.arm.settings, *decide} if name in self.settings
        }
        for number, node in enumerate(server.nodes, 1):
            got = node.read_back(wanted)
            for name, value in sorted(wanted.items()):
                if name not in got or not Configuration({}, node.identity).same(name, value, got[name]):
                    there = got.get(name, "nothing")
                    return f"{name} is {value} on node 1, but {there} on node {number}"
        return ""

    @property
    def redo_capacity_bytes(self) -> int:
        assert self.server is not None
        return Configuration({}, self.server.identity, self.settings).redo_capacity_bytes

    def not_started(self, error: FlushlabError) -> Trial:
        if isinstance(error, StartFailed):
            return self.ended("refused" if error.refusal else "failed", error.refusal or error.message)
        trial = self.ended("failed", error.message, error.hint or "")
        return msgspec.structs.replace(trial, lacked_memory=isinstance(error, NoMemory))

    def failed(self, error: FlushlabError) -> Trial:
        self.output = error.output if isinstance(error, CommandFailed) else ""
        outcome: Outcome = "discarded" if isinstance(error, LoadPaused) else "failed"
        return self.ended(outcome, error.message, error.hint or "")

    def ended(self, outcome: Outcome, reason: str, hint: str = "") -> Trial:
        return self._trial(
            outcome=outcome, reason=reason, hint=hint, seconds={"failed": time.monotonic() - self.began}
        )

    def measured(
        self, measured: Measured, seen: Observation, disturbed: str, slices: tuple[Slice, ...] = ()
    ) -> Trial:
        assert self.server is not None
        self.output = measured.output
        self.warnings = (
            *self.warnings,
            *measured.warnings,
            *_caveats(seen, self.redo_capacity_bytes),
            *cluster_findings(seen.nodes, measured.load, seen.seconds, whole=not measured.lost_nodes),
            *(without_effect(self.settings, self.server, measured, seen) if seen.before is not None else ()),
        )
        seconds = {**self.seconds, "warm_up": measured.warm_up_s}
        seconds["window"] = measured.window_s
        seconds["other"] = max(0.0, time.monotonic() - self.began - sum(seconds.values()))
        return self._trial(
            outcome="discarded" if disturbed else "measured",
            reason=disturbed,
            result=measured.result,
            unit=measured.unit,
            higher_is_better=measured.higher_is_better,
            seed=measured.seed,
            stand_in=measured.stand_in,
            load=measured.load,
            observed=measured.observed,
            before=seen.before,
            after=seen.after,
            file_activity=seen.file_activity(measured.commits),
            performance=seen.performance,
            nodes=seen.nodes,
            lost_nodes=measured.lost_nodes,
            deltas=seen.deltas,
            steal_share=seen.steal_share,
            foreign_cpu_share=seen.foreign_cpu_share,
            cpu_pressure_share=seen.cpu_pressure_share,
            io_pressure_share=seen.io_pressure_share,
            seconds=seconds,
            slices=slices,
        )

    def _trial(self, **facts: Any) -> Trial:
        server = self.server
        return Trial(
            arm=self.arm,
            stage=self.stage,
            block=self.block,
            variant=self.variant,
            settings=self.settings,
            data_bytes=self.data_bytes,
            tables=self.tables,
            server=server.identity if server else None,
            storage=server.storage if server else None,
            launch=self.launch,
            warnings=self.warnings,
            output=self.output,
            **facts,
        )


def on_node(server: Server, number: int, words: str) -> str:
    return f"node {number}: {words}" if len(server.nodes) > 1 else words


def require_whole(server: Server) -> None:
    for node in server.nodes:
        if not node.alive():
            node.query("SELECT 1")


def compare_settings(
    asked: Mapping[str, Value], got: Mapping[str, Value], identity: ServerIdentity
) -> tuple[list[Warning], str]:
    """Caveats for values that the server changed, and why the trial is invalid, or an empty string. Only
    the server can tell what it makes of a value that the catalog does not know."""
    caveats: list[Warning] = []
    configuration = Configuration(asked, identity)
    for name, value in asked.items():
        strange = configuration.here(name) is None
        if name not in got and strange:
            caveats.append(Warning("not-shown", f"{name} was set to {value}, but no variable shows it"))
            continue
        if name not in got:
            return caveats, f"{name} was set to {value} but the server has no such variable"
        if configuration.same(name, value, got[name]):
            continue
        if not strange and not _is_rounded(value, got[name]):
            return caveats, f"{name} was set to {value} but the server reports {got[name]}"
        caveats.append(Warning("rounded", f"{name} was set to {value}; the server changed it to {got[name]}"))
    return caveats, ""


def _is_rounded(asked: Value, got: Value) -> bool:
    return (
        isinstance(asked, int | float)
        and isinstance(got, int | float)
        and asked != 0
        and abs(got - asked) <= ROUNDING_SHARE * abs(asked)
    )


def disturbance(seen: Observation) -> str:
    if seen.steal_share > DISCARD_STEAL_SHARE:
        return f"{seen.steal_share:.0%} of the CPU time was stolen by the hypervisor"
    if (seen.wanted_by_others or 0.0) > DISCARD_FOREIGN_CPU_SHARE:
        return f"other programs used {seen.wanted_by_others:.0%} of the CPU time before or after the load"
    return ""


def _caveats(seen: Observation, capacity: int) -> list[Warning]:
    caveats = []
    written = seen.redo_bytes
    if capacity and written is not None and written < REDO_WRAPS * capacity:
        caveats.append(
            Warning(
                "window-too-short",
                f"the window wrote {written / capacity:.2f} times the redo capacity; below {REDO_WRAPS} it "
                "says nothing about redo size, buffer pool, flushing, I/O capacity or doublewrite",
            )
        )
    for share, what in (
        (seen.steal_share, "was stolen by the hypervisor"),
        (seen.foreign_cpu_share or 0.0, "was used by other programs"),
    ):
        if share > CAVEAT_SHARE:
            caveats.append(Warning("disturbed", f"{share:.0%} of the CPU time {what} in the window"))
    return caveats


def without_effect(
    settings: Mapping[str, Value], server: Server, measured: Measured, seen: Observation
) -> list[Warning]:
    evidence = SeenEffects(
        identity=server.identity,
        settings=settings,
        seconds=seen.seconds,
        activity=seen.file_activity(measured.commits),
        opened=tuple(seen.watched.flags),
        counted_by=counted_by(seen.watched, seen.deltas),
        in_memory=FILE_CLASSES if server.storage.in_memory else seen.watched.in_memory,
        commits=measured.commits,
        connections=measured.connections,
        checkpointed=seen.checkpointed,
        pages_written=seen.deltas.get("Innodb_pages_written"),
        binlog_rotations=seen.watched.binlog_rotations,
    )
    return [Warning("no-effect", finding.text, finding.setting) for finding in no_effect(evidence)]


def _sizes(server: Server) -> tuple[dict[str, int], tuple[TableRows, ...]]:
    rows = server.query(SIZES)
    bytes_of: dict[str, int] = {}
    for _, _, engine, _, size in rows:
        bytes_of[str(engine)] = bytes_of.get(str(engine), 0) + int(size or 0)
    largest = sorted(rows, key=lambda row: (-int(row[3] or 0), row[0], row[1]))[:_LARGEST]
    return bytes_of, tuple(TableRows(f"{row[0]}.{row[1]}", int(row[3] or 0)) for row in largest)


def _other_engines(bytes_of: Mapping[str, int]) -> list[Warning]:
    """The durability rules speak of InnoDB's redo log; other engines have none, or one of their own."""
    others = sorted(name for name in bytes_of if name.upper() != "INNODB")
    if not others:
        return []
    text = f"the data has tables in {', '.join(others)}: the guarantees cover InnoDB tables only"
    return [Warning("other-engines", text)]
