"""`compare`: configurations against each other, interleaved.

Sits in `campaign`: a series whose arms are whole configurations, the first of which is its base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from flushlab.campaign.configurations import Configuration, Given, named_after, read, spelled
from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.objective import objective_of, require_comparable
from flushlab.campaign.pool.protocol import ServerPool
from flushlab.campaign.scheduling import ends_by_itself
from flushlab.campaign.series import SeriesAsked, run_plan
from flushlab.campaign.target import target_of
from flushlab.campaign.watcher import Watcher, watching
from flushlab.errors import UnknownSetting, UsageError, ValueOutOfRange
from flushlab.plan.plan import COMPARE, WINDOW_S, ArmPlan, Plan
from flushlab.progress import Progress, silent
from flushlab.record import BASE, Value
from flushlab.settings.admission import parse_settings
from flushlab.settings.catalog import canonical, load_catalog
from flushlab.settings.option_names import load_option_names
from flushlab.spec.build import build, require_workload, taking
from flushlab.spec.kinds import CompareSpec
from flushlab.spec.option import flag
from flushlab.spec.parts import SAME_WORKLOAD, RemoteAccess, StorageSpec, WorkloadSpec
from flushlab.workload import protocol
from flushlab.workload.parse import (
    MAX_SECONDS,
    MIN_SECONDS,
    all_options,
    parse_workload,
    settled,
    workload_options,
)

DEFAULT_BLOCKS = 5
DEFAULT_SECONDS = 60.0
OWN_LOAD_SECONDS = 300.0
PRECISE_BLOCKS = 20
PRECISE_SECONDS = 600.0
"""At most, where a precision is to be reached."""


@taking(CompareSpec, progress="Takes a line at a time.")
def compare(
    configurations: Sequence[str] | Mapping[str, Configuration] = (),
    *,
    progress: Progress | Watcher = silent,
    **given: Any,
) -> CampaignFacts:
    """Compares configurations: every block runs each of them once, and the first one twice, in random order.

    Configurations are words as they are typed, or by their names settings, option files and workloads. The
    campaign is stored; `resume` resumes an interrupted one. On a server of your own, configurations are
    settings that it takes while it runs, or workloads on the same tables, and `base` is how it is. `settings`
    apply to all configurations; a configuration's own value of the same setting has precedence.

    Returns:
        What was found: `arms` are the configurations but the first, each with a `comparison`: its `ratio`
        (`estimate`, `low`, `high`; above 1 is better), `verdict` and the `blocks` it ran in. `control` is
        the first against itself.

    Raises:
        UsageError: fewer than two configurations, or one that makes no sense.
        FlushlabError: what no record can hold; what was measured is safe.
    """
    watcher = watching(progress)
    spec = build(CompareSpec, given, all_options())
    target = target_of(spec, spec.workload)
    if spec.own_load:
        _require_alone(spec)
    others = spec.server.others
    if others and spec.server.basedir is not None:
        raise UsageError("--basedir is one server", hint="name it as --server PATH, or remove the others")
    if spec.run.resume is not None:
        if configurations:
            raise UsageError(
                "--resume takes no configurations", hint="the campaign has its own; give --resume alone"
            )
        return run_plan(SeriesAsked(spec=spec, target=target), watcher)
    under = Path(spec.base.base) if spec.base.base else None
    found = read(configurations, under, alone=bool(others))
    target.require_files(spec.base.memory, spec.data.dataset, *(one.file for one in found.values()))
    if any(not one.workload.name for one in found.values()):
        require_workload(spec, is_named=given.get("workload") is not None)
    workloads = _workloads(found, settled(spec.workload))
    _require_places(found, spec.remote)
    for workload in workloads.values():
        target_of(spec, workload)  # refuses options that do not go with it
    if spec.own_load:
        if named := next((name for name, one in found.items() if one.workload != SAME_WORKLOAD), ""):
            raise UsageError(
                f"{named!r} has a workload of its own, but --own-load adds none",
                hint="remove one of the two",
            )
        workloads = dict.fromkeys(found, WorkloadSpec(name=protocol.OWN_LOAD))
    if all(one.workload.name for one in found.values()):
        whole = WorkloadSpec(name=next(iter(workloads.values())).name, options=spec.workload.options)
        spec = msgspec.structs.replace(spec, workload=whole)
    require_comparable(workloads)
    precise = spec.precision is not None
    blocks = spec.blocks or (PRECISE_BLOCKS if precise else DEFAULT_BLOCKS)
    first = next(iter(workloads.values()))
    measured_s, window_s = _timing(
        first.name,
        spec.duration,
        PRECISE_SECONDS if precise else OWN_LOAD_SECONDS if spec.own_load else DEFAULT_SECONDS,
        blocks * (len(found) * (1 + len(others)) + 1),
    )
    base, *names = found

    def plan(pool: ServerPool) -> Plan:
        settings = _typed(found, spec, pool)
        return Plan(
            name=COMPARE,
            title=f"{', '.join(names)} against {base}",
            workload=first,
            base=settings[base],
            arms=tuple(_arm(name, settings[name], found[name], workloads[name], first) for name in names),
            base_name=base,
            blocks=blocks,
            window=window_s,
            seed=spec.seed,
            best=False,
            folder=Path.cwd(),
        )

    asked = SeriesAsked(
        spec=msgspec.structs.replace(
            spec, configurations=spelled(found, under), workload=settled(spec.workload)
        ),
        target=target,
        plan=plan,
        files={BASE if name == base else name: one.file for name, one in found.items()},
        objective="latency" if spec.own_load else objective_of(spec.objective, first.name, first.options),
        measured_s=measured_s,
    )
    kinds = [one.name for one in workloads.values()]
    return run_plan(asked.on_data(kinds, asked.files.values(), watcher.say), watcher)


def _require_alone(spec: CompareSpec) -> None:
    options = [flag(name) for name in spec.workload.options]
    if spec.workload.name != WorkloadSpec().name:
        options.insert(0, "--workload")
    if spec.remote.allow_writes:
        options.append("--allow-writes")
    if spec.objective is not None:
        options.append("--objective")
    if options:
        raise UsageError(
            f"--own-load and {options[0]} cannot be combined: flushlab adds no load",
            hint="remove one of the two",
        )


def _workloads(found: Mapping[str, Given], asked: WorkloadSpec) -> dict[str, WorkloadSpec]:
    names = {name: one.workload.name or asked.name for name, one in found.items()}
    taken = {name: workload_options(workload) for name, workload in names.items()}
    known = set[str]().union(*taken.values())
    if strange := {name: value for name, value in asked.options.items() if name not in known}:
        parse_workload(next(iter(names.values())), strange)
    return {
        name: WorkloadSpec(
            name=names[name],
            options={
                **{key: asked.options[key] for key in asked.options if key in taken[name]},
                **one.workload.options,
            },
        )
        for name, one in found.items()
    }


def _arm(
    name: str, settings: Mapping[str, Value], given: Given, workload: WorkloadSpec, base: WorkloadSpec
) -> ArmPlan:
    known = workload_options(workload.name)
    back = {option: known[option].default for option in base.options if option in known}
    return ArmPlan(
        name=name,
        settings=settings,
        defaults=("*",),
        workload=WorkloadSpec(name=workload.name, options={**back, **workload.options}),
        data_root=given.storage.data_root,
        disk=given.storage.disk,
    )


def _require_places(found: Mapping[str, Given], remote: RemoteAccess) -> None:
    first = next(iter(found.values()))
    for name, one in found.items():
        if one.storage == StorageSpec():
            continue
        if remote.named_by:
            raise UsageError(
                f"{name!r} has a place of its own, but your own server stays where it is", hint="remove it"
            )
        if one is first:
            raise UsageError(
                f"{name!r} is what the others are compared with, and runs where all run",
                hint="give its place beside the configurations, and the others places of their own",
            )


def _timing(workload: str, seconds: float | None, default_s: float, runs: int) -> tuple[float | None, float]:
    workload_options(workload)  # refuses a name that is no workload's
    if ends_by_itself(workload):
        if seconds is not None:
            kind = workload.partition(":")[0]
            raise UsageError(
                f"--duration means nothing to {kind}: it runs until it ends",
                hint="--blocks says how often each configuration runs it",
            )
        return None, WINDOW_S
    in_all = default_s if seconds is None else seconds
    if not runs * MIN_SECONDS <= in_all <= runs * MAX_SECONDS:
        hint = f"{runs} runs, those of the control included, need {runs * MIN_SECONDS:g} s at least"
        raise UsageError(f"--duration {in_all:g} is out of range", hint=hint)
    return in_all, in_all / runs


def _typed(found: Mapping[str, Given], spec: CompareSpec, pool: ServerPool) -> dict[str, dict[str, Value]]:
    typed = _where_it_exists if spec.server.others else _typed_here
    common = typed(spec.base.settings, pool)
    settings = {name: {**common, **typed(one.settings, pool)} for name, one in found.items()}
    _require_different(found, settings)
    return settings


def _require_different(found: Mapping[str, Given], settings: Mapping[str, Mapping[str, Value]]) -> None:
    names = list(found)
    for place, name in enumerate(names):
        for other in names[:place]:
            own, its = (found[one]._replace(settings=settings[one]) for one in (name, other))
            if own == its and named_after(name, found[name]):
                raise UsageError(
                    f"{name!r} means the same as {other!r}",
                    hint="give each configuration once, or a label of its own",
                )


def _typed_here(given: Mapping[str, Value], pool: ServerPool) -> dict[str, Value]:
    identity = pool.settings.identity
    settings = parse_settings(given, identity.flavor, identity.version)
    for name in settings:
        if (
            name not in load_catalog()
            and load_option_names().knows(name, identity.flavor, identity.version) is False
        ):
            near = load_option_names().near(name, identity.flavor, identity.version)
            raise UnknownSetting(
                f"{identity.name} has no {name}",
                hint=f"did you mean {near}?"
                if near
                else f"`flushlab settings {name}` says which versions do",
            )
    return settings


def _where_it_exists(given: Mapping[str, Value], pool: ServerPool) -> dict[str, Value]:
    try:
        return _typed_here(given, pool)
    except (UnknownSetting, ValueOutOfRange):
        names = {canonical(name) for name in given}
        if any(name not in load_catalog() for name in names):
            raise
        return {canonical(name): value for name, value in given.items()}
