"""`crash`: takes what was asked for, refuses what makes no sense, and runs, resumes or replays it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec

from flushlab.build import list_builds
from flushlab.campaign.configurations import Configuration, require_settings, spelled
from flushlab.campaign.configurations import read as read_configurations
from flushlab.campaign.crash.experiment import (
    CrashExperiment,
    CrashRequest,
    arms_of,
    facts_of,
    facts_of_campaign,
    require_disk,
    require_sensible,
)
from flushlab.campaign.crash.plan import ACKED_INSERTS, CrashPlan, asked_load, load_of
from flushlab.campaign.crash.runner import CrashRunner, crash_on_machine, require_build
from flushlab.campaign.loop import Budget, CampaignSession, Ending, Run, run, run_campaign, stored_request
from flushlab.campaign.pool.settings import texts_of
from flushlab.campaign.pool.work import Work, root_for
from flushlab.campaign.target import (
    NamedFleet,
    NewServers,
    began_on_one_machine,
    fleet_unless,
    named_fleet,
    open_servers,
)
from flushlab.campaign.watcher import Watcher, watching
from flushlab.crashed.recording import Fault, RecordedRun
from flushlab.errors import StorageError, UsageError
from flushlab.experiment.protocol import Request
from flushlab.process.running import publish_status
from flushlab.progress import Progress, silent
from flushlab.record import BASE, CrashArm, CrashFacts, CrashPoint, CrashRow, PointKind, Value, Warning
from flushlab.spec import fields
from flushlab.spec.build import build, stored, taking
from flushlab.spec.kinds import CrashSpec
from flushlab.store import Store, new_id, open_store
from flushlab.units import counted
from flushlab.workload.parse import all_options, settled

POINT_KINDS: Mapping[str, PointKind] = {
    "": "random",
    "recovery": "in_recovery",
    **{kind: kind for kind in get_args(PointKind) if kind not in ("random", "in_recovery")},
}
"""What may be behind a line, with a colon."""
_SEEDS = 1 << 64
_HINT = "copy the line from the list of failing crashes"


def as_recorded(spec: CrashSpec, folder: Path, run: RecordedRun) -> CrashSpec:
    if spec.failure in get_args(Fault) and spec.failure != run.faulty and not run.fault:
        raise UsageError(
            f"--failure {spec.failure} is for a record whose disk failed under load, and that of {folder} did"
            " not",
            hint="leave out --failure",
        )
    nodes = len(run.nodes)
    if spec.server.cluster not in (None, nodes):
        raise UsageError(
            f"--cluster is {spec.server.cluster}, and the record {folder} has {counted(nodes, 'node')}",
            hint="remove --cluster: the record knows",
        )
    server = msgspec.structs.replace(spec.server, cluster=nodes if nodes > 1 else None)
    if server.server is None and server.basedir is None and any(b.id == run.build for b in list_builds()):
        server = msgspec.structs.replace(server, server=run.build)
    return msgspec.structs.replace(
        spec,
        fs=run.fs,
        failure=run.faulty if run.faulty and spec.failure == "power" else spec.failure,
        server=server,
        nodes="all" if nodes > 1 else None,
    )


def replayed(plan: CrashPlan, folder: Path, point: CrashPoint, run: RecordedRun) -> CrashFacts:
    require_build(folder, run.build, plan.target.build.id)
    images = plan.crash_images_in(folder)
    if point.at > images.end:
        unit = "ns" if images.is_cluster else "entries"
        what = f"the record has {images.end:,} {unit}: at={point.at} is beyond its end"
        raise UsageError(what, hint=_HINT)
    arm = CrashArm(
        name="replay",
        settings=run.settings,
        checks_rows=run.acks is not None,
        records=images.records,
        fault=images.run.fault,
        folder=str(folder),
        crashes=(images.judge(point),),
    )
    facts = facts_of(plan.spec, plan.target.identity.title, [arm], "done")
    return msgspec.structs.replace(facts, workload=run.workload, background=run.beside)


def kept_crash(line: str) -> tuple[Path, CrashPoint, RecordedRun]:
    folder, point = read_line(line)
    if not folder.is_dir():
        raise StorageError(f"there is no folder {folder}", hint=_HINT)
    return folder, point, RecordedRun.read(folder)


def read_line(line: str) -> tuple[Path, CrashPoint]:
    folder, _, rest = line.partition(":at=")
    at, _, rest = rest.partition(":seed=")
    seed, _, kind = rest.partition(":")
    try:
        point = CrashPoint(at=int(at), kind=POINT_KINDS[kind], seed=int(seed))
        if point.at < 0 or not 0 <= point.seed < _SEEDS:
            raise ValueError
    except (ValueError, KeyError):
        raise UsageError(f"--replay {line!r} names no crash", hint=_HINT) from None
    return Path(folder).expanduser().absolute(), point


@taking(CrashSpec, progress="Takes a line at a time.")
def crash(
    configurations: Sequence[str] | Mapping[str, Configuration] = (),
    *,
    progress: Progress | Watcher = silent,
    **given: Any,
) -> CrashFacts:
    """Crashes a server, or what is recorded of its disk, and judges what comes back.

    Configurations are as of `compare`; the base alone if there are none. Of `command: …` and `sql:FILE` no
    commits are known: this judges only whether the server starts and its tables are sound.

    Returns:
        What became of every crash; those known so far after Ctrl-C.

    Raises:
        UsageError: what makes no sense, no root rights, or settings that the server refuses.
        MeasurementError: the workload failed.
        StorageError, HarnessError: the disk cannot be made.
    """
    began = time.monotonic()
    spec, watcher = build(CrashSpec, given, all_options()), watching(progress)
    if (resume := spec.run.resume) is not None:
        if configurations:
            raise UsageError(
                "--resume takes no configurations", hint="the campaign has its own; give --resume alone"
            )
        with open_store() as store:
            request = stored_request(store, resume, "crash", CrashRequest)
            load, servers = load_of(request), _servers(request.spec, _resumed_fleet(spec, request))
            with servers.open(watcher.say) as target:
                plan = CrashPlan(target=target, watcher=watcher, load=load, spec=request.spec)
                return _crash_all(request, plan, store, resume, began)
    if spec.replay is not None:
        return _replay(spec, given, configurations, watcher)
    require_sensible(spec)
    under = Path(spec.base.base) if spec.base.base else None
    found = read_configurations(configurations, under, alone=True)
    require_settings(found, "crash")
    words, workload = spelled(found, under), spec.workload
    spec = msgspec.structs.replace(
        spec,
        configurations=() if words == (BASE,) else words,
        workload=workload if workload.name == ACKED_INSERTS else settled(workload),
    )
    named = NewServers(spec.server, spec.storage)
    named = named.fitting(None, [one.file for one in found.values()], watcher.say)
    spec = msgspec.structs.replace(spec, server=named.server)
    fleet = fleet_unless(spec.run.fleet, *_not_spread(spec))
    load, servers = asked_load(spec, Path.cwd()), _servers(spec, fleet)
    with open_store() as store, servers.open(watcher.say) as target:
        plan, notes = CrashPlan(target=target, watcher=watcher, load=load, spec=spec), list[Warning]()
        planned = {name: plan.settings_of(one, spec.base.settings, notes) for name, one in found.items()}
        request = CrashRequest(
            spec=msgspec.structs.replace(
                stored(spec), server=msgspec.structs.replace(spec.server, server=target.build.name)
            ),
            folder=str(Path.cwd()),
            build=target.build.name,
            build_id=target.build.id,
            fleet=fleet.address,
            server=target.identity.title,
            workload_digest=load.digest(),
            sources=(*texts_of(one.file for one in found.values()), *load.sources),
            planned=planned,
            warnings=tuple(notes),
        )
        return _crash_all(request, plan, store, None, began)


def _not_spread(spec: CrashSpec) -> Iterator[UsageError]:
    if spec.server.cluster is not None:
        yield UsageError(
            "--fleet spreads the crashes of a single server, not of a cluster",
            hint="remove --cluster, or run it on one machine, without --fleet",
        )
    if spec.save_recording is not None:
        yield UsageError(
            "--save-recording keeps recordings on this machine, and each machine of a fleet makes its own",
            hint="remove it, or run it on one machine, without --fleet",
        )


def _resumed_fleet(spec: CrashSpec, request: CrashRequest) -> NamedFleet:
    if request.fleet:
        return NamedFleet(named_fleet(spec.run.fleet) or request.fleet)
    return fleet_unless(spec.run.fleet, began_on_one_machine("its crashes"))


def _servers(spec: CrashSpec, fleet: NamedFleet) -> NewServers:
    if not fleet.address:
        require_disk(spec)
    return NewServers(spec.server, spec.storage, fleet.address, alone=fleet.why_not)


def _crash_all(
    request: CrashRequest, plan: CrashPlan, store: Store, resumed: str | None, began: float
) -> CrashFacts:
    campaign = resumed or new_id(request.kind)
    experiment = plan.experiment(request.planned)

    def conclude(campaign_id: str, ending: Ending) -> CrashFacts:
        return facts_of_campaign(request, experiment.rows, ending, campaign_id)

    with (
        publish_status("crash", server=request.server, workload=request.workload),
        _crashing(request, plan, experiment, campaign) as run_crash,
    ):
        about = f"{counted(request.spec.crashes, 'crash')} of each configuration"
        return run_campaign(
            request,
            plan.target.settings.key,
            CampaignSession(store, plan.watcher, campaign, began, resumes=resumed is not None),
            Run(about, experiment, store.crashes, run_crash, conclude),
        )


@contextmanager
def _crashing(
    request: CrashRequest, plan: CrashPlan, experiment: CrashExperiment, campaign: str
) -> Iterator[Callable[[Request], CrashRow]]:
    if plan.target.fleet is None:
        with CrashRunner(plan, experiment, campaign) as runner:
            yield runner.run
        return
    failure = request.spec.failure
    root = "" if failure == "process" else f"a disk of its own (--failure {failure})"
    work = Work(
        request=request,
        there=crash_on_machine,
        ahead=experiment.ahead,
        watcher=plan.watcher,
        root_for=root or root_for(request.spec.server, request.spec.storage),
    )
    with plan.target.fleet.crashes(work) as run_crash:
        yield run_crash


_OF_CRASHES = {"failure", "tear", "dropped_flushes", "replica"}
_OF_REPLAYS = {"replay", "server", "basedir", "data_root", "cluster"} | _OF_CRASHES
"""What may be said of a crash of a record that was kept. A replica has an answer of its own."""


def _replay(
    spec: CrashSpec,
    given: Mapping[str, Any],
    configurations: Sequence[str] | Mapping[str, Configuration],
    watcher: Watcher,
) -> CrashFacts:
    line = spec.replay
    assert line is not None, "it is asked for"
    others = {key for key, value in given.items() if value is not None} - _OF_REPLAYS
    if configurations or others:
        known = fields(CrashSpec)
        first = "configurations" if configurations else min(others)
        word = known[first].flag if first in known and not configurations else first
        word = word if configurations or word.startswith("--") else f"--{word.replace('_', '-')}"
        allowed = ", ".join(known[key].flag for key in sorted(_OF_REPLAYS - {"replay"}))
        raise UsageError(
            f"--replay takes no {word}: the record keeps what it was made with",
            hint=f"remove it: --replay takes {allowed}",
        )
    if spec.failure == "process":
        raise UsageError(
            "--replay judges what a crash left of a disk, and --failure process leaves the disk as it is",
            hint="remove --failure process",
        )
    folder, point, run = kept_crash(line)
    spec = as_recorded(spec, folder, run)
    require_sensible(spec)
    load = asked_load(spec, Path.cwd())
    require_disk(spec)
    with (
        open_servers(spec.server, spec.storage, watcher.say) as target,
        publish_status("crash", server=target.identity.title, workload=spec.workload.name),
    ):
        plan = CrashPlan(target=target, watcher=watcher, load=load, spec=spec)
        return replayed(plan, folder, point, run)


def crash_settings(
    plan: CrashPlan, planned: Mapping[str, Mapping[str, Value]], store: Store, campaign: str
) -> CrashFacts:
    experiment = plan.experiment(planned)
    with CrashRunner(plan, experiment) as runner:
        ending = run(
            experiment,
            runner.run,
            known=store.crashes,
            store=store,
            campaign_id=campaign,
            budget=Budget(),
            watcher=plan.watcher,
        )
    return facts_of(plan.spec, plan.target.identity.title, arms_of(experiment.rows), ending)
