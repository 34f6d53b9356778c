"""`crash`: takes what was asked for, refuses what makes no sense, and runs, resumes or replays it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign.base import texts_of
from flushlab.campaign.configurations import Configuration, spelled
from flushlab.campaign.configurations import read as read_configurations
from flushlab.campaign.crash.campaign import CrashCampaign
from flushlab.campaign.crash.cluster import require_ledger_alone, which_nodes
from flushlab.campaign.crash.control import warnings_of
from flushlab.campaign.crash.load import CrashLoad, read_load, require_replicable
from flushlab.campaign.crash.plan import CrashPlan
from flushlab.campaign.crash.replay import as_recorded, recorded_build, require_record, under_its_load
from flushlab.campaign.crash.replay import replay as replay_image
from flushlab.campaign.crash.request import SECONDS, CrashRequest, require_sensible, tear_of
from flushlab.campaign.crash.stored import Book, carry_out
from flushlab.campaign.stored import stored_request
from flushlab.campaign.target import Target, open_target
from flushlab.campaign.watcher import Watcher, watching
from flushlab.datadir import own_disk
from flushlab.datadir.fault_disk import require_fault_disk, require_images
from flushlab.errors import FlushlabError, UsageError
from flushlab.plan.plan import BASE
from flushlab.process.running import publish_status
from flushlab.record import CrashFacts, Failure, Value, Warning
from flushlab.spec import fields
from flushlab.spec.build import build, stored
from flushlab.spec.kinds import CrashSpec
from flushlab.spec.sugar import taking
from flushlab.store import Store, open_store
from flushlab.workload import Workload, all_options, settled


@taking(CrashSpec, progress="Takes a line at a time.")
def crash(
    configurations: Sequence[str] | Mapping[str, Configuration] = (),
    *,
    progress: Progress = silent,
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
    spec, watcher = build(CrashSpec, given, all_options()), watching(progress)
    if spec.run.resume is not None:
        if configurations:
            raise UsageError(
                "--resume takes no configurations", hint="the campaign has its own; give --resume alone"
            )
        with open_store() as store:
            request = stored_request(store, spec.run.resume, "crash", CrashRequest)
            return _crash_all(request, watcher, progress, store, spec.run.resume)
    if spec.replay is not None:
        return _replay(spec, given, configurations, watcher, progress)
    if spec.minimise:
        raise UsageError("--minimise needs a single image", hint="name it with --replay")
    require_sensible(spec)
    under = Path(spec.base.base) if spec.base.base else None
    found = read_configurations(configurations, under, alone=True)
    words = spelled(found, under)
    spec = msgspec.structs.replace(spec, configurations=() if words == (BASE,) else words)
    load = _load(spec, Path.cwd())
    _require_disk(spec)
    with open_store() as store, open_target(spec.server, spec.storage, progress) as target:
        plan, notes = _plan(spec, target, watcher, load), list[Warning]()
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
            workload_digest=load.digest,
            sources=(*texts_of(one.file for one in found.values()), *load.sources),
            planned=planned,
            warnings=tuple(notes),
        )
        return _carry_out(request, plan, store, None)


def _crash_all(
    request: CrashRequest, watcher: Watcher, progress: Progress, store: Store, resumed: str
) -> CrashFacts:
    """A campaign that goes on; its option files may be others by now."""
    spec = request.spec
    load = _load(spec, Path(request.folder))
    if request.workload_digest != load.digest:
        raise UsageError(
            f"the workload {spec.workload.name} has changed since the campaign began",
            hint="restore its file, or start a new campaign: counts of two workloads are not comparable",
        )
    _require_disk(spec)
    with open_target(spec.server, spec.storage, progress) as target:
        if request.build_id != target.build.id:
            raise UsageError(
                f"the campaign ran on {request.build_id}, but {request.build} is now {target.build.id}",
                hint="start a new campaign: counts of two binaries are not comparable",
            )
        return _carry_out(request, _plan(spec, target, watcher, load), store, resumed)


def _carry_out(request: CrashRequest, plan: CrashPlan, store: Store, resumed: str | None) -> CrashFacts:
    spec = request.spec

    def run(book: Book) -> CrashFacts:
        campaign = CrashCampaign(plan, spec.workload.name, book, request.sources)
        return campaign.crash_all(request.planned, controls=spec.controls, warnings=request.warnings)

    with publish_status("crash", server=plan.target.identity.title, workload=spec.workload.name):
        return carry_out(store, request, resumed, plan.watcher, run)


_OF_IMAGES = {"fail", "tear", "lying_flushes", "minimise", "replica"}
_OF_REPLAYS = {"replay", "server", "basedir", "data_root", "cluster"} | _OF_IMAGES
"""What may be said of an image of a record that was kept. A replica has an answer of its own."""


def _replay(
    spec: CrashSpec,
    given: Mapping[str, Any],
    configurations: Sequence[str] | Mapping[str, Configuration],
    watcher: Watcher,
    progress: Progress,
) -> CrashFacts:
    """One image of a record that was kept."""
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
    if spec.fail == "process":
        raise UsageError(
            "--replay judges what a crash left of a disk, and --fail process leaves the disk as it is",
            hint="remove --fail process",
        )
    require_sensible(spec)
    require_record(line)
    if spec.server.server is None and spec.server.basedir is None and not spec.server.cluster:
        server = msgspec.structs.replace(spec.server, server=recorded_build(line))
        spec = msgspec.structs.replace(spec, server=server)
    load = _load(spec, Path.cwd())
    _require_disk(spec)
    with (
        open_target(spec.server, spec.storage, progress) as target,
        publish_status("crash", server=target.identity.title, workload=spec.workload.name),
    ):
        plan = as_recorded(_plan(spec, target, watcher, load), line)
        arm, ended = replay_image(plan, line, minimised=spec.minimise)
        facts = CrashCampaign(plan, spec.workload.name).facts([arm], ended=ended, warnings=warnings_of([arm]))
        return under_its_load(facts, line)


def _load(spec: CrashSpec, folder: Path) -> CrashLoad:
    """The load that was asked for, where it can be judged.

    Raises:
        UsageError: it cannot.
    """
    load, cluster = read_load(spec, folder), spec.server.cluster is not None
    if cluster:
        require_ledger_alone(load)
    if spec.replica:
        require_replicable(load, cluster=cluster, replay=spec.replay is not None)
    return load


def _require_disk(spec: CrashSpec) -> None:
    """Finds out whether this machine can make the disks.

    Raises:
        FlushlabError: it cannot.
    """
    if spec.fail == "process":
        return
    try:
        require_fault_disk(spec.fs)
    except FlushlabError as error:
        error.hint = f"{error.hint}; --fail process needs no disk of its own"
        raise
    require_images(spec.fs)


def _plan(spec: CrashSpec, target: Target, watcher: Watcher, load: CrashLoad) -> CrashPlan:
    """What crashes, how, how often, and under which load."""
    kind, cluster = spec.fail, spec.server.cluster
    of_all = spec.replay and cluster  # others are not recorded
    return CrashPlan(
        target=target,
        watcher=watcher,
        load=load,
        kind=kind,
        which=which_nodes("all" if of_all else spec.nodes, cluster, kind),
        failure=Failure(
            kind="power" if kind == "eio" or kind == "full" else kind,
            tear=tear_of(spec.tear),
            lying_flushes=spec.lying_flushes if kind == "lying-disk" else 0,
        ),
        images=spec.images,
        seconds=spec.seconds,
        threads=spec.threads,
        rows=spec.rows,
        fs=spec.fs,
        disk_bytes=spec.disk_size << 20,
        emulate=own_disk(spec.storage.disk_iops, spec.storage.disk),
        seed=spec.seed,
        replica=spec.replica,
        keep=Path(spec.keep) if spec.keep else None,
    )


def crash_settings(
    target: Target,
    watcher: Watcher,
    planned: Mapping[str, Mapping[str, Value]],
    *,
    fail: Literal["process", "os", "power"],
    images: int,
    workload: Workload,
    threads: int,
    disk_bytes: int,
    seed: int,
    seconds: float = SECONDS,
) -> CrashFacts:
    """Crashes configurations of a target that is open, as `crash` does, and the control.

    Of a cluster all nodes crash at once: what the others make good says nothing of the settings.

    Args:
        target: where its data root is, disks and records are made; nothing of them stays.
        watcher: told what happens.
        planned: settings by name, as a server takes them.
        fail: what crashes: `process`, `os` or `power`.
        images: crashes of each.
        workload: one whose commits are known; see `require_known_commits`.
        threads: connections.
        disk_bytes: size of the disk.
        seed: of the points.
        seconds: of load.

    Raises:
        FlushlabError: as `crash` does.
    """
    plan = CrashPlan(
        target=target,
        watcher=watcher,
        load=CrashLoad(workload=workload),
        kind=fail,
        which="all" if target.nodes > 1 else "",
        failure=Failure(kind=fail, tear=512, lying_flushes=0),
        images=images,
        seconds=seconds,
        threads=threads,
        rows=1,
        fs="ext4",
        disk_bytes=disk_bytes,
        emulate=None,
        seed=seed,
        keep=None,
    )
    return CrashCampaign(plan, workload.name).crash_all(planned, controls=True)
