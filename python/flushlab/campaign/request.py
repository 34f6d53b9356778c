"""Requests of campaigns, as they are stored: enough to go on after a kill, or on another machine.

Sits in `campaign`. Nothing of a request changes once the first trial has begun.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

from flushlab.campaign.arms import BoundArm
from flushlab.campaign.facts import Kind
from flushlab.experiment.protocol import Objective
from flushlab.plan.plan import Claim, crossed
from flushlab.record import BASE, CONTROL, DataFacts, Launch, Machine, SourceText, Value, Warning
from flushlab.settings.candidates import Candidate
from flushlab.settings.fit import Scaled
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import BenchSpec, CompareSpec, CrashSpec, SeriesSpec, TuneSpec
from flushlab.workload.parse import build_workload, parse_workload, settled, workload_options
from flushlab.workload.protocol import Timing, Workload


class CampaignRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`spec` is settled: it repeats the campaign on another machine and another day. `build_id`: a resumed
    campaign must find the same binary. `folder`: files are relative to it, and commands run there."""

    spec: TuneSpec | SeriesSpec | CompareSpec | CrashSpec
    build: str
    build_id: str
    folder: str = ""
    sources: tuple[SourceText, ...] = ()

    @property
    def kind(self) -> Literal["tune", "series", "compare", "crash"]:
        return self.spec.kind

    @property
    def workload(self) -> str:
        assert not isinstance(self.spec, SeriesSpec)
        return self.spec.workload.name


class BenchRequest(msgspec.Struct, frozen=True, kw_only=True):
    spec: BenchSpec
    build_id: str
    folder: str


class ComparingRequest(CampaignRequest, frozen=True, kw_only=True, tag_field="planner"):
    """`fleet`: empty: one machine; `clients`: none: the machines of the servers drive the load; `has`:
    settings that servers have without having been asked; `persisted`: None: not known; `dataset_key`: a
    resumed campaign must find the same."""

    spec: TuneSpec | SeriesSpec | CompareSpec
    machine: Machine
    fleet: str = ""
    clients: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    has: Mapping[str, Value] = {}
    persisted: Mapping[str, str] | None = None
    dataset: DataFacts | None = None
    dataset_key: Mapping[str, str] = {}
    timing: Timing
    objective: Objective = "throughput"
    notes: tuple[Warning, ...] = ()

    @property
    def kind(self) -> Kind:
        return self.spec.kind

    @property
    def launch(self) -> Launch:
        return Launch(arguments=self.arguments)

    def workload_of(self, arm: BoundArm) -> Workload:
        return build_workload(arm.workload.name, arm.workload.options, folder=Path(self.folder))


class ArmGroup(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds`: measured of each arm in a round. `why`: by arm, why it has fresh servers where that was
    not asked for. `places`: that the arms share; 0: each has one of its own."""

    arms: tuple[str, ...]
    kept_running: bool
    blocks: int
    seconds: float
    why: Mapping[str, str] = {}
    places: int = 0

    def timing(self, timing: Timing) -> Timing:
        return msgspec.structs.replace(timing, seconds=self.seconds)


class TuneRequest(ComparingRequest, frozen=True, kw_only=True, tag="tune"):
    """`original`: the user's settings as they were. `base`: as they run here, raised to the floor. `yours`:
    as they run here, if they are below the floor and may be measured. `scaled`: what of them this machine
    cannot hold. `side_by_side`: servers that alternate in slices; 0: each trial has a fresh one."""

    spec: TuneSpec
    workload_digest: str = ""
    base: Mapping[str, Value]
    original: Mapping[str, Value]
    yours: Mapping[str, Value] | None = None
    raised_why: tuple[str, ...] = ()
    scaled: tuple[Scaled, ...] = ()
    candidates: tuple[Candidate, ...]
    lowest: Floor
    steady_state: bool = False
    side_by_side: int = 0
    why_fresh: str = ""
    crash_fail: Literal["process", "os", "power"] = "power"

    base_name: ClassVar[str] = BASE

    @property
    def seed(self) -> int:
        return self.spec.seed or 0

    @property
    def budget_s(self) -> float | None:
        return None if self.spec.minutes is None else self.spec.minutes * 60

    @property
    def budget_trials(self) -> int | None:
        return self.spec.trials

    @property
    def raised(self) -> dict[str, Value]:
        """Without what was only scaled to this machine."""
        scaled = {one.name for one in self.scaled}
        return {
            name: value
            for name, value in self.base.items()
            if name not in scaled and self.original.get(name) != value
        }

    @property
    def base_settings(self) -> Mapping[str, Value]:
        return self.base

    @property
    def arm_settings(self) -> list[Mapping[str, Value]]:
        yours = [] if self.yours is None else [self.yours]
        return [self.base, *yours, *({**self.base, **one.settings} for one in self.candidates)]

    @property
    def workloads(self) -> tuple[Workload, ...]:
        return workloads_of_tune(self.spec, Path(self.folder))

    @property
    def depends_on(self) -> Iterable[str]:
        return self.has

    @property
    def names(self) -> Mapping[str, str]:
        return {}

    @property
    def groups(self) -> tuple[ArmGroup, ...]:
        return (ArmGroup(arms=(), kept_running=self.side_by_side > 0, blocks=0, seconds=self.timing.seconds),)

    def group_of(self, block: int) -> ArmGroup:
        return self.groups[0]


def workloads_of_tune(spec: TuneSpec, folder: Path) -> tuple[Workload, ...]:
    asked = settled(spec.workload)
    takes_threads = "threads" in workload_options(asked.name)
    return tuple(
        parse_workload(asked.name, {**asked.options, **({"threads": count} if takes_threads else {})}, folder)
        for count in spec.threads
    )


class SeriesRequest(ComparingRequest, frozen=True, kw_only=True, tag="series"):
    """`floor`: None: that of the base; `best`: all that proved faster runs together afterwards;
    `asked_groups`: those on fresh servers last; `measured_s`: of a comparison, None where its workload ends
    by itself."""

    spec: SeriesSpec | CompareSpec
    plan: str
    title: str
    base: BoundArm
    arms: tuple[BoundArm, ...]
    factors: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    floor: Floor | None = None
    blocks: int
    interim: bool = False
    best: bool = True
    alternate: bool = False
    asked_groups: tuple[ArmGroup, ...] = ()
    seed: int = 1
    base_name: str = BASE
    measured_s: float | None = None

    budget_s: ClassVar[None] = None
    budget_trials: ClassVar[None] = None

    @property
    def workload(self) -> str:
        return self.base.workload.name

    @property
    def running(self) -> tuple[BoundArm, ...]:
        return tuple(arm for arm in self.arms if arm.outcome == "measured")

    @property
    def base_settings(self) -> Mapping[str, Value]:
        return self.base.settings

    @property
    def arm_settings(self) -> list[Mapping[str, Value]]:
        return [arm.settings for arm in (self.base, *self.running)]

    @property
    def workloads(self) -> tuple[Workload, ...]:
        return (self.workload_of(self.base),)

    @property
    def depends_on(self) -> Iterable[str]:
        return dict.fromkeys(name for arm in (self.base, *self.running) for name in arm.changes)

    @property
    def names(self) -> Mapping[str, str]:
        arms = {arm.name: arm.name for arm in self.running}
        return {BASE: self.base_name, **arms, CONTROL: CONTROL}

    @property
    def servers(self) -> tuple[str, ...]:
        servers = self.spec.server.servers if isinstance(self.spec, CompareSpec) else ()
        return servers if len(servers) > 1 else ()

    @property
    def groups(self) -> tuple[ArmGroup, ...]:
        names = tuple(arm.name for arm in self.running)
        alone = ArmGroup(arms=names, kept_running=False, blocks=self.blocks, seconds=self.timing.seconds)
        return self.asked_groups or (alone,)

    @property
    def crossed(self) -> Mapping[tuple[str, ...], str]:
        arms, running = crossed(self.factors), {arm.name for arm in self.running}
        return arms if self.factors and {*arms.values()} - {BASE} <= running else {}

    @property
    def together(self) -> tuple[str, ...]:
        """Combinations of factors; arms of several servers, each of which is compared with a base of its
        own."""
        if any(arm.against for arm in self.running):
            return tuple(arm.name for arm in self.running)
        return tuple(name for name in self.crossed.values() if name != BASE)

    @property
    def kept_running(self) -> bool:
        return any(group.kept_running for group in self.groups)

    @property
    def why_fresh(self) -> str:
        whys = (why for group in self.groups for why in group.why.values())
        return "" if self.kept_running else next(whys, "")

    def group_of(self, block: int) -> ArmGroup:
        for group in self.groups:
            if block < group.blocks:
                return group
            block -= group.blocks
        raise AssertionError("a block of no group")

    def group_of_best(self, names: Collection[str]) -> ArmGroup:
        return [group for group in self.groups if set(group.arms) & set(names)][-1]
