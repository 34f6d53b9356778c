"""Binding: a plan becomes what this server and this machine can run of it.

Sits in `campaign`. Nothing is measured here. An arm that cannot run has an outcome with its reason:

- the server's version lacks it;
- the machine has no place for it;
- a requirement of the plan is not met.

An error in the plan itself stops the command and names the place in the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from flushlab.units import option_size
from flushlab.workload.parse import build_workload, changed, event_of, fingerprint, workload_options
from flushlab.workload.protocol import Workload

TABLE_SIZE = "table_size"


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


@dataclass
class _Made:
    settings: dict[str, Value]
    workload: WorkloadSpec
    data_root: str | None = None
    file_system: str | None = None
    record_size: int | None = None
    disk: str | None = None
    lacks: tuple[str, ...] = ()


def base_settings(
    plan: Plan, identity: ServerIdentity, *, path: str = ""
) -> tuple[dict[str, Value], tuple[Warning, ...]]:
    """Settings that the catalog does not know at all are left to `bind`, which can ask the server."""
    settings: dict[str, Value] = {}
    notes, catalog = [], load_catalog()
    for name, value in _checked(plan.base, plan, "base.settings", path, identity).items():
        if name not in catalog:
            continue
        try:
            here = catalog.require(name, identity.flavor, identity.version)
        except UnknownSetting as error:
            notes.append(_left_out(name, value, error.message))
            continue
        with placed(plan, path, f"base.settings.{name}"):
            settings[here.name] = here.parse(value)
        if why := here.unfit(value, identity.nodes):
            notes.append(_left_out(name, settings.pop(here.name), why))
    return settings, tuple(notes)


def bind(
    plan: Plan,
    here: ServerHere,
    volumes: Volumes,
    *,
    only: Collection[str] | None = None,
    scale: float = 1.0,
    folder: Path | None = None,
    path: str = "",
) -> BoundPlan:
    """`only`: others are not bound, but arms may build on them; `scale`: factor on the workload's
    table_size."""
    return _Binder(plan, here, volumes, only, scale, folder, path).bound()


@dataclass
class _Binder:
    _plan: Plan
    _here: ServerHere
    _volumes: Volumes
    _only: Collection[str] | None
    _scale: float
    _folder: Path | None
    _path: str
    _notes: list[Warning] = field(default_factory=list)
    _made: dict[str, _Made] = field(default_factory=dict)
    _there: dict[str, Workload] = field(default_factory=dict)

    def bound(self) -> BoundPlan:
        base = self._base()
        missing = self._missing_requirement()
        arms = [self._arm(key, arm, missing) for arm, key in with_keys(self._plan.arms)]
        return BoundPlan(base, tuple(arm for arm in arms if arm is not None), tuple(self._notes))

    def _base(self) -> BoundArm:
        plan, here = self._plan, self._here
        settings, notes = base_settings(plan, here.identity, path=self._path)
        self._notes += notes
        for name, value in _checked(plan.base, plan, "base.settings", self._path, here.identity).items():
            if name in load_catalog():
                continue
            if why := here.has_no(name) or kept_out(name, value):
                self._notes.append(_left_out(name, value, why))
            else:
                settings[name] = value
        workload = self._workload(WorkloadSpec(name=plan.workload.name), plan.workload, "workload")
        self._made[BASE] = _Made(settings, workload)
        self._there[BASE] = self._built(workload)
        known_as = "" if plan.base_name == BASE else plan.base_name
        text = ": ".join(filter(None, (known_as, plan.base_text)))
        return self._finished(BASE, text, self._made[BASE], None, "measured", "")

    def _arm(self, key: str, arm: ArmPlan, missing: tuple[ArmOutcome, str] | None) -> BoundArm | None:
        on = self._made[arm.on]
        back = {self._name(name) for name in arm.defaults}
        kept = {} if "*" in back else on.settings
        wanted = self._only is None or arm.name in self._only
        changes, reason = self._version_has(arm, key, note=wanted)
        below = None if arm.data_root else on  # another place has a file system of its own
        made = self._made[arm.name] = _Made(
            settings={name: value for name, value in kept.items() if name not in back} | changes,
            workload=self._workload(on.workload, arm.workload, f"{key}.workload"),
            data_root=arm.data_root or on.data_root,
            file_system=arm.file_system or (below.file_system if below else None),
            record_size=arm.record_size or (below.record_size if below else None),
            disk=arm.disk or on.disk,
            lacks=(*on.lacks, arm.name) if reason else on.lacks,
        )
        if not wanted:
            return None
        outcome: ArmOutcome = "not_in_version" if reason else "measured"
        volume = None
        if missing is not None:
            outcome, reason = missing
        if not reason:
            volume, reason = self._volume(made)
            if not reason and self._here.shares:
                reason = self._not_in_slices(arm.name, made)
            elif not reason and self._plan.alternate:
                reason = self._not_switchable(made)
            outcome = "skipped" if reason else "measured"
        if not reason and made.lacks:
            text = f"{arm.name} is measured without these arms, which this server lacks: "
            self._notes.append(Warning("builds-on-missing", text + ", ".join(made.lacks)))
        bound = self._finished(arm.name, arm.text, made, volume, outcome, reason)
        if outcome == "not_in_version" and missing is None:
            asked = {self._name(name): value for name, value in arm.settings.items()}
            bound = msgspec.structs.replace(bound, changes=asked)
        return bound

    def _name(self, name: str) -> str:
        catalog = load_catalog()
        return catalog.setting(name).name if name in catalog else canonical(name)

    def _version_has(self, arm: ArmPlan, key: str, *, note: bool) -> tuple[dict[str, Value], str]:
        why = ""
        for number, wanted in enumerate((arm.settings, *arm.instead)):
            part = f"{key}.settings" if number == 0 else f"{key}.instead.{number - 1}"
            settings, reason = self._typed(wanted, part)
            if not reason:
                if number and note:
                    text = f"{arm.name}: {why}; measured instead: {_spelled(settings)}"
                    self._notes.append(Warning("instead", text))
                return settings, ""
            why = why or reason
        return {}, why

    def _typed(self, settings: Mapping[str, Value], key: str) -> tuple[dict[str, Value], str]:
        here, catalog, typed = self._here, load_catalog(), dict[str, Value]()
        for name, value in _checked(settings, self._plan, key, self._path, here.identity).items():
            if name in catalog:
                known = catalog.here(name, here.identity.flavor, here.identity.version)
                if known is None:
                    versions = catalog.setting(name).version
                    where = "; ".join(
                        one.flavor
                        + (f" since {one.since}" if one.since else "")
                        + (f" before {one.until}" if one.until else "")
                        for one in versions
                    )
                    return {}, f"{here.identity.name} has no {name} (it exists in {where})"
                try:
                    typed[known.name] = known.parse(value)
                except ValueOutOfRange as error:
                    if _taken_somewhere(name, value):
                        return {}, error.message
                    with placed(self._plan, self._path, f"{key}.{name}"):
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
        if self._scale != 1 and (TABLE_SIZE in change.options or key == "workload"):
            known = workload_options(found.name)
            if TABLE_SIZE not in known:
                raise UsageError(
                    f"{found.name} has no {TABLE_SIZE} for --scale to multiply", hint="remove --scale"
                )
            size = found.options.get(TABLE_SIZE, known[TABLE_SIZE].default)
            if isinstance(size, int):
                scaled = {TABLE_SIZE: max(1, round(size * self._scale))}
                found = msgspec.structs.replace(found, options={**found.options, **scaled})
        try:
            self._built(found)
        except UsageError as error:
            named = next((name for name in change.options if name in error.message), NAME)
            at = place(self._plan, self._path, f"{key}.{named}") or place(self._plan, self._path, key)
            raise UsageError(f"{at}{error.message}", hint=error.hint) from error
        return found

    def _built(self, workload: WorkloadSpec) -> Workload:
        return build_workload(workload.name, workload.options, folder=self._folder)

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

    def _volume(self, made: _Made) -> tuple[Volume | None, str]:
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

    def _not_switchable(self, made: _Made) -> str:
        for name in changes_of(self._made[BASE].settings, made.settings):
            known = Configuration({}, self._here.identity).here(name)
            if known is not None and not known.dynamic:
                return f"{name} cannot be changed while the server runs, and the plan alternates"
        if made.workload != self._made[BASE].workload:
            return "another workload may need other data, and the plan alternates on one server"
        return ""

    def _not_in_slices(self, name: str, made: _Made) -> str:
        if why := why_not(made.settings, self._here.has, self._here.identity):
            return why
        own = self._built(made.workload)
        if whose := with_other_tables(own, self._there):
            whose = self._base_called if whose == BASE else whose
            return f"it needs other tables than {whose}, and the arms share theirs on your own server"
        if own.slice_s is None:
            return f"{own.name} cannot be paused between slices"
        self._there[name] = own
        return ""

    def _finished(
        self, name: str, text: str, made: _Made, volume: Volume | None, outcome: ArmOutcome, reason: str
    ) -> BoundArm:
        here, base, workload = self._here, self._made[BASE], self._built(made.workload)
        runs = outcome == "measured"
        differs = ""
        if runs and made is not base and made.workload != base.workload:
            differs = self._other_event(name, workload, self._built(base.workload))
            self._notes += self._of_workload(name, differs, workload, made)
        arm = BoundArm(
            name=name,
            text=" ".join(text.split()),
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

    def _of_workload(self, name: str, differs: str, workload: Workload, made: _Made) -> Iterator[Warning]:
        base = self._made[BASE].workload
        if differs:
            yield Warning("other-unit", differs, arms=(name,), against=self._plan.base_name)
        if made.workload.name != base.name and workload.data_key != self._built(base).data_key:
            text = f"{name} runs on tables of its own, not on those of {self._base_called}"
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
    settings: Mapping[str, Value], plan: Plan, key: str, path: str, identity: ServerIdentity
) -> dict[str, Value]:
    checked: dict[str, Value] = {}
    for name, value in settings.items():
        try:
            checked |= require_admitted({name: value})
        except UnknownSetting:
            near = load_option_names().near(canonical(name), identity.flavor, identity.version)
            if near is not None:
                at = place(plan, path, f"{key}.{name}")
                raise UsageError(
                    f"{at}{name} is not a setting of {identity.name}", hint=f"did you mean {near}?"
                ) from None
            checked[canonical(name)] = value
        except UsageError as error:
            raise UsageError(
                f"{place(plan, path, f'{key}.{name}')}{error.message}", hint=error.hint
            ) from error
    return checked


def _taken_somewhere(name: str, value: Value) -> bool:
    for one in load_catalog().setting(name).version:
        here = load_catalog().here(name, one.flavor, version_of(one.since or "5.7"))
        if here is not None and here.same(value, value):
            return True
    return False


def _left_out(name: str, value: Value, why: str) -> Warning:
    return Warning("base-left-out", f"the base is measured without {name}={value}: {why}")


def _spelled(settings: Mapping[str, Value]) -> str:
    def plain(value: Value) -> str:
        large = isinstance(value, int) and value >= 1 << 20 and value % (1 << 20) == 0
        return option_size(value) if large and isinstance(value, int) else str(value)

    return ", ".join(f"{name}={plain(value)}" for name, value in settings.items())


def with_keys(arms: Sequence[ArmPlan]) -> Iterator[tuple[ArmPlan, str]]:
    crossed = sum(1 for arm in arms if arm.place)  # they stand before the others
    for index, arm in enumerate(arms, -crossed):
        yield arm, arm.place or f"arm.{index}"


def workloads_of(plan: Plan, path: str = "") -> dict[str, WorkloadSpec]:
    """The workload of every arm by its name; the base's first."""
    found = {BASE: plan.workload}
    for arm, key in ((ArmPlan(name=BASE, workload=plan.workload), ""), *with_keys(plan.arms)):
        with placed(plan, path, f"{key}.workload.{NAME}".removeprefix(".")):
            found[arm.name] = changed(found[arm.on], arm.workload)
            workload_options(found[arm.name].name)
    return found


def names_of(workloads: Mapping[str, WorkloadSpec]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.name for one in workloads.values()))


@contextmanager
def placed(plan: Plan, path: str, key: str) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{place(plan, path, key)}{error.message}", hint=error.hint) from error


def place(plan: Plan, path: str, key: str) -> str:
    """`PATH:LINE:COL: ` of a key of the plan, or an empty string where it came from no file."""
    at = plan.positions.get(key)
    return f"{path}:{at[0]}:{at[1]}: " if at else ""
