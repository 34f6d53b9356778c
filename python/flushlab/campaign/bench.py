"""`bench`: one workload on one configuration, one record.

Sits in `campaign`, without a loop: nothing is stored. The command line, `probe --server` and callers from
Python call the same function.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign import external, external_use
from flushlab.campaign.base import file_settings, fitted, persisted_settings, require_scalable
from flushlab.campaign.data import open_data
from flushlab.campaign.external import Own, own_server
from flushlab.campaign.quiet import look_around
from flushlab.campaign.target import (
    co_located,
    connection_arguments,
    latency_of,
    open_target,
    trial_runner,
)
from flushlab.campaign.watcher import watching
from flushlab.errors import MeasurementError, NoMemory, UsageError
from flushlab.machine import home_path
from flushlab.process.running import on_board
from flushlab.record import Arm, Trial, Value
from flushlab.server import Sandbox
from flushlab.server.base_file import require_taken
from flushlab.server.refusal import refusal
from flushlab.server.start import attach, is_kept
from flushlab.settings.catalog import load_catalog
from flushlab.settings.fit import as_warnings
from flushlab.settings.given import parse_settings
from flushlab.trial import Draft, measure
from flushlab.workload import Timing, Workload, parse_timing, parse_workload, shape_of
from flushlab.workload.driven import Driven, require_cluster, seeded

SERVER = "mariadb"


def bench(
    *,
    server: str = SERVER,
    dsn: str | None = None,
    defaults_file: Path | str | None = None,
    allow_writes: bool = False,
    tune_server: bool = False,
    workload: str = "oltp_update_non_index",
    base: Path | str | None = None,
    settings: Mapping[str, Value] | None = None,
    memory: str | None = None,
    exact: bool = False,
    seconds: float = 10.0,
    dataset: Path | str | None = None,
    database: str | None = None,
    basedir: Path | str | None = None,
    data_root: Path | str | None = None,
    disk_iops: int | None = None,
    disk: str | None = None,
    cluster: int | None = None,
    network_latency: str | None = None,
    hdr_log: Path | str | None = None,
    per_second: Path | str | None = None,
    wait_for_quiet: bool = False,
    seed: int | None = None,
    progress: Progress = silent,
    **options: Value | None,
) -> Trial:
    """Runs one workload on one configuration.

    The arguments are those of `flushlab bench` under the same names.

    Args:
        server: a build (`mariadb`, `mysql@5.7`), a tarball or a URL, or what is kept (`sandbox:NAME`,
            `cluster:NAME`), to which the settings are applied and stay.
        dsn: your own server instead, or a node of your Galera cluster, whose other nodes are found, or all of
            them: `mysql://USER:PASSWORD@NODE1,NODE2,NODE3`.
        defaults_file: the same, by an option file's group `[client]`.
        allow_writes: the load may write to your own server; tables that it makes are dropped at the end.
        tune_server: settings of your own server may be changed; they are put back at the end.
        workload: one of sysbench's, `upsert`, `txn:FILE`, `sql:FILE` or `command: …`.
        base: your option file; what this machine cannot hold of it is scaled.
        settings: of the server (`--set`), on top of the base.
        memory: that the server may use, like `2G`; half of the machine's if None.
        exact: refuse a base that this machine cannot hold, instead of scaling it.
        seconds: length of the measured window.
        dataset: your data: a dump, a dump folder or a stopped server's data directory.
        database: the workload's, of those in the data.
        basedir: use the server installed there.
        data_root: where data directories go.
        disk_iops: make a slow disk: at most this many writes/s (root, cgroups).
        disk: run on a disk of its own, as slow as this one, such as `gp3` (root).
        cluster: start a Galera cluster of this many nodes in the server's place.
        network_latency: between the cluster's nodes, there and back, like `1ms` (root).
        hdr_log: write each second's latencies to this file as it ends, as HdrHistogram's log.
        per_second: write a line per second to this file as it ends, as CSV.
        wait_for_quiet: wait until other programs leave the machine alone, for half an hour at most.
        seed: of the load's draws; if None, 1 on fresh data and a random one on what is kept: rows that are
            set to what an earlier run has set them to cost next to nothing.
        progress: takes a line at a time.
        **options: of the workload, like `threads=16`, `tables=8` or `rand_type="uniform"`.

    Returns:
        The record; it has a figure.

    Raises:
        UsageError: what makes no sense, or settings that the server refuses.
        MeasurementError: nothing was measured.
        LoadInterrupted: Ctrl-C in the window; it has what was measured until then.
    """
    own = own_server(
        dsn,
        defaults_file,
        database=database,
        allow_writes=allow_writes,
        tune_server=tune_server,
        server=server != SERVER,
        base=base,
        memory=memory,
        exact=exact,
        dataset=dataset,
        basedir=basedir,
        data_root=data_root,
        disk_iops=disk_iops,
        disk=disk,
        cluster=cluster,
        network_latency=network_latency,
        ssl_mode=options.get("ssl_mode"),
        ssl_ca=options.get("ssl_ca"),
    )
    shape = shape_of(options)
    asked, timing = parse_workload(workload, shape), parse_timing(seconds)
    if hdr_log or per_second:
        asked = _with_seconds(asked, hdr_log=str(hdr_log or ""), per_second=str(per_second or ""))
    if own is not None:
        if wait_for_quiet:
            look_around(home_path(), watching(progress), wait=True)
        return _counted(_on_external(own, asked, timing, settings or {}, seed, progress))
    if seed is not None or is_kept(server):
        asked = seeded(asked, seed)
    if is_kept(server):
        fresh = (
            ("--dataset", dataset),
            ("--base", base),
            ("--memory", memory),
            ("--cluster", cluster),
            ("--disk", disk),
        )
        for flag in (name for name, given in fresh if given):
            raise UsageError(f"{flag} needs a fresh server, but {server} runs already", hint="remove it")
        if options.get("reset") == "each":
            kind, _, name = server.partition(":")
            reset = f"; flushlab server reset {name} makes the data pristine" if kind == "sandbox" else ""
            raise UsageError(
                f"--reset each needs a fresh server for each run, but {server} runs already",
                hint=f"remove it{reset}",
            )
        if wait_for_quiet:
            look_around(home_path(), watching(progress), wait=True)
        return _counted(_on_kept(server, asked, timing, settings or {}, progress))
    require_scalable(memory, base, dataset)
    data = open_data(dataset, database, workload, progress)
    with open_target(
        server,
        basedir=basedir,
        data_root=data_root,
        disk_iops=disk_iops,
        disk=disk,
        cluster=cluster,
        latency_s=latency_of(network_latency, cluster),
        progress=progress,
    ) as target:
        watcher = watching(progress)
        asked_for = parse_settings(
            settings or {},
            target.build.flavor,
            target.build.version,
            target.catalog,
            nodes=target.nodes,
        )
        require_taken(target.build, asked_for)
        if isinstance(asked, Driven):
            require_cluster(asked.cluster_load, target.nodes)
        theirs = {
            **file_settings(Path(base) if base else None, target, watcher),
            **persisted_settings(data, target, watcher),
        }
        fit = fitted(
            theirs, target, watcher, memory=memory, exact=exact, connections=shape.threads, data=data
        )
        given = {**fit.settings, **asked_for}
        arguments = connection_arguments(shape.threads)
        with trial_runner(
            target, (asked,), timing, arguments=arguments, data=data, progress=progress
        ) as runner:
            runner.preparation.load(given)
            if wait_for_quiet:
                look_around(target.volume.data_root.path, watching(progress), wait=True)
            progress(f"running {asked.name} on {target.identity.title}")
            with on_board("bench", server=target.identity.title, workload=asked.name):
                trial = runner.run(Arm(name="bench", settings=given), stage="bench", block=1)
        if trial.lacked_memory:
            raise NoMemory(trial.reason, hint=trial.hint)
        if trial.outcome == "refused":
            raise refusal(trial.reason, target.build)
        warnings = (*co_located(target.nodes, target.latency_s), *as_warnings(fit), *trial.warnings)
        slow = target.volume.slow_disk
        return _counted(msgspec.structs.replace(trial, warnings=warnings, disk=slow.record if slow else None))


def _on_kept(
    name: str, workload: Workload, timing: Timing, settings: Mapping[str, Value], progress: Progress
) -> Trial:
    """A kept sandbox or cluster, as it is; settings are applied to it and stay."""
    server, catalog = attach(name), load_catalog()
    if settings and isinstance(server, Sandbox) and server.membership is not None:
        cluster = server.membership.cluster
        raise UsageError(
            f"{server.name} is a node of the cluster {cluster}: settings go to every node",
            hint=f"use --server cluster:{cluster}",
        )
    given = parse_settings(
        settings, server.build.flavor, server.build.version, catalog, nodes=server.identity.nodes
    )
    for refused in server.apply(given).refused:
        raise refusal(f"{refused.name}={refused.value}: {refused.reason}", server.build)
    workload.prepare(server)
    progress(f"running {workload.name} on {name}")
    draft = Draft(arm=Arm(name="bench", settings=given), stage="bench", block=1, variant=0)
    with on_board("bench", server=name, workload=workload.name):
        trial = measure(draft, server, workload, timing, catalog)
    if trial.lost_nodes:
        again = name.partition(":")[2]
        progress(
            f"{name} runs without some of its nodes: flushlab server start --name {again} brings them back"
        )
    return msgspec.structs.replace(trial, warnings=(*co_located(server.identity.nodes), *trial.warnings))


def _on_external(
    own: Own,
    workload: Workload,
    timing: Timing,
    settings: Mapping[str, Value],
    seed: int | None,
    progress: Progress,
) -> Trial:
    """Somebody's own server or cluster, as it is; what is changed of it is put back."""
    catalog = load_catalog()
    with external.opened(own) as server:
        identity = server.identity
        given = parse_settings(settings, identity.flavor, identity.version, catalog, nodes=identity.nodes)
        load = external.driving(workload, server, own.database, seed)
        external_use.require_connections(server, load.threads)
        external_use.require_permitted(server, own, load, [given], progress)
        with (
            external_use.changed(server, [given], progress) as changes,
            external_use.tables(load, server, own, progress),
        ):
            for one in changes:
                one.make()
            progress(f"running {workload.name} on {identity.title} at {server.name}")
            draft = Draft(arm=Arm(name="bench", settings=given), stage="bench", block=1, variant=0)
            with on_board("bench", server=server.name, workload=workload.name):
                trial = measure(draft, server, load, timing, catalog)
        return msgspec.structs.replace(trial, warnings=(*external.doubts(), *trial.warnings))


def _with_seconds(workload: Workload, **files: str) -> Workload:
    if not isinstance(workload, Driven):
        raise UsageError(
            f"{workload.name} has no latencies per second", hint="remove --hdr-log and --per-second"
        )
    return msgspec.structs.replace(workload, **files)


def _counted(trial: Trial) -> Trial:
    if trial.figure is None:
        why = "" if trial.outcome == "failed" else f"{trial.outcome}: "
        raise MeasurementError(f"{why}{trial.reason.rstrip()}", hint=trial.hint or None)
    return trial
