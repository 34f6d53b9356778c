"""Facts: everything that a campaign found out, as one value that reports are made from.

`TuneFacts` and `SeriesFacts` are stored as a campaign's result; the campaign's kind tells which one it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from flushlab.experiment.frontier import FrontierPoint, TuneResult
from flushlab.experiment.objective import Objective
from flushlab.record import (
    Comparison,
    CrashFacts,
    FactorEffect,
    Machine,
    OtherLoad,
    Ratio,
    ServerIdentity,
    SourceText,
    Value,
    Warning,
)
from flushlab.settings.durability import FLOOR
from flushlab.settings.floor import Floor


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm yielded by itself: geometric means over its trials that count.

    Attributes:
        figure: in the workload's unit, or None.
        p99_us: 99th percentile of the latency, or None where the workload has none.
    """

    figure: float | None = None
    p99_us: float | None = None


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """An arm or a candidate, before anything is measured.

    Attributes:
        what: its name, or what it changes.
        why: what it may buy or stands for; why it will not run.
        runs: whether it will.
    """

    what: str
    why: str = ""
    runs: bool = True


class Takes(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign takes of the machine, and what there is of it.

    Attributes:
        pool_bytes: the largest buffer pool among the arms.
        memory_bytes: what a server may take at worst; all of them, where several stand side by side.
        available_memory_bytes: what there is.
        data_bytes: about what the data take, or None where they cannot be foreseen.
        disk_bytes: about what all data directories take, or None.
        free_disk_bytes: what there is.
        servers: that stand at once; 0: somebody's own is driven, and nothing of this machine is taken.
    """

    pool_bytes: int
    memory_bytes: int
    available_memory_bytes: int
    data_bytes: int | None
    disk_bytes: int | None
    free_disk_bytes: int
    servers: int = 1


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign would do; nothing was started or written to find out.

    Attributes:
        tries: candidates of a tuning, arms of a series.
        trials_least, trials_most: how many there would be; a tuning stops early where all is clear. None: as
            many as fit into the budget.
        trial_s: seconds of one; None if only the first run can tell, or they differ.
        least_s, likely_s: seconds of the whole, or None.
        most_s: the budget in seconds, or None.
        takes: memory and disk of this machine.
        writes: what would be written, by place.
    """

    tries: tuple[Foreseen, ...]
    trials_least: int
    trials_most: int | None
    trial_s: float | None
    least_s: float | None
    likely_s: float | None
    most_s: float | None
    takes: Takes
    writes: Mapping[str, str]


class TuneFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a tuning found out.

    Attributes:
        campaign_id: for `--resume`.
        ending: `done`, `budget spent` or `interrupted`.
        server: what was tuned.
        workload: as the user wrote it, with its shape; without passwords.
        sources: the texts that were run, as they were when the campaign started.
        unit: of the workload's figure.
        floor: the least that was accepted.
        base: settings of the base (the user's, lifted to the floor).
        lifted: what was changed in the user's settings to reach the floor, in words.
        raised: these changes as settings; empty where the user's settings meet the floor.
        yours: the safest floor that the user's settings meet.
        result: of the experiment.
        base_figure: geometric mean of the base's figures in the confirmation blocks, or None.
        guarantees: plain words per failure, for the base under `base`, for the user's settings under `yours`
            and for every frontier arm under its name.
        recovery_s: seconds from SIGKILL under load to the first answer, per arm.
        data_bytes, pool_bytes, redo_bytes: the workload's data, the base's buffer pool and redo capacity.
        machine: that measured.
        warnings: doubts about the whole.
        files: what was written.
        objective: what the ratios compare: throughput, or the 99th percentile of the latency.
        base_p99_us: that of the base in the confirmation blocks, geometric mean, or None.
        figures: of every arm in the confirmation blocks, the base and the control included.
        trials, disturbed: how many were run, and how many of them other load disturbed.
        others: what others took of the machine before the first trial; None if nobody looked.
        interleaved: arms stood side by side and were measured in turns; else each trial had a fresh server.
        why_fresh: why it had, where that was not asked for.
        outlook: of a dry run, which has nothing else to tell.
        crash: what crashes have left of the winner, and of those that were rejected for it; None where
            nothing was crashed.
    """

    campaign_id: str
    ending: str
    server: ServerIdentity
    workload: str
    unit: str
    floor: str
    base: Mapping[str, Value]
    lifted: tuple[str, ...]
    raised: Mapping[str, Value] = {}
    yours: str = ""
    result: TuneResult
    base_figure: float | None
    guarantees: Mapping[str, Mapping[str, str]]
    recovery_s: Mapping[str, float]
    data_bytes: int | None
    pool_bytes: int | None
    redo_bytes: int | None
    machine: Machine
    warnings: tuple[Warning, ...]
    files: tuple[str, ...]
    objective: Objective = "throughput"
    base_p99_us: float | None = None
    figures: Mapping[str, Figures] = {}
    trials: int = 0
    disturbed: int = 0
    others: OtherLoad | None = None
    interleaved: bool = False
    why_fresh: str = ""
    outlook: Outlook | None = None
    crash: CrashFacts | None = None
    sources: tuple[SourceText, ...] = ()

    @property
    def cost(self) -> Ratio | None:
        """The base against the user's settings, which it raises to the floor; None: not measured."""
        return self.result.yours.ratio.inverse() if self.result.yours else None

    @property
    def handed_over(self) -> FrontierPoint | None:
        """The settings that the user is told to use: the winner's, or else those that raise the user's own to
        the floor; None: the user's own settings stay."""
        if self.result.winner is not None or not self.raised or not self.result.frontier:
            return self.result.winner
        is_broken = any(warning.slug == BASE_BROKE for warning in self.warnings)
        return None if is_broken else self.result.frontier[0]

    def changes(self, point: FrontierPoint) -> dict[str, Value]:
        """What a point changes in the user's settings; see `FrontierPoint.settings` for the base's."""
        return {**self.raised, **point.settings}


BASE_BROKE = "crash-broke-base"
"""Slug of the warning that the base breaks the floor in crashes."""

FIRST_LOOK_MINUTES = 60.0
"""Shorter budgets try commit-path settings only: their windows do not outlast the redo log."""

EXTERNAL = "external"
"""Slug of the warning that the server is not flushlab's own."""

ArmOutcome = Literal["measured", "refused", "failed", "skipped", "not_in_version"]
"""What became of an arm of a series.

measured: it has a comparison, or would have with more blocks.
refused: the server did not take it, or it read back differently.
failed: the server or the load died, or the machine had too little memory for it.
skipped: its place or what it needs is not here, or its turn never came.
not_in_version: this server has no such setting or no such value."""

Answer = Literal["confirmed", "refuted", "no difference", "undecided", "not measured"]
"""What a measurement says to a claim; see `campaign.claims`."""

ANSWERS: tuple[Answer, ...] = get_args(Answer)
"""In the order in which they are counted."""


class ArmFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one arm of a series.

    Attributes:
        name: of the arm.
        text: what it stands for.
        outcome: see `ArmOutcome`.
        reason: why it was not measured, in the server's words where it has any.
        settings: as asked, that differ from the base's.
        workload: workload options that differ from the base's.
        data_root, disk_iops, disk: its own place, or None for the series' own.
        contract: names of settings among them that change the service itself.
        no_effect: names of settings among them that have none, as there is no binary log.
        floor: the safest floor that it meets.
        guarantees: plain words per failure.
        comparison: with the base of the same blocks; None before the second block.
        against: on a further server, the arm that is its base and that `comparison` is with; empty for that
            arm, which is compared with the first server's base, and on the first server.
        p99: the same of p99 latency, whatever is compared; None where the workload has none.
        figure: geometric mean of its figures, or None.
        p99_us: 99th percentile of the latency, geometric mean, or None where the workload has none.
        composed_of: names of the arms that `best` is made of.
        server: that it ran on, where that is not the base's.
        why_fresh: why it had a fresh server for each window, where other arms were measured in turns.
        same_as: the arm with fewer changes that read back the same on its server, but for those without
            effect, or empty.
    """

    name: str
    text: str = ""
    outcome: ArmOutcome
    reason: str = ""
    settings: Mapping[str, Value] = {}
    workload: Mapping[str, Value] = {}
    data_root: str | None = None
    disk_iops: int | None = None
    disk: str | None = None
    contract: tuple[str, ...] = ()
    no_effect: tuple[str, ...] = ()
    floor: str = ""
    guarantees: Mapping[str, str] = {}
    comparison: Comparison | None = None
    against: str = ""
    p99: Comparison | None = None
    figure: float | None = None
    p99_us: float | None = None
    composed_of: tuple[str, ...] = ()
    server: ServerIdentity | None = None
    why_fresh: str = ""
    same_as: str = ""

    @property
    def is_base(self) -> bool:
        """Whether it is the base of a further server."""
        return self.server is not None and not self.against

    @property
    def is_place(self) -> bool:
        """Whether it has a folder or a disk of its own, which no option file can give."""
        return self.data_root is not None or self.disk_iops is not None or self.disk is not None

    @property
    def advised(self) -> dict[str, Value]:
        """Of its settings those that may have an effect."""
        return {name: value for name, value in self.settings.items() if name not in self.no_effect}

    @property
    def changes_nothing(self) -> bool:
        """Whether all that it changes has no effect."""
        return bool(self.no_effect) and not (self.advised or self.workload or self.is_place)

    @property
    def verdict(self) -> str:
        """The floor, with the condition on the disk that it has."""
        return self.guarantees.get(FLOOR, self.floor)


class ClaimFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of the plan and what the measurement says to it.

    Attributes:
        text: the claim in words.
        arm, against: the two that it compares.
        wanted: the ratio that it claims: `1.10`, `at least 2`, `at most 1`.
        answer: see `flushlab.plan` for the rule.
        ratio: of `arm` to `against`, or None if one of them has no figure. Of counts, its bounds are the
            least and the most that any block had.
        source: where the claim comes from.
        figure: what was counted; empty: how fast they are.
        counts: of `arm` and of `against`, where it was counted.
    """

    text: str
    arm: str
    against: str
    wanted: str
    answer: Answer
    ratio: Ratio | None = None
    source: str = ""
    figure: str = ""
    counts: tuple[float, float] | None = None


class SeriesFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a series or a comparison found out.

    Attributes:
        campaign_id: for `--resume`.
        ending: `done` or `interrupted`.
        plan: its name.
        title: of the plan, a sentence.
        server: what was measured.
        workload: in words, with its shape; without passwords.
        sources: the texts that were run, as they were when the campaign started.
        unit: of the workload's figure.
        higher_is_better: False where the figure is a time.
        base: settings of the base.
        base_text: what the base stands for.
        base_figure: geometric mean of the base's figures, or None.
        base_p99_us: of the base, as in `ArmFacts`.
        base_floor: the safest floor that the base meets.
        base_guarantees: plain words per failure.
        floor: the weakest guarantees that may be recommended, as asked for; empty: those of each server's
            base.
        arms: in the plan's order, `best` last.
        control: the base once more, compared with the base.
        control_p99: the same of p99 latency.
        claims: answered.
        factors: that were crossed; none: it is no factorial.
        effects: of the factors: main effects, then interactions; none where a combination was not measured.
        blocks: finished, of `planned_blocks`.
        planned_blocks: as the plan or `--blocks` has it.
        precision: what was asked for: arms ran until their intervals were within it; None: all blocks.
        objective: what the ratios compare: throughput, or the 99th percentile of the latency.
        seconds: of a measured window.
        scale: factor on the size of the plan's data.
        alternate: settings were switched on one running server.
        interleaved: arms stood side by side and were measured in turns; else each window had a fresh server.
        why_fresh: why it had, where that was not asked for.
        machine: that measured.
        warnings: doubts about the whole.
        data_bytes, pool_bytes, redo_bytes: the workload's data, the base's buffer pool and redo capacity.
        trials, disturbed: how many were run, and how many of them other load disturbed.
        others: what others took of the machine before the first trial; None if nobody looked.
        outlook: of a dry run, which has nothing else to tell.
        kind: the command that asked.
        base_name: what people call the base.
        rounds: in which every arm had a slice; None where each trial had a server of its own.
        slice_s: seconds of the shortest and of the longest slice, or None.
        files: what was written.
    """

    campaign_id: str
    ending: str
    plan: str
    title: str
    server: ServerIdentity
    workload: str
    unit: str
    higher_is_better: bool = True
    base: Mapping[str, Value]
    base_text: str
    base_figure: float | None
    base_p99_us: float | None = None
    base_floor: str = ""
    base_guarantees: Mapping[str, str]
    floor: str = ""
    arms: tuple[ArmFacts, ...]
    control: Comparison | None
    control_p99: Comparison | None = None
    claims: tuple[ClaimFacts, ...]
    factors: tuple[str, ...] = ()
    effects: tuple[FactorEffect, ...] = ()
    blocks: int
    planned_blocks: int = 0
    precision: float | None = None
    objective: Objective = "throughput"
    seconds: float
    scale: float = 1.0
    alternate: bool = False
    interleaved: bool = False
    why_fresh: str = ""
    machine: Machine
    warnings: tuple[Warning, ...]
    data_bytes: int | None
    pool_bytes: int | None
    redo_bytes: int | None
    trials: int = 0
    disturbed: int = 0
    others: OtherLoad | None = None
    outlook: Outlook | None = None
    kind: Literal["series", "compare"] = "series"
    base_name: str = "base"
    rounds: int | None = None
    slice_s: tuple[float, float] | None = None
    sources: tuple[SourceText, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def base_arm(self) -> ArmFacts:
        """The base as an arm that changes nothing."""
        return ArmFacts(
            name=self.base_name,
            text=self.base_text,
            outcome="measured",
            floor=self.base_floor,
            guarantees=self.base_guarantees,
            figure=self.base_figure,
            p99_us=self.base_p99_us,
        )

    @property
    def by_server(self) -> tuple[tuple[ArmFacts, tuple[ArmFacts, ...]], ...]:
        """Of each server its base, and the arms that are compared with it; the first server first."""
        bases = (self.base_arm, *(arm for arm in self.arms if arm.is_base))
        return tuple((base, self._compared_with(base)) for base in bases)

    def _compared_with(self, base: ArmFacts) -> tuple[ArmFacts, ...]:
        name = "" if base.server is None else base.name
        return tuple(arm for arm in self.arms if not arm.is_base and arm.against == name)

    def below_floor(self, arm: ArmFacts, base: ArmFacts) -> bool:
        """Whether an arm guarantees less than the floor, so that it is shown and not recommended."""
        floor = self.floor or base.floor
        return bool(arm.floor and floor) and not Floor(arm.floor).at_least(Floor(floor))


def resuming(kind: str, campaign_id: str, *, own: bool) -> str:
    """The command that goes on with a campaign.

    Args:
        kind: of the campaign.
        campaign_id: its id.
        own: it runs on somebody's own server, whose password is not stored.
    """
    there = " --dsn … --allow-writes --tune-server" if own else ""
    return f"flushlab {kind} --resume {campaign_id}{there}"
