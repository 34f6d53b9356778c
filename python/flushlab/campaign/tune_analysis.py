"""A tuning: from the request to the facts of its report.

    TuneAnalysis(request, …) -> run(experiment, trial runner) -> conclude: guard by recovery time and by
    window length, guarantees in words, warnings gathered -> CampaignFacts

Everything that depends on the server's version and the storage is bound here, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from flushlab.campaign.analysis import (
    LEAST_MACHINES,
    Analysis,
    Sizes,
    of_base,
    of_controls,
    of_fleet,
    of_interim,
    of_machine,
    workload_words,
)
from flushlab.campaign.arms import BoundArm
from flushlab.campaign.crash.check import Crash, check
from flushlab.campaign.facts import ArmResult, CampaignFacts, CampaignRun, TuningFacts
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.scheduling import START_S, STARTUP_S, trial_s
from flushlab.errors import FlushlabError, ServerError
from flushlab.experiment.blocks import YOURS
from flushlab.experiment.tune import Guards, Tune, TunePlan
from flushlab.record import (
    BASE,
    CONTROL,
    Arm,
    Comparison,
    CrashFacts,
    Trial,
    Value,
    Warning,
)
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import Guarantees, described, guarantees, keeps, level
from flushlab.settings.floor import Floor
from flushlab.trial.measurement import REDO_WRAPS
from flushlab.trial.sliced import SlicedRunner

RECOVERY_RATIO = 2.0
RECOVERY_SLACK_S = 5.0
"""A winner whose recovery after SIGKILL takes more than `RECOVERY_RATIO` times the base's plus
`RECOVERY_SLACK_S` is rejected."""
RECOVERY_ATTEMPTS = 2
"""A load that ends before the server is killed says nothing of its recovery."""

FLEET_FOR_OTHERS = f"a fleet of {2 * LEAST_MACHINES - 1} machines or more"
"""Half of a fleet, rounded down, selects; `LEAST_MACHINES` have to confirm."""

_NO_EFFECT = "no-effect"
_OF_RESULT = (
    "frontier",
    "winner",
    "offers",
    "tried",
    "detectable",
    "interim_analyses",
    "dropped",
    "rejected",
    "excluded",
)
"""Fields that the facts of a tuning have as its planner's result has them."""


class TuneAnalysis(Analysis[TuneRequest, Tune]):
    def experiment(self) -> Tune:
        return Tune(self.plan())

    def plan(self) -> TunePlan:
        request = self.request

        def redo_to_outlast(settings: Mapping[str, Value]) -> int:
            return int(REDO_WRAPS * Configuration(settings, self.identity).redo_capacity_bytes)

        return TunePlan(
            base=request.base,
            yours=request.yours,
            raised=bool(request.raised),
            candidates=request.candidates,
            floor=request.spec.floor,
            lowest=request.lowest,
            level_of=self.level_of,
            is_free=self.is_free,
            budget_trials=request.spec.trials,
            budget_s=request.budget_s,
            trial_s=trial_s(
                request.workload,
                request.timing,
                kept_running=request.side_by_side > 0,
                cluster=request.spec.server.cluster,
            ),
            start_s=START_S,
            startup_s=STARTUP_S if request.side_by_side else 0.0,
            spread=bool(request.fleet) and not request.clients,
            side_by_side=request.side_by_side,
            seed=request.seed,
            objective=request.objective,
            variants=len(request.spec.threads),
            guards=Guards(p99_ratio=request.spec.p99_limit),
            redo_to_outlast=redo_to_outlast if request.steady_state else None,
            # A fiftieth of the budget, but at least twice the usual window and never beyond the longest.
            window_limit_s=min(
                max(2 * request.timing.seconds, (request.budget_s or 0.0) / 50), request.timing.max_seconds
            ),
        )

    def guarantees(self, settings: Mapping[str, Value]) -> Guarantees:
        return guarantees(settings, self.identity, self.storage, self.request.launch)

    def level_of(self, settings: Mapping[str, Value]) -> Floor:
        return level(self.guarantees(settings))

    def is_free(self, settings: Mapping[str, Value]) -> bool:
        return keeps(self.guarantees(settings), self.guarantees(self.request.base))

    def conclude(
        self,
        experiment: Tune,
        trials: Iterable[Trial],
        run: CampaignRun,
        runner: SlicedRunner | None = None,
        crash: Crash | None = None,
    ) -> CampaignFacts:
        trials, request = list(trials), self.request
        self._reject_short_windows(experiment, trials)
        recovery_s, unchecked = dict[str, float](), dict[str, str]()

        def recover() -> None:
            if runner is not None:
                self._recovery(experiment, runner, recovery_s, unchecked)

        recover()
        crashed: CrashFacts | None = None
        of_crashes: Sequence[Warning] = ()
        if crash is not None:
            crashed, of_crashes = check(
                experiment, crash, request.crash_fail, request.spec.floor, recover, bool(request.raised)
            )
        result = experiment.result()
        base = [trial for trial in trials if trial.arm.name == BASE and trial.result is not None]
        confirmed = [trial for trial in base if trial.stage == "confirm"] or base
        configuration = Configuration(request.base, self.identity, base[-1].settings if base else {})
        sizes = Sizes.of(base, configuration)
        settings_of = {trial.arm.name: trial.arm.settings for trial in trials if trial.stage == "confirm"}
        arms = dict[str, ArmResult]()
        for one in result.confirmed:
            own = [
                t for t in trials if (t.arm.name, t.stage) == (one.arm, "confirm") and t.result is not None
            ]
            arms[one.arm] = self.measured(
                self._bound(one.arm, settings_of.get(one.arm, {})),
                own,
                result,
                comparison=one,
                recovery_s=recovery_s.get(one.arm),
            )
        yours = arms.pop(YOURS, None) or ArmResult.of(self._bound(YOURS, request.original))
        reported = configuration.as_reported()
        cut_short = list[Warning]()
        if result.cut_short:
            text = "ended early, as the base could no longer be measured; what had been proven by then holds"
            cut_short.append(Warning("base-failed", f"{text}: {result.cut_short.splitlines()[0]}"))
        return self.gathered(
            trials,
            base,
            run,
            workload=workload_words(request.spec.workload, request.spec.threads),
            floor=request.spec.floor.value,
            base=self.measured(
                self._bound(BASE, request.base),
                confirmed,
                result,
                settings=reported,
                recovery_s=recovery_s.get(BASE),
            ),
            control=arms.pop(CONTROL, None),
            arms=tuple(arms.values()),
            blocks=result.blocks,
            interleaved=request.side_by_side > 0,
            why_fresh=request.why_fresh,
            **sizes._asdict(),
            warnings=(
                *of_crashes,
                *(crashed.warnings if crashed else ()),
                *self._warnings(trials, confirmed, result.control, sizes),
                *of_interim(result.confirmed),
                *of_fleet((arm for name, arm in arms.items() if name != CONTROL), FLEET_FOR_OTHERS),
                *_of_selection(trials),
                *cut_short,
                *(Warning("recovery-unchecked", text) for text in unchecked.values()),
            ),
            tuning=TuningFacts(
                lowest=request.lowest.value,
                raised=request.raised,
                raised_why=request.raised_why,
                yours=yours if request.raised else None,
                **{name: getattr(result, name) for name in _OF_RESULT},
            ),
            crash=crashed,
        )

    def _bound(self, name: str, settings: Mapping[str, Value]) -> BoundArm:
        base, words = self.request.base, described(settings, self.identity, self.storage, self.request.launch)
        if self.request.spec.no_replicas:
            del words["replication"]
        return BoundArm(
            name=name,
            settings=settings,
            changes={key: value for key, value in settings.items() if base.get(key) != value},
            floor=self.level_of(settings).value,
            guarantees=words,
        )

    def _reject_short_windows(self, experiment: Tune, trials: list[Trial]) -> None:
        base, catalog = self.request.base, load_catalog()
        for trial in trials:
            changed = [name for name, value in trial.arm.settings.items() if base.get(name) != value]
            needy = [name for name in changed if name in catalog and catalog.setting(name).needs_steady_state]
            short = any(warning.slug == "window-too-short" for warning in trial.warnings)
            if trial.stage == "confirm" and short and needy:
                reason = f"window too short to credit {', '.join(needy)}: it did not outlast the redo log"
                experiment.reject(trial.arm.name, reason)

    def _recovery(
        self, experiment: Tune, runner: SlicedRunner, seconds: dict[str, float], unchecked: dict[str, str]
    ) -> None:
        """An arm that is too slow is rejected, and the next one measured."""
        result = experiment.result()
        if not result.proposed:
            return
        if BASE not in seconds.keys() | unchecked.keys():
            try:
                _note_recovery(runner, result.base, seconds, unchecked)
            except ServerError as error:
                unchecked[BASE] = f"the base did not start again after SIGKILL: {error.message}"
        limit = RECOVERY_RATIO * seconds.get(BASE, math.inf) + RECOVERY_SLACK_S
        while True:
            known = seconds.keys() | unchecked.keys()
            due = next((point for point in experiment.result().proposed if point.arm not in known), None)
            if due is None:
                return
            arm = Arm(name=due.arm, settings={**result.base.settings, **due.settings})
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
        self, trials: list[Trial], base: list[Trial], control: Comparison | None, sizes: Sizes
    ) -> tuple[Warning, ...]:
        found = [*self.request.notes]
        found += of_controls(control)
        found += of_base(base, sizes)
        found += of_machine(trials, disk=self.request.spec.storage.disk)
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
    runner: SlicedRunner, arm: Arm, seconds: dict[str, float], unchecked: dict[str, str]
) -> None:
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


def _of_selection(trials: Iterable[Trial]) -> Iterator[Warning]:
    machines = dict[bool, set[str]]()
    for trial in trials:
        if trial.machine and trial.stage != "recovery":
            machines.setdefault(trial.stage == "confirm", set()).add(trial.machine)
    selected, confirmed = machines.get(False, set[str]()), machines.get(True, set[str]())
    if not confirmed:
        return
    both, where = selected & confirmed, ", ".join(sorted(confirmed))
    if both:
        text = f"{', '.join(sorted(both))} both selected and confirmed, so "
        if others := ", ".join(sorted(confirmed - both)):
            text += f"the selection may flatter the ratios; only the blocks on {others} are independent of it"
        else:
            text += (
                "nothing shows that the settings win on other machines; a fleet of two machines or more"
                " shows it"
            )
        yield Warning("confirmed-where-selected", text)
    else:
        text = f"selected on {', '.join(sorted(selected))}; confirmed on {where}, which did not select"
        if len(confirmed) == 1:
            text += (
                f": the intervals hold for {where}, not for others like it, which takes {FLEET_FOR_OTHERS}"
            )
        yield Warning("confirmed-elsewhere", text)


def without_effect(trials: Sequence[Trial]) -> list[Warning]:
    """A mixture's are left out where the value did something in another arm: what it was mixed with was the
    reason. Of an arm, the last one's name: arms that were confirmed come last."""
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
