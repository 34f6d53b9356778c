"""Replay: one crash of a record that was kept, judged again. Sits in `campaign.crash`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import msgspec

from flushlab.build import list_builds
from flushlab.campaign.crash.kept_recordings import require_build
from flushlab.campaign.crash.plan import CrashPlan
from flushlab.crashed.recorded import CrashImages
from flushlab.crashed.run import Fault, Run
from flushlab.errors import StorageError, UsageError
from flushlab.record import CrashArm, CrashFacts, CrashPoint, PointKind
from flushlab.spec.kinds import CrashSpec
from flushlab.units import counted

KINDS: Mapping[str, PointKind] = {
    "": "random",
    "recovery": "in_recovery",
    **{kind: kind for kind in get_args(PointKind) if kind not in ("random", "in_recovery")},
}
"""What may be behind a line, with a colon."""
_SEEDS = 1 << 64
_HINT = "copy the line from the list of failing crashes"


def as_recorded(spec: CrashSpec, line: str) -> CrashSpec:
    """What was asked for, with what the record that a line names knows better: its file system, how its disk
    failed, and how many nodes it has, which all crash.

    Raises:
        UsageError: its disk has not failed in the way that was asked for, or it has another number of nodes.
        StorageError: nothing was recorded there.
    """
    folder, _ = require_record(line)
    run = Run.read(folder)
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
    return msgspec.structs.replace(
        spec,
        fs=run.fs,
        failure=run.faulty if run.faulty and spec.failure == "power" else spec.failure,
        server=msgspec.structs.replace(spec.server, cluster=nodes if nodes > 1 else None),
        nodes="all" if nodes > 1 else None,
    )


def recorded_build(line: str) -> str | None:
    """Id of the build that wrote the record that a line names, if it is installed here by a name."""
    folder, _ = require_record(line)
    wanted = Run.read(folder).build
    return wanted if any(build.id == wanted for build in list_builds()) else None


def under_its_load(facts: CrashFacts, line: str) -> CrashFacts:
    """The facts of a replayed crash with the load that its record names."""
    folder, _ = require_record(line)
    run = Run.read(folder)
    return msgspec.structs.replace(facts, workload=run.workload, background=run.beside)


def replay(plan: CrashPlan, line: str) -> CrashArm:
    """The crash that a line names, as an arm of its own.

    Args:
        line: `FOLDER:at=N:seed=N`, and behind it how the point was chosen: see `KINDS`.

    Raises:
        UsageError: it names none, or one of another build.
        StorageError: nothing was recorded there.
    """
    folder, point = require_record(line)
    run = Run.read(folder)
    require_build(folder, run.build, plan.target.build.id)
    images = plan.crash_images_in(folder)
    _require_within(images, point)
    return CrashArm(
        name="replay",
        settings=run.settings,
        checks_rows=run.rows > 0,
        records=images.records,
        fault=images.run.fault,
        folder=str(folder),
        crashes=(images.judge(point),),
    )


def _require_within(images: CrashImages, point: CrashPoint) -> None:
    if point.at <= images.end:
        return
    unit = "ns" if images.is_cluster else "entries"
    raise UsageError(f"the record has {images.end:,} {unit}: at={point.at} is beyond its end", hint=_HINT)


def require_record(line: str) -> tuple[Path, CrashPoint]:
    """The folder and the point that a line names; a StorageError if there is no such folder."""
    folder, point = read_line(line)
    if not folder.is_dir():
        raise StorageError(f"there is no folder {folder}", hint=_HINT)
    return folder, point


def read_line(line: str) -> tuple[Path, CrashPoint]:
    """The folder and the point that a line names; a UsageError if it names none."""
    folder, _, rest = line.partition(":at=")
    at, _, rest = rest.partition(":seed=")
    seed, _, kind = rest.partition(":")
    try:
        point = CrashPoint(at=int(at), kind=KINDS[kind], seed=int(seed))
        if point.at < 0 or not 0 <= point.seed < _SEEDS:
            raise ValueError
    except (ValueError, KeyError):
        raise UsageError(f"--replay {line!r} names no crash", hint=_HINT) from None
    return Path(folder).expanduser().absolute(), point
