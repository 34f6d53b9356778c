"""What `flushlab series` does between flags and report: read the plan, bind it, carry it out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from flushlab.campaign import Budget
from flushlab.campaign.binding import ServerHere, base_settings, bind
from flushlab.campaign.facts import SeriesFacts
from flushlab.campaign.loop import Ending
from flushlab.campaign.places import Places, Spot
from flushlab.campaign.runners import ArmRunners, workload_of
from flushlab.campaign.series import BoundSeries
from flushlab.campaign.series_request import SeriesRequest
from flushlab.cli import campaigns
from flushlab.cli.campaigns import identity_of
from flushlab.cli.output import write_file
from flushlab.cli.place import Place, connection_arguments, parse_timing, say
from flushlab.datadir import Snapshots
from flushlab.errors import NotWritable, UsageError
from flushlab.machine import describe
from flushlab.plan.plan import Plan
from flushlab.plan.shipped import example, find_plan, read_plan
from flushlab.record import Launch
from flushlab.store import Store
from flushlab.trial import Preparation, TrialRunner
from flushlab.units import format_seconds
from flushlab.workload import build_workload, fingerprint, workload_options

DEFAULT_SERVER = "mariadb"
MAX_BLOCKS = 1_000
MAX_SCALE = 1e6

_ENDS_BY_ITSELF = ("sql:", "command:")
"""Workloads whose windows are as long as they take."""

_OVERHEAD_S = 5.0
"""Seconds of a trial outside its window, for the outlook at the start: restore, start, warm-up, stop."""


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags as they were given; see `flushlab series --help`."""

    blocks: int | None
    seconds: float | None
    scale: float
    basedir: Path | None
    data_root: Path | None
    disk_iops: int | None
    seed: int | None


def stored_request(store: Store, campaign_id: str) -> SeriesRequest:
    """The request of a campaign that goes on; see `campaigns.stored_request`."""
    return campaigns.stored_request(store, campaign_id, "series", SeriesRequest)


class Loaded(NamedTuple):
    """A plan, where it stands, and the folder that its files are relative to."""

    plan: Plan
    path: str
    folder: Path


def load_plan(name: str) -> Loaded:
    """A plan by its file, or by the name of a shipped one.

    Raises:
        UsageError: there is none, or it is no plan.
        StorageError: it cannot be read.
    """
    path = find_plan(name)
    return Loaded(read_plan(path), str(path), path.absolute().parent)


def write_starter(target: Path, *, force: bool) -> None:
    """Writes a commented plan to start from.

    Raises:
        UsageError: the file exists, and `force` was not given.
        NotWritable: it cannot be written.
    """
    if target.exists() and not force:
        raise UsageError(f"{target} exists", hint="give another name, or --force to overwrite it")
    if not target.absolute().parent.is_dir():
        raise NotWritable(f"there is no folder {target.absolute().parent}", hint="make it first")
    write_file(target, example().encode())


def check(flags: Flags) -> None:
    """Finds out what makes no sense before anything is started.

    Raises:
        UsageError: a figure out of range.
    """
    if flags.blocks is not None and not 2 <= flags.blocks <= MAX_BLOCKS:
        raise UsageError(
            f"--blocks {flags.blocks} is out of range",
            hint=f"it takes 2 to {MAX_BLOCKS}; intervals need two blocks, and five make good ones",
        )
    if flags.seconds is not None:
        parse_timing(flags.seconds)
    if not 0 < flags.scale <= MAX_SCALE:
        raise UsageError(
            f"--scale {flags.scale:g} is out of range", hint=f"it takes more than 0, up to {MAX_SCALE:g}"
        )


@contextmanager
def open_places(where: Place) -> Iterator[Places]:
    """The places of the arms, beside the base's."""
    with Places(Spot(where.data_root, where.disk_limit), say) as places:
        yield places


def decide(loaded: Loaded, flags: Flags, where: Place, places: Places) -> SeriesRequest:
    """Everything that must not change while the campaign runs.

    Raises:
        UsageError: the plan does not fit the workload, or the server refuses the base.
    """
    plan, build, catalog = loaded.plan, where.build, where.catalog
    launch = Launch(arguments=connection_arguments(_threads(plan)))
    identity = identity_of(build)
    base, _ = base_settings(plan, identity, catalog, path=loaded.path)
    values = campaigns.read_base(base, where, launch, also=_names(plan))
    here = ServerHere(identity=identity, catalog=catalog, values=values, launch=launch)
    bound = bind(plan, here, places, scale=flags.scale, folder=loaded.folder, path=loaded.path)
    workload = build_workload(plan.workload.name, bound.base.options, folder=loaded.folder)
    return SeriesRequest(
        build=build.name,
        build_id=build.id,
        basedir=str(flags.basedir) if flags.basedir else None,
        plan=plan.name,
        title=plan.title,
        plan_text=plan.source,
        folder=str(loaded.folder),
        workload=plan.workload.name,
        workload_digest=fingerprint(workload),
        base=bound.base,
        arms=bound.arms,
        claims=plan.claims,
        blocks=flags.blocks or plan.blocks,
        timing=parse_timing(flags.seconds or plan.seconds),
        best=plan.best,
        alternate=plan.alternate,
        scale=flags.scale,
        arguments=launch.arguments,
        data_root=str(flags.data_root) if flags.data_root else None,
        disk_iops=flags.disk_iops,
        seed=plan.seed if flags.seed is None else flags.seed,
        notes=bound.notes,
    )


def carry_out(
    request: SeriesRequest, where: Place, places: Places, store: Store, resumed: str | None
) -> SeriesFacts:
    """Runs the campaign and gathers its facts; see `campaigns.carry_out`."""
    series = BoundSeries(
        request=request,
        identity=identity_of(where.build),
        storage=where.data_root.storage,
        catalog=where.catalog,
    )
    experiment = series.experiment()

    def conclude(campaign_id: str, ending: Ending) -> SeriesFacts:
        machine = describe(where.data_root.path, where.disk_limit.record if where.disk_limit else None)
        return series.conclude(experiment, store.trials(campaign_id), ending, campaign_id, machine)

    with ArmRunners(series, experiment, _runner(series, where), places) as runners:
        runners.open()
        return campaigns.carry_out(
            request,
            where,
            store,
            resumed,
            about=_about(request),
            experiment=experiment,
            run_trial=runners.run,
            budget=Budget(),
            budget_s=None,
            conclude=conclude,
        )


def _about(request: SeriesRequest) -> str:
    arms, blocks = len(request.running), request.blocks
    if not arms:
        return f"{request.plan}: none of its arms can run here"
    words = f"{request.plan}: {arms} of {len(request.arms)} arms in {blocks} blocks"
    if request.workload.startswith(_ENDS_BY_ITSELF):
        return words
    trials = blocks * (arms + 2 + (3 if request.best else 0))
    return f"{words}, up to {format_seconds(trials * (request.timing.seconds + _OVERHEAD_S))}"


def _threads(plan: Plan) -> int:
    """The most connections that any arm makes."""
    known = workload_options(plan.workload.name).get("threads")
    counts = [plan.workload.options.get("threads"), *(arm.workload.get("threads") for arm in plan.arms)]
    counts.append(known.default if known else 1)
    return max(count for count in counts if isinstance(count, int))


def _names(plan: Plan) -> set[str]:
    """Every setting that the plan names."""
    names = {*plan.base, *(requirement.setting for requirement in plan.requires)}
    for arm in plan.arms:
        names |= {*arm.settings, *(name for settings in arm.instead for name in settings)}
    return names


def _runner(series: BoundSeries, where: Place) -> TrialRunner:
    request = series.request
    return TrialRunner(
        build=where.build,
        catalog=where.catalog,
        workloads=(workload_of(request, request.base),),
        timing=request.timing,
        preparation=Preparation(
            build=where.build,
            catalog=where.catalog,
            data_root=where.data_root,
            dataset=None,
            snapshots=Snapshots(),
            progress=say,
        ),
        data_root=where.data_root,
        disk_limit=where.disk_limit,
        arguments=request.arguments,
    )
