"""What `flushlab tune` does between flags and report: decide the request, carry it out, write files."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from flushlab.advice.tuned import tuned_files
from flushlab.campaign import Budget
from flushlab.campaign.facts import TuneFacts
from flushlab.campaign.loop import Ending
from flushlab.campaign.request import TuneRequest
from flushlab.campaign.tuning import FIRST_LOOK_MINUTES, Tuning
from flushlab.cli import campaigns
from flushlab.cli.campaigns import identity_of, read_base, require_folder
from flushlab.cli.output import emit_json, print_warning, write_file
from flushlab.cli.place import (
    Place,
    connection_arguments,
    parse_settings,
    parse_shape,
    parse_timing,
    say,
)
from flushlab.datadir import Snapshots
from flushlab.errors import UsageError
from flushlab.experiment.objective import Objective
from flushlab.experiment.protocol import Request
from flushlab.machine import available_memory_bytes, describe
from flushlab.record import Launch, Trial, Value
from flushlab.server.placement import PLACED
from flushlab.settings import optionfile
from flushlab.settings.candidates import lift, propose
from flushlab.settings.floor import Floor
from flushlab.store import Store
from flushlab.trial import Dataset, Preparation, TrialRunner
from flushlab.units import parse_size
from flushlab.workload import (
    Timing,
    Workload,
    fingerprint,
    parse_workload,
    settled_name,
    workload_options,
)

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
    ssl_mode: str | None
    ssl_ca: Path | None
    rand_type: str | None
    rows: int | None
    key: str | None
    hit_ratio: float | None
    commit: str | None
    options: Mapping[str, Value]
    basedir: Path | None
    data_root: Path | None
    disk_iops: int | None
    seed: int | None


def stored_request(store: Store, campaign_id: str) -> TuneRequest:
    """The request of a campaign that goes on; see `campaigns.stored_request`."""
    return campaigns.stored_request(store, campaign_id, "tune", TuneRequest)


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
        rows=flags.rows,
        key=flags.key,
        hit_ratio=flags.hit_ratio,
        commit=flags.commit,
        ssl_mode=flags.ssl_mode,
        ssl_ca=flags.ssl_ca,
        options=flags.options,
    )
    for count in threads:
        parse_workload(flags.workload, msgspec.structs.replace(shape, threads=count))
    taken = workload_options(flags.workload)
    if len(threads) > 1 and "threads" not in taken:
        raise UsageError(f"--threads names several counts, but {flags.workload} has no connections to count")
    if flags.rate and "rate" not in taken:
        raise UsageError(f"--rate {flags.rate:g}: {flags.workload} ends by itself and takes no rate")
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
        workload=settled_name(flags.workload),
        workload_digest=fingerprint(parse_workload(settled_name(flags.workload), shape)),
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


def carry_out(request: TuneRequest, where: Place, store: Store, resumed: str | None) -> TuneFacts:
    """Runs the campaign and gathers its facts; see `campaigns.carry_out`."""
    tuning = Tuning(
        request=request,
        identity=identity_of(where.build),
        storage=where.data_root.storage,
        launch=_launch(request),
    )
    experiment = tuning.experiment()
    runner = _runner(request, where)

    def run_trial(asked: Request) -> Trial:
        return runner.run(asked.arm, stage=asked.stage, block=asked.block, variant=asked.variant)

    def conclude(campaign_id: str, ending: Ending) -> TuneFacts:
        return tuning.conclude(
            experiment,
            store.trials(campaign_id),
            ending,
            campaign_id,
            describe(where.data_root.path, where.disk_limit.record if where.disk_limit else None),
            where.catalog,
            runner if ending != "interrupted" else None,
        )

    return campaigns.carry_out(
        request,
        where,
        store,
        resumed,
        about=f"{len(request.candidates)} candidates down to the floor {request.floor}",
        experiment=experiment,
        run_trial=run_trial,
        budget=Budget(seconds=request.budget_s and 1.2 * request.budget_s, trials=request.trials),
        budget_s=request.budget_s,
        conclude=conclude,
    )


def write_files(
    facts: TuneFacts, request: TuneRequest, where: Place, out: Path | None, store: Store
) -> TuneFacts:
    """Writes the result and its page, and the option file and the statements where something was found.

    Raises:
        NotWritable: the folder cannot be written.
    """
    from flushlab.cli.report import write_page
    from flushlab.report import tune as report

    folder = out or Path(f"flushlab-{facts.campaign_id}")
    require_folder(folder)
    files = [folder / "tune.json", folder / "report.html"]
    if facts.result.winner is not None:
        files += [folder / "my.cnf", folder / "settings.sql"]
        tuned = tuned_files(facts, request, where.data_root.storage, _launch(request))
        write_file(folder / "my.cnf", tuned.option_file.encode())
        write_file(folder / "settings.sql", tuned.statements.encode())
    facts = msgspec.structs.replace(facts, files=tuple(str(file) for file in files))
    emit_json(report.document(facts), str(folder / "tune.json"))
    write_page(store, facts.campaign_id, folder / "report.html")
    return facts


def _launch(request: TuneRequest) -> Launch:
    return Launch(arguments=connection_arguments(max(request.threads)))


def _runner(request: TuneRequest, where: Place) -> TrialRunner:
    workloads: tuple[Workload, ...] = tuple(
        parse_workload(request.workload, msgspec.structs.replace(request.shape, threads=count))
        for count in request.threads
    )
    if request.workload_digest and fingerprint(workloads[0]) != request.workload_digest:
        raise UsageError(
            f"the workload {request.workload} is not what it was when the campaign began",
            hint="put its file back, or start a new campaign: figures of two workloads are not comparable",
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
