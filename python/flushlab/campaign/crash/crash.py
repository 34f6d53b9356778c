"""`crash`: takes what was asked for, refuses what makes no sense, and runs, resumes or replays it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign.configurations import Configuration, require_settings, spelled
from flushlab.campaign.configurations import read as read_configurations
from flushlab.campaign.crash.facts import arms_of, facts_of, facts_of_campaign
from flushlab.campaign.crash.load import CrashLoad, read_load, require_acked_inserts_alone, require_replicable
from flushlab.campaign.crash.plan import CrashPlan
from flushlab.campaign.crash.replay import as_recorded, recorded_build, under_its_load
from flushlab.campaign.crash.replay import replay as replay_crash
from flushlab.campaign.crash.request import CrashRequest, require_sensible
from flushlab.campaign.crash.runner import CrashRunner
from flushlab.campaign.loop import Budget, Ending, Run, Session, run, run_campaign, stored_request
from flushlab.campaign.pool.target import open_servers
from flushlab.campaign.pool.user_settings import texts_of
from flushlab.campaign.watcher import Watcher, watching
from flushlab.datadir.fault_disk import require_fault_disk, require_images
from flushlab.errors import FlushlabError, UsageError
from flushlab.plan.plan import BASE
from flushlab.process.running import publish_status
from flushlab.record import CrashFacts, Value, Warning
from flushlab.spec import fields
from flushlab.spec.build import build, stored
from flushlab.spec.kinds import CrashSpec
from flushlab.spec.sugar import taking
from flushlab.store import Store, new_id, open_store
from flushlab.units import counted
from flushlab.workload import all_options, settled


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
            load = _same_load(request)
            _require_disk(request.spec)
            with open_servers(request.spec.server, request.spec.storage, watcher.say) as target:
                plan = CrashPlan(target=target, watcher=watcher, load=load, spec=request.spec)
                return _crash_all(request, plan, store, resume, began)
    if spec.replay is not None:
        return _replay(spec, given, configurations, watcher)
    if spec.minimise:
        raise UsageError("--minimise needs a single crash", hint="name it with --replay")
    require_sensible(spec)
    under = Path(spec.base.base) if spec.base.base else None
    found = read_configurations(configurations, under, alone=True)
    require_settings(found, "crash")
    words = spelled(found, under)
    spec = msgspec.structs.replace(spec, configurations=() if words == (BASE,) else words)
    load = _load(spec, Path.cwd())
    _require_disk(spec)
    with open_store() as store, open_servers(spec.server, spec.storage, watcher.say) as target:
        plan, notes = CrashPlan(target=target, watcher=watcher, load=load, spec=spec), list[Warning]()
        planned = {name: plan.settings_of(one, spec.base.settings, notes) for name, one in found.items()}
        request = CrashRequest(
            spec=msgspec.structs.replace(
                stored(spec),
                server=msgspec.structs.replace(spec.server, server=target.build.name),
                workload=spec.workload if load.workload is None else settled(spec.workload),
            ),
            folder=str(Path.cwd()),
            build=target.build.name,
            build_id=target.build.id,
            server=target.identity.title,
            workload_digest=load.digest,
            sources=(*texts_of(one.file for one in found.values()), *load.sources),
            planned=planned,
            warnings=tuple(notes),
        )
        return _crash_all(request, plan, store, None, began)


def _same_load(request: CrashRequest) -> CrashLoad:
    """The load of a campaign that goes on, unless one of its files has changed."""
    load = _load(request.spec, Path(request.folder))
    if request.workload_digest != load.digest:
        raise UsageError(
            f"the workload {request.workload} has changed since the campaign began",
            hint="restore its file, or start a new campaign: counts of two workloads are not comparable",
        )
    return load


def _crash_all(
    request: CrashRequest, plan: CrashPlan, store: Store, resumed: str | None, began: float
) -> CrashFacts:
    """Runs the campaign and gathers its facts; see `stored.run_campaign`."""
    campaign = resumed or new_id(request.kind)
    if resumed is None:
        store.create_campaign(campaign, request.kind, msgspec.json.encode(request))
    experiment = plan.experiment(request.planned)

    def conclude(campaign_id: str, ending: Ending) -> CrashFacts:
        ended: Literal["done", "interrupted"] = "interrupted" if ending == "interrupted" else "done"
        return facts_of_campaign(request, experiment.rows, ended, campaign_id)

    with (
        publish_status("crash", server=request.server, workload=request.workload),
        CrashRunner(plan, experiment, campaign) as runner,
    ):
        about = f"{counted(request.spec.crashes, 'crash')} of each configuration"
        return run_campaign(
            request,
            plan.target.key,
            Session(store, plan.watcher, campaign, began, resumes=True),
            Run(about, experiment, store.crashes, runner.run, conclude),
        )


_OF_CRASHES = {"failure", "tear", "dropped_flushes", "minimise", "replica"}
_OF_REPLAYS = {"replay", "server", "basedir", "data_root", "cluster"} | _OF_CRASHES
"""What may be said of a crash of a record that was kept. A replica has an answer of its own."""


def _replay(
    spec: CrashSpec,
    given: Mapping[str, Any],
    configurations: Sequence[str] | Mapping[str, Configuration],
    watcher: Watcher,
) -> CrashFacts:
    """One crash of a record that was kept."""
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
    spec = as_recorded(spec, line)
    require_sensible(spec)
    if spec.server.server is None and spec.server.basedir is None:
        server = msgspec.structs.replace(spec.server, server=recorded_build(line))
        spec = msgspec.structs.replace(spec, server=server)
    load = _load(spec, Path.cwd())
    _require_disk(spec)
    with (
        open_servers(spec.server, spec.storage, watcher.say) as target,
        publish_status("crash", server=target.identity.title, workload=spec.workload.name),
    ):
        plan = CrashPlan(target=target, watcher=watcher, load=load, spec=spec)
        arm, ended = replay_crash(plan, line, minimised=spec.minimise)
        facts = facts_of(spec, target.identity.title, [arm], "interrupted" if ended else "done")
        return under_its_load(facts, line)


def _load(spec: CrashSpec, folder: Path) -> CrashLoad:
    """The load that was asked for, where it can be judged."""
    load, cluster = read_load(spec, folder), spec.server.cluster is not None
    if cluster:
        require_acked_inserts_alone(load)
    if spec.replica:
        require_replicable(load, cluster=cluster, replay=spec.replay is not None)
    return load


def _require_disk(spec: CrashSpec) -> None:
    """Finds out whether this machine can make the disks."""
    if spec.failure == "process":
        return
    try:
        require_fault_disk(spec.fs)
    except FlushlabError as error:
        error.hint = f"{error.hint}; --failure process needs no disk of its own"
        raise
    require_images(spec.fs)


def crash_settings(
    plan: CrashPlan, planned: Mapping[str, Mapping[str, Value]], store: Store, campaign: str
) -> CrashFacts:
    """Crashes configurations of a target that is open, as `crash` does, and the positive control.

    What was crashed before in that campaign is not crashed again.

    Args:
        plan: what crashes; see `plan_of_winner`.
    """
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
    ended: Literal["done", "interrupted"] = "interrupted" if ending == "interrupted" else "done"
    return facts_of(plan.spec, plan.target.identity.title, arms_of(experiment.rows), ended)
