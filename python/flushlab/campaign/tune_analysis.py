"""What a tuning found: the frontier and its proof, beyond what `analysis` has of every campaign.

conclude: guard by window length, recovery time and crashes -> `analysis` -> CampaignFacts
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from flushlab.campaign.analysis import (
    LEAST_MACHINES,
    Analysis,
    confirming,
    needing_steady_state,
    results_of,
    short_windows,
    workload_words,
)
from flushlab.campaign.arms import BoundArm
from flushlab.campaign.crash.check import Crash, check
from flushlab.campaign.facts import ArmResult, CampaignFacts, CampaignRun, TuningFacts
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.scheduling import START_S, STARTUP_S, trial_s_of
from flushlab.errors import FlushlabError, ServerError
from flushlab.experiment.blocks import YOURS
from flushlab.experiment.tune import Guards, Tune, TunePlan
from flushlab.record import BASE, CONTROL, Arm, CrashFacts, Trial, Value, Warning
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
            trial_s=trial_s_of(request, request.groups[0]),
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

    @property
    def bases(self) -> Mapping[str, BoundArm]:
        return {BASE: self._bound(BASE, self.request.base)}

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
        recover = partial(_recover, experiment, runner, recovery_s, unchecked)
        recover()
        crashed: CrashFacts | None = None
        warnings = list[Warning]()
        if crash is not None:
            crashed, of_crashes = check(
                experiment, crash, request.crash_fail, request.spec.floor, recover, bool(request.raised)
            )
            warnings += (*of_crashes, *(crashed.warnings if crashed else ()))
        result = experiment.result()
        settings_of = {trial.arm.name: trial.arm.settings for trial in trials if trial.stage == "confirm"}
        arms = {
            name: self.measured(
                self._bound(name, settings_of.get(name, {})),
                confirming(results_of(trials, name)),
                result,
                recovery_s=recovery_s.get(name),
            )
            for name in result.comparisons
            if name != CONTROL
        }
        yours = arms.pop(YOURS, None) or ArmResult.of(self._bound(YOURS, request.original))
        warnings += self.caveats(result, trials, arms.values(), takes=FLEET_FOR_OTHERS)
        warnings += (*_of_trials(trials), *without_effect(trials), *_of_selection(trials))
        if result.cut_short:
            text = "ended early, as the base could no longer be measured; what had been proven by then holds"
            warnings.append(Warning("base-failed", f"{text}: {result.cut_short.splitlines()[0]}"))
        return self.gathered(
            result,
            trials,
            run,
            recovery_s=recovery_s,
            workload=workload_words(request.spec.workload, request.spec.threads),
            floor=request.spec.floor.value,
            arms=tuple(arms.values()),
            warnings=(*warnings, *(Warning("recovery-unchecked", text) for text in unchecked.values())),
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

    def _reject_short_windows(self, experiment: Tune, trials: Iterable[Trial]) -> None:
        confirmed = [trial for trial in trials if trial.stage == "confirm"]
        short, base = short_windows(confirmed), self.request.base
        for arm in {trial.arm.name: trial.arm for trial in confirmed if trial.arm.name in short}.values():
            changed = [name for name, value in arm.settings.items() if base.get(name) != value]
            if needy := needing_steady_state(changed):
                reason = f"window too short to credit {', '.join(needy)}: it did not outlast the redo log"
                experiment.reject(arm.name, reason)


def _recover(
    experiment: Tune, runner: SlicedRunner | None, seconds: dict[str, float], unchecked: dict[str, str]
) -> None:
    """An arm that is too slow is rejected, and the next one measured."""
    while runner is not None and (proposed := experiment.result().proposed):
        base = experiment.result().base
        arms = [base, *(Arm(name=one.arm, settings={**base.settings, **one.settings}) for one in proposed)]
        known = seconds.keys() | unchecked.keys()
        due = next((arm for arm in arms if arm.name not in known), None)
        if due is None:
            return
        try:
            _note_recovery(runner, due, seconds, unchecked)
        except ServerError as error:
            text = f"did not start again after SIGKILL: {error.message}"
            if due.name == BASE:
                unchecked[BASE] = f"the base {text}"
            else:
                experiment.reject(due.name, f"it {text}")
            continue
        limit = RECOVERY_RATIO * seconds.get(BASE, math.inf) + RECOVERY_SLACK_S
        if seconds.get(due.name, 0.0) > limit:
            experiment.reject(
                due.name,
                f"recovery after SIGKILL took {seconds[due.name]:.1f} s, beyond {limit:.1f} s "
                f"({RECOVERY_RATIO:g} × the base's {seconds[BASE]:.1f} s + {RECOVERY_SLACK_S:g} s)",
            )


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


def _of_trials(trials: Sequence[Trial]) -> Iterator[Warning]:
    """Of the base's each kind once."""
    seen = {"window-too-short", "disturbed", _NO_EFFECT}
    for warning in (one for trial in confirming(results_of(trials, BASE)) for one in trial.warnings):
        if warning.slug not in seen:
            seen.add(warning.slug)
            yield msgspec.structs.replace(warning, text=f"{BASE}: {warning.text}")
    for trial in trials:
        if trial.stage == "confirm" and trial.arm.name != BASE:
            for one in trial.warnings:
                if one.slug == "nothing-committed":
                    yield Warning(one.slug, f"{trial.arm.name}: {one.text}")


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
