"""Recording: one run of a server whose disks record, of one node or several. Sits in `crashed`."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from flushlab.crashed.acks import begun_after
from flushlab.crashed.live import Load, LoadOutcome, make_acks_table, run_until_killed
from flushlab.crashed.nodes import require_alike
from flushlab.crashed.received import listening
from flushlab.crashed.recovered_server import AcksTable
from flushlab.crashed.run import CrashedServer, Disks, Fault, RecordedNode, Run, start
from flushlab.datadir.fault_disk import FaultDisk, remove_record
from flushlab.datadir.recording import Recording
from flushlab.errors import FlushlabError, HarnessError, MeasurementError, StorageError
from flushlab.process import make_lasting
from flushlab.server import Sandbox
from flushlab.server.galera.cluster import SYNC_LIMIT_S, Cluster
from flushlab.units import counted

FILLER = "filler"
"""A file that leaves no space to others."""
_SPARED_BYTES = 8 << 20
"""Where less is free, it is not the disk that is too small, but what its record lies on."""


def record(
    server: CrashedServer,
    disks: Disks,
    prepare: Callable[[Sandbox], Load],
    where: Path,
    owner: str = "",
    *,
    fault: Fault | None = None,
    replica: bool = False,
) -> Path:
    """Runs a load on a server whose disks record, and kills all its nodes at once.

    Args:
        where: an existing folder that the records are made in.
        owner: whose record it is, to be found again; empty: nobody's.
        fault: what the disk does in the middle of the load; the run is then cut behind it only.
        replica: a real replica listens, and what it receives is kept beside the record.

    Returns:
        The folder of the records, with the notes and the `Run` in it.

    Raises:
        FlushlabError: the disks cannot be made, the server does not run on them, or nothing met the fault.
    """
    folder = where / f"flushlab-disk-{secrets.token_hex(4)}.record"
    make_lasting(folder, "disk-record", **({"arm": owner} if owner else {}))
    free = _SPARED_BYTES
    try:
        with ExitStack() as stack:
            own = [
                stack.enter_context(
                    FaultDisk(
                        disks.folder, disks.size, disks.fs, disks.emulate, record=True, record_in=folder
                    )
                )
                for _ in range(server.nodes)
            ]
            try:
                _run(server, own, prepare, folder, fault, disks.folder if replica else None)
            except BaseException:
                free = shutil.disk_usage(where).free
                raise
    except BaseException as error:
        for disk in folder.glob("*.record"):
            remove_record(disk)
        remove_record(folder)
        if isinstance(error, FlushlabError) and free < _SPARED_BYTES:  # however the server has met it
            raise StorageError(
                f"the record has filled the file system of {where}",
                hint="free some space, name a folder elsewhere with --data-root or --save-recording, or take"
                " a shorter --duration",
            ) from error
        raise
    return folder


def _run(
    server: CrashedServer,
    own: Sequence[FaultDisk],
    prepare: Callable[[Sandbox], Load],
    folder: Path,
    fault: Fault | None,
    replicas: Path | None,
) -> None:
    with start(server, own) as started:
        nodes = started.nodes if isinstance(started, Cluster) else [started]
        first, disk = nodes[0], own[0]
        load = prepare(first)
        if isinstance(started, Cluster):
            require_alike(started, server.settings)
        if load.acks:
            make_acks_table(first, load.acks)
        if load.side:
            load.side.prepare(first)
        started.settled(SYNC_LIMIT_S)
        for node in nodes:
            # Pages are written all the time, so that crashes meet them and not the redo log alone.
            node.query("SET GLOBAL innodb_max_dirty_pages_pct = 0")
        run = Run(
            build=server.build.id,
            settings=server.settings,
            arguments=server.arguments,
            nodes=tuple(
                RecordedNode(disk=one.record.name, datadir=str(node.datadir.relative_to(one.mount)))
                for node, one in zip(nodes, own, strict=True)
            ),
            fs=disk.fs,
            rows=load.acks.rows if load.acks else 0,
            database=load.acks.database if load.acks else "",
            alone=bool(load.acks and load.acks.alone),
            workload=load.workload,
            beside=load.beside,
            faulty=fault,
            storage=first.storage,
            whole=False,
        )
        with ExitStack() as stack:
            listener = None
            if replicas and load.acks:
                listener = stack.enter_context(listening(first, load.acks, replicas, disk.position_file))
            for one in own:
                one.start_recording()
            run.write(folder)
            faults: list[int] = []

            def fail() -> None:
                assert fault is not None, "it is called where there is one"
                faults.append(_fail(disk, fault))
                # Nothing in the record of a full disk shows when it was, should it be cut short.
                msgspec.structs.replace(run, first=faults[0]).write(folder)

            ran = run_until_killed(
                first,
                load,
                server.seconds,
                folder,
                position=disk.position_file,
                fault=fail if fault else None,
                kill=started.kill,
            )
            last = disk.position()
            if listener:
                listener.keep(folder)
    for one in own:
        one.require_served(1 if fault == "eio" else 0)
    begin = min((note.position for note in ran.notes), default=0)
    if fault:
        begin = _met(fault, disk.record, faults[0])
    if len(own) > 1:
        begin, last = min(note.time_ns for note in ran.notes), ran.ended_ns
    run = msgspec.structs.replace(
        run,
        first=begin,
        last=last,
        ended_ns=ran.ended_ns,
        commits_per_s=ran.commits_per_s,
        fault=_told(ran, begin, load.acks) if fault else "",
        whole=True,
    )
    run.write(folder)


def _fail(disk: FaultDisk, fault: Fault) -> int:
    """Lets the disk fail; the record at which it was asked to, or by which it was full."""
    at = disk.position()
    if fault == "eio":
        disk.fail_flush()
    else:
        with (disk.mount / FILLER).open("wb", buffering=0) as file:
            with suppress(OSError):  # the server takes some of it meanwhile
                now = os.statvfs(disk.mount)
                os.posix_fallocate(file.fileno(), 0, now.f_bavail * now.f_frsize)
            with suppress(OSError):
                while os.statvfs(disk.mount).f_bavail and file.write(bytes(65536)):
                    pass
        if free := os.statvfs(disk.mount).f_bavail:
            raise HarnessError(f"the file system of {disk.mount} could not be filled: {free} blocks are free")
        at = disk.position()
    return at


def _met(fault: Fault, record: Path, after: int) -> int:
    """The record at which the disk failed."""
    if fault == "full":
        return after
    failed = next((one.number for one in Recording(record).records("failed", first=after + 1)), None)
    if failed is None:
        raise MeasurementError(
            "no flush failed: none was asked of the disk in the second half of the load",
            hint="take a longer --duration, settings that sync more often or a load that lasts longer",
        )
    return failed


def _told(ran: LoadOutcome, at: int, acks: AcksTable | None) -> str:
    """What the server did when the disk had failed at a record."""
    later = begun_after(ran.notes, at)
    if ran.died:
        did = f"ended itself: {ran.words}"
    elif ran.complaint:
        did = f"ended the load: {ran.complaint}"
    else:
        did = "went on" if later or not acks else f"answered nothing more: {ran.words}"
    if not acks:
        return f"the server {did}"
    return f"the server acknowledged {counted(later, 'commit')} begun after the fault, and {did}"
