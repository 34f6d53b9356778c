"""`crash`: takes what was asked for, refuses what makes no sense, and runs, resumes or replays it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign.configurations import Configuration
from flushlab.campaign.configurations import read as read_configurations
from flushlab.campaign.crash.campaign import CrashCampaign
from flushlab.campaign.crash.cluster import require_ledger_alone, which_nodes
from flushlab.campaign.crash.control import doubts
from flushlab.campaign.crash.load import LEDGER, CrashLoad, read_load, require_replicable
from flushlab.campaign.crash.plan import CrashPlan
from flushlab.campaign.crash.replay import as_recorded, recorded_build, require_record, under_its_load
from flushlab.campaign.crash.replay import replay as replay_image
from flushlab.campaign.crash.request import (
    FILE_SYSTEMS,
    SECONDS,
    CrashRequest,
    kind_of,
    require_effect,
    require_in_range,
    tear_of,
)
from flushlab.campaign.crash.stored import Book, carry_out, earlier_request
from flushlab.campaign.target import Target, latency_of, open_target
from flushlab.campaign.watcher import Watcher, watching
from flushlab.datadir.disk_profile import parse_disk
from flushlab.datadir.fault_disk import FileSystemName, require_fault_disk, require_images
from flushlab.errors import FlushlabError, UsageError
from flushlab.process.running import on_board
from flushlab.record import CrashFacts, Failure, Value, Warning
from flushlab.store import Store, open_store
from flushlab.workload import Workload

_DEFAULT = "mariadb"
"""The server, unless it is named; of a record, the one that wrote it."""


def crash(
    configurations: Sequence[str] | Mapping[str, Configuration] = (),
    *,
    server: str = _DEFAULT,
    workload: str = LEDGER,
    beside: str | None = None,
    fail: str = "power",
    images: int = 30,
    seconds: float = SECONDS,
    threads: int = 4,
    rows: int = 1,
    fs: str = "ext4",
    tear: int = 512,
    lying_flushes: int = 10,
    disk_size: int = 1024,
    disk: str | None = None,
    settings: Mapping[str, Value] | None = None,
    base: Path | str | None = None,
    controls: bool = True,
    seed: int = 1,
    cluster: int | None = None,
    nodes: str | None = None,
    network_latency: str | None = None,
    replica: bool = False,
    keep: Path | str | None = None,
    replay: str | None = None,
    minimise: bool = False,
    resume: str | None = None,
    basedir: Path | str | None = None,
    data_root: Path | str | None = None,
    progress: Progress = silent,
    **options: Value | None,
) -> CrashFacts:
    """Crashes a server, or what is recorded of its disk, and judges what comes back.

    The arguments are those of `flushlab crash` under the same names.

    Args:
        configurations: as of `compare`; the base alone if there are none.
        server: a build (`mariadb`, `mysql@5.7`), a tarball or a URL. `replay` takes the one that wrote the
            record, unless another is named.
        workload: `ledger`, or one of the load engine's, which then has the ledger in its transactions. Of
            `command: …` and `sql:FILE` no commits are known: this judges only whether the server starts and
            its tables are sound.
        beside: what runs beside a workload that has the ledger: `ddl` (side tables are made, changed and
            dropped, and judged too), `command: …` or `sql:FILE`.
        fail: `process`, `os`, `power`, `lying-disk`, `torn`, `eio` or `full`.
        images: crashes of each configuration.
        seconds: of load that are recorded, or before each kill at most.
        threads: connections.
        rows: of each of the ledger's transactions.
        fs: `ext4`, `xfs` or `btrfs`.
        tear: bytes that the disk writes whole, 512 or 4096; 0: it tears no write.
        lying_flushes: flushes that a lying disk has not done.
        disk_size: in MiB.
        disk: how slow it is while the run is recorded, like `gp3`.
        settings: of the server (`--set`), in every configuration.
        base: option file below every configuration.
        controls: run one that must lose, if nothing else does.
        seed: of the points.
        cluster: crash a Galera cluster of so many nodes.
        nodes: which of them: `one`, `all` at once, `rolling` (each when the one before is back) or `cascade`
            (one after the other until none is left).
        network_latency: between the nodes, there and back, like `1ms`.
        replica: a real replica follows the server until it crashes and goes on with what comes back, and a
            new one follows that; of the ledger alone.
        keep: folder that records are made in; else they are removed.
        replay: `FOLDER:at=N:seed=N`, one image of a record that was kept.
        minimise: find the fewest unsynced sectors that make it what it is, named by file.
        resume: id of a campaign that goes on, with what it was asked for; nothing else counts then.
        basedir: use the server installed there.
        data_root: where disks, records and data directories go.
        progress: takes a line at a time.
        **options: of the workload, like `tables=8`.

    Returns:
        What became of every crash; those known so far after Ctrl-C.

    Raises:
        UsageError: what makes no sense, no root rights, or settings that the server refuses.
        MeasurementError: the workload failed.
        StorageError, HarnessError: the disk cannot be made.
    """
    asked = CrashRequest(
        configurations=configurations,
        server=server,
        workload=workload,
        beside=beside,
        fail=fail,
        images=images,
        seconds=seconds,
        threads=threads,
        rows=rows,
        fs=fs,
        tear=tear,
        lying_flushes=lying_flushes,
        disk_size=disk_size,
        disk=disk,
        settings=dict(settings) if settings else None,
        base=_absolute(base),
        controls=controls,
        seed=seed,
        cluster=cluster,
        nodes=nodes,
        network_latency=network_latency,
        replica=replica or None,
        keep=_absolute(keep),
        replay=replay,
        basedir=_absolute(basedir),
        data_root=_absolute(data_root),
        folder=str(Path.cwd()),
        options={name: value for name, value in options.items() if value is not None},
    )
    for name, value in (("disk", disk), ("keep", keep), ("replay", replay), ("data-root", data_root)):
        if value is not None and not str(value):
            raise UsageError(f"--{name} is empty", hint="name one, or leave it out")
    if replay is not None:
        if fail == "process":
            raise UsageError(
                "--replay judges what a crash left of a disk, and --fail process leaves the disk as it is",
                hint="remove --fail process",
            )
        if server == _DEFAULT and basedir is None and not cluster:
            asked = msgspec.structs.replace(asked, server=recorded_build(replay) or server)
        return _crash(asked, watching(progress), progress, None, None, minimise=minimise)
    if minimise:
        raise UsageError("--minimise needs a single image", hint="name it with --replay")
    with open_store() as store:
        if resume is not None:
            asked = earlier_request(store, resume)
        return _crash(asked, watching(progress), progress, store, resume)


def _crash(
    asked: CrashRequest,
    watcher: Watcher,
    progress: Progress,
    store: Store | None,
    resume: str | None,
    *,
    minimise: bool = False,
) -> CrashFacts:
    """What was asked for; without a store, it replays one image."""
    kind = kind_of(asked.fail)
    failure = Failure(
        kind="power" if kind == "eio" or kind == "full" else kind,
        tear=tear_of(asked.tear),
        lying_flushes=asked.lying_flushes if kind == "lying-disk" else 0,
    )
    require_in_range(asked)
    if resume is None:
        require_effect(asked)
    file_system: FileSystemName = next(one for one in FILE_SYSTEMS if one == asked.fs)
    emulate = parse_disk(asked.disk) if asked.disk else None
    of_all = asked.replay and asked.cluster  # others are not recorded
    which = which_nodes("all" if of_all else asked.nodes, asked.cluster, kind)
    if asked.replay:
        require_record(asked.replay)
    if kind != "process":
        try:
            require_fault_disk(file_system)
        except FlushlabError as error:
            error.hint = f"{error.hint}; --fail process needs no disk of its own"
            raise
        require_images(file_system)
    known = asked.planned  # a campaign that goes on; its files may be others by now
    found = {} if known else read_configurations(asked.configurations, asked.base, alone=True)
    load = read_load(
        asked.workload, asked.options, asked.threads, asked.rows, asked.beside, Path(asked.folder)
    )
    if known and asked.workload_digest != load.digest:
        raise UsageError(
            f"the workload {asked.workload} has changed since the campaign began",
            hint="restore its file, or start a new campaign: counts of two workloads are not comparable",
        )
    if asked.cluster:
        require_ledger_alone(load)
    if asked.replica:
        require_replicable(load, cluster=asked.cluster is not None, replay=asked.replay is not None)
    with open_target(
        asked.server,
        basedir=asked.basedir,
        data_root=asked.data_root,
        cluster=asked.cluster,
        latency_s=latency_of(asked.network_latency, asked.cluster),
        progress=progress,
    ) as target:
        plan = CrashPlan(
            target=target,
            watcher=watcher,
            load=load,
            kind=kind,
            which=which,
            failure=failure,
            images=asked.images,
            seconds=asked.seconds,
            threads=asked.threads,
            rows=asked.rows,
            fs=file_system,
            disk_bytes=asked.disk_size << 20,
            emulate=emulate,
            seed=asked.seed,
            replica=asked.replica is True,
            keep=Path(asked.keep) if asked.keep else None,
        )
        with on_board("crash", server=target.identity.title, workload=asked.workload):
            if asked.replay:
                plan = as_recorded(plan, asked.replay)
                arm, ended = replay_image(plan, asked.replay, minimised=minimise)
                facts = CrashCampaign(plan, asked.workload).facts([arm], ended=ended, warnings=doubts([arm]))
                return under_its_load(facts, asked.replay)
            assert store is not None, "what is not replayed is stored"
            if known:
                _require_same_build(asked, target)
            else:
                warnings: list[Warning] = []
                common = asked.settings or {}
                planned = {name: plan.settings_of(one, common, warnings) for name, one in found.items()}
                asked = msgspec.structs.replace(
                    asked,
                    build_id=target.build.id,
                    workload_digest=load.digest,
                    planned=planned,
                    sources=load.sources,
                    warnings=tuple(warnings),
                )

            def run(book: Book) -> CrashFacts:
                campaign = CrashCampaign(plan, asked.workload, book, asked.sources)
                return campaign.crash_all(asked.planned, controls=asked.controls, warnings=asked.warnings)

            return carry_out(store, asked, resume, watcher, run)


def _require_same_build(asked: CrashRequest, target: Target) -> None:
    if asked.build_id != target.build.id:
        raise UsageError(
            f"the campaign ran on {asked.build_id}, but {asked.server} is now {target.build.id}",
            hint="start a new campaign: counts of two binaries are not comparable",
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


def _absolute(path: Path | str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())
