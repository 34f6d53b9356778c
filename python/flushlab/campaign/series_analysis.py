"""What a series found: arms, `best` and claims, beyond what `analysis` has of every campaign.

    conclude: what became of every arm, claims answered, its warnings -> `analysis` -> CampaignFacts

`best` is composed here, because only here is known which arms are settings and which are places; the
experiment decides when it runs and what its results count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from flushlab.campaign.analysis import (
    Analysis,
    demand_of,
    needing_steady_state,
    observed_of,
    results_of,
    short_windows,
    workload_words,
)
from flushlab.campaign.arms import ArmOutcome, BoundArm, judged
from flushlab.campaign.claims import answers
from flushlab.campaign.facts import ArmResult, CampaignFacts, CampaignRun, PlanFacts
from flushlab.campaign.request import SeriesRequest
from flushlab.campaign.scheduling import ends_by_itself, trial_s_of
from flushlab.campaign.several_servers import differing, on_server
from flushlab.experiment.series import RoundGroup, Series, SeriesPlan, SeriesResult
from flushlab.record import BASE, BEST, CONTROL, Arm, Trial, Value, Warning
from flushlab.settings.configuration import NO_BINLOG, Configuration
from flushlab.spec.kinds import SeriesSpec
from flushlab.spec.parts import as_change
from flushlab.units import counted, format_size
from flushlab.workload.parse import changed

DEBT_BYTES, DEBT_FACTOR = 4096, 1.5
"""A warning reports an arm's debts from these bytes per event and this factor between arm and base on."""
BEST_TEXT = "all that proved faster, together"


class SeriesAnalysis(Analysis[SeriesRequest, Series]):
    def experiment(self) -> Series:
        request = self.request

        def compose(names: tuple[str, ...]) -> Arm | None:
            parts = self._composable(names)
            return Arm(name=BEST, settings=self.best(names).settings) if parts else None

        known = not ends_by_itself(request.workload)
        return Series(
            SeriesPlan(
                base=Arm(name=BASE, settings=request.base.settings),
                arms=tuple(Arm(name=arm.name, settings=arm.settings) for arm in request.running),
                blocks=request.blocks,
                groups=tuple(
                    RoundGroup(
                        arms=one.arms, blocks=one.blocks, trial_s=trial_s_of(request, one) if known else None
                    )
                    for one in request.groups
                ),
                compose=compose if request.best else None,
                objective=request.objective,
                interim=request.interim,
                precision=request.spec.precision,
                against={arm.name: arm.against for arm in request.running if arm.against},
                pairs=tuple(
                    (claim.arm, claim.against)
                    for claim in request.claims
                    if BASE not in (claim.arm, claim.against) and not claim.quantity
                ),
                crossed=request.crossed,
                seed=request.seed,
            )
        )

    def arm(self, name: str, best_of: Sequence[str] = ()) -> BoundArm:
        if name in (BASE, CONTROL):
            return self.request.base
        if name == BEST:
            return self.best(best_of)
        return next(arm for arm in self.request.arms if arm.name == name)

    def best(self, names: Iterable[str]) -> BoundArm:
        """The last arm has the last word on a setting; places are left out."""
        base = self.request.base
        settings, workload = dict(base.settings), base.workload
        for arm in self._composable(names):
            for name, value in arm.effective.items():
                if value is None:
                    settings.pop(name, None)
                else:
                    settings[name] = value
            workload = changed(workload, as_change(arm.workload_changes))
        best = BoundArm(name=BEST, text=BEST_TEXT, settings=settings, workload=workload)
        request = self.request
        return judged(best, base, self.identity, self.storage, request.launch, request.has)

    def conclude(self, experiment: Series, trials: Iterable[Trial], run: CampaignRun) -> CampaignFacts:
        request, trials, result = self.request, list(trials), experiment.result()
        base = results_of(trials, BASE)
        lengths = [round(one.seconds, 2) for trial in base for one in trial.slices if not one.dropped]
        arms = [self._facts(arm, result, trials, run.ending) for arm in request.arms]
        if request.best and result.best is None:
            reason = self._no_best(result, run.ending)
            arms.append(ArmResult(name=BEST, text=BEST_TEXT, outcome="skipped", reason=reason))
        elif request.best:
            best = self._facts(self.best(result.best_of), result, trials, run.ending)
            composed_of = tuple(arm.name for arm in self._composable(result.best_of))
            arms.append(msgspec.structs.replace(best, composed_of=composed_of))
        against = {arm.name: arm.against or request.base_name for arm in request.running}
        return self.gathered(
            result,
            trials,
            run,
            title=request.title,
            workload=workload_words(request.base.workload),
            floor=request.floor or "",
            arms=tuple(arms),
            warnings=(
                *self._of_ending(result, run.ending),
                *self._conflicts(result),
                *self._same_as_base(trials),
                *self._short_windows(result, trials),
                *self._debts(trials),
                *self._of_trials(trials),
                *self.caveats(result, trials, arms, against),
            ),
            demand=demand_of(arms) if request.objective == "latency" else "",
            plan=PlanFacts(
                name=request.plan,
                blocks=sum(group.blocks for group in request.groups),
                window_s=request.groups[0].seconds,
                rounds=len(lengths) or None,
                slice_s=(min(lengths), max(lengths)) if lengths else None,
                scale=request.spec.scale if isinstance(request.spec, SeriesSpec) else 1.0,
                alternate=request.alternate,
                precision=request.spec.precision,
                claims=answers(request.claims, result, trials),
                factors=request.factors,
                effects=result.effects,
            ),
        )

    @property
    def bases(self) -> Mapping[str, BoundArm]:
        further = {arm.name: arm for arm in self.request.running if arm.build and not arm.against}
        return {BASE: self.request.base, **further}

    def on_server(self, warning: Warning, base: str = BASE) -> Warning:
        if len(self.request.servers) < 2:
            return warning
        servers = dict(zip(self.bases, self.request.servers, strict=False))
        return on_server(warning, servers[base], self.request.base_name if base == BASE else base)

    def _base_of(self, arm: BoundArm) -> str:
        """In a sentence."""
        base = arm.against or self.request.base_name
        return "the base" if base == BASE else base

    @property
    def _why_fresh(self) -> dict[str, str]:
        return {name: why for group in self.request.groups for name, why in group.why.items()}

    def _composable(self, names: Iterable[str]) -> list[BoundArm]:
        floor = self.request.floor or self.request.base.floor
        return [
            arm
            for arm in map(self.arm, names)
            if arm.composable and not arm.changes_nothing and not arm.is_below(floor)
        ]

    def _facts(self, arm: BoundArm, result: SeriesResult, trials: list[Trial], ending: str) -> ArmResult:
        own = [trial for trial in trials if trial.arm.name == arm.name]
        outcome, reason = _outcome(arm, result, own, ending)
        figures = [trial for trial in own if trial.result is not None]
        read_back = figures[-1].settings if figures else {}
        base = next((t.settings for t in trials if t.arm.name == (arm.against or BASE) and t.settings), {})
        asked = {name: value for name, value in arm.changes.items() if value is not None}
        reported = Configuration(asked, self.identity, read_back).as_reported()
        defaults = Configuration({}, self.identity, read_back)
        measured, differs = outcome == "measured", ""
        if arm.build and not arm.against and base and read_back:
            differs = differing(base, read_back, {*self.request.base.settings, *arm.settings})
        text = "" if differs and arm.name.endswith(arm.text) else arm.text
        return self.measured(
            arm,
            figures if measured else [],
            result,
            text="; ".join(filter(None, (text, differs and f"by default {differs}"))),
            outcome=outcome,
            reason=reason,
            why_fresh=self._why_fresh.get(arm.name, "") if self.request.kept_running else "",
            changes={
                name: reported.get(name, "default" if (now := defaults.value(name)) is None else now)
                for name in arm.changes
                # The base may have reported the same value without having been asked.
                if not (name in base and name in read_back and base[name] == read_back[name])
            },
            unit=figures[-1].unit if figures and arm.other_event else "",
            observed=observed_of(figures),
            server=next((trial.server for trial in own if trial.server), arm.server) if arm.build else None,
            same_as=self._same_as(arm, _read_back(trials)),
        )

    def _no_best(self, result: SeriesResult, ending: str) -> str:
        if not self.request.running:
            return "no arm could be measured"
        if not result.finished:
            return "stopped before its turn" if ending == "interrupted" else ending
        if BASE in result.out:
            return "the base could no longer be measured"
        faster = [self.arm(name) for name, one in result.comparisons.items() if one.verdict == "faster"]
        below = [arm.name for arm in faster if arm.composable]
        if below:
            floor = self.request.floor or self.request.base.floor
            return f"only arms below the floor {floor} proved faster: {', '.join(below)}"
        if faster:
            names = ", ".join(arm.name for arm in faster)
            what = "a place" if all(arm.is_place for arm in faster) else "a place or other work"
            return f"what proved faster is {what}, not a setting: {names}"
        return "no arm proved faster"

    def _of_ending(self, result: SeriesResult, ending: str) -> Iterator[Warning]:
        if ending == "interrupted" and result.comparisons:
            planned = counted(sum(group.blocks for group in self.request.groups), "block")
            text = f"stopped after {result.blocks} of {planned}. Valid only if you"
            yield Warning("interrupted", f"{text} did not stop because you liked the results.")
        if BASE in result.out:
            outcome, reason = result.out[BASE]
            text = f"the base {outcome} in block {result.blocks}: {reason}"
            yield self.on_server(Warning("base-failed", text))
        if CONTROL in result.out:
            outcome, reason = result.out[CONTROL]
            text = f"the control {outcome}, so nothing checks the blocks: {reason}"
            yield self.on_server(Warning("control-failed", text))

    def _conflicts(self, result: SeriesResult) -> Iterator[Warning]:
        if result.best is None:
            return
        asked: dict[str, list[tuple[str, Value | None]]] = {}
        for arm in self._composable(result.best_of):
            for name, value in {**arm.changes, **arm.workload_changes}.items():
                asked.setdefault(name, []).append((arm.name, value))
        for name, values in asked.items():
            if len({value for _, value in values}) > 1:
                arms = ", ".join(arm for arm, _ in values)
                text = f"{arms} change {name} differently; best takes it from the fastest, {values[-1][0]}"
                yield Warning("best-conflict", text, arms=(BEST,))

    def _same_as_base(self, trials: Iterable[Trial]) -> Iterator[Warning]:
        last = _read_back(trials)
        for arm in self.request.running:
            is_base = bool(arm.build) and not arm.against
            ran = {arm.name, arm.against or BASE} <= last.keys()
            if not ran or arm.workload_changes or is_base or not arm.composable:
                continue
            reference, but = last[arm.against or BASE], ""
            if arm.no_effect:
                but = f", but for what has {NO_BINLOG} ({', '.join(arm.no_effect)})"
            same = f"{arm.name} reads back the same as"
            got = {name: value for name, value in last[arm.name].items() if name not in arm.no_effect}
            if all(reference.get(name) == value for name, value in got.items()):
                text = f"{same} {self._base_of(arm)}{but}: its ratio is only noise"
                yield Warning("same-as-base", text, arms=(arm.name,))
            elif twin := self._same_as(arm, last):
                text = f"{same} {twin}{but}: their difference is only noise"
                yield Warning("same-as-another", text, arms=(arm.name, twin))

    def _same_as(self, arm: BoundArm, last: Mapping[str, Mapping[str, Value]]) -> str:
        def seen(one: BoundArm, other: BoundArm) -> dict[str, Value]:
            out = {*one.no_effect, *other.no_effect}
            return {name: value for name, value in last[one.name].items() if name not in out}

        alike = [
            other
            for other in self.request.running
            if (other.build, other.against) == (arm.build, arm.against)
            and not other.workload_changes
            and other.composable
            and {other.name, arm.name} <= last.keys()
            and seen(other, arm) == seen(arm, other)
        ]
        least = min(alike, key=lambda other: len(other.changes), default=arm)
        return least.name if arm in alike and least is not arm else ""

    def _debts(self, trials: list[Trial]) -> Iterator[Warning]:
        """An arm that writes more than the base after its slices is favoured."""
        again = _left_bytes([trial for trial in trials if trial.arm.name == CONTROL])
        for arm in self.request.running:
            reference = _left_bytes([t for t in trials if t.arm.name == (arm.against or BASE)])
            same = reference if arm.against else again
            least, most = min(reference, same), max(reference, same)
            own = [trial for trial in trials if trial.arm.name == arm.name and trial.slices]
            left = _left_bytes(own)
            if own and max(left, least) > DEBT_BYTES and not least / DEBT_FACTOR < left < most * DEBT_FACTOR:
                base = self._base_of(arm)
                text = (
                    f"after its slices, {arm.name} still wrote {format_size(round(left))} per transaction,"
                    f" {base} {format_size(round(reference))}. The ratio leaves these writes out, which"
                    f" favours {arm.name if left > reference else base}; --fresh includes them"
                )
                against = arm.against or self.request.base_name
                yield Warning("debts", text, arms=(arm.name,), against=against)

    def _of_trials(self, trials: list[Trial]) -> Iterator[Warning]:
        """Its arms are those with the caveat, first the one whose numbers are quoted; none if all have the
        same."""
        found: dict[tuple[str, str], dict[str, list[Warning]]] = {}
        measured = set[str]()
        for trial in trials:
            name = self.request.base_name if trial.arm.name == BASE else trial.arm.name
            measured.add(name)
            for warning in trial.warnings:
                if warning.slug != "window-too-short":
                    without_numbers = re.sub(r"[0-9.,]+", "", warning.text)
                    kind = found.setdefault((warning.slug, without_numbers), {})
                    kind.setdefault(name, []).append(warning)
        for of in found.values():
            warning, same = next(iter(of.values()))[0], len({one for own in of.values() for one in own}) == 1
            if warning.slug == "disturbed" or (same and measured == of.keys()):
                yield warning
                continue
            for first, *further in self._by_server(of):
                warning = of[first][0]
                text = f"{', '.join((first, *further)) if same else first}: {warning.text}"
                if further and not same:
                    text = f"{text.removesuffix('.')}; likewise {', '.join(further)}"
                yield msgspec.structs.replace(warning, text=text, arms=(first, *further))

    def _by_server(self, arms: Iterable[str]) -> Iterable[list[str]]:
        build_of = {arm.name: arm.build for arm in self.request.arms}
        found: dict[str, list[str]] = {}
        for name in arms:
            found.setdefault(build_of.get(name, ""), []).append(name)
        return found.values()

    def _short_windows(self, result: SeriesResult, trials: Sequence[Trial]) -> Iterator[Warning]:
        short, best = short_windows(trials), [self.best(result.best_of)] if result.best is not None else []
        needy = {
            arm.name: names
            for arm in (*self.request.running, *best)
            if arm.name in short and (names := needing_steady_state(arm.changes))
        }
        for arms in self._by_server(needy):
            text = "; ".join(f"{arm} ({', '.join(needy[arm])})" for arm in arms)
            by_window = all(trial.higher_is_better for trial in trials)  # what is timed ends by itself
            yield Warning(
                "window-too-short",
                "windows did not outlast the redo log, so these ratios may show work that was postponed, "
                f"not saved: {text}" + ("; measure longer, with --window or --duration" if by_window else ""),
                arms=tuple(arms),
            )


def _read_back(trials: Iterable[Trial]) -> dict[str, Mapping[str, Value]]:
    return {trial.arm.name: trial.settings for trial in trials if trial.result is not None}


def _left_bytes(trials: list[Trial]) -> float:
    events = sum(one.events for trial in trials for one in trial.slices)
    return sum(trial.later_bytes or 0 for trial in trials) / events if events else 0.0


def _outcome(
    arm: BoundArm, result: SeriesResult, own: Sequence[Trial], ending: str
) -> tuple[ArmOutcome, str]:
    if arm.outcome != "measured":
        return arm.outcome, arm.reason
    if arm.name in result.out:
        outcome, reason = result.out[arm.name]
        if outcome == "failed":
            return "failed", reason
        return "refused", reason if outcome == "refused" else f"{outcome}: {reason}"
    if not own:
        stopped = "stopped" if ending == "interrupted" else "the base failed"
        return "skipped", f"{stopped} before its turn"
    became, why = result.out.get(arm.against, ("", ""))
    return "measured", f"{arm.against}, its base, {became}: {why}" if became else ""
