"""Replay: one image of a record that was kept, judged again. Sits in `campaign.crash`."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec

from flushlab.campaign.crash.plan import CrashPlan
from flushlab.campaign.crash.stored import require_build
from flushlab.crashed.cluster_recorded import ClusterImages, ClusterRun
from flushlab.crashed.minimise import minimise
from flushlab.crashed.recorded import Fault, Images, Run
from flushlab.errors import StorageError, UsageError
from flushlab.record import CrashArm, CrashFacts, CrashPoint

RECOVERY = "recovery"
_SEEDS = 1 << 64
_HINT = "copy the line from the list of failing images"


def as_recorded(plan: CrashPlan, line: str) -> CrashPlan:
    """The plan with what the record that a line names knows better: its file system, and how its disk failed.

    Raises:
        UsageError: its disk has not failed in the way that was asked for.
        StorageError: nothing was recorded there.
    """
    folder, _ = require_record(line)
    if plan.which:
        return msgspec.structs.replace(plan, fs=ClusterRun.read(folder).fs)
    run = Run.read(folder)
    if plan.kind in get_args(Fault) and plan.kind != run.faulty and not run.fault:
        raise UsageError(
            f"--fail {plan.kind} is of a disk that fails under load, and that of the record {folder} has not",
            hint="leave out --fail",
        )
    kind = run.faulty if run.faulty and plan.kind == "power" else plan.kind
    return msgspec.structs.replace(plan, fs=run.fs, kind=kind)


def under_its_load(facts: CrashFacts, line: str) -> CrashFacts:
    """The facts of a replayed image with the load that its record names; records of earlier versions name
    none."""
    folder, _ = require_record(line)
    run = None if facts.nodes > 1 else Run.read(folder)
    if run is None or not run.workload:
        return facts
    return msgspec.structs.replace(facts, workload=run.workload, beside=run.beside)


def replay(plan: CrashPlan, line: str, *, minimised: bool = False) -> CrashArm:
    """The image that a line names, as an arm of its own.

    Args:
        plan: what crashed, and the server.
        line: `FOLDER:at=N:seed=N`, with `:recovery` behind it if recovery crashed, too.
        minimised: find the fewest unsynced sectors that make it what it is.

    Raises:
        UsageError: it names none, or one of another build.
        StorageError: nothing was recorded there.
    """
    folder, point = require_record(line)
    run = ClusterRun.read(folder) if plan.which else Run.read(folder)
    require_build(folder, run.build, plan.target.build.id)
    images = plan.images_in(folder)
    _require_within(images, point)
    if minimised:
        if isinstance(images, ClusterImages):
            raise UsageError("--minimise is for one server, not for a cluster", hint="remove it")
        if point.kind == "in_recovery":
            raise UsageError(
                "--minimise takes a single crash: a recovery that crashes too writes in a different order"
                " each time",
                hint=f"minimise the first crash: leave out :{RECOVERY}",
            )
        image = minimise(images, point, plan.watcher.say)
    else:
        image = images.judge(point)
    return CrashArm(
        name="replay",
        settings=run.settings,
        checks_rows=run.rows > 0,
        records=images.records,
        fault=images.run.fault if isinstance(images, Images) else "",
        folder=str(folder),
        images=(image,),
    )


def _require_within(images: Images | ClusterImages, point: CrashPoint) -> None:
    if point.at <= images.end:
        return
    unit = "ns" if isinstance(images, ClusterImages) else "entries"
    raise UsageError(f"the record has {images.end:,} {unit}: at={point.at} is beyond its end", hint=_HINT)


def require_record(line: str) -> tuple[Path, CrashPoint]:
    """The folder and the point that a line names, if the folder is there.

    Raises:
        UsageError: it names none.
        StorageError: there is no such folder.
    """
    folder, point = read_line(line)
    if not folder.is_dir():
        raise StorageError(f"there is no folder {folder}", hint=_HINT)
    return folder, point


def read_line(line: str) -> tuple[Path, CrashPoint]:
    """The folder and the point that a line names.

    Raises:
        UsageError: it names none.
    """
    folder, _, rest = line.partition(":at=")
    at, _, rest = rest.partition(":seed=")
    seed, _, recovery = rest.partition(":")
    try:
        point = CrashPoint(at=int(at), kind="in_recovery" if recovery else "random", seed=int(seed))
        if recovery not in ("", RECOVERY) or point.at < 0 or not 0 <= point.seed < _SEEDS:
            raise ValueError
    except ValueError:
        raise UsageError(f"--replay {line!r} names no image", hint=_HINT) from None
    return Path(folder).expanduser().absolute(), point
