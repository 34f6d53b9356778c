"""What `flushlab tune` does between flags and report: decide the request, carry it out, write files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import msgspec

from flushlab.advice.tuned import tuned_files
from flushlab.build.build import Build
from flushlab.campaign import Budget, run
from flushlab.campaign.facts import TuneFacts
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.tuning import FIRST_LOOK_MINUTES, Tuning
from flushlab.cli.output import emit_json, print_warning, write_file
from flushlab.cli.place import (
    Place,
    connection_arguments,
    parse_settings,
    parse_shape,
    parse_timing,
    refusal,
    say,
)
from flushlab.cli.progress import CampaignProgress
from flushlab.datadir import Snapshots
from flushlab.errors import FlushlabError, NotWritable, StartFailed, StorageError, UsageError
from flushlab.experiment.objective import Objective
from flushlab.experiment.protocol import Request
from flushlab.machine import available_memory_bytes, describe
from flushlab.record import Launch, ServerIdentity, Trial, Value
from flushlab.server import Sandbox
from flushlab.server.placement import PLACED
from flushlab.settings import optionfile
from flushlab.settings.candidates import lift, propose
from flushlab.settings.floor import Floor
from flushlab.store import State, Store
from flushlab.trial import Dataset, Preparation, TrialRunner
from flushlab.units import parse_size
from flushlab.workload import Timing, Workload, parse_workload

_FILES = ("_file", "_dir", "_error")
"""Options with these endings name files of the user's own server."""
DEFAULT_MINUTES = 10.0
FIRST_LOOK = Timing(warm_up_s=1.5, max_warm_up_s=4.0, seconds=4.0)
STEADY = Timing(warm_up_s=5.0, max_warm_up_s=30.0, seconds=20.0, max_seconds=180.0)


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags as they were given; see `flushlab tune --help`."""

    server: str
    workload: str
    floor: Floor
    minutes: float | None
    trials: int | None
    base: Path | None
    assignments: tuple[str, ...]
    keep: tuple[str, ...]
    dataset: Path | None
    threads: str
    memory: str | None
    objective: str
    p99_limit: float
    rate: float
    standalone: bool
    tables: int
    table_size: int
    seconds: float | None
    transport: str
    rand_type: str
    basedir: Path | None
    data_root: Path | None
    disk_iops: int | None
    seed: int | None


def stored_request(store: Store, campaign_id: str) -> TuneRequest:
    """The request of a campaign that goes on.

    Raises:
        UsageError: there is no such campaign.
        StorageError: its plan is of another version of flushlab.
    """
    row = store.campaign(campaign_id)
    try:
        return msgspec.json.decode(row.plan, type=TuneRequest)
    except msgspec.ValidationError as error:
        raise StorageError(
            f"campaign {campaign_id} was planned by another version of flushlab: {error}",
            hint="start a new campaign",
        ) from error


def decide(flags: Flags, where: Place) -> TuneRequest:
    """Everything that must not change while the campaign runs.

    Raises:
        UsageError and its kin: flags that make no sense, alone or together.
    """
    threads = _parse_threads(flags.threads)
    shape = parse_shape(
        threads=threads[0],
        tables=flags.tables,
        table_size=flags.table_size,
        transport=flags.transport,
        rand_type=flags.rand_type,
        rate=flags.rate,
    )
    for count in threads:
        parse_workload(flags.workload, msgspec.structs.replace(shape, threads=count))
    if flags.workload.startswith("command:") and len(threads) > 1:
        raise UsageError("--threads names several counts, but a command has no connections to count")
    minutes = DEFAULT_MINUTES if flags.minutes is None and flags.trials is None else flags.minutes
    if (minutes is not None and minutes <= 0) or (flags.trials is not None and flags.trials <= 0):
        raise UsageError("the budget is not above 0", hint="give --minutes or --trials")
    if not flags.p99_limit >= 1:
        raise UsageError(
            f"--p99-limit {flags.p99_limit:g} is below 1",
            hint="it is the most that a winner's p99 may be, as a multiple of the base's",
        )
    steady = minutes is not None and minutes >= FIRST_LOOK_MINUTES
    build, launch = where.build, Launch(arguments=connection_arguments(max(threads)))
    identity = identity_of(build)
    original = {
        **_base_settings(flags.base, where),
        **parse_settings(flags.assignments, build, where.catalog),
    }
    kept = [where.catalog.setting(name.replace("-", "_")).name for name in flags.keep]
    storage = where.data_root.storage
    changes, lifted = lift(
        original, flags.floor, identity=identity, storage=storage, launch=launch, keep=kept
    )
    base = {**original, **changes}
    seen = read_base(base, where, launch)
    memory = (
        available_memory_bytes()
        if flags.memory is None
        else min(parse_size(flags.memory), available_memory_bytes())
    )
    candidates = propose(
        where.catalog,
        identity,
        base={**base, **seen},
        floor=flags.floor,
        storage=storage,
        launch=launch,
        memory_bytes=memory,
        keep=kept,
        steady_state=steady,
    )
    timing = STEADY if steady else FIRST_LOOK
    if flags.seconds is not None:
        timing = msgspec.structs.replace(timing, seconds=parse_timing(flags.seconds).seconds)
    return TuneRequest(
        build=build.name,
        build_id=build.id,
        basedir=str(flags.basedir) if flags.basedir else None,
        workload=flags.workload,
        shape=shape,
        threads=threads,
        floor=flags.floor,
        minutes=minutes,
        trials=flags.trials,
        base=base,
        original=original,
        lifted=lifted,
        candidates=candidates,
        timing=timing,
        steady_state=steady,
        objective=_parse_objective(flags),
        p99_limit=flags.p99_limit,
        standalone=flags.standalone,
        dataset=str(flags.dataset) if flags.dataset else None,
        data_root=str(flags.data_root) if flags.data_root else None,
        disk_iops=flags.disk_iops,
        seed=flags.seed if flags.seed is not None else secrets.randbelow(1 << 31),
    )


def read_base(base: Mapping[str, Value], where: Place, launch: Launch) -> dict[str, Value]:
    """The catalogued settings as a server with this base has them, computed defaults included.

    Raises:
        UsageError: the server refuses the base.
    """
    say(f"reading {where.build.name}'s settings back")
    known = where.catalog.names(where.build.flavor, where.build.version)
    try:
        with Sandbox.start(
            where.build, settings=base, arguments=launch.arguments, data_root=where.data_root, progress=say
        ) as server:
            return server.read_back(known)
    except StartFailed as error:
        if error.refusal is None:
            raise
        raise refusal(error.refusal, base, where.catalog, where.build) from error


def carry_out(request: TuneRequest, where: Place, store: Store, resumed: str | None) -> TuneFacts:
    """Runs the campaign and gathers its facts; the store knows how it ended whatever happens.

    Raises:
        FlushlabError: what no record can hold; what was measured is safe.
    """
    if request.build_id != where.build.id:
        raise UsageError(
            f"the campaign ran on {request.build_id}, but {request.build} is now {where.build.id}",
            hint="start a new campaign: figures of two binaries are not comparable",
        )
    tuning = Tuning(
        request=request,
        identity=identity_of(where.build),
        storage=where.data_root.storage,
        launch=_launch(request),
    )
    experiment = tuning.experiment()
    runner = _runner(request, where)
    campaign_id = resumed or _new_id()
    if resumed is None:
        store.create_campaign(campaign_id, request.kind, msgspec.json.encode(request))
    say(f"campaign {campaign_id}: {len(request.candidates)} candidates down to the floor {request.floor}")

    def run_trial(asked: Request) -> Trial:
        return runner.run(asked.arm, stage=asked.stage, block=asked.block, variant=asked.variant)

    try:
        store.set_state(campaign_id, "running")
        with CampaignProgress(request.budget_s) as progress:
            ending = run(
                experiment,
                run_trial,
                store=store,
                campaign_id=campaign_id,
                budget=Budget(seconds=request.budget_s and 1.2 * request.budget_s, trials=request.trials),
                watcher=progress,
            )
        machine = describe(where.data_root.path, where.disk_limit.record if where.disk_limit else None)
        facts = tuning.conclude(
            experiment,
            store.trials(campaign_id),
            ending,
            campaign_id,
            machine,
            where.catalog,
            runner if ending != "interrupted" else None,
        )
    except (FlushlabError, KeyboardInterrupt) as error:
        store.set_state(campaign_id, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        if store.campaign(campaign_id).trials:
            print_warning(f"go on with: flushlab tune --resume {campaign_id}")
        raise
    state: State = "interrupted" if ending == "interrupted" else "done"
    store.set_state(campaign_id, state, msgspec.json.encode(facts))
    return facts


def require_folder(out: Path | None) -> None:
    """Makes the folder that the files go to, before anything is measured; None: the present one.

    Raises:
        NotWritable: it cannot be made, or not be written to.
    """
    folder = out or Path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotWritable(
            f"{folder} cannot be made: {error.strerror}", hint="name another with --out"
        ) from error
    if not os.access(folder, os.W_OK):
        raise NotWritable(f"{folder.absolute()} is not writable", hint="name another with --out")


def write_files(facts: TuneFacts, request: TuneRequest, where: Place, out: Path | None) -> TuneFacts:
    """Writes the option file, the statements and the result where something was found.

    Raises:
        NotWritable: the folder cannot be written.
    """
    from flushlab.report import tune as report

    folder = out or Path(f"flushlab-{facts.campaign_id}")
    require_folder(folder)
    files = [folder / "tune.json"]
    if facts.result.winner is not None:
        files += [folder / "my.cnf", folder / "settings.sql"]
        tuned = tuned_files(facts, request, where.data_root.storage, _launch(request))
        write_file(folder / "my.cnf", tuned.option_file.encode())
        write_file(folder / "settings.sql", tuned.statements.encode())
    facts = msgspec.structs.replace(facts, files=tuple(str(file) for file in files))
    emit_json(report.document(facts), str(folder / "tune.json"))
    return facts


def identity_of(build: Build) -> ServerIdentity:
    """Which server a build will be."""
    return ServerIdentity(
        flavor=build.flavor, version=build.version, version_text=build.version_text, build_id=build.id
    )


def _launch(request: TuneRequest) -> Launch:
    return Launch(arguments=connection_arguments(max(request.threads)))


def _runner(request: TuneRequest, where: Place) -> TrialRunner:
    workloads: tuple[Workload, ...] = tuple(
        parse_workload(request.workload, msgspec.structs.replace(request.shape, threads=count))
        for count in request.threads
    )
    preparation = Preparation(
        build=where.build,
        catalog=where.catalog,
        data_root=where.data_root,
        dataset=Dataset.open(Path(request.dataset), where.build) if request.dataset else None,
        snapshots=Snapshots(),
        progress=say,
    )
    return TrialRunner(
        build=where.build,
        catalog=where.catalog,
        workloads=workloads,
        timing=request.timing,
        preparation=preparation,
        data_root=where.data_root,
        disk_limit=where.disk_limit,
        outlast_redo=request.steady_state,
        arguments=connection_arguments(max(request.threads)),
    )


def _base_settings(path: Path | None, where: Place) -> dict[str, Value]:
    """Settings of the user's option file; those that place a server are flushlab's to choose."""
    if path is None:
        return {}
    try:
        text = path.read_text()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", hint="--base takes an option file"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a text file", hint="--base takes an option file") from error
    identity = identity_of(where.build)
    file = optionfile.parse(text, identity, where.catalog, path=str(path), loader=_included(path))
    found = optionfile.typed(file, identity, where.catalog)
    ours = sorted(name for name in found.others if name in PLACED or name.endswith(_FILES))
    if ours:
        print_warning(f"{path}: {', '.join(ours)} say where a server is, not how it works: left out")
    return {**found.settings, **{name: text for name, text in found.others.items() if name not in ours}}


def _included(path: Path) -> optionfile.Loader:
    """Reads what an option file includes, relative to it."""

    def load(target: str, is_directory: bool) -> list[tuple[str, str]]:
        place = path.parent / target
        try:
            files = sorted(place.glob("*.cnf")) if is_directory else [place]
            return [(str(file), file.read_text()) for file in files]
        except OSError as error:
            raise UsageError(f"{place}, included by {path}, cannot be read: {error.strerror}") from error

    return load


def _parse_threads(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"--threads {text!r} is not a list of numbers", hint="for example --threads 1,16,64"
        ) from None
    if len(set(counts)) != len(counts):
        raise UsageError(f"--threads {text} names a count twice")
    return counts


def _parse_objective(flags: Flags) -> Objective:
    if flags.objective not in ("throughput", "p99"):
        raise UsageError(f"--objective {flags.objective!r} is not known", hint="it takes throughput or p99")
    if flags.objective == "p99" and flags.rate <= 0:
        raise UsageError(
            "--objective p99 needs --rate: without a fixed rate the fastest arm is also the most loaded",
            hint="give the transactions/s that your service sees, like --rate 2000",
        )
    if flags.objective == "throughput" and flags.rate > 0:
        raise UsageError(
            "--rate fixes the throughput, so it cannot be the objective", hint="use --objective p99 with it"
        )
    return cast(Objective, flags.objective)


def _new_id() -> str:
    return f"tune-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
