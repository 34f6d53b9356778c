"""Binding: a plan becomes what this server and this machine can run of it.

Sits in `campaign`. Nothing is measured here. An arm that cannot run has an outcome with its reason:

- the server's version lacks it;
- the machine has no place for it;
- a requirement of the plan is not met.

An error in the plan itself stops the command and names the place in the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from flushlab.campaign.arms import ArmOutcome, BoundArm, changes_of, judged
from flushlab.campaign.pool.room import Volumes, mismatch
from flushlab.campaign.pool.settings import why_not
from flushlab.datadir import Volume
from flushlab.errors import FlushlabError, UnknownSetting, UsageError, ValueOutOfRange
from flushlab.plan.plan import ArmPlan, Plan, Requirement
from flushlab.record import BASE, Launch, ServerIdentity, Storage, Value, Warning
from flushlab.settings.admission import kept_out, require_admitted
from flushlab.settings.catalog import canonical, load_catalog, version_of
from flushlab.settings.configuration import Configuration
from flushlab.settings.option_names import load_option_names
from flushlab.spec.parts import NAME, WorkloadSpec
from flushlab.units import value_words
from flushlab.workload.parse import build_workload, changed, event_of, fingerprint, workload_options
from flushlab.workload.protocol import Workload


@dataclass(frozen=True)
class ServerHere:
    """`has`: what arms have unless they change it; `shares`: the server is never restarted for them."""

    identity: ServerIdentity
    values: Mapping[str, Value]
    launch: Launch
    storage: Storage
    folder: Path
    has: Mapping[str, Value] = field(default_factory=dict)
    shares: bool = False
    options: Collection[str] = ()

    def has_no(self, name: str) -> str:
        there = name in self.values or name in self.options
        return "" if there else f"{self.identity.name} has no {name}"


class BoundPlan(NamedTuple):
    base: BoundArm
    arms: tuple[BoundArm, ...]
    notes: tuple[Warning, ...]


def base_settings(
    plan: Plan, identity: ServerIdentity, here: ServerHere | None = None
) -> tuple[dict[str, Value], tuple[Warning, ...]]:
    """Only a server knows what the catalog does not know at all: without `here`, that is passed over."""
    settings: dict[str, Value] = {}
    notes, catalog = list[Warning](), load_catalog()
    for name, value in _checked(plan.base, plan, "base.settings", identity).items():
        why = ""
        if name in catalog:
            try:
                known = catalog.require(name, identity.flavor, identity.version)
            except UnknownSetting as error:
                why = error.message
            else:
                with plan.placed(f"base.settings.{name}"):
                    parsed = known.parse(value)
                if not (why := known.unfit(value, identity.nodes)):
                    settings[known.name] = parsed
        elif here is not None and not (why := here.has_no(name) or kept_out(name, value)):
            settings[name] = value
        if why:
            notes.append(Warning("base-left-out", f"the base is measured without {name}={value}: {why}"))
    return settings, tuple(notes)


def bind(plan: Plan, here: ServerHere, volumes: Volumes, only: Collection[str] | None = None) -> BoundPlan:
    """`only`: others are not bound, but arms may build on them."""
    return _Binder(plan, here, volumes, only).bound()


@dataclass
class _Binder:
    """`_made`: arms with all that they build on; `_lacks`: names of arms that they build on, and this version
    has not; `_there`: workloads whose tables share a server."""

    _plan: Plan
    _here: ServerHere
    _volumes: Volumes
    _only: Collection[str] | None
    _notes: list[Warning] = field(default_factory=list)
    _made: dict[str, ArmPlan] = field(default_factory=dict)
    _lacks: dict[str, tuple[str, ...]] = field(default_factory=lambda: {BASE: ()})
    _there: dict[str, Workload] = field(default_factory=dict)

    def bound(self) -> BoundPlan:
        base = self._base()
        missing = self._missing_requirement()
        arms = [self._arm(arm, missing) for arm in self._plan.arms]
        return BoundPlan(base, tuple(arm for arm in arms if arm is not None), tuple(self._notes))

    def _base(self) -> BoundArm:
        plan, here = self._plan, self._here
        settings, notes = base_settings(plan, here.identity, here)
        self._notes += notes
        workload = self._workload(WorkloadSpec(name=plan.workload.name), plan.workload, "workload")
        self._there[BASE] = self._built(workload)
        known_as = "" if plan.base_name == BASE else plan.base_name
        text = ": ".join(filter(None, (known_as, plan.base_text)))
        made = self._made[BASE] = ArmPlan(name=BASE, text=text, settings=settings, workload=workload)
        return self._finished(made, None, "measured", "")

    def _arm(self, arm: ArmPlan, missing: tuple[ArmOutcome, str] | None) -> BoundArm | None:
        on = self._made[arm.on]
        back = {self._name(name) for name in arm.defaults}
        kept = {} if "*" in back else on.settings
        wanted = self._only is None or arm.name in self._only
        changes, reason = self._version_has(arm, note=wanted)
        below = None if arm.data_root else on  # another place has a file system of its own
        made = self._made[arm.name] = msgspec.structs.replace(
            arm,
            settings={name: value for name, value in kept.items() if name not in back} | changes,
            workload=self._workload(on.workload, arm.workload, f"{arm.place}.workload"),
            data_root=arm.data_root or on.data_root,
            file_system=arm.file_system or (below.file_system if below else None),
            record_size=arm.record_size or (below.record_size if below else None),
            disk=arm.disk or on.disk,
        )
        lacks = self._lacks[arm.on]
        self._lacks[arm.name] = (*lacks, arm.name) if reason else lacks
        if not wanted:
            return None
        outcome: ArmOutcome = "not_in_version" if reason else "measured"
        volume = None
        if missing is not None:
            outcome, reason = missing
        if not reason:
            volume, reason = self._volume(made)
            if not reason and self._here.shares:
                reason = self._not_in_slices(made)
            elif not reason and self._plan.alternate:
                reason = self._not_switchable(made)
            outcome = "skipped" if reason else "measured"
        if not reason and lacks:
            text = f"{arm.name} is measured without these arms, which this server lacks: "
            self._notes.append(Warning("builds-on-missing", text + ", ".join(lacks)))
        bound = self._finished(made, volume, outcome, reason)
        if outcome == "not_in_version" and missing is None:
            asked = {self._name(name): value for name, value in arm.settings.items()}
            bound = msgspec.structs.replace(bound, changes=asked)
        return bound

    def _name(self, name: str) -> str:
        catalog = load_catalog()
        return catalog.setting(name).name if name in catalog else canonical(name)

    def _version_has(self, arm: ArmPlan, *, note: bool) -> tuple[dict[str, Value], str]:
        why = ""
        for number, wanted in enumerate((arm.settings, *arm.instead)):
            key = f"{arm.place}.instead.{number - 1}" if number else f"{arm.place}.settings"
            settings, reason = self._typed(wanted, key)
            if not reason:
                if number and note:
                    words = ", ".join(f"{name}={value_words(value)}" for name, value in settings.items())
                    text = f"{arm.name}: {why}; measured instead: {words}"
                    self._notes.append(Warning("instead", text))
                return settings, ""
            why = why or reason
        return {}, why

    def _typed(self, settings: Mapping[str, Value], key: str) -> tuple[dict[str, Value], str]:
        here, catalog, typed = self._here, load_catalog(), dict[str, Value]()
        for name, value in _checked(settings, self._plan, key, here.identity).items():
            if name in catalog:
                known = catalog.here(name, here.identity.flavor, here.identity.version)
                if known is None:
                    return {}, f"{here.identity.name} has no {name} (it exists in {catalog.where(name)})"
                try:
                    typed[known.name] = known.parse(value)
                except ValueOutOfRange as error:
                    if _taken_somewhere(name, value):
                        return {}, error.message
                    with self._plan.placed(f"{key}.{name}"):
                        raise
                if why := known.unfit(value, here.identity.nodes):
                    return {}, why
            elif why := here.has_no(name):
                return {}, why
            elif why := kept_out(name, value):
                return {}, f"{name} is not allowed in sandboxes ({why})"
            else:
                typed[name] = value
        return typed, ""

    def _workload(self, on: WorkloadSpec, change: WorkloadSpec, key: str) -> WorkloadSpec:
        found = changed(on, change)
        try:
            self._built(found)
        except UsageError as error:
            named = next((name for name in change.options if name in error.message), NAME)
            at = self._plan.at(f"{key}.{named}") or self._plan.at(key)
            raise UsageError(f"{at}{error.message}", hint=error.hint) from error
        return found

    def _built(self, workload: WorkloadSpec) -> Workload:
        return build_workload(workload.name, workload.options, folder=self._plan.folder)

    def _missing_requirement(self) -> tuple[ArmOutcome, str] | None:
        values = {**self._here.values, **self._made[BASE].settings}
        server, absent, unmet = self._here.identity.name, list[str](), list[str]()
        for requirement in self._plan.requires:
            name = canonical(requirement.setting)
            why = f" ({requirement.why})" if requirement.why else ""
            if name not in values:
                absent.append(f"{name}, which {server} does not have{why}")
            elif wanted := self._violated(requirement, name, values[name]):
                unmet.append(f"{name} {wanted}, which is {values[name]} here{why}")
        if not absent and not unmet:
            return None
        return "not_in_version" if absent else "skipped", f"the plan needs {'; and '.join(absent + unmet)}"

    def _violated(self, requirement: Requirement, name: str, value: Value) -> str:
        configuration = Configuration({}, self._here.identity)

        def among(values: Iterable[Value]) -> bool:
            return any(configuration.same(name, one, value) for one in values)

        if requirement.values and not among(requirement.values):
            return "= " + " or ".join(map(str, requirement.values))
        if among(requirement.not_values):
            return "other than " + " and ".join(map(str, requirement.not_values))
        return ""

    def _volume(self, made: ArmPlan) -> tuple[Volume | None, str]:
        stays = self._plan.alternate or self._here.shares
        if stays and (made.data_root or made.disk):
            return None, "one running server cannot move to another place"
        try:
            volume = self._volumes.open(made.data_root, made.disk)
        except FlushlabError as error:
            return None, error.message
        storage, folder = self._here.storage, self._here.folder
        if volume is not None:
            storage, folder = volume.data_root.storage, volume.data_root.path
        return volume, mismatch(storage, folder, made.file_system, made.record_size)

    def _not_switchable(self, made: ArmPlan) -> str:
        for name in changes_of(self._made[BASE].settings, made.settings):
            known = Configuration({}, self._here.identity).here(name)
            if known is not None and not known.dynamic:
                return f"{name} cannot be changed while the server runs, and the plan alternates"
        if made.workload != self._made[BASE].workload:
            return "another workload may need other data, and the plan alternates on one server"
        return ""

    def _not_in_slices(self, made: ArmPlan) -> str:
        if why := why_not(made.settings, self._here.has, self._here.identity):
            return why
        own = self._built(made.workload)
        if whose := with_other_tables(own, self._there):
            whose = self._base_called if whose == BASE else whose
            return f"it needs other tables than {whose}, and the arms share theirs on your own server"
        if own.slice_s is None:
            return f"{own.name} cannot be paused between slices"
        self._there[made.name] = own
        return ""

    def _finished(self, made: ArmPlan, volume: Volume | None, outcome: ArmOutcome, reason: str) -> BoundArm:
        here, base, workload = self._here, self._made[BASE], self._built(made.workload)
        runs = outcome == "measured"
        differs = ""
        if runs and made.workload != base.workload:
            differs = self._other_event(made.name, workload, self._built(base.workload))
            self._notes += self._of_workload(made, differs, workload)
        arm = BoundArm(
            name=made.name,
            text=" ".join(made.text.split()),
            outcome=outcome,
            reason=reason,
            settings=made.settings,
            workload=made.workload,
            workload_digest=fingerprint(workload),
            other_event=differs,
            data_root=str(volume.below.path) if made.data_root and runs and volume else made.data_root,
            disk=made.disk,
        )
        reference = BoundArm(name=BASE, settings=base.settings, workload=base.workload)
        storage = volume.data_root.storage if volume else here.storage
        return judged(arm, reference, here.identity, storage, here.launch, here.has)

    @property
    def _base_called(self) -> str:
        return "the base" if self._plan.base_name == BASE else self._plan.base_name

    def _other_event(self, name: str, workload: Workload, base: Workload) -> str:
        own, other = event_of(workload), event_of(base)
        if not own.differs(other):
            return ""
        text = (
            f"{name} is measured in {own.words}, {self._base_called} in {other.words}: their ratio does not"
        )
        text += " compare the same work"
        if own.rows and other.rows and own.rows != other.rows:
            text += f"; per row, it is {own.rows / other.rows:.4g} times as large"
        return text

    def _of_workload(self, made: ArmPlan, differs: str, workload: Workload) -> Iterator[Warning]:
        base = self._made[BASE].workload
        if differs:
            yield Warning("other-unit", differs, arms=(made.name,), against=self._plan.base_name)
        if made.workload.name != base.name and workload.data_key != self._built(base).data_key:
            text = f"{made.name} runs on tables of its own, not on those of {self._base_called}"
            same = "; with the same setup_file both would share them"
            both = all(one.startswith("txn:") for one in (made.workload.name, base.name))
            yield Warning("other-data", text + (same if both else ""))


def with_other_tables(workload: Workload, others: Mapping[str, Workload]) -> str:
    """The first workload of the same kind with other tables: both cannot run on one server."""
    return next(
        (
            name
            for name, other in others.items()
            if type(workload) is type(other) and workload.data_key != other.data_key
        ),
        "",
    )


def _checked(
    settings: Mapping[str, Value], plan: Plan, key: str, identity: ServerIdentity
) -> dict[str, Value]:
    checked: dict[str, Value] = {}
    for name, value in settings.items():
        try:
            checked |= require_admitted({name: value})
        except UnknownSetting:
            near = load_option_names().near(canonical(name), identity.flavor, identity.version)
            if near is not None:
                message = f"{plan.at(f'{key}.{name}')}{name} is not a setting of {identity.name}"
                raise UsageError(message, hint=f"did you mean {near}?") from None
            checked[canonical(name)] = value
        except UsageError as error:
            raise UsageError(f"{plan.at(f'{key}.{name}')}{error.message}", hint=error.hint) from error
    return checked


def _taken_somewhere(name: str, value: Value) -> bool:
    catalog = load_catalog()
    there = (
        catalog.here(name, one.flavor, version_of(one.since or "5.7"))
        for one in catalog.setting(name).version
    )
    return any(here is not None and here.same(value, value) for here in there)


def workloads_of(plan: Plan) -> dict[str, WorkloadSpec]:
    """The workload of every arm by its name; the base's first."""
    found = {BASE: plan.workload}
    for arm in (ArmPlan(name=BASE, workload=plan.workload), *plan.arms):
        with plan.placed(f"{arm.place}.workload.{NAME}".removeprefix(".")):
            found[arm.name] = changed(found[arm.on], arm.workload)
            workload_options(found[arm.name].name)
    return found
