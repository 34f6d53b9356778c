"""Arm: all crashes of one configuration. Sits in `campaign.crash`.

A run is recorded once and cut many times (`_recorded`); or what lives is killed many times (`_killed`): the
process of a server, or nodes of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from flushlab.campaign.crash.judging import judge_all
from flushlab.campaign.crash.plan import CrashPlan
from flushlab.campaign.crash.request import MOST_IMAGES
from flushlab.campaign.crash.stored import record_of, remove_stumps, require_build
from flushlab.campaign.target import connection_arguments
from flushlab.campaign.watcher import Watcher
from flushlab.crashed import points as points_of
from flushlab.crashed.cluster_killed import KilledCluster
from flushlab.crashed.cluster_recorded import record_cluster
from flushlab.crashed.killed import Killed, KilledAfresh
from flushlab.crashed.recorded import Fault, Images, record
from flushlab.crashed.recovered_server import IDLE_S
from flushlab.errors import MeasurementError, NoSpace, StartFailed, StorageError
from flushlab.process.passing import passing_folder
from flushlab.record import CrashArm, CrashImage, CrashKind, Storage
from flushlab.server import DataDirectory, Sandbox, Startup
from flushlab.server.sandbox.refusal import refusal

_FAULTS: Mapping[CrashKind, Fault] = {"eio": "eio", "full": "full"}
_TELL = 10
_FULL = ("No space left on device", "is full")
"""What servers say whose disk is full: of errno 28, and error 1114."""

Note = Callable[[Sequence[CrashImage]], None]
"""Told what is known of an arm so far."""


def crash_arm(
    plan: CrashPlan, arm: CrashArm, images: int, known: Sequence[CrashImage], note: Note, mine: str
) -> tuple[CrashArm, bool]:
    """The arm with its images; True if a Ctrl-C has ended it.

    Args:
        plan: of the campaign.
        arm: whose settings crash.
        images: how often.
        known: what an earlier session has found.
        note: told what is known so far.
        mine: whose record it is, to be found again; empty: nobody's.

    Raises:
        FlushlabError: as `crash` does.
    """
    try:
        if _lives(plan, arm):
            return _killed(plan, arm, images, known, note)
        return _recorded(plan, arm, images, known, note, mine)
    except NoSpace as error:
        if error.of_data and plan.kind != "process":
            error.hint = _larger(plan)
        raise
    except MeasurementError as error:
        if plan.kind != "process" and any(words in error.message for words in _FULL):
            error.hint = f"{_larger(plan)}, or record fewer --seconds"
        raise
    except StartFailed as error:
        if error.refusal is None:
            raise
        raise refusal(error.refusal, plan.target.build) from error


def _larger(plan: CrashPlan) -> str:
    return f"make the disk larger: --disk-size {2 * (plan.disk_bytes >> 20)} (MiB)"


def judges_again(plan: CrashPlan, arm: CrashArm, mine: str) -> bool:
    """Whether what could not be judged of an arm can be judged once more: what lives can be killed again, and
    the record of what was recorded may have been kept.

    Args: as of `crash_arm`.
    """
    if _lives(plan, arm):
        return True
    return bool(mine) and record_of(plan.keep, mine) is not None


def _lives(plan: CrashPlan, arm: CrashArm) -> bool:
    return plan.kind == "process" or plan.which_of(arm) not in ("", "all")


def _killed(
    plan: CrashPlan, arm: CrashArm, images: int, known: Sequence[CrashImage], note: Note
) -> tuple[CrashArm, bool]:
    plan.watcher.say(f"{arm.name}: crashing")
    found = [image for image in known if image.outcome != "unknown"]
    judged = {image.point for image in found}
    points = points_of.kills(images, plan.seed * MOST_IMAGES, recovery=not plan.which)
    left = [point for point in points if point not in judged]
    rates: list[float] = []
    ended = False
    goes_on = True
    while goes_on:
        before = len(left)
        with _victim(plan, arm) as killed:
            try:
                while left and killed.alive:
                    found.append(killed.kill(left.pop(0)))
                    note(found)
                    _tell(plan.watcher, arm.name, found, images)
            except KeyboardInterrupt:
                ended = True
            rates += killed.rates
            arm = plan.judged(arm, killed.storage)
        # One that could not be judged makes room for another; one that does not come back has told all.
        goes_on = 0 < len(left) < before and not ended and found[-1].outcome == "unknown"
    rate = sum(rates) / len(rates) if rates else 0.0
    return (
        msgspec.structs.replace(arm, images=tuple(found), commits_per_s=rate),
        ended,
    )


@contextmanager
def _victim(plan: CrashPlan, arm: CrashArm) -> Iterator[Killed | KilledAfresh | KilledCluster]:
    """What is killed over and over."""
    with passing_folder(plan.target.volume.data_root.path, "crash") as notes:
        if which := plan.which_of(arm):
            disks = None if plan.kind == "process" else plan.disks()
            spec_on = partial(plan.spec_on, arm)
            with KilledCluster(plan.cluster_of(arm), spec_on, which, disks, notes) as cluster:
                yield cluster
            return
        start = partial(
            Sandbox.start,
            plan.target.build,
            settings=arm.settings,
            arguments=connection_arguments(plan.threads),
            data=DataDirectory(plan.target.volume.data_root),
            startup=Startup(idle_s=IDLE_S),
        )
        load_on = partial(plan.load_on, arm, set())
        if plan.load.runs_once:
            yield KilledAfresh(start, load_on, plan.seconds, notes)
            return
        with start() as server:
            replicas = plan.target.volume.data_root.path if plan.replica and not arm.control else None
            yield Killed(server, load_on(server), plan.seconds, notes, replicas)


def _recorded(
    plan: CrashPlan, arm: CrashArm, images: int, known: Sequence[CrashImage], note: Note, mine: str
) -> tuple[CrashArm, bool]:
    with _records(plan) as where:
        folder = record_of(plan.keep, mine) if mine else None
        if folder is not None:
            plan.watcher.say(f"{arm.name}: judging the record that was kept")
            recorded = plan.images_in(folder)
            require_build(folder, recorded.run.build, plan.target.build.id)
            storage = recorded.run.storage if isinstance(recorded, Images) else None
        else:
            if mine:
                remove_stumps(plan.keep, mine)
            plan.watcher.say(f"{arm.name}: recording")
            (folder, storage), known = _record(plan, arm, where, mine), ()
            recorded = plan.images_in(folder)
        if isinstance(recorded, Images) and not recorded.run.whole:
            but = ", but for the replica" if plan.replica and recorded.received is None else ""
            plan.watcher.warn(f"{arm.name}: its recording was cut short; what there is of it is judged{but}")
        judged = {image.point: image for image in known if image.outcome != "unknown"}
        points = recorded.points(images, plan.seed)

        def with_known(found: Sequence[CrashImage]) -> list[CrashImage]:
            done = {**judged, **{image.point: image for image in found}}
            return [done[at] for at in points if at in done]

        def tell(found: Sequence[CrashImage]) -> None:
            note(with_known(found))
            _tell(plan.watcher, arm.name, found, len(points))

        found, ended = judge_all(points, lambda at: judged.get(at) or recorded.judge(at), tell)
    return (
        msgspec.structs.replace(
            plan.judged(arm, storage),
            images=tuple(with_known(found)),
            commits_per_s=recorded.run.commits_per_s,
            records=recorded.records,
            fault=recorded.run.fault if isinstance(recorded, Images) else "",
            folder=str(folder) if plan.keep else "",
        ),
        ended,
    )


def _record(plan: CrashPlan, arm: CrashArm, where: Path, mine: str) -> tuple[Path, Storage]:
    if plan.which:
        return record_cluster(plan.cluster_of(arm), partial(plan.spec_on, arm), plan.disks(), where, mine)
    return record(
        plan.target.build,
        dict(arm.settings),
        connection_arguments(plan.threads),
        partial(plan.load_on, arm, set()),
        seconds=plan.seconds,
        folder=plan.target.volume.data_root.path,
        record_in=where,
        arm=mine,
        workload=plan.load.name,
        beside=plan.load.beside_name,
        size=plan.disk_bytes,
        fs=plan.fs,
        fault=None if arm.control else _FAULTS.get(plan.kind),
        emulate=plan.emulate,
        replica=plan.replica and not arm.control,
    )


@contextmanager
def _records(plan: CrashPlan) -> Iterator[Path]:
    """Where records are made: to be kept, or in a folder that goes with them whatever happens."""
    if plan.keep is None:
        with passing_folder(plan.target.volume.data_root.path, "recorded", mode=0o711) as folder:
            yield folder
        return
    try:
        plan.keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"no record can be kept in {plan.keep}: {error.strerror}", hint="name another folder"
        ) from error
    yield plan.keep


def _tell(watcher: Watcher, name: str, found: Sequence[CrashImage], of: int) -> None:
    if len(found) % _TELL == 0 or len(found) == of:
        kept = sum(image.outcome == "kept" for image in found)
        sound = sum(image.outcome == "sound" for image in found)
        watcher.say(
            f"{name}: {len(found)} of {of} judged, {f'{sound} sound' if sound else f'{kept} kept all'}"
        )
