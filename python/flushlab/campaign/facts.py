"""Facts: everything that a campaign found out, as one value.

`CampaignFacts` is what `tune`, `series` and `compare` return and what is stored: what all of them have, and
parts for what only some do. The terminal, the page and the JSON are made from it, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from flushlab.campaign.arms import BoundArm
from flushlab.experiment.protocol import Objective
from flushlab.experiment.tune_plan import Dropped, Excluded, FrontierPoint, Rejected
from flushlab.record import (
    Comparison,
    CrashFacts,
    DataFacts,
    FactorEffect,
    LoadClient,
    Machine,
    ObservedLoad,
    OtherLoad,
    OverMachines,
    Ratio,
    ServerIdentity,
    SourceText,
    StandIn,
    TableRows,
    Value,
    Warning,
)
from flushlab.redact import values_without_passwords, without_passwords
from flushlab.settings.durability import FLOOR
from flushlab.spec.build import words
from flushlab.spec.parts import RemoteAccess, WorkloadSpec, as_told

BASE_BROKE = "crash-broke-base"

STEADY_MINUTES = 60.0
"""Shorter budgets try commit-path settings only: their windows do not outlast the redo log."""

EXTERNAL = "external"

Kind = Literal["tune", "series", "compare"]

Demand = Literal["", "fixed", "closed loop", "unknown"]

Answer = Literal["confirmed", "refuted", "no difference", "undecided", "not measured"]

ANSWERS: tuple[Answer, ...] = get_args(Answer)


class ArmResult(BoundArm, frozen=True, kw_only=True):
    """An arm, the base or the control: what it is, and what was measured.

    Attributes:
        changes: its settings that differ from the base's, as the server reported them.
        unit: of its result, where the result counts other work than the base's; the ratio of the two proves
            no gain then. Else empty.
        comparison: with the base of the same blocks; null before the second block.
        p99: the same of p99 latency, whatever the objective is; null where the workload has none.
        throughput: the same of throughput, where the objective is `latency`; else null.
        observed: the load that was there while the arm's settings were; null where flushlab made the load.
        result: geometric mean of its results in the workload's unit, or null.
        p99_us: 99th percentile of the latency, geometric mean; null where the workload has none.
        recovery_s: from SIGKILL under load to the first answer; null: not measured.
        composed_of: arms that `best` is made of.
        why_fresh: why each of its windows had a fresh server, where other arms were measured in slices.
        same_as: the arm with fewer changes that read back the same on its server, but for those without
            effect, or empty.
        machines: its ratio on every machine of the fleet; null where one machine ran all of its blocks, or
            where no machine ran two of them.
    """

    changes: Mapping[str, Value] = {}
    unit: str = ""
    comparison: Comparison | None = None
    p99: Comparison | None = None
    throughput: Comparison | None = None
    observed: ObservedLoad | None = None
    result: float | None = None
    p99_us: float | None = None
    recovery_s: float | None = None
    composed_of: tuple[str, ...] = ()
    why_fresh: str = ""
    same_as: str = ""
    machines: OverMachines | None = None

    @classmethod
    def of(cls, arm: BoundArm, **found: Any) -> ArmResult:
        """Passwords in its workload are left out."""
        workload = WorkloadSpec(
            name=without_passwords(arm.workload.name), options=values_without_passwords(arm.workload.options)
        )
        own = {name: getattr(arm, name) for name in BoundArm.__struct_fields__}
        changes = values_without_passwords(arm.workload_changes)
        return cls(**{**own, "workload": workload, "workload_changes": changes, **found})

    @property
    def differences(self) -> dict[str, Value]:
        return {**self.changes, **as_told(self.workload_changes)}

    @property
    def is_base(self) -> bool:
        return self.server is not None and not self.against

    @property
    def advised(self) -> dict[str, Value]:
        return {name: value for name, value in self.changes.items() if name not in self.no_effect}

    @property
    def is_faster(self) -> bool:
        """At the same work; what changes nothing is faster by chance."""
        proved = self.comparison is not None and self.comparison.verdict == "faster"
        return proved and not self.changes_nothing and not self.unit

    @property
    def strength(self) -> float:
        return self.comparison.ratio.estimate if self.comparison is not None else 0.0

    @property
    def verdict(self) -> str:
        return self.guarantees.get(FLOOR, self.floor)


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """Memory and disk that a campaign takes of the machine, and how much is free.

    Attributes:
        pool_bytes: the largest buffer pool among the arms.
        memory_bytes: the servers' memory at worst, of all that run at once.
        available_memory_bytes: free memory.
        data_bytes: approximate size of the data; null: the first run shows it.
        disk_bytes: approximate size of all data directories; null: the first run shows it.
        free_disk_bytes: free space on the disk.
        servers: number of servers at once; 0: your own server is measured, and nothing of this machine is
            taken.
    """

    pool_bytes: int = 0
    memory_bytes: int = 0
    available_memory_bytes: int = 0
    data_bytes: int | None = None
    disk_bytes: int | None = 0
    free_disk_bytes: int = 0
    servers: int = 1


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast of a dry run, which starts and writes nothing.

    Attributes:
        arms: candidates of a tuning, arms of a series; `text` says what a candidate may buy. Of a candidate
            that can only be part of an offer, `floor` is the floor that it meets.
        trials_least: number of trials at least; a tuning stops early where all is clear.
        trials_most: number of trials at most; null: as many as fit into the budget.
        trial_s: length of a trial; null: the first run shows it, or they differ.
        least_s: length of the whole at least; null: the first run shows it.
        likely_s: likely length of the whole; null: the first run shows it.
        most_s: the budget, or null.
        resources: memory and disk of this machine.
        writes: what would be written, by place.
        machines: the fleet's, which run blocks at the same time; empty: this machine runs them.
    """

    arms: tuple[ArmResult, ...]
    trials_least: int
    trials_most: int | None
    trial_s: float | None
    least_s: float | None
    likely_s: float | None
    most_s: float | None
    resources: Resources
    writes: Mapping[str, str]
    machines: tuple[str, ...] = ()


class FleetMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of the fleet that ran blocks of a campaign.

    Attributes:
        name: in the fleet.
        blocks: number of blocks of which the base has a result there.
        result: geometric mean of the base's results there, in the workload's unit.
        compared: whether ratios are from its blocks too; false of machines of a tuning that only select.
    """

    name: str
    blocks: int
    result: float
    compared: bool = True


class ClaimFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of the plan and what the measurement says to it.

    Attributes:
        text: the claim in words.
        arm, against: the two that it compares.
        wanted: the ratio that it claims: `1.10`, `at least 2`, `at most 1`.
        answer: `confirmed`, `refuted`, `no difference`, `undecided` or `not measured`; docs/how-to/series.md
            has the rule.
        ratio: of `arm` to `against`; null: one of them has no result. Of counts, its bounds are the least and
            the most that any block had.
        source: where the claim comes from.
        quantity: what was counted; empty: the rate.
        counts: of `arm` and of `against`, where something was counted; else null.
    """

    text: str
    arm: str
    against: str
    wanted: str
    answer: Answer
    ratio: Ratio | None = None
    source: str = ""
    quantity: str = ""
    counts: tuple[float, float] | None = None


class TuningFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a tuning found out beyond its arms.

    Attributes:
        frontier: the best settings of each floor, the safest first; empty before the first interim analysis.
        winner: the best point at the floor, and the safest of equals; null: no improvement was proven.
        offers: points below the floor that gain more than every safer one, the safest first.
        lowest: the lowest floor that trials ran at.
        raised: settings that raise the user's own to the floor; empty: these meet it.
        raised_to: that floor, where it is not the one that is reported (`report --floor`); else empty.
        raised_why: the same in words.
        yours: the user's own settings where they are below the floor, against the base that raises them; else
            null.
        tried: changes that were in the running to the end; 0: none existed, or all are `excluded`.
        detectable: smallest gain that would probably have been detected, as a fraction; null before the first
            interim analysis, and where nothing was tried.
        interim_analyses: number of interim analyses of the confirmation.
        dropped: changes that the winner does without.
        rejected: arms that may not win.
        excluded: changes that were not tried to the end.
    """

    frontier: tuple[FrontierPoint, ...] = ()
    winner: FrontierPoint | None = None
    offers: tuple[FrontierPoint, ...] = ()
    lowest: str = ""
    raised: Mapping[str, Value] = {}
    raised_to: str = ""
    raised_why: tuple[str, ...] = ()
    yours: ArmResult | None = None
    tried: int = 0
    detectable: float | None = None
    interim_analyses: int = 0
    dropped: tuple[Dropped, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    excluded: tuple[Excluded, ...] = ()

    @property
    def cost(self) -> Ratio | None:
        if self.yours is None or self.yours.comparison is None:
            return None
        return self.yours.comparison.ratio.inverse()

    def changes(self, point: FrontierPoint) -> dict[str, Value]:
        own = self.yours.changes if self.yours is not None else {}
        changes = {**self.raised, **point.settings}
        return {name: value for name, value in changes.items() if name not in own or own[name] != value}


class PlanFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a series or a comparison was asked for and found out beyond its arms.

    Attributes:
        name: of the plan; `compare`: the arms were named on the command line.
        blocks: planned blocks.
        window_s: length of a measured window.
        rounds: rounds in which every arm had a slice that counts; null: every window had a fresh server.
        slice_s: shortest and longest slice, or null.
        scale: factor on the size of the plan's tables.
        alternate: settings were switched on one running server.
        precision: half-width of the intervals that was asked for, so that arms ran until theirs were within
            it; null: all blocks.
        claims: claims of the plan, answered.
        factors: names of the factors that were crossed.
        effects: of the factors: main effects, then interactions; empty: a combination was not measured.
    """

    name: str
    blocks: int = 0
    window_s: float
    rounds: int | None = None
    slice_s: tuple[float, float] | None = None
    scale: float = 1.0
    alternate: bool = False
    precision: float | None = None
    claims: tuple[ClaimFacts, ...] = ()
    factors: tuple[str, ...] = ()
    effects: tuple[FactorEffect, ...] = ()


class CampaignFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a tuning, a series or a comparison found out.

    Attributes:
        campaign_id: for `--resume` and `flushlab report`.
        kind: the command: `tune`, `series` or `compare`.
        ending: `done`, `budget spent`, `interrupted` or `dry run`.
        resume: the command that goes on with it, if it was interrupted; else empty.
        title: the question that a plan asks; empty of a tuning.
        server: the first, or only, server.
        workload: the workload in words, with its size.
        load_command: the shell command that makes the load; empty: there is none.
        sources: the texts that ran, as they were at the start.
        objective: what `comparison` and its verdicts compare: `throughput`, `p99` (latency), or `latency`: of
            a load that was only observed, a transaction's mean time in its write statements and commit.
        unit: of every `result`.
        higher_is_better: false where the result is a time. A ratio above 1 is better all the same.
        floor: the weakest guarantees that may be recommended, as asked for; empty: those of each server's
            base.
        base: what the arms are compared with; of a tuning, the user's settings, raised to the floor.
        arms: a plan's in its order, `best` last; of a tuning those that were confirmed.
        control: the base once more, compared with the base: should be about 1; null before the second block.
        blocks: finished blocks.
        trials: number of trials.
        disturbed: how many of them other load disturbed.
        others: other load on the machine before the first trial; null: nobody looked.
        interleaved: servers ran side by side and were measured in slices; false: each window had a fresh one.
        why_fresh: why each window had a fresh server, where `--fresh` did not ask for it; else empty.
        data: the user's data set; null: there is none.
        tables: the largest tables before the base's first window, with the server's estimates of their rows.
        stand_in: the load of `--workload data`; null for any other.
        data_bytes: size of the workload's data; null: not known.
        pool_bytes: size of the base's buffer pool; null: not known.
        redo_bytes: size of the base's redo log; null: not known.
        page_reads: pages that the base read from disk per transaction (or row); null: not known.
        machine: the machine that measured; of a fleet, the one that the command ran on.
        machines: the machines of a fleet that ran blocks, by name; empty without a fleet.
        clients: the machines that drove the load over the network, as in the base's window with the median
            round trip; empty where the server's machine drove it.
        warnings: caveats about the results.
        files: paths of what was written.
        tuning: what only a tuning has; else null.
        plan: what only a series and a comparison have; else null.
        demand: of a load that was only observed, whether throughput can show a gain: `closed loop`, or
            `fixed` (latency alone can), or `unknown`; empty where flushlab made the load.
        crash: what crashes left of the winner of a tuning, and of those that were rejected for it; null:
            nothing was crashed.
        forecast: of a dry run, which has nothing else to tell; else null.
    """

    campaign_id: str
    kind: Kind
    ending: str
    resume: str = ""
    title: str = ""
    server: ServerIdentity
    workload: str
    load_command: str = ""
    sources: tuple[SourceText, ...] = ()
    objective: Objective = "throughput"
    unit: str
    higher_is_better: bool = True
    floor: str = ""
    base: ArmResult
    arms: tuple[ArmResult, ...] = ()
    control: ArmResult | None = None
    blocks: int = 0
    trials: int = 0
    disturbed: int = 0
    others: OtherLoad | None = None
    interleaved: bool = False
    why_fresh: str = ""
    data: DataFacts | None = None
    tables: tuple[TableRows, ...] = ()
    stand_in: StandIn | None = None
    data_bytes: int | None = None
    pool_bytes: int | None = None
    redo_bytes: int | None = None
    page_reads: float | None = None
    machine: Machine
    machines: tuple[FleetMachine, ...] = ()
    clients: tuple[LoadClient, ...] = ()
    warnings: tuple[Warning, ...] = ()
    files: tuple[str, ...] = ()
    tuning: TuningFacts | None = None
    plan: PlanFacts | None = None
    demand: Demand = ""
    crash: CrashFacts | None = None
    forecast: Forecast | None = None

    @property
    def by_server(self) -> tuple[tuple[ArmResult, tuple[ArmResult, ...]], ...]:
        bases = (self.base, *(arm for arm in self.arms if arm.is_base))
        others = [arm for arm in self.arms if not arm.is_base]
        names = [base.name if base.server is not None else "" for base in bases]
        return tuple(
            (base, tuple(arm for arm in others if arm.against == name))
            for base, name in zip(bases, names, strict=True)
        )

    @property
    def servers(self) -> tuple[ServerIdentity, ...]:
        return tuple(base.server or self.server for base, _ in self.by_server)

    @property
    def is_remote(self) -> bool:
        return any(warning.slug == EXTERNAL for warning in self.warnings)

    @property
    def never_ran(self) -> bool:
        never = all(arm.outcome in ("skipped", "not_in_version") for arm in self.arms)
        return self.plan is not None and self.ending == "interrupted" and never

    @property
    def raised_to(self) -> str:
        return (self.tuning.raised_to if self.tuning is not None else "") or self.floor

    def below_floor(self, arm: ArmResult, base: ArmResult) -> bool:
        return arm.is_below(self.floor or base.floor)

    def arm(self, name: str) -> ArmResult:
        return next((arm for arm in self.arms if arm.name == name), self.base)

    @property
    def handed_over(self) -> FrontierPoint | None:
        """The winner's, or else those that raise the user's own to the floor; None: the user's own settings
        stay."""
        found = self.tuning
        if found is None or found.winner is not None or not found.raised or not found.frontier:
            return found.winner if found is not None else None
        is_broken = any(warning.slug == BASE_BROKE for warning in self.warnings)
        safest = found.frontier[0]
        return None if is_broken or safest.settings else safest


class CampaignRun(msgspec.Struct, frozen=True, kw_only=True):
    campaign_id: str
    ending: str
    machine: Machine
    others: OtherLoad | None = None


def resuming(kind: str, campaign_id: str, remote: RemoteAccess) -> str:
    """`remote`: the user's server that it runs on; its password is not stored."""
    login = msgspec.structs.replace(remote, dsn=None, allow_writes=False, allow_set_global=False)
    named = " ".join(words(login)) or "--dsn …"
    allowed = words(RemoteAccess(allow_writes=remote.allow_writes, allow_set_global=remote.allow_set_global))
    there = f" {' '.join((named, *allowed))}" if remote.place else ""
    return f"flushlab {kind} --resume {campaign_id}{there}"
