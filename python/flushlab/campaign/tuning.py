"""A tuning: from the request to the facts of its report.

    Tuning(request, …) -> run(experiment, trial runner) -> conclude: guard by recovery time and by window
    length, guarantees in words, warnings gathered -> TuneFacts

Everything that depends on the server's version and the storage is bound here, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flushlab.campaign.facts import TuneFacts
from flushlab.campaign.loop import Ending
from flushlab.campaign.request import TuneRequest
from flushlab.errors import ServerError
from flushlab.experiment.blocks import BASE
from flushlab.experiment.guards import Guards
from flushlab.experiment.tune import Tune, TunePlan
from flushlab.record import Arm, Launch, Machine, ServerIdentity, Storage, Trial, Value, Warning
from flushlab.settings.catalog import Catalog
from flushlab.settings.durability import Guarantees, describe, guarantees, keeps, level
from flushlab.settings.floor import Floor
from flushlab.settings.redo import redo_capacity_bytes
from flushlab.trial import REDO_WRAPS, TrialRunner
from flushlab.units import format_size

RECOVERY_RATIO = 2.0
RECOVERY_SLACK_S = 5.0
"""A winner whose recovery after SIGKILL takes more than `RECOVERY_RATIO` times the base's plus
`RECOVERY_SLACK_S` is rejected."""

FIRST_LOOK_MINUTES = 60.0
"""Shorter budgets try commit-path settings only: their windows do not outlast the redo log."""

_NOISE_RANGE = 0.30
"""Figures of the base that scatter over more than this share of their mean mark an unstable machine
(TUNA, EuroSys 2025, uses the same mark for unstable configurations)."""


@dataclass(frozen=True)
class Tuning:
    """A request bound to the server and the storage that it is about."""

    request: TuneRequest
    identity: ServerIdentity
    storage: Storage
    launch: Launch

    def experiment(self) -> Tune:
        """The planner, fresh.

        Raises:
            BelowFloor, BudgetTooSmall: as the planner says.
        """
        request = self.request
        return Tune(
            TunePlan(
                base=request.base,
                candidates=request.candidates,
                floor=request.floor,
                level_of=self.level_of,
                is_free=self.is_free,
                budget_trials=request.trials,
                budget_s=request.budget_s,
                seed=request.seed,
                objective=request.objective,
                variants=len(request.threads),
                guards=Guards(p99_ratio=request.p99_limit),
                redo_to_outlast=self._redo_to_outlast if request.steady_state else None,
                window_limit_s=self._window_limit_s(),
            )
        )

    def _redo_to_outlast(self, settings: Mapping[str, Value]) -> int:
        return int(REDO_WRAPS * redo_capacity_bytes(settings, self.identity))

    def _window_limit_s(self) -> float:
        """A fiftieth of the budget, but at least twice the usual window and never beyond the longest."""
        timing = self.request.timing
        share = (self.request.budget_s or 0.0) / 50
        return min(max(2 * timing.seconds, share), timing.max_seconds)

    def guarantees(self, settings: Mapping[str, Value]) -> Guarantees:
        """What the server keeps under these settings."""
        return guarantees(settings, self.identity, self.storage, self.launch)

    def level_of(self, settings: Mapping[str, Value]) -> Floor:
        """The safest floor that settings meet."""
        return level(self.guarantees(settings))

    def is_free(self, settings: Mapping[str, Value]) -> bool:
        """Whether settings lower no guarantee of the base."""
        return keeps(self.guarantees(settings), self.guarantees(self.request.base))

    def conclude(
        self,
        experiment: Tune,
        trials: Iterable[Trial],
        ending: Ending,
        campaign_id: str,
        machine: Machine,
        catalog: Catalog,
        runner: TrialRunner | None,
    ) -> TuneFacts:
        """Judges the winner once more and gathers the facts.

        Args:
            experiment: with all records told.
            trials: these records.
            ending: why the campaign ended.
            campaign_id: of the campaign.
            machine: that measured.
            catalog: says what needs a steady state.
            runner: measures recovery; None when there is no time for it (Ctrl-C).
        """
        trials = list(trials)
        self._reject_short_windows(experiment, trials, catalog)
        recovery_s = self._recovery(experiment, runner) if runner is not None else {}
        result = experiment.result()
        shown = {point.arm: point.settings for point in result.frontier if point.arm != BASE}
        words = {"base": describe(self.guarantees(self.request.original))}
        words |= {
            arm: describe(self.guarantees({**self.request.base, **changes})) for arm, changes in shown.items()
        }
        words.setdefault(BASE, words["base"])
        base = [trial for trial in trials if trial.arm.name == BASE and trial.figure is not None]
        confirmed = [trial for trial in base if trial.stage == "confirm"] or base
        settings = base[-1].settings if base else {}
        pool, redo = settings.get("innodb_buffer_pool_size"), redo_capacity_bytes(settings, self.identity)
        data = max((trial.data_bytes or 0 for trial in base), default=0)
        return TuneFacts(
            campaign_id=campaign_id,
            ending=ending,
            server=base[-1].server or self.identity if base else self.identity,
            workload=_workload_words(self.request),
            unit=confirmed[-1].unit if confirmed else "",
            floor=self.request.floor.value,
            base=self.request.base,
            lifted=self.request.lifted,
            result=result,
            base_figure=_geometric_mean(confirmed),
            guarantees=words,
            recovery_s=recovery_s,
            data_bytes=data or None,
            pool_bytes=pool if isinstance(pool, int) else None,
            redo_bytes=redo,
            machine=machine,
            warnings=self._warnings(trials, confirmed, data, pool if isinstance(pool, int) else None),
            files=(),
        )

    def _reject_short_windows(self, experiment: Tune, trials: list[Trial], catalog: Catalog) -> None:
        """Rejects arms that changed what needs a steady state and were confirmed in windows that had none."""
        base = self.request.base
        for trial in trials:
            changed = [name for name, value in trial.arm.settings.items() if base.get(name) != value]
            needy = [name for name in changed if name in catalog and catalog.setting(name).needs_steady_state]
            short = any(warning.slug == "window-too-short" for warning in trial.warnings)
            if trial.stage == "confirm" and short and needy:
                reason = f"window too short to credit {', '.join(needy)}: it did not outlast the redo log"
                experiment.reject(trial.arm.name, reason)

    def _recovery(self, experiment: Tune, runner: TrialRunner) -> dict[str, float]:
        """Seconds of recovery of base and winner; a winner that is too slow is rejected, and the next
        one measured."""
        result = experiment.result()
        if result.winner is None:
            return {}
        seconds = {BASE: runner.recovery_s(result.base)}
        limit = RECOVERY_RATIO * seconds[BASE] + RECOVERY_SLACK_S
        while (winner := experiment.result().winner) is not None and winner.arm not in seconds:
            arm = Arm(name=winner.arm, settings={**result.base.settings, **winner.settings})
            try:
                seconds[arm.name] = runner.recovery_s(arm)
            except ServerError as error:
                experiment.reject(arm.name, f"it did not come back after SIGKILL: {error.message}")
                continue
            if seconds[arm.name] > limit:
                experiment.reject(
                    arm.name,
                    f"recovery after SIGKILL took {seconds[arm.name]:.1f} s, beyond {limit:.1f} s "
                    f"({RECOVERY_RATIO:g} × the base's {seconds[BASE]:.1f} s + {RECOVERY_SLACK_S:g} s)",
                )
        return seconds

    def _warnings(
        self, trials: list[Trial], base: list[Trial], data: int, pool: int | None
    ) -> tuple[Warning, ...]:
        found = []
        if not self.request.steady_state:
            found.append(
                Warning(
                    "first-look",
                    "first look, not steady state: commit-path settings only; redo size, buffer pool, "
                    f"flushing and doublewrite need --minutes {FIRST_LOOK_MINUTES:.0f} or more",
                )
            )
        if pool is not None and 0 < data < pool:
            found.append(
                Warning(
                    "fits-in-pool",
                    f"the data ({format_size(data)}) fit into the buffer pool ({format_size(pool)}): "
                    "I/O settings can't be tested with this data",
                )
            )
        figures = [trial.figure for trial in base if trial.figure is not None]
        if (
            len(figures) > 2
            and (spread := (max(figures) - min(figures)) * len(figures) / sum(figures)) > _NOISE_RANGE
        ):
            found.append(Warning("noisy", f"the base's figures scatter over {spread:.0%} of their mean"))
        void = sum(trial.outcome == "void" for trial in trials)
        if void:
            found.append(
                Warning(
                    "void-trials",
                    f"{void} {'trial was' if void == 1 else 'trials were'} disturbed by the machine; such a trial is repeated once",
                )
            )
        if self.request.disk_iops is not None:
            found.append(
                Warning("limited-disk", f"measured on a disk limited to {self.request.disk_iops} writes/s")
            )
        seen = {"window-too-short", "disturbed"}
        for warning in (w for trial in base for w in trial.warnings):
            if warning.slug not in seen:
                seen.add(warning.slug)
                found.append(warning)
        return tuple(found)


def _geometric_mean(trials: list[Trial]) -> float | None:
    logs = [math.log(trial.figure) for trial in trials if trial.figure]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _workload_words(request: TuneRequest) -> str:
    if request.workload.startswith("command:"):
        return request.workload
    threads = ", ".join(map(str, request.threads))
    shape = request.shape
    return f"{request.workload}, {threads} threads, {shape.tables} × {shape.table_size:,} rows"
