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
    """A campaign, with everything decided that must not change when it is resumed.

    Attributes:
        spec: what was asked for, with everything settled that another machine or another day would settle
            differently: it repeats the campaign.
        build: name of the build, exact version.
        build_id: its key; a resumed campaign must find the same binary.
        folder: that it was asked for in, or the plan's: workloads' files are relative to it, and commands run
            there.
        sources: the texts that it runs, as they were when it started.
    """

    spec: TuneSpec | SeriesSpec | CompareSpec | CrashSpec
    build: str
    build_id: str
    folder: str = ""
    sources: tuple[SourceText, ...] = ()

    @property
    def kind(self) -> Literal["tune", "series", "compare", "crash"]:
        """The command that asked."""
        return self.spec.kind

    @property
    def workload(self) -> str:
        """Name of the workload; of a series, the base's."""
        assert not isinstance(self.spec, SeriesSpec)
        return self.spec.workload.name


class BenchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run of `bench` on each machine of a fleet; it is not stored.

    Attributes:
        spec: what was asked for.
        build_id: key of the build.
        folder: that files of the workload are relative to.
    """

    spec: BenchSpec
    build_id: str
    folder: str


class ComparingRequest(CampaignRequest, frozen=True, kw_only=True, tag_field="planner"):
    """A campaign that compares arms.

    Attributes:
        machine: the machine that it began on.
        fleet: address of the fleet whose machines run the blocks or drive the load; empty: that machine does.
        clients: machines of the fleet that drive the load; none: the machines of the servers do.
        arguments: of the servers, alike for every arm.
        has: settings that the servers have without having been asked for; none where each is started for its
            arm.
        persisted: what SET PERSIST has stored there; None: not known.
        dataset_key: what the user's data held; a resumed campaign must find the same.
        notes: caveats that were known before the first trial.
    """

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
        """The command that asked."""
        return self.spec.kind

    @property
    def launch(self) -> Launch:
        """How every server is started."""
        return Launch(arguments=self.arguments)

    def workload_of(self, arm: BoundArm) -> Workload:
        """The workload of an arm; reads its file."""
        return build_workload(arm.workload.name, arm.workload.options, folder=Path(self.folder))


class ArmGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Arms that are measured in the same rounds, beside base and control.

    Attributes:
        arms: their names.
        kept_running: servers run side by side, measured in slices; else each window has a fresh server.
        blocks: rounds.
        seconds: measured of each arm in a round.
        why: by arm, why it has fresh servers where that was not asked for.
        places: servers, or clusters, that the arms share; 0: each arm has one of its own.
    """

    arms: tuple[str, ...]
    kept_running: bool
    blocks: int
    seconds: float
    why: Mapping[str, str] = {}
    places: int = 0

    def timing(self, timing: Timing) -> Timing:
        """The campaign's timing, with the group's own window."""
        return msgspec.structs.replace(timing, seconds=self.seconds)


class TuneRequest(ComparingRequest, frozen=True, kw_only=True, tag="tune"):
    """A tuning.

    Attributes:
        workload_digest: changes with the content of its file; a resumed campaign must find the same.
        base: the user's settings as they run here, raised to the floor.
        original: the user's settings as they were; `has` among them.
        yours: the user's settings as they run here, where they are below the floor and may be measured; None:
            `base` is theirs, or they do not run.
        raised_why: what was changed to reach the floor, in words.
        scaled: what of the user's settings this machine cannot hold; `base` has it as it runs here.
        lowest: the lowest floor that trials may run at.
        steady_state: windows outlast the redo log, and what needs that may be tried.
        side_by_side: servers that run at once and alternate in slices; 0: each trial has a fresh one.
        why_fresh: why they are fresh where that was not asked for; empty otherwise.
        crash_fail: what crashes before the winner is handed over.
    """

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

    @property
    def seed(self) -> int:
        """Of every random order."""
        return self.spec.seed or 0

    @property
    def budget_s(self) -> float | None:
        """The budget in seconds, or None if it counts trials."""
        return None if self.spec.minutes is None else self.spec.minutes * 60

    @property
    def budget_trials(self) -> int | None:
        """The budget in trials, or None."""
        return self.spec.trials

    @property
    def raised(self) -> dict[str, Value]:
        """What raises the user's settings to the floor; what was only scaled to this machine is not in it."""
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
        """All settings that a server may run with, apart from mixtures of candidates."""
        yours = [] if self.yours is None else [self.yours]
        return [self.base, *yours, *({**self.base, **one.settings} for one in self.candidates)]

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """One for each number of connections."""
        return workloads_of_tune(self.spec, Path(self.folder))

    @property
    def depends_on(self) -> Iterable[str]:
        """Settings of which a running server must still have the values that the campaign began with."""
        return self.has

    @property
    def names(self) -> Mapping[str, str]:
        """What people call the arms that are known beforehand."""
        return {}

    @property
    def groups(self) -> tuple[ArmGroup, ...]:
        """All arms run in the same way."""
        return (ArmGroup(arms=(), kept_running=self.side_by_side > 0, blocks=0, seconds=self.timing.seconds),)

    def group_of(self, block: int) -> ArmGroup:
        """The group that a block belongs to."""
        return self.groups[0]


def workloads_of_tune(spec: TuneSpec, folder: Path) -> tuple[Workload, ...]:
    """The workload of a tuning for each number of connections, its files relative to a folder."""
    asked = settled(spec.workload)
    takes_threads = "threads" in workload_options(asked.name)
    return tuple(
        parse_workload(asked.name, {**asked.options, **({"threads": count} if takes_threads else {})}, folder)
        for count in spec.threads
    )


class SeriesRequest(ComparingRequest, frozen=True, kw_only=True, tag="series"):
    """A series or a comparison.

    Attributes:
        plan, title: of the plan.
        base: the base as an arm; its settings are those that this server has.
        arms: in the plan's order.
        factors: as the plan has them: `crossed` names the arm of each combination.
        floor: the weakest guarantees that may be recommended; None: those of the base.
        blocks: rounds.
        interim: as in `flushlab.experiment.series.SeriesPlan`.
        best: whether all that proved faster runs together afterwards.
        alternate: settings are switched on one running server.
        asked_groups: how the arms are measured, those on fresh servers last; see `groups`.
        seed: of every random order.
        base_name: what people call the base.
        measured_s: of a comparison, measured seconds in all; None where its workload ends by itself.
    """

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
        """The base's, by its name."""
        return self.base.workload.name

    @property
    def running(self) -> tuple[BoundArm, ...]:
        """The arms that run."""
        return tuple(arm for arm in self.arms if arm.outcome == "measured")

    @property
    def base_settings(self) -> Mapping[str, Value]:
        return self.base.settings

    @property
    def arm_settings(self) -> list[Mapping[str, Value]]:
        """All settings that a server runs with."""
        return [arm.settings for arm in (self.base, *self.running)]

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """That of the base."""
        return (self.workload_of(self.base),)

    @property
    def depends_on(self) -> Iterable[str]:
        """Settings of which a running server must still have the values that the campaign began with."""
        return dict.fromkeys(name for arm in (self.base, *self.running) for name in arm.changes)

    @property
    def names(self) -> Mapping[str, str]:
        """What people call the arms that run."""
        arms = {arm.name: arm.name for arm in self.running}
        return {BASE: self.base_name, **arms, CONTROL: CONTROL}

    @property
    def servers(self) -> tuple[str, ...]:
        """Those of a comparison of several, in the order in which they were asked for."""
        servers = self.spec.server.servers if isinstance(self.spec, CompareSpec) else ()
        return servers if len(servers) > 1 else ()

    @property
    def groups(self) -> tuple[ArmGroup, ...]:
        """Groups that the arms run in, one after the other, each with base and control."""
        names = tuple(arm.name for arm in self.running)
        alone = ArmGroup(arms=names, kept_running=False, blocks=self.blocks, seconds=self.timing.seconds)
        return self.asked_groups or (alone,)

    @property
    def crossed(self) -> Mapping[tuple[str, ...], str]:
        """The arm of every combination of the factors; none where one of these arms does not run."""
        arms, running = crossed(self.factors), {arm.name for arm in self.running}
        return arms if self.factors and {*arms.values()} - {BASE} <= running else {}

    @property
    def together(self) -> tuple[str, ...]:
        """Arms that are in the same blocks: the combinations of factors; those of several servers, each
        of which is compared with a base of its own."""
        if any(arm.against for arm in self.running):
            return tuple(arm.name for arm in self.running)
        return tuple(name for name in self.crossed.values() if name != BASE)

    @property
    def kept_running(self) -> bool:
        """Whether any arms have servers that are kept running."""
        return any(group.kept_running for group in self.groups)

    def group_of(self, block: int) -> ArmGroup:
        """The group that a block of the arms belongs to."""
        for group in self.groups:
            if block < group.blocks:
                return group
            block -= group.blocks
        raise AssertionError("a block of no group")

    def group_of_best(self, names: Collection[str]) -> ArmGroup:
        """The group whose way `best` is measured in: the last that has one of its parts."""
        return [group for group in self.groups if set(group.arms) & set(names)][-1]
