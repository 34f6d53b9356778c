"""A tuning: from the request to the facts of its report.

    TuneAnalysis(request, …) -> run(experiment, trial runner) -> conclude: guard by recovery time and by
    window length, guarantees in words, warnings gathered -> TuneFacts

Everything that depends on the server's version and the storage is bound here, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from flushlab.campaign.crash.check import Checked, Crash, check
from flushlab.campaign.duration import STAND_S, START_S, trial_s
from flushlab.campaign.facts import FIRST_LOOK_MINUTES, Figures, TuneFacts
from flushlab.campaign.loop import Ending
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.warnings import (
    disturbed,
    mean_figure,
    mean_p99_us,
    of_base,
    of_controls,
    of_looks,
    of_machine,
)
from flushlab.errors import FlushlabError, ServerError
from flushlab.experiment.blocks import BASE, CONTROL, YOURS
from flushlab.experiment.guards import Guards
from flushlab.experiment.tune import Tune, TunePlan
from flushlab.record import (
    Arm,
    Comparison,
    Launch,
    Machine,
    OtherLoad,
    ServerIdentity,
    Storage,
    Trial,
    Value,
    Warning,
)
from flushlab.redact import without_passwords
from flushlab.settings.catalog import Catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import Guarantees, described, guarantees, keeps, level
from flushlab.settings.floor import Floor
from flushlab.trial import REDO_WRAPS, StandingRunner
from flushlab.workload import workload_options

RECOVERY_RATIO = 2.0
RECOVERY_SLACK_S = 5.0
"""A winner whose recovery after SIGKILL takes more than `RECOVERY_RATIO` times the base's plus
`RECOVERY_SLACK_S` is rejected."""
RECOVERY_ATTEMPTS = 2
"""A load that ends before the server is killed says nothing of its recovery."""

_NO_EFFECT = "no-effect"


@dataclass(frozen=True)
class TuneAnalysis:
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
        return Tune(self.plan())

    def plan(self) -> TunePlan:
        """What the planner needs to know."""
        request = self.request
        return TunePlan(
            base=request.base,
            yours=request.yours,
            raised=bool(request.raised),
            candidates=request.candidates,
            floor=request.spec.floor,
            level_of=self.level_of,
            is_free=self.is_free,
            budget_trials=request.spec.trials,
            budget_s=request.budget_s,
            trial_s=trial_s(
                request.workload,
                request.timing,
                standing=request.side_by_side > 0,
                cluster=request.spec.server.cluster,
            ),
            start_s=START_S,
            stand_s=STAND_S if request.side_by_side else 0.0,
            side_by_side=request.side_by_side,
            seed=request.seed,
            objective=request.objective,
            variants=len(request.spec.threads),
            guards=Guards(p99_ratio=request.spec.p99_limit),
            redo_to_outlast=self._redo_to_outlast if request.steady_state else None,
            window_limit_s=self._window_limit_s(),
        )

    def _redo_to_outlast(self, settings: Mapping[str, Value]) -> int:
        return int(REDO_WRAPS * Configuration(settings, self.identity).redo_capacity_bytes)

    def _window_limit_s(self) -> float:
        """A fiftieth of the budget, but at least twice the usual window and never beyond the longest."""
        timing = self.request.timing
        share = (self.request.budget_s or 0.0) / 50
        return min(max(2 * timing.seconds, share), timing.max_seconds)

    def guarantees(self, settings: Mapping[str, Value]) -> Guarantees:
        """What the server keeps under these settings."""
        return guarantees(settings, self.identity, self.storage, self.launch)

    def _described(self, settings: Mapping[str, Value]) -> dict[str, str]:
        return described(settings, self.identity, self.storage, self.launch)

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
        runner: StandingRunner | None,
        others: OtherLoad | None = None,
        crash: Crash | None = None,
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
            others: what others took of the machine before the first trial.
            crash: crashes a configuration; None: the winner is handed over without.
        """
        trials = list(trials)
        self._reject_short_windows(experiment, trials, catalog)
        recovery_s, unchecked = dict[str, float](), dict[str, str]()

        def recover() -> None:
            if runner is not None:
                self._recovery(experiment, runner, recovery_s, unchecked)

        recover()
        checked = Checked()
        if crash is not None:
            raised = bool(self.request.raised)
            checked = check(
                experiment, crash, self.request.crash_fail, self.request.spec.floor, recover, raised
            )
        result = experiment.result()
        shown = {point.arm: point.settings for point in result.frontier if point.arm != BASE}
        words = {YOURS: self._described(self.request.original), BASE: self._described(self.request.base)}
        words |= {arm: self._described({**self.request.base, **changes}) for arm, changes in shown.items()}
        base = [trial for trial in trials if trial.arm.name == BASE and trial.figure is not None]
        confirmed = [trial for trial in base if trial.stage == "confirm"] or base
        settings = base[-1].settings if base else {}
        pool = settings.get("innodb_buffer_pool_size")
        configuration = Configuration(self.request.base, self.identity, settings)
        redo = configuration.redo_capacity_bytes
        data = max((trial.data_bytes or 0 for trial in base), default=0)
        return TuneFacts(
            campaign_id=campaign_id,
            ending=ending,
            server=base[-1].server or self.identity if base else self.identity,
            workload=_workload_words(self.request),
            sources=self.request.sources,
            unit=confirmed[-1].unit if confirmed else "",
            floor=self.request.spec.floor.value,
            base=configuration.as_reported(),
            lifted=self.request.lifted,
            raised=self.request.raised,
            yours=self.level_of(self.request.original),
            result=result,
            base_figure=mean_figure(confirmed),
            guarantees=words,
            recovery_s=recovery_s,
            data_bytes=data or None,
            pool_bytes=pool if isinstance(pool, int) else None,
            redo_bytes=redo,
            machine=machine,
            warnings=(
                *checked.warnings,
                *(checked.facts.warnings if checked.facts else ()),
                *self._warnings(
                    trials, confirmed, result.control, data, pool if isinstance(pool, int) else None, redo
                ),
                *of_looks(result.confirmed),
                *_cut_short(result.cut_short),
                *(Warning("recovery-unchecked", text) for text in unchecked.values()),
            ),
            files=(),
            objective=self.request.objective,
            base_p99_us=mean_p99_us(confirmed),
            figures=_figures(trials),
            trials=len(trials),
            disturbed=disturbed(trials),
            others=others,
            interleaved=self.request.side_by_side > 0,
            why_fresh=self.request.why_fresh,
            crash=checked.facts,
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

    def _recovery(
        self, experiment: Tune, runner: StandingRunner, seconds: dict[str, float], unchecked: dict[str, str]
    ) -> None:
        """Notes the seconds of recovery of base and winner, or why they are not known; a winner that is too
        slow is rejected, and the next one measured."""
        result = experiment.result()
        if result.winner is None:
            return
        if BASE not in seconds.keys() | unchecked.keys():
            try:
                _note_recovery(runner, result.base, seconds, unchecked)
            except ServerError as error:
                unchecked[BASE] = f"the base did not start again after SIGKILL: {error.message}"
        limit = RECOVERY_RATIO * seconds.get(BASE, math.inf) + RECOVERY_SLACK_S
        while (winner := experiment.result().winner) is not None:
            if winner.arm in seconds.keys() | unchecked.keys():
                return
            arm = Arm(name=winner.arm, settings={**result.base.settings, **winner.settings})
            try:
                _note_recovery(runner, arm, seconds, unchecked)
            except ServerError as error:
                experiment.reject(arm.name, f"it did not start again after SIGKILL: {error.message}")
                continue
            if seconds.get(arm.name, 0.0) > limit:
                experiment.reject(
                    arm.name,
                    f"recovery after SIGKILL took {seconds[arm.name]:.1f} s, beyond {limit:.1f} s "
                    f"({RECOVERY_RATIO:g} × the base's {seconds[BASE]:.1f} s + {RECOVERY_SLACK_S:g} s)",
                )

    def _warnings(
        self,
        trials: list[Trial],
        base: list[Trial],
        control: Comparison | None,
        data: int,
        pool: int | None,
        redo: int,
    ) -> tuple[Warning, ...]:
        found = [*self.request.notes]
        if not self.request.steady_state:
            way_out = f"need --minutes {FIRST_LOOK_MINUTES:.0f} or more"
            if self.request.external:
                way_out = "need longer windows than turns on your own server"
            found.append(
                Warning(
                    "first-look",
                    "first look, not steady state: commit-path settings only; redo size, buffer pool, "
                    f"flushing and doublewrite {way_out}",
                )
            )
        storage = self.request.spec.storage
        found += of_controls(control)
        found += of_base(base, data_bytes=data, pool_bytes=pool, redo_bytes=redo)
        found += of_machine(trials, disk_iops=storage.disk_iops, disk=storage.disk)
        seen = {"window-too-short", "disturbed", _NO_EFFECT}
        for warning in (w for trial in base for w in trial.warnings):
            if warning.slug not in seen:
                seen.add(warning.slug)
                found.append(msgspec.structs.replace(warning, text=f"{BASE}: {warning.text}"))
        stalled = {
            Warning(one.slug, f"{trial.arm.name}: {one.text}"): None
            for trial in trials
            for one in trial.warnings
            if trial.stage == "confirm" and trial.arm.name != BASE and one.slug == "nothing-committed"
        }
        return (*found, *stalled, *without_effect(trials))


def _note_recovery(
    runner: StandingRunner, arm: Arm, seconds: dict[str, float], unchecked: dict[str, str]
) -> None:
    """Notes the seconds of an arm's recovery, or why they are not known.

    Raises:
        ServerError: it did not come back.
    """
    for _ in range(RECOVERY_ATTEMPTS):
        try:
            seconds[arm.name] = runner.recovery_s(arm)
        except ServerError:
            raise
        except FlushlabError as error:
            # No verdict about the recovery, and what is proven is told all the same.
            unchecked[arm.name] = f"{arm.name}: recovery after SIGKILL could not be checked: {error.message}"
        else:
            unchecked.pop(arm.name, None)
            return


def _cut_short(reason: str) -> Iterator[Warning]:
    if reason:
        text = (
            "ended early, as the base could no longer be measured; what had been proven by then holds: "
            f"{reason.splitlines()[0]}"
        )
        yield Warning("base-failed", text)


def without_effect(trials: Sequence[Trial]) -> list[Warning]:
    """Settings that did nothing, each value once: the base's as they are, an arm's with its name (the last
    one's, as the arms that were confirmed come last). A mixture's are left out where the value did something
    in another arm: what it was mixed with was the reason, and nobody is going to use that mixture."""
    found: dict[tuple[str, Value | None], Warning] = {}
    worked = {
        setting
        for trial in trials
        if trial.outcome == "measured"
        for setting in trial.arm.settings.items()
        if not any(w.slug == _NO_EFFECT and w.setting == setting[0] for w in trial.warnings)
    }
    for trial in trials:
        for warning in (w for w in trial.warnings if w.slug == _NO_EFFECT):
            key = (warning.setting, trial.settings.get(warning.setting))
            if trial.stage == "screen" and key in worked:
                continue
            if trial.arm.name in (BASE, CONTROL):
                found[key] = warning
            elif key not in found or found[key].text.startswith("arm "):
                text = f"arm {trial.arm.name}: {warning.text}"
                found[key] = Warning(_NO_EFFECT, text, warning.setting)
    return list(found.values())


def _figures(trials: Iterable[Trial]) -> dict[str, Figures]:
    """By arm, from the confirmation blocks."""
    own: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.stage == "confirm" and trial.figure is not None:
            own.setdefault(trial.arm.name, []).append(trial)
    return {
        arm: Figures(figure=mean_figure(counted), p99_us=mean_p99_us(counted)) for arm, counted in own.items()
    }


def _workload_words(request: TuneRequest) -> str:
    known = workload_options(request.workload)
    options = dict(request.spec.workload.options)
    words = [without_passwords(request.workload)]
    if "threads" in known:
        *fewer, most = map(str, request.spec.threads)
        words.append(", ".join([*fewer, f"{most} thread{'' if request.spec.threads == (1,) else 's'}"]))
    if "tables" in known:
        tables, rows = (options.pop(name, known[name].default) for name in ("tables", "table_size"))
        words.append(f"{tables} × {rows:,} rows")
    return ", ".join([*words, *(f"{name} = {value}" for name, value in options.items())])
